"""Publishing policies, on the `default` queue: it moves files and asks servers, and needs no accelerator."""

from apps.jobs import lifecycle
from apps.jobs.models import Superseded
from apps.policies.jobs import PUBLICATIONS, TASK
from workers.app import app
from workers.bridge.publishing import publish
from workers.bridge.restoring import restore_adapters


@app.task(name=TASK)
def publish_policy(publication_id: str) -> None:
    """Do a waiting publication. Told twice, the second finds nothing to take."""
    publication = lifecycle.claim(PUBLICATIONS, publication_id)
    if publication is None:
        return
    try:
        publish(publication)
    except Superseded:
        return  # another worker has it: this one was believed dead


@app.task(name="publishing.restore_adapters")
def restore() -> None:
    """Look whether every server still has the adapters that are live on it."""
    restore_adapters()

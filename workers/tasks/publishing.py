"""Publishing policies, on the `default` queue: it moves files and asks servers, and needs no accelerator."""

from apps.jobs import lifecycle
from apps.jobs.models import Superseded
from apps.policies.jobs import PUBLICATIONS, TASK
from workers.app import app
from workers.bridge.adapter_restore import restore_adapters
from workers.bridge.publication_job import publish
from workers.bridge.retirement import retire_all
from workers.bridge.whole_models import point_back_abandoned


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
    """Have every server serve what is live on it, and nothing of ours that isn't."""
    point_back_abandoned()
    restore_adapters()
    retire_all()

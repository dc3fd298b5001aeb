"""The demo's clock."""

from apps.accounts.models import Workspace
from apps.demo import story
from apps.demo.people import SLUG
from workers.app import app


@app.task(name="demo.go_on")
def go_on() -> None:
    """Take the demo's next steps, if there is a demo and steps are due."""
    workspace = Workspace.objects.filter(slug=SLUG).first()
    if workspace is not None:
        story.go_on(workspace)

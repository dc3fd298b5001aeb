"""Judges of a served model."""

from apps.accounts.models import Workspace
from apps.annotation.judges.enrollment import (
    JUDGES,
    send_judge,
)
from apps.annotation.models import Judge, Queue
from apps.jobs import lifecycle
from apps.policies.models import Endpoint, Policy
from tests import factories


def served(workspace: Workspace, url: str, model: str) -> Policy:
    endpoint, _ = Endpoint.objects.get_or_create(workspace=workspace, name="server", defaults={"base_url": url})
    return factories.policy(of=workspace, kind=Policy.Kind.ENDPOINT, name=model, location=model, endpoint=endpoint)


def claimed(judge: Judge) -> Judge:
    """The judge, as loaded by a worker."""
    taken = lifecycle.claim(JUDGES, judge.pk, worker="here:1")
    assert taken is not None
    return taken


def send(queue: Queue, url: str, model: str, **settings: object) -> Judge:
    arguments = {"mode": "join", "prompt": "Prefer what works.", "requests_a_minute": 100_000, "by": None, **settings}
    return send_judge(queue=queue, policy=served(queue.workspace, url, model), **arguments)

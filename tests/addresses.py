"""Every URL of the product, with its parameters filled from one object of each kind."""

import json
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.urls import URLResolver, get_resolver
from django.utils.timezone import now

from apps.accounts import api_tokens, invitation_links
from apps.accounts.models import Membership, Role
from apps.annotation.desk import layouts
from apps.annotation.desk.assignments import annotator_of
from apps.annotation.kinds.questions import Alternatives, StepsAsks
from apps.annotation.models import Assignment, BulkAct, Comment, Continuation, Judge, Mention
from apps.arena.models import Experiment
from apps.datasets import freezing
from apps.datasets.recipe import Recipe
from apps.gateway.feedback import create_key, record_feedback
from apps.gateway.spending.terms import set_price
from apps.jobs.models import JobState
from apps.policies.models import Publication
from apps.redaction.rules import add_rule
from apps.removal.models import Removal, RetentionRule
from apps.traces.models import Source, Span, Trace, TracePart
from apps.training.models import Episode, EpisodeBatch
from apps.trajectories.models import RolloutBatch, SavedView
from apps.trajectories.rollouts import live_episodes
from apps.transfer.models import Export, Import
from apps.webhooks.destinations import create_destination
from apps.webhooks.events import EventType
from apps.webhooks.outbox import announce_test
from tests import factories
from tests.annotation import builders
from tests.trajectories.uploads import imported, lines

PUBLIC = {"healthz", "healthz_live", "schema", "api_docs", "gallery", "accounts:sign_in", "accounts:join"}
"""Public URLs. The last one requires a secret; production has no gallery."""

ASKED = {
    "trajectories:part": {"at": "call.0.0"},
    "trajectories:episode_part": {"at": "call.0.0"},
    "trajectories:task_part": {"at": "initial_state", "raw": "1"},
    "trajectories:steps": {"from": "0", "to": "0"},
    "trajectories:episode_steps": {"from": "0"},
    "trajectories:compare_rows": {"row": "0-0"},
    "gateway:session_part": {"at": "call.0.0"},
    "gateway:session_steps": {"from": "0"},
    "annotation:part": {"at": "call.0.0", "raw": "1"},
    "annotation:review_part": {"at": "call.0.0", "raw": "1"},
}
"""Query strings that a URL requires."""
SENT = {"annotation:reorder": {"order": "uncertain"}}
"""Form data that a URL requires. All others accept an empty form, if only to report errors."""
NAME = "e" * 24
LABELED_STEPS = {"prompt": "2 + 2", "completions": ["four", "five"], "labels": [True, False]}
"""A row of an import that contains judgments."""


class Address(NamedTuple):
    name: str
    path: str
    names_something: bool
    """Whether the URL belongs to a workspace, so that members of others get a 404."""


@pytest.fixture
def owner() -> Membership:
    return factories.member(Role.OWNER)


@pytest.fixture
def labeler(owner: Membership) -> Membership:
    """A member with an item on their desk."""
    return factories.member(Role.ANNOTATOR, of=owner.workspace)


@pytest.fixture
def things(
    owner: Membership, labeler: Membership, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """One object of each kind in the owner's workspace, by its parameter name in URLs."""
    settings.PUBLISHED_DIR = tmp_path / "published"
    for module in ("annotation.queues.queue_lifecycle", "jobs.lifecycle"):
        monkeypatch.setattr(f"apps.{module}.enqueue", lambda *_: None)
    return things_of(owner, labeler, Path(settings.RUNS_DIR), Path(settings.PUBLISHED_DIR))


@pytest.fixture
def addresses(things: dict[str, Any]) -> list[Address]:
    """All URLs, filled with objects of the owner's workspace."""
    return [Address(name, path.format(**things), names_something="{" in path) for name, path in routes(get_resolver())]


def routes(resolver: URLResolver, space: str = "", prefix: str = "/") -> Iterator[tuple[str, str]]:
    """Name and path of each URL, with parameter names in braces."""
    for pattern in resolver.url_patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern, f"{pattern.namespace}:" if pattern.namespace else space, path)
            continue
        for converter in ("<uuid:", "<int:", "<slug:", "<str:", "<path:"):
            path = path.replace(converter, "{")
        path = path.replace(">", "}")
        if "/imports/" in path:
            path = path.replace("{batch_id}", "{import_id}")
        yield f"{space}{pattern.name}" if pattern.name else f"{space}{path.split('/')[-2]}/", path


def things_of(owner: Membership, labeler: Membership, runs: Path, published: Path) -> dict[str, Any]:
    """One object of each kind, by its parameter name in URLs."""
    here = owner.workspace
    policy = factories.trained_policy(of=here)
    model = runs / str(policy.made_by.pk) / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    asks = StepsAsks(alternatives=Alternatives(policy.pk))
    queue = builders.queue_of_trajectories(of=here, asks=asks)
    item = queue.items.get()
    annotator = annotator_of(labeler)
    held = {"workspace": here, "queue": queue, "item": item, "annotator": annotator, "a_is_left": True}
    assignment = Assignment.objects.create(**held, leased_until=now() + timedelta(hours=1))
    item.taken = 1
    item.save()
    layouts.save_new(queue=queue, user=owner.user, name="Large text")
    layouts.arrange(queue=queue, user=owner.user, settings={"text": "large"})
    batch = RolloutBatch.objects.create(workspace=here, policy=policy, environment="office", state=JobState.RUNNING)
    call = {"id": "c0", "type": "function", "function": {"name": "look", "arguments": {"at": "shelf"}}}
    step = {"context": [], "message": {"role": "assistant", "tool_calls": [call]}}
    episode = {"format": "retrace/1", "id": "one", "task": {"key": "lamp"}, "steps": [step]}
    live_episodes.note(batch.pk, NAME, json.dumps(episode).encode())
    pairs = builders.queue(of=here)
    preference = factories.preference(on=pairs.items.get())
    dataset = freezing.create_dataset(name="shop", description="", license="", by=owner)
    version = freezing.request_version(dataset=dataset, recipe=Recipe(queues=(str(pairs.pk),)), by=owner)
    freezing.freeze(version.pk)
    first = factories.imported_run([step], of=here, task_key="lamp")
    other = factories.imported_run([step, step], of=here, task_key="lamp")
    judge = Judge.objects.create(workspace=here, queue=queue, annotator=annotator, mode="prelabel")
    folder = {"way": "folder", "name": "office", "state": "live", "live_at": now()}
    publication = Publication.objects.create(workspace=here, policy=policy, **folder)
    publication.location = str(published / publication.pk.hex)
    publication.save()
    Path(publication.location).mkdir(parents=True)
    champion = factories.policy(of=here)
    experiment = Experiment.objects.create(
        workspace=here,
        name="which",
        environment="office",
        policy_a=policy,
        policy_b=champion,
        queue=pairs,
    )
    run = factories.run(of=here, version=version, base=policy)
    alarm = run.events.create(kind="alarm", text="Falling chosen side.", details={"setting": "beta", "value": 0.2})
    invited = invitation_links.invite(workspace=here, email="ben@example.org", role=Role.ANNOTATOR, by=owner.user)
    mention = Mention.objects.create(
        comment=Comment.objects.create(workspace=here, trajectory=first, by=labeler.user, text="Look at @me."),
        user=labeler.user,
    )
    trace = Trace.objects.create(workspace=here, trace_id="0" * 32, name="refund", changed_at=now())
    Source.objects.create(trace=trace, digest=bytes(16), body=b"{}")
    Span.objects.create(trace=trace, span_id="0" * 16, ended=1, source_digest=bytes(16), body=b"{}")
    TracePart.objects.create(trace=trace, trajectory=other, span_ids=["0" * 16], content_hash=bytes(32))
    wanted = EpisodeBatch.objects.create(
        pk=uuid4(),
        run=run,
        moment="step 1",
        address="http://127.0.0.1:9/v1",
        lease_seconds=60,
        most_calls=12,
        closed_at=now(),
    )
    Episode.objects.create(pk=uuid4(), batch=wanted, task={"key": "lamp"}, environment="shop", attempt=0)
    feedback_key = create_key(member=owner, name="help center").key
    session = factories.session(of=here, messages=[step["message"]])
    record_feedback(session=session, key=feedback_key, thumb=1, comment="It helped.", edited="On the shelf.")
    rule = add_rule(workspace=here, by=owner.user, name="ticket", pattern="T-[0-9]+")
    destination = create_destination(
        workspace=here,
        kind="webhook",
        name="bot",
        address="https://example.org/hook",
        events=EventType.values,
        by=owner.user,
    ).destination
    session = factories.session(of=here, messages=[step["message"]])
    session.split = factories.traffic_split(of=here)
    session.drawn, session.failover, session.experiment = policy, "Its server was away.", experiment.pk
    session.save()
    return {
        "webhook_id": destination.pk,
        "feedback_key_id": feedback_key.pk,
        "delivery_id": announce_test(destination).pk,
        "act_id": BulkAct.objects.create(
            workspace=here, kind="assign", queue=pairs, words="Assigned 0 items", count=0
        ).pk,
        "comment_id": mention.comment_id,
        "mention_id": mention.pk,
        "alarm_id": alarm.pk,
        "annotator_id": annotator.pk,
        "assignment_id": assignment.pk,
        "batch_id": batch.pk,
        "continuation_id": Continuation.objects.create(
            workspace=here, trajectory=item.a, index=0, policy=policy, count=1
        ).pk,
        "dataset_id": version.dataset_id,
        "environment": "office",
        "experiment_id": experiment.pk,
        "form": "csv",
        "import_id": imported(lines(LABELED_STEPS), here, "runs.jsonl").pk,
        "index": 0,
        "invitation_id": invited.invitation.pk,
        "item_id": item.pk,
        "job_id": run.pk,
        "judge_id": judge.pk,
        "judgment_id": preference.pk,
        "kind": "training_runs",
        "left_id": first.pk,
        "membership_id": labeler.pk,
        "name": NAME,
        "number": 1,
        "policy_id": policy.pk,
        "price_id": set_price(workspace=here, by=owner.user, policy=policy, input=Decimal(1), output=Decimal(2)).pk,
        "publication_id": publication.pk,
        "queue_id": queue.pk,
        "right_id": other.pk,
        "redaction_rule_id": rule.pk,
        "run_id": run.pk,
        "secret": invited.secret,
        "session_id": session.pk,
        "trace_id": trace.pk,
        "side": "run",
        "export_id": Export.objects.create(
            workspace=here,
            state=JobState.DONE,
            file=default_storage.save("exports/one.zip", ContentFile(b"PK")),
            size=2,
            sha256="0" * 64,
        ).pk,
        "archive_import_id": Import.objects.create(
            workspace=here,
            filename="one.zip",
            state=JobState.DONE,
            people=[{"name": "Ben", "email": "ben@example.org", "role": "reviewer"}],
        ).pk,
        "removal_id": Removal.objects.create(
            workspace=here, thing="queue", target=uuid4(), title="an old one", state=JobState.DONE
        ).pk,
        "rule_id": RetentionRule.objects.create(workspace=here, source="chat", days=30).pk,
        "split_id": session.split.pk,
        "start": 0,
        "target_id": other.pk,
        "task_id": first.task_id,
        "thing": "trajectory",
        "token_id": api_tokens.issue_token(membership=owner, name="laptop").token.pk,
        "trajectory_id": first.pk,
        "version_id": version.pk,
        "view_id": SavedView.objects.create(workspace=here, name="all", query="errors=no").pk,
        "workspace_id": here.pk,
    }

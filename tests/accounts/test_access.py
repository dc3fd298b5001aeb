"""Every address that there is, tried by everybody: a stranger, an outsider, and each role.

A new address is a researcher's until SEEN_FROM says who else may know of it.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLResolver, get_resolver
from django.utils.timezone import now

from apps.accounts import inviting, issuing
from apps.accounts.models import Membership, Role
from apps.annotation.desk.assigning import annotator_of
from apps.annotation.kinds.asks import Alternatives, StepsAsks
from apps.annotation.models import Assignment, Continuation, Judge
from apps.arena.models import Experiment
from apps.datasets import freezing
from apps.datasets.recipe import Recipe
from apps.jobs.models import JobState
from apps.policies.models import Publication
from apps.trajectories.models import ImportBatch, RolloutBatch, SavedView
from apps.trajectories.rollouts import following
from tests import factories
from tests.annotation import making

pytestmark = pytest.mark.django_db

PUBLIC = {"healthz", "healthz_live", "schema", "api_docs", "gallery", "accounts:sign_in", "accounts:join"}
"""Nobody signs in for these. A secret opens the last one; production has no gallery."""

OWN = {
    *("annotation:item", "annotation:rows", "annotation:part", "annotation:judge", "annotation:draft"),
    *("annotation:skip", "annotation:flag", "annotation:keep", "annotation:better", "annotation:check_better"),
    *("annotation:alternatives", "annotation:run_on", "annotation:continuation"),
}
"""What is on somebody's desk is for nobody else, whatever their role."""

SEEN_FROM = {
    Role.ANNOTATOR: {
        *("home", "accounts:sign_out", "accounts:settings"),
        *("accounts:workspaces", "accounts:switch", "accounts:leave"),
        *("accounts:profile", "accounts:change_name", "accounts:change_password", "accounts:preferences"),
        *("annotation:queues", "annotation:queue", "annotation:desk", "annotation:next", "annotation:undo"),
        *("annotation:leave", "annotation:mine", "v1:queues", "v1:queue"),
    },
    Role.REVIEWER: {
        *(f"trajectories:{name}" for name in ("list", "save_view", "remove_view", "picked_forks", "detail", "step")),
        *(f"trajectories:{name}" for name in ("outline", "steps", "map", "search", "partings", "part", "original")),
        *(f"trajectories:{name}" for name in ("compare", "compare_rows", "tasks", "task", "task_forks")),
        *(f"annotation:{name}" for name in ("items", "progress", "agreement", "quality", "person", "queue_item")),
        *(f"annotation:{name}" for name in ("review", "review_item", "review_rows", "review_part", "remark")),
        *("annotation:judgements_of", "v1:trajectories", "v1:trajectory"),
        *(f"v1:queue_{name}" for name in ("preferences", "inspections", "ratings", "disputed", "adjudications")),
    },
    Role.OWNER: {
        *(f"accounts:{name}" for name in ("change_role", "remove", "invite", "revoke_invitation", "audit")),
        "accounts:revoke_token",  # of this token, which is an owner's
        *("jobs:list", "jobs:cancel", "jobs:resume", "v1:jobs", "v1:job_cancel", "v1:job_resume"),
    },
}

ASKED = {
    "trajectories:part": {"at": "call.0.0"},
    "trajectories:episode_part": {"at": "call.0.0"},
    "trajectories:steps": {"from": "0", "to": "0"},
    "trajectories:episode_steps": {"from": "0"},
    "trajectories:compare_rows": {"row": "0-0"},
    "annotation:part": {"at": "call.0.0", "raw": "1"},
    "annotation:review_part": {"at": "call.0.0", "raw": "1"},
}
"""Queries without which there is nothing at an address."""
SENT = {"annotation:reorder": {"order": "uncertain"}}
"""The same of forms. All others answer to an empty one, if only that it is."""
NAME = "e" * 24


class Address(NamedTuple):
    name: str
    path: str
    names_something: bool
    """Of one workspace, so that it is not there for those of another."""


@pytest.fixture
def owner() -> Membership:
    return factories.member(Role.OWNER)


@pytest.fixture
def labeller(owner: Membership) -> Membership:
    """Who has something on the desk."""
    return factories.member(Role.ANNOTATOR, of=owner.workspace)


@pytest.fixture
def addresses(owner: Membership, labeller: Membership, settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[Address]:
    """All that there are, of things of the owner's workspace."""
    for module in (
        "annotation.queues.queueing",
        "jobs.lifecycle",
    ):
        monkeypatch.setattr(f"apps.{module}.enqueue", lambda *_: None)
    settings.PUBLISHED_DIR = Path(settings.RUNS_DIR) / "published"
    things = things_of(owner, labeller, Path(settings.RUNS_DIR))
    return [Address(name, path.format(**things), names_something="{" in path) for name, path in routes(get_resolver())]


def routes(resolver: URLResolver, space: str = "", prefix: str = "/") -> Iterator[tuple[str, str]]:
    """Name and path of each address, with the names of things in braces."""
    for pattern in resolver.url_patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern, f"{pattern.namespace}:" if pattern.namespace else space, path)
            continue
        for converter in ("<uuid:", "<int:", "<slug:", "<str:"):
            path = path.replace(converter, "{")
        path = path.replace(">", "}")
        if "/imports/" in path:
            path = path.replace("{batch_id}", "{import_id}")
        yield f"{space}{pattern.name}" if pattern.name else f"{space}{path.split('/')[-2]}/", path


def things_of(owner: Membership, labeller: Membership, runs: Path) -> dict[str, Any]:
    """One thing of each kind, by its name in the addresses."""
    here = owner.workspace
    policy = factories.trained_policy(of=here)
    model = runs / str(policy.made_by.pk) / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    asks = StepsAsks(alternatives=Alternatives(policy.pk))
    queue = making.queue_of_runs(of=here, asks=asks)
    item = queue.items.get()
    annotator = annotator_of(labeller)
    held = {"workspace": here, "queue": queue, "item": item, "annotator": annotator, "a_is_left": True}
    assignment = Assignment.objects.create(**held, leased_until=now() + timedelta(hours=1))
    item.taken = 1
    item.save()
    batch = RolloutBatch.objects.create(workspace=here, policy=policy, environment="office", state=JobState.RUNNING)
    call = {"id": "c0", "type": "function", "function": {"name": "look", "arguments": {"at": "shelf"}}}
    step = {"context": [], "message": {"role": "assistant", "tool_calls": [call]}}
    episode = {"format": "retrace/1", "id": "one", "task": {"key": "lamp"}, "steps": [step]}
    following.note(batch.pk, NAME, json.dumps(episode).encode())
    pairs = making.queue(of=here)
    factories.preference(on=pairs.items.get())
    dataset = freezing.create_dataset(name="shop", description="", licence="", by=owner)
    version = freezing.request_version(dataset=dataset, recipe=Recipe(queues=(str(pairs.pk),)), by=owner)
    freezing.freeze(version.pk)
    first = factories.imported_run([step], of=here, task_key="lamp")
    other = factories.imported_run([step, step], of=here, task_key="lamp")
    judge = Judge.objects.create(workspace=here, queue=queue, annotator=annotator, mode="prelabel")
    folder = {"way": "folder", "name": "office", "state": "live", "live_at": now()}
    publication = Publication.objects.create(workspace=here, policy=policy, **folder)
    place = runs / "published" / publication.pk.hex
    place.mkdir(parents=True)
    Publication.objects.update(location=str(place))
    champion = factories.policy(of=here)
    experiment = Experiment.objects.create(
        workspace=here,
        name="which",
        environment="office",
        policy_a=policy,
        policy_b=champion,
        queue=pairs,
    )
    invited = inviting.invite(workspace=here, email="ben@example.org", role=Role.ANNOTATOR, by=owner.user)
    run = factories.run(of=here, version=version, base=policy)
    return {
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
        "import_id": ImportBatch.objects.create(workspace=here, filename="runs.jsonl").pk,
        "index": 0,
        "invitation_id": invited.invitation.pk,
        "item_id": item.pk,
        "job_id": run.pk,
        "judge_id": judge.pk,
        "kind": "training_runs",
        "left_id": first.pk,
        "membership_id": labeller.pk,
        "name": NAME,
        "number": 1,
        "policy_id": policy.pk,
        "publication_id": publication.pk,
        "queue_id": queue.pk,
        "right_id": other.pk,
        "run_id": run.pk,
        "secret": invited.secret,
        "side": "run",
        "start": 0,
        "task_id": first.task_id,
        "token_id": issuing.issue_token(membership=owner, name="laptop").token.pk,
        "trajectory_id": first.pk,
        "view_id": SavedView.objects.create(workspace=here, name="all", query="errors=no").pk,
        "workspace_id": here.pk,
    }


def answers(member: Membership | None, address: Address) -> list[int]:
    """The statuses of a reading and of a writing request; what the second changes is taken back."""
    with transaction.atomic():
        client = Client(raise_request_exception=False)
        if member is not None:
            client.force_login(member.user)
        read = client.get(address.path, ASKED.get(address.name))
        written = client.post(address.path, SENT.get(address.name))
        transaction.set_rollback(True)
    return [read.status_code, written.status_code]


def is_there(statuses: list[int]) -> bool:
    """Whether anything but "no such thing" and "not in this way" was answered."""
    return bool(set(statuses) - {404, 405})


def least_role(name: str) -> Role:
    name = name.rstrip("/")  # the API's addresses with a slash behind
    return next((role for role, names in SEEN_FROM.items() if name in names), Role.RESEARCHER)


def test_the_lists_above_name_addresses_that_are_there(addresses: list[Address]) -> None:
    known = {address.name for address in addresses}
    assert set().union(PUBLIC, OWN, ASKED, SENT, *SEEN_FROM.values()) <= known


@pytest.mark.parametrize("role", Role)
def test_an_address_is_there_from_a_role_upwards(
    role: Role, owner: Membership, labeller: Membership, addresses: list[Address]
) -> None:
    member = factories.member(role, of=owner.workspace)
    wrong = []
    for address in addresses:
        if address.name in PUBLIC:
            continue
        statuses = answers(member, address)
        if is_there(statuses) != (address.name not in OWN and role >= least_role(address.name)) or max(statuses) > 499:
            wrong.append((address.name, statuses))
    assert wrong == []


def test_what_is_on_a_desk_is_there_for_its_person(labeller: Membership, addresses: list[Address]) -> None:
    there = {address.name for address in addresses if address.name in OWN and is_there(answers(labeller, address))}
    assert there == OWN


def test_an_outsider_finds_nothing_of_another_workspace(addresses: list[Address]) -> None:
    outsider = factories.member(Role.OWNER)
    named = [each for each in addresses if each.names_something and each.name not in PUBLIC]
    found = {each.name for each in named if is_there(answers(outsider, each))}
    assert found == {
        "arena:roll_back"
    }  # an environment's name is nobody's; champions are looked for in the own workspace


def test_a_stranger_is_sent_to_sign_in_or_asked_for_a_token(addresses: list[Address]) -> None:
    for address in addresses:
        if address.name not in PUBLIC:
            expected = {401, 405} if address.path.startswith("/api/") else {302}
            assert set(answers(None, address)) <= expected, address


def test_whoever_opens_a_piece_of_a_page_by_hand_is_led_to_the_page(
    owner: Membership, labeller: Membership, addresses: list[Address]
) -> None:
    bare, led = set(), set()
    for member in (owner, labeller):
        client = Client(headers={"accept": "text/html,*/*;q=0.8"}, raise_request_exception=False)
        client.force_login(member.user)
        for address in addresses:
            asked = ASKED.get(address.name)
            by_script = client.get(address.path, asked, headers={"accept": "*/*"})
            opened = client.get(address.path, asked)
            if by_script.status_code == 200 != opened.status_code:
                led.add(address.name)
                opened = client.get(opened["Location"])
            if _is_html(opened) and not opened.content.lstrip().lower().startswith(b"<!doctype html"):
                bare.add(address.name)
    assert bare == set()
    assert len(led) > 15


def _is_html(answer: Any) -> bool:
    return answer.status_code == 200 and answer["Content-Type"].startswith("text/html") and not answer.streaming

"""Trajectories of a task as a tree: where they diverge, how each branch ended, and the cost of computing it."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.asserts import assertContains

from apps.accounts.models import Membership, Role
from apps.trajectories.comparison.actions import digest_of
from apps.trajectories.comparison.forks import Branch, divergence_counts, forks_of, tree_of
from apps.trajectories.models import Trajectory
from tests import factories


def acts(letters: str) -> list[bytes]:
    return [letter.encode() for letter in letters]


def shape(branches: list[Branch]) -> list[Any]:
    """(first step, steps, trajectories, children) of each branch."""
    return [(b.first, b.steps, b.trajectories, shape(b.children)) for b in branches]


def test_runs_share_a_branch_until_they_part() -> None:
    tree = tree_of([acts("aabx"), acts("aabyz"), acts("aabyq"), acts("c")])
    assert shape(tree) == [
        (0, 3, [0, 1, 2], [(3, 1, [0], []), (3, 1, [1, 2], [(4, 1, [1], []), (4, 1, [2], [])])]),
        (0, 1, [3], []),
    ]


def test_a_run_that_ends_where_others_go_on_has_a_branch_of_its_own() -> None:
    assert shape(tree_of([acts("ab"), acts("abc"), acts("ab")])) == [
        (0, 2, [0, 1, 2], [(2, 1, [1], []), (2, 0, [0, 2], [])])
    ]


def test_runs_that_did_the_same_end_together_and_no_runs_make_no_tree() -> None:
    assert shape(tree_of([acts("ab"), acts("ab")])) == [(0, 2, [0, 1], [])]
    assert shape(tree_of([[], acts("a")])) == [(0, 0, [0], []), (0, 1, [1], [])]
    assert tree_of([]) == []


def test_a_run_knows_where_others_leave_it() -> None:
    assert divergence_counts(acts("abcd"), [acts("abxx"), acts("ab"), acts("abcd"), acts("z"), acts("abcde")]) == {
        0: 1,
        2: 2,
    }


def called(arguments: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": arguments}}], **more}


def test_an_action_is_its_calls_as_values() -> None:
    same = [
        called({"a": 1, "b": [2]}),
        called('{"b": [2], "a": 1}', content="Let me see."),
        called(json.dumps('{"a":1,"b":[2]}')),
    ]
    assert len({digest_of(message) for message in same}) == 1
    other = [called({"a": 1, "b": [3]}), called({"a": "1", "b": [2]}), {"content": "f"}, {"content": None}, {}]
    assert digest_of(same[0]) not in {digest_of(message) for message in other}
    assert digest_of({"content": "Well:  done\n"}) == digest_of({"content": "Well: done"})
    assert digest_of({"content": "I list."}, {"action": "ls"}) == digest_of({"content": "Files?"}, {"action": "ls\n"})


@pytest.fixture
def reader() -> Membership:
    return factories.member(Role.REVIEWER)


def attempts(reader: Membership, count: int, *, task_key: str = "fork") -> list[Trajectory]:
    """Trajectories whose first two steps are equal, and that then differ; every other one succeeds."""
    return [
        factories.imported_run(
            [{"context": [], "message": called({"do": what})} for what in ("look", "open", f"take {n}")],
            of=reader.workspace,
            task_key=task_key,
            success=n % 2 == 0,
            reward=float(n % 2 == 0),
        )
        for n in range(count)
    ]


def client_of(member: Membership) -> Client:
    client = Client()
    client.force_login(member.user)
    return client


@pytest.mark.django_db
def test_the_page_shows_the_fork_and_how_each_branch_ended(reader: Membership) -> None:
    runs = attempts(reader, 3)
    rows = forks_of(Trajectory.objects.filter(task=runs[0].task)).rows
    assert [(row.first, row.end, row.outcomes.succeeded, row.outcomes.failed, row.forks) for row in rows] == [
        (0, 2, 2, 1, 3),
        (2, 3, 1, 0, 0),
        (2, 3, 0, 1, 0),
        (2, 3, 1, 0, 0),
    ]
    assert rows[0].pair
    assert {run.success for run in rows[0].pair} == {True, False}
    page = client_of(reader).get(reverse("trajectories:task_forks", args=[runs[0].task_id]))
    for run in runs:
        assertContains(page, reverse("trajectories:step", args=[run.pk, 3]))


@pytest.mark.django_db
def test_picked_runs_make_a_tree_for_each_of_their_tasks(reader: Membership) -> None:
    here, there = attempts(reader, 2), attempts(reader, 2, task_key="other")
    outside = attempts(factories.member(Role.REVIEWER), 1)
    picked = [str(run.pk) for run in (*here, there[0], *outside)]
    page = client_of(reader).get(reverse("trajectories:picked_forks"), {"trajectory": [*picked, "nonsense"]})
    assert [(task.key, forks.total) for task, forks in page.context["trees"]] == [("fork", 2), ("other", 1)]


@pytest.mark.django_db
def test_more_runs_cost_no_more_queries(reader: Membership) -> None:
    costs = []
    client = client_of(reader)
    for count in (2, 6):
        runs = attempts(reader, count, task_key=f"fork-{count}")
        client.get("/trajectories/")
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse("trajectories:task_forks", args=[runs[0].task_id]))
        costs.append(len(queries))
    assert costs[0] == costs[1]


@pytest.mark.django_db
def test_outsiders_see_no_forks(reader: Membership) -> None:
    run = attempts(reader, 2)[0]
    for role in (Role.ANNOTATOR, Role.REVIEWER):
        stranger = client_of(factories.member(role, of=reader.workspace if role == Role.ANNOTATOR else None))
        assert stranger.get(reverse("trajectories:task_forks", args=[run.task_id])).status_code == 404
        assert stranger.get(reverse("trajectories:partings", args=[run.pk])).status_code == 404


@pytest.mark.django_db
def test_a_run_says_where_others_of_its_task_leave_it(reader: Membership) -> None:
    runs = attempts(reader, 3)
    answer = client_of(reader).get(reverse("trajectories:partings", args=[runs[0].pk])).json()
    assert answer == {"partings": [[2, 2]], "others": 2}

"""Lists of trajectories and tasks on pages and over REST: filters, access, and cost."""

import json
import re
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

from apps.accounts.models import Membership, Role
from apps.trajectories.filters import BadFilter, Filters
from apps.trajectories.models import Trajectory
from tests import factories
from tests.accounts.clients import body_of

pytestmark = pytest.mark.django_db


def signed_in(member: Membership) -> Client:
    client = Client()
    client.force_login(member.user)
    return client


def step(content: str = "done", **fields: Any) -> dict[str, Any]:
    return {"context": [], "message": {"role": "assistant", "content": content}, **fields}


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def runs(researcher: Membership) -> dict[str, Trajectory]:
    home = researcher.workspace
    return {
        "good": factories.imported_run(
            [step()],
            of=home,
            task_key="book_flight-7",
            environment="airline",
            policy="alpha",
            success=True,
            tags=["kept"],
        ),
        "bad": factories.imported_run(
            [step(), step(), step(error="It broke.")],
            of=home,
            task_key="cancel order",
            environment="shop",
            policy="beta",
            success=False,
        ),
        "open": factories.imported_run([step()] * 5, of=home, task_key="東京 café", id="run/42"),
    }


def found(runs: dict[str, Trajectory], query: str) -> set[str]:
    matching = set(Filters.read(query).apply(Trajectory.objects.all()).values_list("pk", flat=True))
    return {name for name, run in runs.items() if run.pk in matching}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", {"good", "bad", "open"}),
        ("cursor=abc&unknown=1", {"good", "bad", "open"}),
        ("q=flight", {"good"}),
        ("q=FLI 7", {"good"}),
        ("q=ight", set()),
        ("q=run/42", {"open"}),
        ("q=café", {"open"}),
        ("q=%27 | ! %26", set()),
        ("environment=shop", {"bad"}),
        ("policy=none", {"open"}),
        ("outcome=success", {"good"}),
        ("outcome=failure", {"bad"}),
        ("outcome=none", {"open"}),
        ("errors=yes", {"bad"}),
        ("errors=no", {"good", "open"}),
        ("min_steps=2&max_steps=4", {"bad"}),
        ("min_steps=4", {"open"}),
        ("tag=kept", {"good"}),
        ("tag=kep", set()),
        ("source=retrace", {"good", "bad", "open"}),
        ("source=rollout", set()),
        ("environment=airline&outcome=failure", set()),
    ],
)
def test_filters_find_what_they_say(runs: dict[str, Trajectory], query: str, names: set[str]) -> None:
    assert found(runs, query) == names


def test_filters_by_id_find_one(runs: dict[str, Trajectory]) -> None:
    good = runs["good"]
    assert found(runs, f"q={good.pk}") == {"good"}
    assert found(runs, f"task={good.task_id}") == {"good"}
    assert found(runs, f"policy={good.policy_id}") == {"good"}
    assert found(runs, f"batch={uuid4()}") == set()


def test_an_external_id_that_looks_like_ours_is_found(researcher: Membership) -> None:
    home, trace, key = researcher.workspace, uuid4(), uuid4()
    runs = {
        "traced": factories.imported_run([step()], of=home, id=trace.hex),
        "keyed": factories.imported_run([step()], of=home, task_key=f"task {key}"),
    }
    assert found(runs, f"q={trace.hex}") == {"traced"}
    assert found(runs, f"q={key}") == {"keyed"}
    assert found(runs, f"q={runs['traced'].pk}") == {"traced"}


@pytest.mark.parametrize(
    "query",
    [
        *("task=x", "policy=x", "outcome=maybe", "errors=1", "min_steps=-1", "max_steps=many", "batch=x"),
        *("q=a%00", "tag=%00", "source=%00x", "environment=%00"),
    ],
)
def test_a_value_that_a_filter_cannot_take_is_refused(query: str) -> None:
    with pytest.raises(BadFilter, match="expected"):
        Filters.read(query).apply(Trajectory.objects.all())


def test_filters_write_the_query_that_they_were_read_from() -> None:
    assert Filters.read("outcome=success&q=a+b&tag=&cursor=zz").query == "q=a+b&outcome=success"
    assert not Filters.read("cursor=zz")


PAGES = ("list", "tasks")


@pytest.mark.parametrize("name", PAGES)
def test_an_annotator_gets_404_and_an_outsider_sees_nothing_of_ours(
    runs: dict[str, Trajectory], researcher: Membership, name: str
) -> None:
    address = reverse(f"trajectories:{name}")
    assert signed_in(factories.member(Role.ANNOTATOR, of=researcher.workspace)).get(address).status_code == 404
    assertNotContains(signed_in(factories.member(Role.OWNER)).get(address), "book_flight-7")
    assertContains(signed_in(researcher).get(address), "book_flight-7")


def test_a_task_shows_its_runs_and_an_outsider_gets_404(runs: dict[str, Trajectory], researcher: Membership) -> None:
    address = reverse("trajectories:task", args=[runs["good"].task_id])
    assertContains(signed_in(researcher).get(address), "alpha")
    assert signed_in(factories.member(Role.OWNER)).get(address).status_code == 404
    assert signed_in(factories.member(Role.ANNOTATOR, of=researcher.workspace)).get(address).status_code == 404


def test_a_branch_is_no_attempt_of_the_policy_that_continued_it(
    runs: dict[str, Trajectory], researcher: Membership
) -> None:
    good = runs["good"]
    policy = factories.policy(of=researcher.workspace, name="taken-over")
    factories.trajectory(of=good.task, policy=policy, success=True, parent=good, branch_step=0)
    page = signed_in(researcher).get(reverse("trajectories:task", args=[good.task_id]))
    assert "taken-over" not in [name for name, _ in page.context["by_policy"]]


def test_an_empty_workspace_says_what_to_do_next() -> None:
    client = signed_in(factories.member(Role.RESEARCHER))
    assertContains(client.get(reverse("trajectories:list")), "Import a file")
    assertContains(client.get(reverse("trajectories:tasks")), "No tasks yet")
    assertContains(client.get(reverse("trajectories:list") + "?q=zebra"), "Nothing matches")


def test_a_bad_filter_is_said_on_the_page(researcher: Membership) -> None:
    page = signed_in(researcher).get(reverse("trajectories:list") + "?min_steps=many")
    assert page.status_code == 422
    assertContains(page, "expected a number of steps", status_code=422)


def test_htmx_gets_the_rows_only_and_a_restored_history_the_whole_page(researcher: Membership) -> None:
    client, address = signed_in(researcher), reverse("trajectories:list")
    assertNotContains(client.get(address, headers={"HX-Request": "true"}), "<html")
    assertContains(client.get(address, headers={"HX-Request": "true", "HX-History-Restore-Request": "true"}), "<html")


def test_pages_follow_each_other_without_gap_or_repeat(researcher: Membership) -> None:
    for i in range(120):
        factories.trajectory(of=factories.task(of=researcher.workspace, key=f"numbered {i:03}"))
    client, address, seen = signed_in(researcher), reverse("trajectories:list"), []
    cursor = ""
    while True:
        page = client.get(address, {"cursor": cursor}).context["page"]
        seen += [run.task.key for run in page.rows]
        cursor = page.next
        if not cursor:
            break
    assert seen == [f"numbered {i:03}" for i in reversed(range(120))]


def bearer(member: Membership) -> dict[str, str]:
    return {"Authorization": f"Bearer {factories.token(member)}"}


def test_the_api_lists_by_the_same_filters(runs: dict[str, Trajectory], researcher: Membership) -> None:
    answer = Client().get("/api/v1/trajectories?outcome=failure", headers=bearer(researcher)).json()
    (only,) = answer["results"]
    assert (only["id"], only["task"]["key"], only["policy"], only["error_count"]) == (
        str(runs["bad"].pk),
        "cancel order",
        "beta",
        1,
    )
    refused = Client().get("/api/v1/trajectories?outcome=maybe", headers=bearer(researcher))
    assert (refused.status_code, "expected one of" in refused.json()["detail"]) == (400, True)


def test_the_api_shows_outsiders_and_annotators_nothing(runs: dict[str, Trajectory], researcher: Membership) -> None:
    outsider, annotator = factories.member(Role.OWNER), factories.member(Role.ANNOTATOR, of=researcher.workspace)
    assert Client().get("/api/v1/trajectories", headers=bearer(outsider)).json()["results"] == []
    assert Client().get("/api/v1/trajectories", headers=bearer(annotator)).status_code == 404
    for nobody in (outsider, annotator):
        assert Client().get(f"/api/v1/trajectories/{runs['good'].pk}", headers=bearer(nobody)).status_code == 404
    assert Client().get("/api/v1/trajectories").status_code == 401


def test_a_trajectory_comes_out_as_it_went_in(researcher: Membership) -> None:
    steps = [
        {
            "context": [{"role": "user", "content": "hi \0 \ud800"}],
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            "reward": 0.5,
            "done": True,
            "error": "It broke.",
            "seconds": 1.5,
            "prompt_tokens": 3,
            "completion_tokens": 4,
            "info": {"seed": 1},
        }
    ]
    closing = [{"role": "tool", "tool_call_id": "c", "content": "late"}]
    run = factories.imported_run(
        steps,
        of=researcher.workspace,
        closing=closing,
        tools=[{"type": "function"}],
        policy="alpha",
        reward=1.0,
        success=True,
        termination="done",
        tags=["t"],
        info={"k": [1]},
    )
    answer = Client().get(f"/api/v1/trajectories/{run.pk}", headers=bearer(researcher))
    body = json.loads(body_of(answer))
    assert body["steps"] == steps
    assert body["closing"] == closing
    assert (body["policy"], body["tools"], body["tags"], body["info"]) == (
        "alpha",
        [{"type": "function"}],
        ["t"],
        {"k": [1]},
    )
    assert body["outcome"] == {"reward": 1.0, "success": True, "termination": "done"}
    assert body["task"]["key"] == run.task.key


def test_the_rest_of_a_long_initial_state_is_reached(researcher: Membership) -> None:
    state = {"mails": [{"id": f"mail-{i}"} for i in range(200)]}
    task = factories.task(of=researcher.workspace, initial_state=state)
    client = signed_in(researcher)
    page = client.get(reverse("trajectories:task", args=[task.pk])).content.decode()
    (link,) = (unescape(href) for href in re.findall(r'data-more href="([^"]+)"', page))
    rest = client.get(link)
    assertContains(rest, "mail-60")
    assertContains(rest, "More of the task")
    assert client.get(link.replace("initial_state", "users_script")).status_code == 404
    outsider = factories.member(Role.OWNER)
    assert signed_in(outsider).get(link).status_code == 404

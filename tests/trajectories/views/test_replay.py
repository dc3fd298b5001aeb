"""The replay's pages: content, access, and cost."""

import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

from apps.accounts.models import Membership, Role
from apps.trajectories import text_search
from apps.trajectories.comparison import side_by_side
from apps.trajectories.models import Task, Trajectory
from contract.trajectory import FOR_SIMULATED_USER
from tests import factories
from tests.white_space import collapsed

pytestmark = pytest.mark.django_db


def signed_in(member: Membership) -> Client:
    client = Client()
    client.force_login(member.user)
    return client


def tool_step(number: int, *, answer: str = "", **more: Any) -> dict[str, Any]:
    """A step that runs a command after receiving `answer`."""
    heard = [{"role": "tool", "tool_call_id": f"c{number - 1}", "content": answer}] if answer else []
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "bash", "arguments": {"command": f"echo {number}"}},
    }
    return {"context": heard, "message": {"role": "assistant", "content": None, "tool_calls": [call]}, **more}


@pytest.fixture
def reader() -> Membership:
    return factories.member(Role.REVIEWER)


@pytest.fixture
def run(reader: Membership) -> Trajectory:
    steps = [tool_step(i, answer=f"output {i - 1}" if i else "", reward=0.5 if i == 3 else 0.0) for i in range(30)]
    return factories.imported_run(steps, of=reader.workspace)


ADDRESSES = ("detail", "outline", "map", "search", "original")


@pytest.mark.parametrize("number", [1, 2, 7, 15, 29, 30])
def test_the_page_opens_at_any_step(reader: Membership, run: Trajectory, number: int) -> None:
    page = signed_in(reader).get(reverse("trajectories:step", args=[run.pk, number]))
    assertContains(page, f'id="step-{number}"')
    assertContains(page, f'data-current="{number - 1}"')
    assertContains(page, f"echo {number - 1}")


def test_a_step_number_beyond_the_end_opens_the_last_step(reader: Membership, run: Trajectory) -> None:
    assertContains(signed_in(reader).get(reverse("trajectories:step", args=[run.pk, 999])), 'data-current="29"')


@pytest.mark.parametrize("name", ADDRESSES)
def test_an_outsider_and_an_annotator_get_404(run: Trajectory, name: str) -> None:
    for nobody in (factories.member(Role.OWNER), factories.member(Role.ANNOTATOR, of=run.workspace)):
        assert signed_in(nobody).get(reverse(f"trajectories:{name}", args=[run.pk])).status_code == 404


def test_an_outsider_gets_no_step_and_no_part(run: Trajectory) -> None:
    client = signed_in(factories.member(Role.OWNER))
    assert client.get(reverse("trajectories:steps", args=[run.pk]) + "?from=0&to=3").status_code == 404
    assert client.get(reverse("trajectories:part", args=[run.pk, 0]) + "?at=call.0.0&as=text").status_code == 404


def test_nobody_sees_a_run_without_signing_in(run: Trajectory) -> None:
    assert Client().get(reverse("trajectories:detail", args=[run.pk])).status_code == 302


def test_a_result_stands_with_the_step_that_caused_it(reader: Membership, run: Trajectory) -> None:
    page = signed_in(reader).get(reverse("trajectories:steps", args=[run.pk]) + "?from=4&to=4")
    assertContains(page, "output 4")
    assertNotContains(page, "output 3")
    assertNotContains(page, "output 5")


def test_the_last_step_shows_what_the_run_ended_with(reader: Membership) -> None:
    closing = [{"role": "tool", "tool_call_id": "c0", "content": "the end"}, {"role": "user", "content": "goodbye"}]
    run = factories.imported_run([tool_step(0)], of=reader.workspace, closing=closing)
    page = signed_in(reader).get(reverse("trajectories:detail", args=[run.pk]))
    assertContains(page, "the end")
    assertContains(page, "goodbye")


def test_a_run_without_steps_has_a_page(reader: Membership) -> None:
    run = factories.imported_run([], of=reader.workspace)
    assertContains(signed_in(reader).get(reverse("trajectories:detail", args=[run.pk])), "This trajectory has no steps")


def test_the_page_costs_the_same_whatever_the_length(reader: Membership) -> None:
    client = signed_in(reader)
    costs = []
    for count in (1, 3, 60):
        run = factories.imported_run([tool_step(i) for i in range(count)], of=reader.workspace)
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse("trajectories:detail", args=[run.pk]))
        costs.append(len(queries))
    assert costs[0] <= costs[1] == costs[2] <= 15


def test_the_outline_has_a_line_for_every_step_and_no_bodies(reader: Membership, run: Trajectory) -> None:
    answer = signed_in(reader).get(reverse("trajectories:outline", args=[run.pk])).json()
    assert len(answer["steps"]) == 30
    kind, tool, headline, result, is_error, reward, seconds, lines = answer["steps"][3]
    assert (answer["kinds"][kind]["slug"], tool, headline, result) == ("run", "bash", "echo 3", "output 3")
    assert (is_error, reward, seconds) == (0, 0.5, None)
    assert lines > 0


def test_a_trajectory_that_late_spans_changed_isnt_read_from_what_the_browser_kept(
    reader: Membership, run: Trajectory
) -> None:
    def addresses() -> set[str]:
        page = signed_in(reader).get(reverse("trajectories:detail", args=[run.pk])).content.decode()
        return set(re.findall(r'"(/trajectories/[^"]+/(?:outline|steps)/\?v=\w+)"', page))

    before = addresses()
    assert len(before) == 2
    assert addresses() == before
    Trajectory.objects.filter(pk=run.pk).update(content_hash=b"changed".ljust(32))
    assert not before & addresses()


@pytest.mark.parametrize("query", ["", "?from=0", "?from=a&to=2", "?from=-1&to=2", "?from=1e3&to=2", "?from=²&to=2"])
def test_a_window_without_proper_bounds_is_404(reader: Membership, run: Trajectory, query: str) -> None:
    assert signed_in(reader).get(reverse("trajectories:steps", args=[run.pk]) + query).status_code == 404


def test_a_window_is_bounded(reader: Membership) -> None:
    run = factories.imported_run([tool_step(i) for i in range(60)], of=reader.workspace)
    page = signed_in(reader).get(reverse("trajectories:steps", args=[run.pk]) + "?from=0&to=999999")
    assert page.content.count(b"<article") == 40


LONG = "".join(f"line {i}\n" for i in range(5_000))


@pytest.fixture
def long_run(reader: Membership) -> Trajectory:
    return factories.imported_run([tool_step(0), tool_step(1, answer=LONG)], of=reader.workspace)


def test_long_output_is_cut_and_the_rest_comes_when_asked_for(reader: Membership, long_run: Trajectory) -> None:
    client = signed_in(reader)
    page = client.get(reverse("trajectories:detail", args=[long_run.pk]))
    assertContains(page, "line 23")
    assertNotContains(page, "line 24\n")
    assertContains(page, "4,977 lines left")
    part = reverse("trajectories:part", args=[long_run.pk, 0])
    rest = client.get(f"{part}?at=after.0&as=terminal&from=183", headers={"HX-Request": "true"})
    assertContains(rest, "line 900")
    assertNotContains(rest, "<html")
    assertContains(client.get(f"{part}?at=after.0&as=terminal&from=183"), "<html")


def test_a_download_of_a_part_is_whole_and_never_shown(reader: Membership, long_run: Trajectory) -> None:
    answer = signed_in(reader).get(reverse("trajectories:part", args=[long_run.pk, 0]) + "?at=after.0&raw=1")
    assert answer.content.decode() == LONG
    assert answer["Content-Disposition"].startswith("attachment;")
    assert answer["Content-Security-Policy"] == "default-src 'none'; sandbox; frame-ancestors 'none'"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?at=nowhere",
        "?at=after.9",
        "?at=after.0&as=evil",
        "?at=after.0&from=-1",
        "?at=after.0&as=image",
    ],
)
def test_a_part_that_is_not_there_is_404(reader: Membership, long_run: Trajectory, query: str) -> None:
    assert signed_in(reader).get(reverse("trajectories:part", args=[long_run.pk, 0]) + query).status_code == 404


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("echo 17", [17]),
        ("ECHO 17", [17]),
        ("output 21", [21]),
        ("nothing says this", []),
        ("100%", []),
        ("_", []),
        ('a "quote" \\ and <tag>', [30]),
        ("café 東京", [31]),
        ("goodbye", [31]),
        ("user", []),
        ("content", []),
        ("function", []),
        ("command", list(range(30))),
    ],
)
def test_search_finds_the_step_that_shows_the_words(reader: Membership, words: str, found: list[int]) -> None:
    steps = [tool_step(i, answer=f"output {i - 1}" if i else "") for i in range(30)]
    steps.append({"context": [], "message": {"role": "assistant", "content": 'a "quote" \\ and <tag>'}})
    steps.append(
        {"context": [{"role": "user", "content": "café 東京"}], "message": {"role": "assistant", "content": "yes"}}
    )
    run = factories.imported_run(steps, of=reader.workspace, closing=[{"role": "user", "content": "Goodbye"}])
    answer = signed_in(reader).get(reverse("trajectories:search", args=[run.pk]), {"q": words}).json()
    assert [step for step, _ in answer["found"]] == found


def test_the_original_comes_back_byte_for_byte(reader: Membership) -> None:
    run = factories.imported_run([tool_step(0)], of=reader.workspace, original=b'{"as": "given"}\n')
    answer = signed_in(reader).get(reverse("trajectories:original", args=[run.pk]))
    assert answer.content == b'{"as": "given"}\n'
    assert answer["Content-Disposition"].startswith("attachment;")


def test_two_runs_are_compared_row_by_row_from_their_first_difference(reader: Membership) -> None:
    left = factories.imported_run([tool_step(i) for i in (0, 1, 2, 3)], of=reader.workspace, task_key="same")
    right = factories.imported_run([tool_step(i) for i in (0, 1, 9, 3)], of=reader.workspace, task_key="same")
    client = signed_in(reader)
    page = client.get(reverse("trajectories:compare", args=[left.pk, right.pk]))
    assertContains(page, "the first 2 are identical")
    assertContains(page, 'data-opened="2-2"')
    assertContains(page, "echo <mark>2</mark>")
    assertContains(page, "echo <mark>9</mark>")
    rows = client.get(reverse("trajectories:compare_rows", args=[left.pk, right.pk]) + "?row=3-3&row=-1")
    assert rows.content.count(b"data-opened") == 2
    for bad in ("x", "9-9", "-", "1-2-3", ""):
        assert (
            client.get(reverse("trajectories:compare_rows", args=[left.pk, right.pk]) + f"?row={bad}").status_code
            == 404
        )


def test_an_outsider_compares_nothing(run: Trajectory) -> None:
    client = signed_in(factories.member(Role.OWNER))
    assert client.get(reverse("trajectories:compare", args=[run.pk, run.pk])).status_code == 404


def test_hostile_steps_keep_the_page_whole(reader: Membership) -> None:
    evil = "</pre></article></main><script>alert(1)</script>\0\ud800\u202e\"' onload=x"
    step = tool_step(0, answer=evil, error=evil)
    step["message"] |= {"content": evil, "reasoning_content": evil}
    step["message"]["tool_calls"][0]["function"] = {"name": evil, "arguments": json.dumps({evil: evil})}
    run = factories.imported_run([step], of=reader.workspace, closing=[{"role": evil, "content": evil}], tags=[evil])
    page = signed_in(reader).get(reverse("trajectories:detail", args=[run.pk]))
    assertNotContains(page, "<script>alert")
    assert page.content.count(b"</main>") == 1


def test_a_search_shows_the_words_around_what_it_found(reader: Membership) -> None:
    text = 'He said "stop" before\nthe long and winding road to the needle in the "haystack" and so on'
    run = factories.imported_run(
        [{"context": [], "message": {"role": "assistant", "content": text}}], of=reader.workspace
    )
    answer = signed_in(reader).get(reverse("trajectories:search", args=[run.pk]), {"q": "needle"}).json()
    assert answer["found"] == [[0, '…winding road to the needle in the "haystack" and so on']]


def test_a_search_counts_steps_whether_their_call_or_its_result_or_both_match(
    reader: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [tool_step(0), *(tool_step(i, answer=f"echo {i - 1}: not found") for i in range(1, 4))]
    run = factories.imported_run(steps, of=reader.workspace)
    client, address = signed_in(reader), reverse("trajectories:search", args=[run.pk])
    answers = []
    for limit in (3, 5):
        monkeypatch.setattr(text_search, "MAX_MATCHES", limit)
        answers.append(client.get(address, {"q": "echo"}).json())
    assert [([step for step, _ in answer["found"]], answer["is_all"]) for answer in answers] == [
        ([0, 1, 2], False),
        ([0, 1, 2, 3], True),
    ]


def test_a_search_that_takes_the_database_too_long_ends_and_says_so(
    reader: Membership, run: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searching for 199 times "a" and a "b" in megabytes of "a" would, and hold one of few connections."""
    monkeypatch.setattr(text_search, "TIME_LIMIT_MS", 100)
    monkeypatch.setattr(text_search, "_SQL", "SELECT 0, pg_sleep(20)::text, 'x'")
    client, address = signed_in(reader), reverse("trajectories:search", args=[run.pk])
    response = client.get(address, {"q": "needle"})
    assert (response.status_code, "too long" in response.json()["problem"]) == (503, True)
    monkeypatch.undo()
    assert client.get(address, {"q": "needle"}).json() == {"found": [], "is_all": True}


def test_a_simulated_users_script_is_not_shown_as_what_the_agent_was_asked(reader: Membership, run: Trajectory) -> None:
    Task.objects.filter(pk=run.task_id).update(instruction=f"{FOR_SIMULATED_USER}You are Mia and hate Mondays.")
    client = signed_in(reader)
    for address in (reverse("trajectories:detail", args=[run.pk]), reverse("trajectories:list")):
        page = client.get(address)
        assertContains(page, "A conversation with a simulated user")
        assertNotContains(page, "hate Mondays")
    page = client.get(reverse("trajectories:task", args=[run.task_id]))
    assertContains(page, "<summary>Instructions of the simulated user (hidden from the agent)</summary>")
    assertContains(page, "You are Mia and hate Mondays.")


def test_a_comparison_without_results_says_so(reader: Membership, run: Trajectory, monkeypatch: Any) -> None:
    other = factories.imported_run([tool_step(0)], of=reader.workspace)
    address = reverse("trajectories:compare", args=[run.pk, other.pk])
    client = signed_in(reader)
    assertNotContains(client.get(address), "too long")
    monkeypatch.setattr(side_by_side, "MAX_CONTEXT_CHARS", 0)
    page = client.get(address)
    assertContains(page, "too long for what the agents received to be compared")
    assertContains(page, ">1 step</span>")


def test_the_steps_of_a_comparison_say_on_which_side_they_are(reader: Membership, run: Trajectory) -> None:
    other = factories.imported_run([tool_step(0)], of=reader.workspace)
    page = collapsed(signed_in(reader).get(reverse("trajectories:compare", args=[run.pk, other.pk])).content.decode())
    assert ["Left, step 1, runs:" in page, "Right, step 1, runs:" in page] == [True, True]


@pytest.mark.parametrize(("number", "leads_back"), [(1, False), (2, False), (3, True)])
def test_earlier_steps_are_linked_only_if_there_are_any(
    reader: Membership, run: Trajectory, number: int, leads_back: bool
) -> None:
    page = signed_in(reader).get(reverse("trajectories:step", args=[run.pk, number])).content.decode()
    assert (re.search(r">Earlier\s+steps<", page) is not None) == leads_back

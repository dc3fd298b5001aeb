"""Traces become trajectories when they end or have been idle, and are updated by later spans until something depends on them."""

import json
import random
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.db import OperationalError
from django.utils.timezone import now

from apps.accounts.models import Membership
from apps.arena.models import Experiment
from apps.removal import deletion
from apps.traces import trace_trajectories
from apps.traces.models import Span, Trace, TracePart
from apps.traces.retention import delete_idle_spans
from apps.trajectories.imports.preparation import unpack_original
from apps.trajectories.models import Original, Trajectory
from tests import factories
from tests.accounts.clients import as_
from tests.annotation import builders
from tests.traces.conftest import chat_span, send, settle, span

ROOT = span(9, name="agent")
TURNS = ("Where is the lamp?", "On the shelf.", "Sure?", "Yes.", "Thanks.", "Bye.")
CALLS = [chat_span(number, *TURNS[: 2 * number]) for number in (1, 2, 3)]


def texts_of(trajectory: Trajectory) -> list[Any]:
    return [step.message["content"] for step in trajectory.steps.order_by("index")]


def test_a_trace_becomes_a_trajectory_when_its_root_has_ended(http: httpx.Client, researcher: Membership) -> None:
    assert send(http, *CALLS, **{"service.name": "shop"}).json() == {}
    resting = Trace.objects.get()
    assert send(http, ROOT, **{"service.name": "shop"}).json() == {}
    ended = Trace.objects.get()
    assert ended.due_at is not None
    assert resting.due_at is not None
    assert ended.due_at < resting.due_at
    trace_trajectories.settle_due()
    assert not Trajectory.objects.exists()  # more of its spans may still arrive
    settle()
    [trajectory] = Trajectory.objects.visible_to(researcher)
    assert texts_of(trajectory) == ["On the shelf.", "Yes.", "Bye."]
    assert (trajectory.source, trajectory.external_id) == ("otlp", f"{1:032x}")
    assert trajectory.policy is not None
    assert trajectory.policy.name == "tiny"
    trace = Trace.objects.get()
    assert (trace.state, trace.name, trace.service, trace.span_count, trace.model_calls) == (
        *("stored", "agent", "shop"),
        *(4, 3),
    )


def test_spans_in_any_order_and_any_number_of_requests_and_sent_twice_are_one_trajectory(http: httpx.Client) -> None:
    spans = [ROOT, *CALLS] * 3
    random.Random(1).shuffle(spans)
    for recorded in spans:
        assert send(http, recorded).json() == {}
        settle()
    [trajectory] = Trajectory.objects.all()
    assert texts_of(trajectory) == ["On the shelf.", "Yes.", "Bye."]
    assert Trace.objects.get().span_count == Span.objects.count() == 4


def test_a_late_span_changes_the_trajectory_in_place(http: httpx.Client) -> None:
    send(http, *CALLS[:2], ROOT)
    settle()
    before = Trajectory.objects.get()
    assert texts_of(before) == ["On the shelf.", "Yes."]
    send(http, CALLS[2])
    settle()
    after = Trajectory.objects.get()
    assert after.pk == before.pk
    assert texts_of(after) == ["On the shelf.", "Yes.", "Bye."]
    assert after.step_count == 3
    assert (after.tags, after.tools) == ([], [])
    assert bytes(after.content_hash) == bytes(TracePart.objects.get().content_hash) != bytes(before.content_hash)


def test_a_late_span_changes_nothing_that_is_judged(http: httpx.Client, researcher: Membership) -> None:
    send(http, *CALLS[:2], ROOT)
    settle()
    trajectory = Trajectory.objects.get()
    builders.queue_of_trajectories(of=researcher.workspace, trajectories=[trajectory])
    send(http, CALLS[2])
    settle()
    assert texts_of(Trajectory.objects.get(pk=trajectory.pk)) == ["On the shelf.", "Yes."]
    assert "Late spans changed nothing, since an item depends on the trajectory" in Trace.objects.get().problem


def test_a_late_span_changes_nothing_that_an_experiment_compares(http: httpx.Client, researcher: Membership) -> None:
    send(http, *CALLS[:2], ROOT)
    settle()
    trajectory = Trajectory.objects.get()
    a, b = factories.policy(of=researcher.workspace), factories.policy(of=researcher.workspace)
    Experiment.objects.create(
        workspace=researcher.workspace,
        name="Which?",
        environment="shop",
        policy_a=a,
        policy_b=b,
        recorded_b=[trajectory.pk],
    )
    send(http, CALLS[2])
    settle()
    assert texts_of(Trajectory.objects.get(pk=trajectory.pk)) == ["On the shelf.", "Yes."]
    assert "Late spans changed nothing, since an experiment depends on the trajectory" in Trace.objects.get().problem


def test_chats_of_one_trace_are_trajectories_of_their_own_and_become_one_when_a_span_joins_them(
    http: httpx.Client,
) -> None:
    other = chat_span(4, "Who are you?", "An agent.")
    send(http, CALLS[0], other, ROOT)
    settle()
    assert Trajectory.objects.count() == 2
    send(http, chat_span(5, "Who are you?", "An agent.", "Really?", "Really."))
    settle()
    assert sorted(map(texts_of, Trajectory.objects.all())) == [["An agent.", "Really."], ["On the shelf."]]


def test_text_of_a_deleted_trajectory_remains_in_no_other_one_of_its_trace(
    http: httpx.Client, researcher: Membership
) -> None:
    send(http, CALLS[0], chat_span(4, "Who are you?", "An agent."), ROOT)
    send(http, chat_span(5, "Another trace?", "Yes.", trace=2, parent=0))
    settle()
    lamp, agent, other = Trajectory.objects.order_by("pk")
    assert b"lamp" in unpack_original(agent.original.body)
    Trace.objects.update(changed_at=now() - timedelta(days=2))
    delete_idle_spans()
    Trace.objects.update(closed_at=now() - timedelta(days=31))
    delete_idle_spans()
    foreseen = deletion.outlook(lamp)
    assert foreseen.goes == {"trajectories": 1, "steps": 1, "original records": 2, "traces' spans": 1}
    page = " ".join(as_(researcher).get(f"/delete/trajectory/{lamp.pk}/").text.split())
    assert "the original records of other trajectories made from the same traces (1)" in page
    assert deletion.delete(lamp) == foreseen.goes
    assert Original.objects.get().trajectory == other
    assert set(Trajectory.objects.all()) == {agent, other}


def test_a_chat_that_a_late_span_makes_unreadable_stays_as_it_was(http: httpx.Client) -> None:
    send(http, CALLS[0], chat_span(2, "Who are you?", "An agent."), ROOT)
    settle()
    malformed = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
    late = chat_span(3, "")
    late["attributes"] = [entry for entry in late["attributes"] if "messages" not in entry["key"]]
    output = {"key": "gen_ai.output.messages", "value": {"stringValue": json.dumps([malformed])}}
    late["attributes"].append(output)
    send(http, late, chat_span(4, *TURNS[:4]))
    settle()
    assert sorted(map(texts_of, Trajectory.objects.all())) == [["An agent."], ["On the shelf.", "Yes."]]
    trace = Trace.objects.get()
    assert (trace.state, trace.problem) == (
        "stored",
        "1 of its 2 chats can't be read. A tool call has no function name.",
    )


def test_what_a_file_brought_already_is_not_counted_twice(http: httpx.Client, researcher: Membership) -> None:
    send(http, *CALLS, ROOT)
    settle()
    trajectory = Trajectory.objects.get()
    Trace.objects.all().delete()
    assert Trajectory.objects.filter(pk=trajectory.pk).exists()
    send(http, *CALLS, ROOT)
    settle()
    assert Trajectory.objects.get() == trajectory
    assert "already" in Trace.objects.get().problem


def test_traces_without_a_model_call_are_passed_over(http: httpx.Client) -> None:
    send(http, span(1, {"http.route": "/"}), span(2, {}, trace=2))
    settle()
    assert set(Trace.objects.values_list("state", flat=True)) == {"passed_over"}
    assert not Trajectory.objects.exists()


def test_of_a_span_that_is_sent_while_it_goes_on_the_later_end_counts(http: httpx.Client) -> None:
    begun = {**span(1, parent=9), "endTimeUnixNano": "0"}
    for sent_span in (begun, CALLS[0], begun):
        send(http, sent_span)
    settle()
    assert texts_of(Trajectory.objects.get()) == ["On the shelf."]
    assert Span.objects.count() == Trace.objects.get().span_count == 1


def test_spans_that_were_sent_while_they_went_on_count_once(http: httpx.Client) -> None:
    send(http, *CALLS, trace_name="whole")
    whole = Trace.objects.values_list("span_count", "model_calls", "size").get()
    Trace.objects.all().delete()
    send(http, *({**call, "attributes": [], "endTimeUnixNano": "0"} for call in CALLS), trace_name="whole")
    for call in (*CALLS, CALLS[0]):
        send(http, call, trace_name="whole")
    assert Trace.objects.values_list("span_count", "model_calls", "size").get() == whole


def test_a_trace_that_rests_becomes_a_trajectory_without_its_root(http: httpx.Client, settings: Any) -> None:
    settings.TRACES_REST_SECONDS = 0
    send(http, *CALLS)
    trace_trajectories.settle_due()
    assert texts_of(Trajectory.objects.get()) == ["On the shelf.", "Yes.", "Bye."]
    assert Trace.objects.due_at(now()).count() == 0


def test_a_chat_whose_last_call_failed_says_what_ended_it(http: httpx.Client) -> None:
    """The call has no answer, and so no turn that could show its error."""
    failed = chat_span(3, *TURNS[:6], status={"code": 2, "message": "Overloaded."})
    failed["attributes"] = [attribute for attribute in failed["attributes"] if "output" not in attribute["key"]]
    assert send(http, *CALLS[:2], failed, ROOT).json() == {}
    settle()
    [trajectory] = Trajectory.objects.all()
    assert (texts_of(trajectory), trajectory.termination) == (["On the shelf.", "Yes."], "Overloaded.")


def test_spans_in_a_circle_are_refused_with_the_reason(http: httpx.Client) -> None:
    send(http, {**CALLS[0], "parentSpanId": f"{2:016x}"}, {**CALLS[1], "parentSpanId": f"{1:016x}"})
    settle()
    trace = Trace.objects.get()
    assert trace.state == "refused"
    assert "form a cycle" in trace.problem


def test_the_same_trace_in_two_workspaces_is_one_of_each(http: httpx.Client, traces_url: str) -> None:
    other = factories.member()
    send(http, *CALLS, ROOT)
    with httpx.Client(base_url=traces_url, headers={"Authorization": f"Bearer {factories.token(other)}"}) as theirs:
        send(theirs, CALLS[0], ROOT)
    settle()
    assert texts_of(Trajectory.objects.visible_to(other).get()) == ["On the shelf."]
    assert Trajectory.objects.count() == 2


def test_traces_that_take_long_are_left_to_the_next_pass(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2, 3):
        send(http, chat_span(number, f"{number}?", "Yes.", trace=number), span(9, trace=number))
    monkeypatch.setattr(trace_trajectories, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(trace_trajectories, "BATCH_SPANS", 3)
    left = []
    for _ in range(3):
        settle()
        left.append(Trace.objects.filter(state="arriving").count())
    assert left == [2, 1, 0]
    assert Trajectory.objects.count() == 3


def test_a_trace_that_comes_while_the_disk_is_full_becomes_a_trajectory_afterwards(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OperationalError("could not extend file: No space left on device")

    send(http, *CALLS, ROOT)
    with monkeypatch.context() as patch:
        patch.setattr(trace_trajectories, "copy_in", fails)
        settle()
    trace = Trace.objects.get()
    assert (trace.state, trace.problem) == ("arriving", "")
    assert trace.due_at is not None
    assert trace.due_at > now()  # others go first
    settle()
    assert Trajectory.objects.count() == 1

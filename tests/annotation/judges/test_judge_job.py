"""Served models as annotators: asked over HTTP in both orders, counted, rate-limited, and never blocking people."""

from dataclasses import replace
from functools import partial

import httpx
import pytest
from django.db import DataError
from django.db.models import F

from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.judges import judge_job, llm_judge
from apps.annotation.judges.enrollment import (
    JUDGES,
    AtWorkAlready,
    NotServed,
    OnlyPairs,
    resume_judge,
    revise_prompt,
    send_judge,
    set_budget,
)
from apps.annotation.judges.judge_job import run_slice
from apps.annotation.judges.llm_judge import Opinion, Pace, Usage, together, usage_of
from apps.annotation.kinds.answers import Choice
from apps.annotation.kinds.questions import PairwiseAsks
from apps.annotation.models import Assignment, Item, Judge, JudgeAnswer, Preference, Queue
from apps.jobs import lifecycle
from apps.jobs.models import Phase, lease
from apps.policies.models import Endpoint, Policy
from contract.questions import Question
from tests import factories
from tests.annotation import builders
from tests.annotation.judges.served_judges import claimed, send, served

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]


def test_a_judge_takes_places_like_anybody_and_says_why(workspace, server, sent):
    queue = builders.queue(of=workspace, items=3, overlap=2)  # of each pair run a looks for the lamp
    judge = send(queue, server, "lamp", prompt_price=1.0, completion_price=10.0)
    assert sent == [("judging.run_slice", str(judge.pk))]
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert (judge.state, judge.answered, judge.error) == ("done", 3, "")
    assert [(p.strength, p.rationale) for p in Preference.objects.all()] == [(2, "It found the lamp.")] * 3
    assert set(Preference.objects.values_list("a_was_left", flat=True)) == {None}  # it saw both orders
    assert (judge.prompt_tokens, judge.completion_tokens) == (600, 60)  # three pairs, both orders
    assert judge.cost == pytest.approx((600 * 1.0 + 60 * 10.0) / 1_000_000)
    assert not Item.objects.filter(taken=2).exists()  # the people's places are free
    assert judge.annotator.kind == "model"


@pytest.mark.parametrize("cost", [10**18, -5, "9" * 4000, 1.5, [1], True, 2**30])
def test_tokens_that_no_answer_can_have_cost_are_not_counted(cost: object) -> None:
    response = httpx.Response(200, json={"usage": {"prompt_tokens": cost, "completion_tokens": 10}})
    assert usage_of(response) == Usage(0, 10)
    largest = httpx.Response(200, json={"usage": {"prompt_tokens": 2**30 - 1}})
    both = usage_of(largest).plus(usage_of(largest))
    JudgeAnswer._meta.get_field("prompt_tokens").run_validators(both.prompt)


def test_a_prelabel_takes_no_place(workspace, server):
    queue = builders.queue(of=workspace, items=2)
    judge = send(queue, server, "lamp", mode="prelabel")
    run_slice(judge.pk)
    assert not Assignment.objects.exists()
    assert not Preference.objects.exists()
    assert list(JudgeAnswer.objects.values_list("a_left", "b_left", "strength", "prompt_version")) == [(2, 2, 2, 1)] * 2


@pytest.mark.parametrize("mode", ["join", "prelabel"])
def test_models_are_not_asked_about_training_items(workspace, server, mode):
    queue = builders.queue(of=workspace, items=3)
    builders.known(queue, Item.Purpose.ONBOARDING, 1)
    run_slice(send(queue, server, "lamp", mode=mode).pk)
    assert [answer.item.purpose for answer in JudgeAnswer.objects.select_related("item")] == ["work", "work"]


def test_who_always_says_left_contradicts_itself_and_prefers_nothing(workspace, server):
    judge = send(builders.queue(of=workspace), server, "left")
    run_slice(judge.pk)
    answer = JudgeAnswer.objects.get()
    assert (answer.a_left, answer.b_left, answer.strength) == (2, -2, 0)
    assert "Its answer depends on the order" in answer.reason


def test_a_busy_server_is_asked_again(workspace, server):
    judge = send(builders.queue(of=workspace, items=2), server, "busy", mode="prelabel")
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert (judge.state, judge.answered, judge.failed) == ("done", 2, 0)


def test_a_refused_key_stops_the_judge_and_says_what_to_check(workspace, server):
    judge = send(builders.queue(of=workspace), server, "locked")
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert judge.state == "failed"
    assert "401" in judge.error
    assert "the model's name and the key" in judge.error
    assert judge.leased_until is None


@pytest.mark.parametrize("model", ["metadata", "metadata-404", "metadata-500", "metadata-redirect"])
def test_a_server_that_is_no_judge_is_not_quoted(workspace, server, monkeypatch, model):
    monkeypatch.setattr(llm_judge, "TRIES", 1)
    judge = send(builders.queue(of=workspace), server, model)
    run_slice(judge.pk)
    judge.refresh_from_db()
    messages = [judge.error, *JudgeAnswer.objects.values_list("error", flat=True)]
    assert any(messages)
    assert not any("AccessKeyId" in words for words in messages)


def test_a_judge_is_not_sent_into_a_network_that_is_not_named(workspace, server, monkeypatch):
    monkeypatch.setenv("OUTGOING_NETWORKS", "")
    judge = send(builders.queue(of=workspace), server, "lamp")
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert (judge.state, judge.answered) == ("failed", 0)
    assert "add the network to OUTGOING_NETWORKS" in judge.error


def test_a_judge_takes_no_key_to_a_server_that_may_not_have_it(workspace, server, monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    monkeypatch.setenv("ENDPOINT_KEYS", "VLLM_API_KEY=http://vllm:8000")
    judge = send(builders.queue(of=workspace), server, "lamp")
    Endpoint.objects.update(key_variable="VLLM_API_KEY")  # registered before the setting was changed
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert (judge.state, judge.answered) == ("failed", 0)
    assert "The key in VLLM_API_KEY is not sent to" in judge.error


def test_a_server_that_is_not_there_stops_the_judge(workspace):
    judge = send(builders.queue(of=workspace), "http://127.0.0.1:9/v1", "lamp")
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert judge.state == "failed"
    assert "gave no answer after several attempts" in judge.error


def test_unusable_answers_are_counted_not_repeated_and_end_in_a_stop(workspace, server):
    queue = builders.queue(of=workspace, items=7)
    judge = send(queue, server, "rubbish", mode="prelabel")
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert (judge.state, judge.failed, judge.answered) == ("failed", 5, 0)
    assert "I would rather not say" in judge.error
    assert judge.prompt_tokens == 500  # they cost as much as usable ones
    resume_judge(judge=judge, by=None)
    judge.refresh_from_db()
    assert (judge.state_so_far, judge.failed, judge.answers.count()) == ("running", 0, 0)


def test_unusable_answers_stop_a_slow_judge_too(workspace, server, monkeypatch):
    monkeypatch.setattr(judge_job, "STRETCH_SECONDS", -1.0)  # one pair in each time slice
    judge = send(builders.queue(of=workspace, items=7), server, "rubbish", mode="prelabel")
    for _ in range(5):
        run_slice(judge.pk)
    judge.refresh_from_db()
    assert (judge.state, judge.failed) == ("failed", 5)


def test_a_judge_stops_where_a_judgment_needs_answers_that_models_do_not_give(workspace, server):
    why = Question("why", "Why?", type="text")
    queue = builders.queue(of=workspace, asks=PairwiseAsks((why,)))
    judge = send(queue, server, "lamp")
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert (judge.state, judge.prompt_tokens) == ("failed", 0)
    assert "Make the questions optional" in judge.error
    assert not Assignment.objects.exists()
    Queue.objects.update(asks=PairwiseAsks((replace(why, required=False),)).to_json())
    resume_judge(judge=judge, by=None)
    run_slice(judge.pk)
    assert Preference.objects.count() == 1


def test_pairs_that_were_skipped_without_an_answer_get_another_chance(workspace, server):
    queue = builders.queue(of=workspace, items=2)
    Queue.objects.update(skipped_come_back=True)
    judge = send(queue, server, "rubbish")
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert (judge.state, judge.failed) == ("done", 2)
    assert list(Assignment.objects.values_list("state", flat=True)) == ["skipped"] * 2  # each was assigned once
    Policy.objects.update(location="lamp")
    resume_judge(judge=judge, by=None)
    run_slice(judge.pk)
    assert Preference.objects.count() == 2


def test_a_reward_model_skips_what_it_cannot_score_once_and_again_when_resumed(workspace):
    queue = builders.queue(of=workspace, items=2)
    Queue.objects.update(skipped_come_back=True)
    policy = factories.policy(of=workspace, kind=Policy.Kind.REWARD_MODEL)
    judge = send_judge(queue=queue, policy=policy, mode="join", prompt="", by=None)
    judge = claimed(judge)
    unscored, scored = judge_job.unasked(judge)
    judge_job.record_rewards(judge, unscored, a=None, b=1.0)
    judge_job.record_rewards(judge, scored, a=2.0, b=0.0)
    judge_job.finish(judge)
    states = Assignment.objects.order_by("item__position").values_list("state", flat=True)
    assert list(states) == ["skipped", "judged"]
    resume_judge(judge=judge, by=None)
    judge = claimed(judge)
    assert judge_job.unasked(judge).get() == unscored
    judge_job.record_rewards(judge, unscored, a=0.0, b=2.0)
    judge_job.finish(judge)
    assert list(Preference.objects.order_by("pk").values_list("item", "strength", "a_was_left")) == [
        (scored.pk, 2, None),
        (unscored.pk, -2, None),
    ]


def test_a_reward_model_skips_no_pair_that_was_added_while_its_scores_became_judgments(workspace):
    queue = builders.queue(of=workspace, items=2)
    policy = factories.policy(of=workspace, kind=Policy.Kind.REWARD_MODEL)
    judge = claimed(send_judge(queue=queue, policy=policy, mode="join", prompt="", by=None))
    scored, added = judge_job.unasked(judge)
    judge_job.record_rewards(judge, scored, a=2.0, b=0.0)
    judge_job.finish(judge)
    assert (judge.phase, Preference.objects.count()) == (Phase.RUNNING, 1)
    judge_job.record_rewards(judge, added, a=2.0, b=0.0)
    judge_job.finish(judge)
    assert (judge.phase, Preference.objects.count()) == (Phase.DONE, 2)


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_rewards_that_are_no_numbers_are_no_tie(workspace, reward):
    policy = factories.policy(of=workspace, kind=Policy.Kind.REWARD_MODEL)
    queue = builders.queue(of=workspace)
    judge = claimed(send_judge(queue=queue, policy=policy, mode="join", prompt="", by=None))
    judge_job.record_rewards(judge, judge_job.unasked(judge).get(), a=reward, b=0.0)
    judge_job.finish(judge)
    judge.refresh_from_db()
    assert (judge.failed, Preference.objects.count()) == (1, 0)


def test_a_judge_stops_when_it_has_cost_what_it_may(workspace, server):
    judge = send(builders.queue(of=workspace, items=5), server, "lamp", prompt_price=1_000.0, most_cost=0.3)
    run_slice(judge.pk)  # 0.2 a pair
    judge.refresh_from_db()
    assert (judge.state, judge.answered) == ("paused", 2)
    assert "its budget" in judge.error
    resume_judge(judge=judge, by=None)
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert (judge.state, judge.answered) == ("paused", 2)
    set_budget(judge=judge, most_cost=0.7, by=None)
    resume_judge(judge=judge, by=None)
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert (judge.state, judge.answered) == ("paused", 4)


def test_characters_that_no_database_keeps_are_made_visible(workspace, server):
    queue = builders.queue(of=workspace, items=5)
    run_slice(send(queue, server, "stray").pk)
    assert {p.rationale for p in Preference.objects.all()} == {r"It␀ found the \ud800lamp."}
    judge = send(queue, server, "stray rubbish", mode="prelabel")
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert judge.state == "failed"
    assert r"I would ␀rather\ud800 not say." in judge.error


def test_what_nobody_expected_stops_the_judge_and_its_tokens_are_counted(workspace, server, monkeypatch, caplog):
    def broken(**_: object) -> None:
        raise DataError("value too long")

    monkeypatch.setattr(judge_job, "record", broken)
    judge = send(builders.queue(of=workspace, items=3), server, "lamp")
    run_slice(judge.pk)
    judge.refresh_from_db()
    assert (judge.state, judge.answered, judge.prompt_tokens, judge.leased_until) == ("failed", 0, 200, None)
    assert "an error in Retrace" in judge.error
    assert "DataError: value too long" in judge.error
    assert f"Judge {judge.pk} failed unexpectedly" in caplog.text


def test_two_workers_do_not_share_a_judge_and_a_forsaken_one_is_found_again(workspace, server, sent):
    judge = send(builders.queue(of=workspace), server, "lamp")
    assert lifecycle.claim(JUDGES, judge.pk, worker="elsewhere:1") is not None
    run_slice(judge.pk)
    assert not JudgeAnswer.objects.exists()
    assert lifecycle.recover(JUDGES) == []
    Judge.objects.update(leased_until=judge_job.now())
    assert lifecycle.recover(JUDGES) == [judge]
    assert lifecycle.recover(JUDGES) == []  # requested a moment ago
    assert sent[-1] == ("judging.run_slice", str(judge.pk))


def test_a_judge_stays_with_its_worker_however_slow_each_answer_is(workspace, server, monkeypatch):
    judge = send(builders.queue(of=workspace), server, "lamp")
    post, is_forsaken = httpx.Client.post, []

    def slow(*args, **named):  # each request takes almost a whole lease
        Judge.objects.update(leased_until=F("leased_until") - 0.9 * lease())
        is_forsaken.append(Judge.objects.orphaned().exists())
        return post(*args, **named)

    monkeypatch.setattr(httpx.Client, "post", slow)
    run_slice(judge.pk)
    assert is_forsaken == [False, False]  # both orders
    judge.refresh_from_db()
    assert (judge.state, judge.answered) == ("done", 1)


def test_a_place_lost_while_the_model_thought_keeps_its_answer_and_no_judgment(workspace, server):
    queue = builders.queue(of=workspace)
    judge = send(queue, server, "lamp")
    held = next_assignment(queue=queue, annotator=judge.annotator)
    Assignment.objects.update(state="expired")
    Item.objects.update(taken=0)
    record(assignment=next_assignment(queue=queue, annotator=builders.rule(of=workspace)), answer=Choice(-1))
    judge = claimed(judge)
    judge_job._record(judge, held.item, held, llm_judge.Verdict(2, 2, 2, False, "So."), 1, llm_judge.Usage(1, 1))
    assert Preference.objects.count() == 1
    assert JudgeAnswer.objects.get().strength == 2


def test_prompts_are_versioned(workspace, server):
    judge = send(builders.queue(of=workspace, items=2), server, "lamp", mode="prelabel")
    assert revise_prompt(judge=judge, text="Prefer what works.", by=None).version == 1
    assert revise_prompt(judge=judge, text="Prefer what is safe.", by=None).version == 2
    run_slice(judge.pk)
    assert set(JudgeAnswer.objects.values_list("prompt_version", flat=True)) == {2}


def test_only_served_models_judge_and_only_pairs_and_once(workspace, server):
    queue = builders.queue(of=workspace)
    policy = served(workspace, server, "lamp")
    arguments = {"mode": "join", "prompt": "x", "by": None}
    send_judge(queue=queue, policy=policy, **arguments)
    with pytest.raises(AtWorkAlready):
        send_judge(queue=queue, policy=policy, **arguments)
    with pytest.raises(NotServed):
        send_judge(queue=queue, policy=factories.policy(of=workspace), **arguments)
    with pytest.raises(OnlyPairs):
        send_judge(queue=factories.queue(of=workspace, kind="rating"), policy=policy, **arguments)


@pytest.mark.parametrize(
    ("left_first", "left_second", "strength"),
    [(2, -2, 2), (2, 2, 0), (3, -2, 3), (1, 0, 1), (-1, 3, -2), (0, 0, 0)],
)
def test_both_orders_make_one_verdict(left_first, left_second, strength):
    # Grades favor the left side; in the second order run a is on the right. A mean of ½ rounds away from 0.
    verdict = together(Opinion(left_first, False, "x"), Opinion(left_second, False, "y"))
    assert verdict.strength == strength


def test_requests_keep_their_distance():
    clock, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    pace = Pace(requests_a_minute=30, sleep=sleep, clock=lambda: clock[0])
    for _ in range(3):
        pace.wait()
    assert slept == [2.0, 2.0]


def test_requests_keep_their_distance_between_time_slices(workspace, server, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(judge_job, "Pace", partial(Pace, sleep=slept.append, clock=lambda: 100.0))
    monkeypatch.setattr(judge_job, "STRETCH_SECONDS", -1.0)  # one pair in each time slice
    judge = send(builders.queue(of=workspace, items=2), server, "lamp", mode="prelabel", requests_a_minute=30)
    run_slice(judge.pk)
    assert slept == [2.0]  # before the pair's other order
    run_slice(judge.pk)
    assert slept == [2.0, 2.0, 4.0]


def test_judges_of_one_workspace_leave_workers_to_others(workspace, server):
    queue = builders.queue(of=workspace, items=1)
    early, late, third, fourth = (send(queue, server, name, mode="prelabel") for name in ("a", "b", "lamp", "lamp 2"))
    held, _ = claimed(third), claimed(fourth)
    run_slice(late.pk)
    late.refresh_from_db()
    assert late.phase == Phase.WAITING
    elsewhere = send(builders.queue(items=1), server, "lamp", mode="prelabel")
    run_slice(elsewhere.pk)
    elsewhere.refresh_from_db()
    assert elsewhere.phase == Phase.DONE
    lifecycle.finish(held)
    run_slice(late.pk)
    early.refresh_from_db()
    late.refresh_from_db()
    assert (early.attempt, late.attempt) == (1, 0)  # first in, first out


def test_the_next_judge_is_taken_up_when_one_is_over(workspace, server, sent):
    queue = builders.queue(of=workspace, items=1)
    first, second = (send(queue, server, name, mode="prelabel") for name in ("lamp", "lamp 2"))
    sent.clear()
    run_slice(first.pk)
    assert sent == [("judging.run_slice", str(second.pk))]


def test_a_server_that_hangs_is_not_asked_five_times():
    passed = [0.0]

    def hang(request: httpx.Request) -> httpx.Response:
        passed[0] += 120.0
        raise httpx.ReadTimeout("", request=request)

    pace = Pace(60, sleep=lambda seconds: passed.__setitem__(0, passed[0] + seconds), clock=lambda: passed[0])
    model = llm_judge.Model(url="http://127.0.0.1:9/v1", model="m", key_variable="", temperature=0, pace=pace)
    model._client = httpx.Client(base_url="http://127.0.0.1:9", transport=httpx.MockTransport(hang))
    with pytest.raises(llm_judge.Refused):
        model.compare(task="", a="", b="", criteria="")
    assert passed[0] < 300

"""Served models as annotators: asked over HTTP in both orders, counted, rate-limited, and never blocking people."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import pytest
from django.db import DataError
from django.db.models import F
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, Workspace
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
from apps.annotation.judges.judge_performance import model_answers
from apps.annotation.judges.llm_judge import Opinion, Pace, Usage, together, usage_of
from apps.annotation.kinds.answers import Choice
from apps.annotation.kinds.pairwise import PAIRWISE
from apps.annotation.kinds.questions import PairwiseAsks
from apps.annotation.models import Annotator, Assignment, Item, Judge, JudgeAnswer, Preference, Queue
from apps.annotation.phrases import a_is_left_in_review
from apps.jobs import lifecycle
from apps.jobs.models import Phase, lease
from apps.policies.models import Endpoint, Policy
from contract.questions import Question
from tests import factories
from tests.annotation import builders


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a real server process."""
    program = Path(__file__).with_name("judge_server.py")
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        process.terminate()


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(lifecycle, "enqueue", lambda *call: calls.append(call))
    monkeypatch.setattr(llm_judge, "FIRST_WAIT_SECONDS", 0.01)
    return calls


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


pytestmark = pytest.mark.django_db


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


@pytest.mark.parametrize(
    ("data", "most_cost", "is_resumed"),
    [
        ({}, 0.1, True),
        ({"most_cost": "0.5"}, 0.5, True),
        ({"most_cost": ""}, None, True),
        ({"most_cost": "-1"}, 0.1, False),
    ],
)
def test_the_page_resumes_a_judge_with_the_budget_that_is_given(workspace, server, client, data, most_cost, is_resumed):
    queue = builders.queue(of=workspace)
    judge = send(queue, server, "lamp", most_cost=0.1)
    Judge.objects.update(state=Judge.State.PAUSED)
    client.force_login(factories.member(Role.RESEARCHER, of=workspace).user)
    client.post(reverse("annotation:resume_judge", args=[queue.pk, judge.pk]), data)
    judge.refresh_from_db()
    assert (judge.most_cost, judge.is_active) == (most_cost, is_resumed)


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


@pytest.fixture
def researcher(workspace: Workspace, client: Client) -> Client:
    client.force_login(factories.member(Role.RESEARCHER, of=workspace).user)
    return client


def test_a_model_is_sent_from_the_queues_page_and_its_agreement_with_people_shown(researcher, workspace, server):
    queue = builders.queue(of=workspace, items=2)
    policy = served(workspace, server, "lamp")
    address = reverse("annotation:judges", args=[queue.pk])
    assert "No model judges this queue" in researcher.get(address).content.decode()
    form = {
        "policy": str(policy.pk),
        "mode": "prelabel",
        "prompt": "Prefer what works.",
        "requests_a_minute": 100_000,
        "prompt_price": 1,
        "completion_price": 2,
    }
    assert researcher.post(address, form).url == address
    assert "Prefer what works.</textarea>" in researcher.get(address).content.decode()
    updates = researcher.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "lamp" in updates
    assert "<textarea" not in updates  # it would replace a prompt that somebody is writing
    run_slice(Judge.objects.get().pk)
    person = factories.annotator(of=workspace)
    for strength in (1, -1):
        record(assignment=next_assignment(queue=queue, annotator=person), answer=Choice(strength))
    page = researcher.get(address).content.decode()
    assert "1 of 2; 95 % interval" in page  # the same as the person once
    assert "2 of 2; 95 % interval" in page  # and steady when the sides are swapped
    again = researcher.post(address, form)
    assert again.status_code == 422
    assert "already judges this queue" in again.content.decode()


def test_what_a_model_said_shows_after_one_has_answered_or_before_where_the_queue_says_so(workspace, server, client):
    member = factories.member(Role.ANNOTATOR, of=workspace)
    queue = builders.queue(of=workspace, items=2)
    run_slice(send(queue, server, "lamp", mode="prelabel").pk)
    client.force_login(member.user)
    desk = reverse("annotation:desk", args=[queue.pk])
    assert "It found the lamp" not in client.get(desk).content.decode()
    mine = reverse("annotation:mine", args=[queue.pk])
    assert "Compared with models" not in client.get(mine).content.decode()
    record(assignment=Assignment.objects.get(), answer=Choice(-1))
    assert "Compared with models" in client.get(mine).content.decode()
    Queue.objects.update(shows_machines=True)
    assert "It found the lamp" in client.get(desk).content.decode()


def test_a_reason_that_names_sides_says_so_where_they_are_swapped(workspace, server):
    queue = builders.queue(of=workspace)
    judge = send(queue, server, "lamp", mode="prelabel")
    item = Item.objects.get()
    answer = JudgeAnswer.objects.create(
        judge=judge, item=item, prompt_version=1, a_left=2, b_left=2, strength=2, reason="The left one found it."
    )
    reasons = [[said.reason for said in model_answers(item.pk, a_is_left=is_left)] for is_left in (True, False)]
    assert reasons == [["The left one found it."], ["With the sides swapped: The left one found it."]]
    answer.reason = "It found the lamp."
    answer.save()
    assert model_answers(item.pk, a_is_left=False)[0].reason == "It found the lamp."


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.RESEARCHER])
def test_an_items_page_has_one_left_side(workspace, server, client, role):
    client.force_login(factories.member(role, of=workspace).user)
    queue = builders.queue(of=workspace, items=2)
    judge = send(queue, server, "lamp", mode="prelabel")
    for item in Item.objects.all():  # one of them is shown to reviewers with trajectory a on the right
        JudgeAnswer.objects.create(
            judge=judge, item=item, prompt_version=1, a_left=2, b_left=2, strength=2, reason="The left one found it."
        )
        page = client.get(reverse("annotation:queue_item", args=[queue.pk, item.pk])).content.decode()
        is_researcher = role == Role.RESEARCHER
        assert ("Trajectory A is on the left here" in page) == is_researcher
        a_is_left = is_researcher or a_is_left_in_review(item)
        assert ("Left clearly better" in page) == a_is_left
        assert ("With the sides swapped: The left one" in page) != a_is_left


@pytest.mark.parametrize(
    ("a_was_left", "source", "turned"),
    [(True, "", True), (False, "", False), (None, "", True), (None, "file.jsonl", False)],
)
def test_a_reviewer_is_told_where_a_reason_names_the_other_side(a_was_left, source, turned):
    judgment = Preference(annotator=Annotator(source=source), a_was_left=a_was_left, rationale="The left one asks.")
    said = PAIRWISE.rationale_by_side(judgment, a_is_left=False)
    assert said == ("With the sides swapped: The left one asks." if turned else "The left one asks.")


def test_only_researchers_of_this_workspace_send_models(workspace, server, client):
    queue = builders.queue(of=workspace)
    judge = send(queue, server, "lamp")
    posts = [reverse(f"annotation:{name}", args=[queue.pk, judge.pk]) for name in ("pause_judge", "judge_prompt")]
    for member in (factories.member(Role.REVIEWER, of=workspace), factories.member(Role.OWNER)):
        client.force_login(member.user)
        assert client.get(reverse("annotation:judges", args=[queue.pk])).status_code == 404
        assert {client.post(address).status_code for address in posts} == {404}


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

"""Item orders based on models, and reward models as annotators."""

import os
import sys
from math import log
from time import time
from types import SimpleNamespace

import psutil
import pytest
from django.urls import reverse

from apps.accounts.models import Role
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.judges.enrollment import pause_judge, send_judge
from apps.annotation.judges.judge_job import graded
from apps.annotation.kinds.answers import Choice
from apps.annotation.models import Judge, JudgeAnswer, Preference, Queue
from apps.annotation.queues.item_order import NothingSaid, OrderFixedByPlan, informative, reorder, uncertain
from apps.jobs import lifecycle
from apps.jobs.models import Phase
from apps.policies.models import Policy
from tests import factories
from tests.annotation import builders
from tests.processes import alive
from tests.trainer.policies import save_policy
from workers.bridge import reward_scores
from workers.bridge.process import ChildProcess
from workers.tasks import delete_abandoned_uploads, judge_by_reward_model

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(lifecycle, "enqueue", lambda *call: calls.append(call))
    return calls


def reward_model(queue: Queue, **fields: object) -> Judge:
    policy = factories.policy(of=queue.workspace, kind=Policy.Kind.REWARD_MODEL, **fields)
    return send_judge(queue=queue, policy=policy, mode=fields.pop("mode", "prelabel"), prompt="", by=None)


def says(judge: Judge, margins: list[float]) -> None:
    for item, margin in zip(judge.queue.items.order_by("position"), margins, strict=True):
        JudgeAnswer.objects.create(
            judge=judge, item=item, prompt_version=0, a_left=0, b_left=0, strength=graded(margin), margin=margin
        )


def test_disagreement_is_uncertain_and_agreed_doubt_teaches_nothing():
    assert uncertain([0.9, 0.1]) == pytest.approx(0.16)  # 0.4 from the mean of 0.5, squared
    assert uncertain([0.5, 0.5]) == 0.0
    assert informative([0.5, 0.5]) == pytest.approx(0.0)
    assert informative([1.0, 0.0]) == pytest.approx(log(2))  # one bit: which of the two is right
    assert informative([0.9, 0.1]) > informative([0.7, 0.3]) > 0


@pytest.mark.parametrize(("margin", "grade"), [(0.0, 0), (0.1, 0), (0.3, 1), (-1.2, -2), (3.0, 3)])
def test_a_margin_is_graded_by_how_likely_it_makes_one_run_the_better(margin, grade):
    assert graded(margin) == grade  # σ(0.1) = 0.52, σ(0.3) = 0.57, σ(1.2) = 0.77, σ(3) = 0.95


def test_people_get_first_what_the_ensemble_disagrees_on_and_keep_what_they_have():
    queue = builders.queue(items=4, steps=0)
    first, second = reward_model(queue), reward_model(queue)
    says(first, [2.0, 2.0, 2.0, 2.0])
    says(second, [2.0, 1.0, -2.0, 0.0])
    who = builders.rule(of=queue.workspace)
    held = next_assignment(queue=queue, annotator=who)  # the first item is under way
    assert reorder(queue=queue, order="uncertain", by=None) == 3
    item_ids = [held.item_id]
    record(assignment=held, answer=Choice(1))
    while assignment := next_assignment(queue=queue, annotator=who):
        item_ids.append(assignment.item_id)
        record(assignment=assignment, answer=Choice(1))
    a, b, c, d = queue.items.order_by("pk").values_list("pk", flat=True)
    assert item_ids == [a, c, d, b]
    assert Queue.objects.get().order == "uncertain"


def test_the_order_of_an_experiments_pairs_stays_as_it_was_drawn():
    queue = builders.queue(items=3, steps=0, selection={"experiment": "1"})
    for model in (reward_model(queue), reward_model(queue)):
        says(model, [1.0, -2.0, 0.0])
    before = list(queue.items.order_by("pk").values_list("position"))
    with pytest.raises(OrderFixedByPlan, match="may end after any of them"):
        reorder(queue=queue, order="uncertain", by=None)
    assert list(queue.items.order_by("pk").values_list("position")) == before


def test_one_model_is_no_ensemble():
    queue = builders.queue(items=2, steps=0)
    says(reward_model(queue), [1.0, 2.0])
    with pytest.raises(NothingSaid):
        reorder(queue=queue, order="informative", by=None)


def test_a_reward_model_scores_every_run_in_a_program_of_its_own_and_joins(settings, tmp_path, sent):
    settings.RUNS_DIR = tmp_path / "runs"
    queue = builders.queue(items=2, overlap=2)
    policy = factories.trained_policy(of=queue.workspace, kind=Policy.Kind.REWARD_MODEL)
    save_policy(tmp_path / "runs" / str(policy.made_by.pk) / "model")
    judge = send_judge(queue=queue, policy=policy, mode="join", prompt="", by=None)
    assert sent == [("scoring.run_slice", str(judge.pk))]
    judge_by_reward_model(str(judge.pk))
    judge.refresh_from_db()
    assert (judge.state, judge.answered, judge.error) == ("done", 2, "")
    answers = {answer.item_id: answer for answer in JudgeAnswer.objects.all()}
    assert all(answer.margin != 0.0 for answer in answers.values())
    judged = Preference.objects.filter(annotator=judge.annotator)
    assert {p.item_id: p.strength for p in judged} == {item: graded(a.margin) for item, a in answers.items()}


def test_a_model_that_cannot_be_loaded_stops_the_judge_with_the_programs_last_words(settings, tmp_path):
    settings.RUNS_DIR = tmp_path / "runs"
    settings.MODEL_ROOTS = [tmp_path / "models"]
    (tmp_path / "models" / "empty").mkdir(parents=True)
    judge = reward_model(builders.queue(items=1), location=str(tmp_path / "models" / "empty"))
    judge_by_reward_model(str(judge.pk))
    judge.refresh_from_db()
    assert judge.state == "failed"
    assert "ended with 1" in judge.error
    assert judge.leased_until is None


def test_what_a_killed_worker_was_scoring_is_deleted_later(settings, tmp_path):
    settings.RUNS_DIR = tmp_path
    for name in ("scoring-old", "scoring-new", "another-run"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "runs.jsonl").touch()
    long_ago = time() - reward_scores.ABANDONED_SECONDS - 60
    for name in ("scoring-old", "another-run"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    delete_abandoned_uploads()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["another-run", "scoring-new"]


SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_a_reward_model_that_is_paused_ends_its_program_at_once(settings, tmp_path, monkeypatch):
    settings.RUNS_DIR = tmp_path / "runs"
    monkeypatch.setattr(reward_scores, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(reward_scores, "ChildProcess", lambda command, **options: ChildProcess(SLEEP, **options))
    judge = reward_model(builders.queue(items=1))
    looks: list[float] = []

    def renew(judge: Judge) -> Phase:
        looks.append(Judge.objects.get().leased_until.timestamp() - time())
        if len(looks) == 3:
            pause_judge(judge=judge, by=None)
        return lifecycle.renew(judge)

    monkeypatch.setattr(reward_scores, "lifecycle", SimpleNamespace(**{**vars(lifecycle), "renew": renew}))
    before = alive(psutil.Process().children())
    judge_by_reward_model(str(judge.pk))
    judge.refresh_from_db()
    assert (judge.state, judge.answered, judge.leased_until) == ("paused", 0, None)
    assert looks[-1] < settings.WORKER_LEASE_SECONDS  # a killed worker's judge is taken over within a minute
    assert alive(psutil.Process().children()) == before


def test_researchers_reorder_from_the_page(client):
    queue = builders.queue(items=2, steps=0)
    address = reverse("annotation:reorder", args=[queue.pk])
    client.force_login(factories.member(Role.REVIEWER, of=queue.workspace).user)
    assert client.post(address, {"order": "uncertain"}).status_code == 404
    client.force_login(factories.member(Role.RESEARCHER, of=queue.workspace).user)
    assert client.post(address, {"order": "best"}).status_code == 404
    assert "No two models" in client.post(address, {"order": "uncertain"}, follow=True).content.decode()

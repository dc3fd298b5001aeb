"""The quality pages and their report."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connections
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, Workspace
from apps.annotation.desk.actions import record, undo_last
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.kinds.answers import Choice
from apps.annotation.models import Annotator, Preference, QualityReport, Queue
from apps.annotation.quality import reports
from apps.annotation.queue_work import lock_of
from apps.common.advisory_locks import lock_if_free
from apps.trajectories.models import Step
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


@pytest.fixture
def researcher(workspace: Workspace, client: Client) -> Client:
    client.force_login(factories.member(Role.RESEARCHER, of=workspace).user)
    return client


@pytest.fixture
def sent(monkeypatch):
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr("apps.annotation.quality.reports.enqueue", lambda *call: calls.append(call))
    return calls


def judge(queue: Queue, who: Annotator, strength: int) -> None:
    while assignment := next_assignment(queue=queue, annotator=who):
        record(assignment=assignment, answer=Choice(strength), seconds=1.0)


def judged_queue(workspace: Workspace, strengths: list[int], items: int = 2) -> Queue:
    queue = builders.queue(of=workspace, overlap=len(strengths), items=items, steps=0)
    for strength in strengths:
        judge(queue, builders.rule(of=workspace), strength)
    return queue


def at(name: str, queue: Queue, *more: object) -> str:
    return reverse(f"annotation:{name}", args=[queue.pk, *more])


def test_the_page_shows_agreement_people_and_pairs_of_people(researcher, workspace):
    queue = judged_queue(workspace, [2, 1, -1])
    page = researcher.get(at("quality", queue)).content.decode()
    assert "6 judgments of 2 items" in page
    assert ">0.33<" in page  # of three pairs of judgments one agrees
    assert page.count('class="row-link"') == 3
    assert "They share no items" not in page
    assert "every judgment is the same" in page  # for the two who always prefer a


def test_a_small_queue_is_measured_at_once_and_a_large_one_by_a_worker(workspace, monkeypatch, sent):
    queue = judged_queue(workspace, [2, -1])
    assert reports.report_of(queue).figures["judgments"] == 4
    monkeypatch.setattr(reports, "MEASURED_AT_ONCE", 3)
    assert reports.report_of(queue) == reports.Report({}, None, is_current=False)
    reports.report_of(queue)
    assert sent == [("quality.measure", str(queue.pk))]  # requested once
    reports.measure_quality(queue.pk)
    report = reports.report_of(queue)
    assert report.is_current
    assert report.figures["judgments"] == 4


def test_a_report_is_out_of_date_once_somebody_judges_or_takes_back(workspace, monkeypatch, sent):
    monkeypatch.setattr(reports, "MEASURED_AT_ONCE", 0)
    queue = judged_queue(workspace, [2, -1])
    reports.measure_quality(queue.pk)
    undo_last(queue=queue, annotator=queue.desks.first().annotator)
    assert not reports.report_of(queue).is_current
    assert sent == []  # measured a moment ago: not measured again
    QualityReport.objects.update(measured_at=QualityReport.objects.get().measured_at - timedelta(minutes=1))
    assert reports.report_of(queue).figures["judgments"] == 4  # the previous report
    assert sent == [("quality.measure", str(queue.pk))]
    cache.clear()
    reports.measure_quality(queue.pk)
    assert reports.report_of(queue).figures["judgments"] == 3


@pytest.mark.django_db(transaction=True)
def test_queues_of_a_workspace_are_measured_one_after_another(workspace, monkeypatch, sent):
    """Measuring may take an hour, and all of its queues together would take all workers."""
    monkeypatch.setattr(reports, "MEASURED_AT_ONCE", 0)
    queue, other = judged_queue(workspace, [2, -1]), judged_queue(factories.workspace(), [2, -1])

    def measure_both() -> None:
        try:
            for measured in (queue, other):
                reports.measure_quality(measured.pk)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as worker, lock_if_free(lock_of(workspace.pk)) as is_ours:
        assert is_ours
        worker.submit(measure_both).result(timeout=60)
        assert [report.queue for report in QualityReport.objects.all()] == [other]
    reports.measure_quality(queue.pk)
    assert QualityReport.objects.count() == 2


def test_while_it_is_measured_the_page_asks_again(researcher, workspace, monkeypatch, sent):
    monkeypatch.setattr(reports, "MEASURED_AT_ONCE", 0)
    queue = judged_queue(workspace, [2, -1])
    assert 'hx-trigger="every 3s"' in researcher.get(at("quality", queue)).content.decode()
    reports.measure_quality(queue.pk)
    part = researcher.get(at("quality", queue), headers={"HX-Request": "true"}).content.decode()
    assert "hx-trigger" not in part
    assert "<html" not in part


def test_a_persons_page_shows_their_figures_and_latest_judgments(researcher, workspace):
    queue = judged_queue(workspace, [2, 2, -1])
    dissenter = queue.desks.order_by("-pk").first().annotator
    page = researcher.get(at("person", queue, dissenter.pk)).content.decode()
    assert page.count("B slightly better") == 2
    assert "0 of 2; 95 % interval" in page  # never the same as the others
    assert "Gold accuracy" in page


def test_pages_call_hasty_who_answers_faster_than_anybody_reads_though_everybody_does(researcher, workspace):
    queue = builders.queue(of=workspace, items=30, steps=3)
    Step.objects.update(headline="x" * 200)  # 2 steps differ on each side: 800 characters take 8 s at the least
    who = annotator_of(factories.member(Role.ANNOTATOR, of=workspace))
    judge(queue, who, 1)
    for seconds, share, is_marked in ((3.0, "30 of 30", True), (9.0, "0 of 30", False)):
        Preference.objects.update(seconds=seconds)  # there is only one person, so the overall median is theirs
        cache.clear()
        QualityReport.objects.all().delete()
        page = researcher.get(at("quality", queue)).content.decode()
        assert f'title="{share}; 95 % interval' in page, seconds
        assert ('<span class="badge attention">very fast</span>' in page) is is_marked
        assert f'title="{share}; 95 % interval' in researcher.get(at("person", queue, who.pk)).content.decode()


def test_who_labels_sees_their_own_figures_only(workspace, client):
    member = factories.member(Role.ANNOTATOR, of=workspace)
    client.force_login(member.user)
    queue = builders.queue(of=workspace, overlap=2, items=2, steps=0)
    judge(queue, annotator_of(member), 1)
    other = builders.rule(of=workspace)
    judge(queue, other, -1)
    page = client.get(at("mine", queue)).content.decode()
    assert '<span class="figure">2</span><span class="name">judged in 1 sitting' in page
    assert other.name not in page
    hidden = [at("quality", queue), at("agreement", queue), at("person", queue, other.pk)]
    assert [client.get(address).status_code for address in hidden] == [404] * 3


def test_an_outsider_finds_nothing(workspace, client):
    queue = judged_queue(workspace, [1, 1])
    who = queue.desks.first().annotator
    client.force_login(factories.member(Role.OWNER).user)
    addresses = [at("quality", queue), at("agreement", queue), at("mine", queue), at("person", queue, who.pk)]
    assert [client.get(address).status_code for address in addresses] == [404] * 4


def test_an_annotator_of_another_workspace_is_not_found_in_this_queue(researcher, workspace):
    queue = judged_queue(workspace, [1])
    assert researcher.get(at("person", queue, factories.annotator().pk)).status_code == 404

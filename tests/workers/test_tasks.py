from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.utils.timezone import now

from apps.annotation.models import Queue
from apps.annotation.queues import items
from tests import factories
from workers.tasks import clear_sessions, fill_queue


@pytest.mark.django_db
def test_only_sessions_that_have_ended_are_removed():
    for key, hours in (("ended", -1), ("lasts", 1)):
        Session.objects.create(session_key=key, session_data="", expire_date=now() + timedelta(hours=hours))
    clear_sessions()
    assert [session.session_key for session in Session.objects.all()] == ["lasts"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "state"), [(OperationalError("deadlock detected"), "filling"), (ZeroDivisionError(), "failed")]
)
def test_a_queue_whose_filling_the_database_interrupts_is_filled_later(monkeypatch, error: Exception, state: str):
    def interrupted(queue_id: object) -> int:
        raise error

    queue = factories.queue(state=Queue.State.FILLING)
    monkeypatch.setattr(items, "fill", interrupted)
    with pytest.raises(type(error)):
        fill_queue(str(queue.pk))
    queue.refresh_from_db()
    assert queue.state == state


@pytest.mark.django_db
def test_a_filling_that_the_database_always_breaks_off_fails_in_the_end(monkeypatch):
    def too_slow(queue_id: object) -> int:
        raise OperationalError("canceling statement due to statement timeout")

    queue = factories.queue(state=Queue.State.FILLING)
    monkeypatch.setattr(items, "fill", too_slow)
    states = []
    for _ in range(items.MAX_OUTAGES):
        with pytest.raises(OperationalError):
            fill_queue(str(queue.pk))
        queue.refresh_from_db()
        states.append(queue.state)
    assert states == ["filling"] * 19 + ["failed"]
    assert queue.error == (
        "The database broke off 20 attempts in a row, the last with: canceling statement due to statement timeout"
    )


@pytest.mark.django_db
def test_a_filling_that_gets_on_may_be_interrupted_again(monkeypatch):
    queue = factories.queue(state=Queue.State.FILLING)
    monkeypatch.setattr(items, "MAX_OUTAGES", 2)
    for count in (0, 20):  # a batch was added in between
        Queue.objects.update(item_count=count)
        items.record_outage(queue.pk, OperationalError("deadlock detected"))
    queue.refresh_from_db()
    assert queue.state == "filling"

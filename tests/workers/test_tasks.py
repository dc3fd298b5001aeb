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

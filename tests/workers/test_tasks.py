from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils.timezone import now

from workers.tasks import clear_sessions


@pytest.mark.django_db
def test_only_sessions_that_have_ended_are_removed():
    for key, hours in (("ended", -1), ("lasts", 1)):
        Session.objects.create(session_key=key, session_data="", expire_date=now() + timedelta(hours=hours))
    clear_sessions()
    assert [session.session_key for session in Session.objects.all()] == ["lasts"]

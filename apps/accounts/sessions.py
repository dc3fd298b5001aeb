"""Django's database sessions, with their query compiled once per process, since every request makes it."""

from datetime import datetime
from typing import Any

from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.models import Session
from django.utils.timezone import now

from apps.common.compiled_queries import CompiledQuery

_STANDING = CompiledQuery(
    lambda key, at: Session.objects.filter(session_key=key, expire_date__gt=at), key=str, at=datetime
)


class SessionStore(DatabaseStore):
    """Django's session store."""

    def _get_session_from_db(self) -> Any:
        session = _STANDING.first(key=self.session_key, at=now())
        if session is None:
            self._session_key = None
        return session

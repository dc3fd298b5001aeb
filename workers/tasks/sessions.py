"""Sessions that have ended."""

from django.contrib.sessions.backends.db import SessionStore

from workers.app import app


@app.task(name="sessions.clear", acks_late=False)
def clear() -> None:
    """Remove them from the database, which would keep them for ever."""
    SessionStore.clear_expired()

"""Spans are deleted a day after the last one of their trace; the resulting trajectories stay."""

from datetime import timedelta

import httpx
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from apps.traces import retention
from apps.traces.models import Source, Span, Trace
from apps.trajectories.models import Trajectory
from tests.traces.conftest import chat_span, send, settle, span


def age(hours: float) -> None:
    Trace.objects.update(changed_at=now() - timedelta(hours=hours))
    retention.delete_idle_spans()


def test_spans_go_and_trajectories_stay(http: httpx.Client) -> None:
    send(http, chat_span(1, "Hi.", "Ho."))
    settle()
    age(23)
    assert Span.objects.count() == 1
    age(25)
    assert not Span.objects.exists()
    assert not Source.objects.exists()
    assert Trajectory.objects.count() == 1
    again = send(http, chat_span(1, "Hi.", "Ho."))
    assert again.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert "is closed" in again.json()["partialSuccess"]["errorMessage"]
    settle()
    assert Trajectory.objects.count() == 1


def test_spans_of_traces_without_a_model_call_go_sooner(http: httpx.Client) -> None:
    send(http, span(1), chat_span(2, "Hi.", "Ho.", trace=2))
    settle()
    age(2)
    assert Span.objects.get().trace.state == "stored"


def test_what_has_not_become_trajectories_yet_stays(http: httpx.Client) -> None:
    send(http, chat_span(1, "Hi.", "Ho."))
    age(100)
    assert Span.objects.count() == 1


def test_old_traces_are_forgotten(http: httpx.Client) -> None:
    send(http, span(1))
    settle()
    Trace.objects.update(closed_at=now() - timedelta(days=31))
    retention.delete_idle_spans()
    assert not Trace.objects.exists()


def test_forgotten_traces_are_deleted_in_batches(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    send(http, *(span(number, trace=number) for number in range(1, 6)))
    settle()
    Trace.objects.update(closed_at=now() - timedelta(days=31))
    with CaptureQueriesContext(connection) as queries:
        retention.delete_idle_spans()
    assert not Trace.objects.exists()
    assert sum(query["sql"].startswith('DELETE FROM "traces_trace" ') for query in queries) == 3

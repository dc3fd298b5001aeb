"""`/healthz`, as requested by a proxy and a monitor."""

from unittest.mock import Mock

import psycopg
import pytest
from django.test import Client
from redis._parsers.base import BaseParser

from apps.common import disk, health
from workers.presence import Presence

pytestmark = pytest.mark.django_db
GOOD = {"status": "ready", "database": "ok", "valkey": "ok", "disk": "ok", "workers": "missing"}


def test_a_stranger_learns_that_all_is_there_and_nothing_more():
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, GOOD)
    assert answer["Cache-Control"] == "no-store"


def test_workers_that_were_seen_lately_are_there():
    health.note_worker(["default"])
    assert Client().get("/healthz").json()["workers"] == "missing"
    health.note_worker(["remote", "generate", "train"])
    assert Client().get("/healthz").json()["workers"] == "ok"


def test_a_worker_that_cannot_note_itself_works_on(monkeypatch):
    monkeypatch.setattr("workers.presence.note_worker", Mock(side_effect=BaseParser.parse_error("MISCONF full")))
    Presence()(sender=None)


@pytest.mark.parametrize(
    ("target", "error", "part"),
    [
        ("_ask_database", psycopg.OperationalError("connection refused: /tmp/secret"), {"database": "away"}),
        ("_write_to_valkey", BaseParser.parse_error("MISCONF Errors writing to the AOF file"), {"valkey": "away"}),
    ],
)
def test_what_is_away_is_named_without_its_details(monkeypatch, target, error, part):
    monkeypatch.setattr(health, target, Mock(side_effect=error))
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()) == (503, GOOD | {"status": "not ready"} | part)


def test_a_full_disk_makes_it_unready(monkeypatch):
    monkeypatch.setattr(disk, "RESERVE_BYTES", 1 << 60)
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()["disk"]) == (503, "full")


def test_it_is_alive_whatever_is_away(monkeypatch):
    monkeypatch.setattr(health, "_ask_database", Mock(side_effect=psycopg.OperationalError()))
    monkeypatch.setattr(disk, "RESERVE_BYTES", 1 << 60)
    answer = Client().get("/healthz/live")
    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})

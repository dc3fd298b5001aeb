"""A worker sees a run through its event file, which must survive kills on either side."""

import errno
import json
import threading
import time
from pathlib import Path

import pytest

from contract.events import Event, EventReader, Failed, Heartbeat, Log, Metrics, Progress, StampedEvent, event_from_json
from trainer import events as events_module
from trainer.events import EventLog


def test_every_line_is_one_object_with_place_time_and_kind(tmp_path: Path):
    before = time.time()
    with EventLog(tmp_path / "events.jsonl") as events:
        events.emit(Progress(step=1, total=4))
        events.emit(Log("two\nlines"))
    first, second = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert (first["seq"], first["kind"], first["step"], first["total"]) == (1, "progress", 1, 4)
    assert (second["seq"], second["message"]) == (2, "two\nlines")
    assert before - 1 < first["at"] < time.time() + 1


def test_an_event_is_on_disk_before_the_log_is_closed(tmp_path: Path):
    with EventLog(tmp_path / "events.jsonl") as events:
        events.emit(Log("now"))
        assert "now" in (tmp_path / "events.jsonl").read_text()


def test_numbers_that_json_cannot_say_become_null(tmp_path: Path):
    with EventLog(tmp_path / "events.jsonl") as events:
        events.emit(Metrics(step=3, values={"loss": float("nan"), "gradient norm": float("inf"), "lr": 0.5}))
    (line,) = EventReader(tmp_path / "events.jsonl").new_events()
    assert line.event == Metrics(step=3, values={"loss": None, "gradient norm": None, "lr": 0.5})


def test_what_no_database_keeps_is_replaced_by_a_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with EventLog(tmp_path / "events.jsonl") as events:
        events.emit(Failed("data", "Row 3 holds \0 and \ud800."))
    (line,) = EventReader(tmp_path / "events.jsonl").new_events()
    assert line.event == Failed("data", "Row 3 holds \ufffd and \ufffd.")
    assert capsys.readouterr().out == "Failed: Row 3 holds \ufffd and \ufffd.\n"


def test_a_reader_goes_on_from_its_offset_and_waits_for_the_end_of_a_line(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    reader = EventReader(path)
    assert list(reader.new_events()) == []
    path.write_text('{"seq": 1, "at": 5.0, "kind": "log", "message": "a"}\n{"seq": 2, "at"')
    assert list(reader.new_events()) == [StampedEvent(1, 5.0, Log("a"))]
    with path.open("a") as file:
        file.write(': 6.0, "kind": "log", "message": "b"}\n')
    another_process = EventReader(path, offset=reader.offset)
    assert list(another_process.new_events()) == [StampedEvent(2, 6.0, Log("b"))]


def test_a_resumed_log_drops_the_half_line_of_a_killed_writer_and_counts_on(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    path.write_text('{"seq": 1, "at": 5.0, "kind": "log", "message": "a"}\n{"seq": 2, "at": 6.0, "ki')
    with EventLog(path) as events:
        events.emit(Log("b"))
    assert [(line.seq, line.event) for line in EventReader(path).new_events()] == [(1, Log("a")), (2, Log("b"))]


def events_in(path: Path) -> list[Event]:
    return [line.event for line in EventReader(path).new_events()]


def test_the_heart_beats_while_the_work_is_busy(tmp_path: Path):
    path, deadline = tmp_path / "events.jsonl", time.monotonic() + 30
    with EventLog(path, heartbeat_seconds=0.02):
        while len(beats := events_in(path)) < 3:
            assert time.monotonic() < deadline
    assert all(isinstance(beat, Heartbeat) and beat.memory_mb > 1 for beat in beats)


def test_the_heart_goes_on_beating_after_the_disk_was_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    readings = iter([OSError(errno.ENOSPC, "No space left on device")])

    def full_once() -> float:
        if error := next(readings, None):
            raise error
        return 7.0

    monkeypatch.setattr(events_module, "memory_in_use_mb", full_once)
    path, deadline = tmp_path / "events.jsonl", time.monotonic() + 30
    with EventLog(path, heartbeat_seconds=0.02):
        while Heartbeat(7.0) not in events_in(path):
            assert time.monotonic() < deadline


def test_threads_do_not_mix_their_lines(tmp_path: Path):
    with EventLog(tmp_path / "events.jsonl") as events:
        threads = [threading.Thread(target=lambda: [events.emit(Log("x" * 1000)) for _ in range(50)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [line.seq for line in EventReader(tmp_path / "events.jsonl").new_events()] == list(range(1, 401))


def test_fields_of_a_later_version_are_ignored_and_unknown_kinds_are_named():
    line = {"seq": 1, "at": 0.0, "kind": "failed", "category": "data", "message": "m", "mood": "sad"}
    assert event_from_json(line).event == Failed(category="data", message="m")
    with pytest.raises(ValueError, match="kind 'party', expected one of"):
        event_from_json({"seq": 1, "at": 0.0, "kind": "party"})

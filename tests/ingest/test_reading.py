"""What reading adds to a format's result: tasks for trajectories without one, limits, and which rewards are kept."""

import json
from typing import Any

import pytest

from apps.ingest import formats
from apps.ingest.files.raw_records import RawRow
from apps.ingest.reading import Reading, RecognizedRecord
from apps.ingest.records import TrajectoryRecord
from contract import jsontext
from contract.task_parts import whole_key


def reading_of(name: str, row: Any) -> tuple[Reading, list[TrajectoryRecord]]:
    body = json.dumps(row).encode()
    reading = Reading(RecognizedRecord(RawRow(0, 1, body), formats.named(name), "file.jsonl"))
    return reading, reading.collect(lambda run: run.record)


def answer(words: str) -> dict[str, str]:
    return {"role": "assistant", "content": words}


def test_runs_of_which_nothing_says_what_was_asked_have_tasks_of_their_own():
    keys = set()
    for words in ("one", "two", "three"):
        _, [record] = reading_of("openai-chat", {"messages": [answer(words)]})
        assert record.task.instruction == ""
        keys.add(record.task.key)
    assert len(keys) == 3


@pytest.mark.parametrize("nothing", ["", " \n", [], [{"type": "text", "text": ""}]])
def test_a_question_without_words_is_no_task_in_common(nothing):
    message = {"role": "user", "content": nothing}
    keys = {
        reading_of("openai-chat", {"messages": [message, answer(words)]})[1][0].task.key for words in ("one", "two")
    }
    assert len(keys) == 2


def test_the_same_run_has_the_same_task_whenever_it_comes():
    first, again = (reading_of("openai-chat", {"messages": [answer("one")]})[1][0] for _ in range(2))
    assert first.task.key == again.task.key
    assert first.content_hash() == again.content_hash()


def test_equal_questions_are_one_task():
    message = {"role": "user", "content": "q"}
    first, second = (reading_of("openai-chat", {"messages": [message, answer(words)]})[1][0] for words in ("a", "b"))
    assert (first.task.key, first.task.instruction) == (second.task.key, "q")


@pytest.mark.parametrize(
    ("name", "row", "warning"),
    [
        ("openai-chat", {"reward": float("nan")}, "The reward of the run is NaN; it is kept without a reward."),
        ("openai-chat", {"reward": "nan"}, "The reward of the run is NaN; it is kept without a reward."),
        ("openai-chat", {"reward": float("inf")}, "The reward of the run is infinite; it is kept without a reward."),
        (
            "openai-chat",
            {"score": "-Infinity"},
            "The reward of the run is minus infinity; it is kept without a reward.",
        ),
        (
            "openai-chat",
            {"rewards": [float("nan")]},
            "The reward of step 0 is NaN; it is kept without a reward. So are 1 more of its rewards.",
        ),
    ],
)
def test_a_reward_that_is_no_number_is_left_out_with_a_warning(name, row, warning):
    reading, [record] = reading_of(name, {"messages": [{"role": "user", "content": "q"}, answer("a")], **row})
    assert reading.warnings == [warning]
    assert (record.reward, record.steps[0].reward, record.success) == (None, None, None)


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "name", ["tau-bench", "intercode", "tau2-bench", "retrace", "swe-agent", "inspect", "verifiers"]
)
def test_no_format_keeps_a_reward_that_is_no_number(name, reward):
    row = {
        "tau-bench": {"task_id": 0, "trial": 0, "reward": reward, "info": {}, "traj": [answer("a")]},
        "intercode": {"0": {"query": "q", "turn_history": {"actions": ["ls"]}, "reward": reward}},
        "tau2-bench": {
            "tasks": [],
            "simulations": [{"task_id": "t", "reward_info": {"reward": reward}, "messages": [answer("a")]}],
        },
        "retrace": {
            "format": "retrace/1",
            "task": {"key": "t"},
            "steps": [{"message": answer("a"), "reward": reward}],
            "outcome": {"reward": reward},
        },
        "swe-agent": {
            "trajectory": [{"action": "ls", "response": "ls", "observation": ""}],
            "history": [],
            "info": {"reward": reward},
        },
        "inspect": {
            "eval": {"model": "m", "task": "t"},
            "samples": [{"id": 1, "messages": [answer("a")], "scores": {"s": {"value": reward}}}],
        },
        "verifiers": {"prompt": "q", "completion": "a", "reward": reward},
    }[name]
    reading, [record] = reading_of(name, row)
    assert len(reading.warnings) == 1
    assert record.reward is None
    assert all(step.reward is None for step in record.steps)
    assert record.success is None


def test_numbers_without_end_are_refused_in_words_of_ours():
    body = b'{"messages": [], "n": %b}' % (b"1" * 5000)
    reading = Reading(RecognizedRecord(RawRow(0, 1, body), formats.named("openai-chat"), "f"))
    assert reading.collect(lambda run: run) == []
    assert reading.refusal
    assert reading.refusal.reason == "A number has 5,000 digits; at most 300 fit."


def test_numbers_of_300_digits_are_kept():
    assert jsontext.loads(b"1" * 300) == pytest.approx(1.11e299, rel=0.01)


def test_answers_that_are_paired_with_one_another_do_not_become_more_trajectories_than_a_record_may_hold():
    answers = {side: [f"{side} {place}" for place in range(3000)] for side in ("chosen", "rejected")}
    reading, records = reading_of("judged-pairs", {"prompt": "q", **answers})
    size = len(json.dumps({"prompt": "q", **answers}))
    assert len(records) == size // 10  # rather than 2 * 3000 * 3000
    assert reading.refusal is not None
    assert reading.refusal.reason.startswith(f"It holds more than {size // 10:,} trajectories")


def test_a_small_record_may_hold_two_hundred_trajectories():
    reading, records = reading_of(
        "judged-pairs", {"prompt": "q", "chosen": [*"abcdefghij"], "rejected": [*"klmnopqrst"]}
    )
    assert (len(records), reading.refusal) == (200, None)  # 10 * 10 pairs


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("prompt-response", {"prompt": "p" * 1_000_000, "responses": [*map(str, range(10_000))]}),
        (
            "openai-chat",
            {
                "messages": [{"role": "user", "content": "p" * 1_000_000}],
                "choices": [{"message": answer(str(place))} for place in range(10_000)],
            },
        ),
        (
            "wrapped",
            {"system": "p" * 1_000_000, "runs": [{"messages": [answer(str(place))]} for place in range(10_000)]},
        ),
    ],
)
def test_what_trajectories_share_is_not_repeated_without_end(name, row):
    reading, records = reading_of(name, row)
    kept = sum(len(jsontext.dumps(record.to_json())) for record in records)
    assert kept < 40 << 20  # rather than 10 GB
    assert reading.refusal is not None
    assert "repeat their shared content" in reading.refusal.reason


def test_thousands_of_chats_of_one_trace_do_not_each_keep_the_whole_trace():
    calls = [
        {
            "input": {"messages": [{"role": "user", "content": f"question {place}"}]},
            "output": {"choices": [{"message": answer("a")}]},
        }
        for place in range(30)
    ]
    body = json.dumps(calls).encode()
    reading = Reading(RecognizedRecord(RawRow(0, 1, body), formats.named("model-calls"), "file.jsonl"))
    originals = reading.collect(lambda run: run.original)
    assert (len(originals), reading.refusal) == (30, None)
    assert originals[:20] == [body] * 20
    assert {*originals[20:]} == {
        b'{"original":"It\'s kept with the first 20 of the trajectories that were read from the same record."}'
    }


def test_a_sub_agents_task_is_a_part_of_its_runs_task():
    step = {"source": "agent", "message": "Done."}
    run = {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "a"},
        "steps": [{"source": "user", "message": "Find it."}, step],
    }
    inner = {**run, "steps": [{"source": "user", "message": "Look there."}, step]}
    _, (whole, part) = reading_of("atif", {**run, "subagent_trajectories": [inner]})
    _, (unnamed, of_unnamed) = reading_of("atif", {**run, "steps": [step], "subagent_trajectories": [inner]})
    assert [whole_key(record.task.key) for record in (whole, part)] == [None, whole.task.key]
    assert (part.task.instruction, whole_key(of_unnamed.task.key)) == ("Look there.", unnamed.task.key)
    assert part.task.key != of_unnamed.task.key

"""Which trajectories are indistinguishable."""

from copy import deepcopy
from typing import Any

import pytest

from apps.trajectories.comparison.actions import course_of, digest_of
from contract.trajectory import Outcome, Step, Task, Trajectory

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1, "in": "shop"}'}}
STEPS: list[dict[str, Any]] = [
    {
        "context": [{"role": "user", "content": "Buy milk."}],
        "message": {"role": "assistant", "content": "", "reasoning_content": "Where?", "tool_calls": [CALL]},
    },
    {
        "context": [{"role": "tool", "tool_call_id": "c1", "content": "milk: 2"}],
        "message": {"role": "assistant", "content": "Bought."},
    },
]


def course(steps: list[dict[str, Any]], **fields: Any) -> int:
    record = Trajectory(task=Task(key="t"), steps=[Step(**step) for step in steps], **fields)
    return course_of(record, [digest_of(step.message, step.info) for step in record.steps])


def test_ids_timings_spelling_and_outcomes_do_not_count():
    steps = deepcopy(STEPS)
    call = steps[0]["message"]["tool_calls"][0]
    call |= {"id": "other", "function": {"name": "look", "arguments": {"in": "shop", "at": 1}}}
    steps[1]["context"][0]["tool_call_id"] = "other"
    steps[1] |= {"seconds": 3.0, "reward": 1.0, "completion_tokens": 7}
    assert course(steps, id="x", outcome=Outcome(reward=1.0, success=True)) == course(STEPS)


@pytest.mark.parametrize(
    ("step", "part", "value"),
    [
        (0, "context", [{"role": "user", "content": "Buy bread."}]),
        (0, "context", [{"role": "system", "content": "Buy milk."}]),
        (0, "message", {"role": "assistant", "content": "", "reasoning_content": "Why?", "tool_calls": [CALL]}),
        (0, "message", {"role": "assistant", "content": "Well.", "reasoning_content": "Where?", "tool_calls": [CALL]}),
        (0, "message", {"role": "assistant", "content": "", "reasoning_content": "Where?"}),
        (1, "context", [{"role": "tool", "tool_call_id": "c1", "content": "milk: 3"}]),
        (1, "message", {"role": "assistant", "content": "Sold out."}),
    ],
)
def test_what_was_heard_done_said_or_thought_counts(step: int, part: str, value: object):
    steps = deepcopy(STEPS)
    steps[step][part] = value
    assert course(steps) != course(STEPS)


def test_what_came_after_the_last_step_counts():
    assert course(STEPS, closing=[{"role": "tool", "content": "ok"}]) != course(STEPS)


def test_lone_surrogates_and_parts_that_are_no_text_count():
    first, second, again = (
        course(
            [{"context": [{"role": "user", "content": [{"type": "text", "text": text}]}], "message": {"content": None}}]
        )
        for text in ("\ud800", "\ud801", "\ud800")
    )
    assert first == again != second

"""Right tool, right arguments, right order."""

from itertools import islice

import pytest

from contract.trajectory import Step, Task, Trajectory
from trainer.environments.office import Office
from trainer.environments.scripts import Call
from trainer.rewards.tool_use import ToolUse, align, compare, likeness, reference_calls

FIND, SEND = Call("find", {"name": "budget"}), Call("send", {"file": "f12", "to": "ana"})


def test_the_same_calls_agree_wholly():
    comparison = compare([FIND, SEND], [FIND, SEND])
    assert (comparison.value, comparison.of_call) == (1.0, [1.0, 1.0])


def test_another_order_costs_order_and_arguments_but_not_the_choice_of_tools():
    comparison = compare([SEND, FIND], [FIND, SEND])
    assert (comparison.tools, comparison.order, comparison.arguments) == (1.0, 0.5, 0.5)


def test_a_wrong_argument_costs_its_share():
    wrong = Call("send", {"file": "f13", "to": "Ana "})
    assert likeness(wrong, SEND) == pytest.approx(
        2 / 3
    )  # the tool and one of two arguments match; case and spaces are ignored
    assert compare([FIND, wrong], [FIND, SEND]).arguments == pytest.approx((1 + 2 / 3) / 2)


def test_a_needless_call_costs_choice_and_order():
    comparison = compare([FIND, FIND, SEND], [FIND, SEND])
    assert (comparison.tools, comparison.order, comparison.arguments) == (
        pytest.approx(2 / 3),
        pytest.approx(2 / 3),
        1.0,
    )
    assert sorted(comparison.of_call) == [0.0, 1.0, 1.0]


def test_alignment_keeps_the_order_and_takes_the_greatest_sum():
    assert align([[0.5, 1.0], [0.9, 0.2]]) == [1.0, 0.0]
    assert align([]) == []


def test_nothing_done_is_worth_nothing():
    assert compare([], [FIND]).value == 0.0


def test_the_office_knows_the_calls_that_solve_its_tasks():
    for task in islice(Office.tasks(levels=("L1", "L2", "L3"), split="train", seed=0), 12):
        office = Office()
        office.reset(task)
        for number, call in enumerate(reference_calls(task) or []):
            function = {"name": call.tool, "arguments": call.arguments}
            office.step({"role": "assistant", "tool_calls": [{"id": str(number), "function": function}]})
        assert office.score().success


def test_stated_calls_come_first_and_without_any_nothing_is_said():
    stated = Task(key="t", instruction="", success_check={"calls": [{"tool": "find", "arguments": {"name": "budget"}}]})
    assert reference_calls(stated) == [FIND]
    two_calls = {
        "role": "assistant",
        "tool_calls": [{"function": {"name": call.tool, "arguments": call.arguments}} for call in (FIND, SEND)],
    }
    message = {"role": "assistant", "content": "Done."}
    run, unknown = (
        Trajectory(task, [Step([], two_calls), Step([], message)]) for task in (stated, Task(key="u", instruction=""))
    )
    scored, nothing = ToolUse().score([run, unknown])
    assert scored.value == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)
    assert scored.turns == [0.5, 0.0]
    assert nothing.value is None

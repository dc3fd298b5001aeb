"""How rollouts ended."""

from collections.abc import Sequence

from bench.learning.endings import MAX_SEQUENCES, endings, solved, solved_by_tools
from contract.trajectory import Outcome, Step, Task, Trajectory


def rollout(
    reward: float, *, success: bool = False, tokens: int = 5, category: str = "book", tools: Sequence[str] = ()
) -> Trajectory:
    calls = [{"function": {"name": name, "arguments": {}}} for name in tools]
    turn = Step([], {"role": "assistant", "content": "Done.", "tool_calls": calls}, info={"token_ids": [1] * tokens})
    task = Task("t", "Do it.", category=category, difficulty="L1")
    return Trajectory(task, [turn], outcome=Outcome(reward, success))


def test_failures_are_parted_by_what_they_were_worth() -> None:
    rollouts = [rollout(1.0, success=True), rollout(0.5), rollout(0.0), rollout(0.0, tokens=48), rollout(-1.0)]
    assert endings(rollouts) == {"success": 1, "part": 1, "nothing": 1, "nothing, cut off": 1, "harm": 1}


def test_success_is_counted_by_kind_of_task() -> None:
    rollouts = [rollout(1.0, success=True), rollout(-1.0), rollout(1.0, success=True, category="forward")]
    assert solved(rollouts) == {"L1 book": "1 of 2", "L1 forward": "1 of 1"}


def test_success_is_counted_by_the_tools_called_in_order_most_frequent_first() -> None:
    read = [rollout(1.0, success=True, tools=["read", "book"]), rollout(0.0, tools=["read", "book"])]
    guessed = [rollout(1.0, success=True, tools=["book"]) for _ in range(3)]
    assert solved_by_tools([rollout(0.0), *read, *guessed]) == {
        "book": "3 of 3",
        "read, book": "1 of 2",
        "none": "0 of 1",
    }
    assert len(solved_by_tools(rollout(0.0, tools=[str(number)]) for number in range(50))) == MAX_SEQUENCES

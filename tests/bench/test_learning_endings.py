"""How rollouts ended."""

from bench.learning.endings import endings, solved
from contract.trajectory import Outcome, Step, Task, Trajectory


def rollout(reward: float, *, success: bool = False, tokens: int = 5, category: str = "book") -> Trajectory:
    turn = Step([], {"role": "assistant", "content": "Done."}, info={"token_ids": [1] * tokens})
    task = Task("t", "Do it.", category=category, difficulty="L1")
    return Trajectory(task, [turn], outcome=Outcome(reward, success))


def test_failures_are_parted_by_what_they_were_worth() -> None:
    rollouts = [rollout(1.0, success=True), rollout(0.5), rollout(0.0), rollout(0.0, tokens=48), rollout(-1.0)]
    assert endings(rollouts) == {"success": 1, "part": 1, "nothing": 1, "nothing, cut off": 1, "harm": 1}


def test_success_is_counted_by_kind_of_task() -> None:
    rollouts = [rollout(1.0, success=True), rollout(-1.0), rollout(1.0, success=True, category="forward")]
    assert solved(rollouts) == {"L1 book": "1 of 2", "L1 forward": "1 of 1"}

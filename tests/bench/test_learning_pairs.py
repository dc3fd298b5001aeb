"""Pairs diverge at the turn that lowered a failed run's chance of success most."""

from bench.learning.pairs import few_of_each_task, pairs_by_value
from contract.trajectory import Outcome, Step, Task, Trajectory


def run(name: str, words: str, *, success: bool, branch: tuple[str, int] | None = None, task: str = "t") -> Trajectory:
    """A rollout with one turn per word."""
    steps = [
        Step([{"role": "user", "content": "Go on."}], {"role": "assistant", "content": word}) for word in words.split()
    ]
    info = {"branch": {"of": branch[0], "turn": branch[1]}} if branch else {}
    return Trajectory(Task(task, "Do it."), steps, outcome=Outcome(success=success), id=name, info=info)


FAILED = run("f", "look take leave", success=False)


def branches(turn: int, *ends: tuple[str, bool]) -> list[Trajectory]:
    return [run("", words, success=success, branch=("f", turn)) for words, success in ends]


def test_a_pair_parts_where_success_was_lost():
    pairs = pairs_by_value(
        [FAILED],
        [
            *branches(0, ("look give leave", True), ("ask", True)),
            *branches(1, ("look take leave", False), ("look give leave", True)),
            *branches(2, ("look take leave", False), ("look take ask", False)),
        ],
    )
    # The chance was 1, then ½, then 0: the first turn lost as much as the second, and ties go to the first.
    (row,) = pairs
    assert [message["content"] for message in row["prompt"]] == ["Go on."]
    assert [message["content"] for message in row["chosen"]] == ["ask"]
    assert [message["content"] for message in row["rejected"]] == ["look", "Go on.", "take", "Go on.", "leave"]


def test_the_success_must_do_something_else_in_that_turn():
    lost = [
        *branches(0, ("look give", True)),
        *branches(1, ("look take ask", True)),
        *branches(2, ("look take x", False)),
    ]
    assert pairs_by_value([FAILED], lost) == []


def test_no_pair_where_nothing_was_lost_or_nobody_went_on():
    assert pairs_by_value([FAILED], []) == []
    assert pairs_by_value([FAILED], branches(0, ("ask", False), ("wait", False))) == []


def test_only_the_first_runs_of_a_task_are_taken():
    runs = [
        run(name, name, success=False, task=task) for task, name in (("t", "a"), ("t", "b"), ("u", "c"), ("t", "d"))
    ]
    assert [trajectory.id for trajectory in few_of_each_task(runs, 2)] == ["a", "b", "c"]
    assert few_of_each_task(runs, None) == runs

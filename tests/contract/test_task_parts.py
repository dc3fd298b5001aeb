"""The task of a sub-agent names the task that it's a part of."""

from contract.task_parts import part_of, whole_key
from contract.trajectory import Task


def test_a_part_is_held_out_with_the_whole_and_no_other_tasks_part():
    whole, asked = Task("a/b", environment="e", held_out=True), Task("prompt-1", "Count.")
    part = part_of(whole, asked)
    assert (part.environment, part.instruction, part.held_out, whole_key(part.key)) == ("e", "Count.", True, "a/b")
    assert part.key != part_of(Task("other", environment="e"), asked).key
    assert part.key == part_of(whole, asked).key != part_of(whole, Task("prompt-2")).key


def test_a_part_of_a_part_is_part_of_the_whole():
    part = part_of(part_of(Task("t"), Task("inner")), Task("innermost"))
    assert whole_key(part.key) == "t"


def test_other_keys_are_wholes():
    assert [whole_key(key) for key in ("", "t", "t/part-1", "t/part-two", "/part-0123456789abcdef")] == [None] * 5

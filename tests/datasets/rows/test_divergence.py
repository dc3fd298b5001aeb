"""Two trajectories become a row: the prompt that they share, and what differs."""

import json
from typing import Any

import pytest

from apps.datasets.rows.chat_encoding import Turn, encode_message, read_turns
from apps.datasets.rows.divergence import NoSharedStart, NoTurn, SameTrajectories, first_actions, sides
from apps.datasets.rows.step_preference import corrected_action

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def observed(text: str) -> Message:
    return {"role": "tool", "content": text}


def turn(context: list[Message], message: Message) -> Turn:
    [only] = read_turns(json.dumps([[context, message]]).encode())
    return only


def words(messages: list[bytes]) -> list[str]:
    return [json.loads(message)["content"] for message in messages]


START = turn([user("go")], assistant("look"))


def test_the_prompt_ends_where_the_runs_part() -> None:
    row = sides([START, turn([observed("x")], assistant("left"))], [START, turn([observed("x")], assistant("right"))])
    assert words(row.prompt) == ["go", "look", "x"]
    assert (words(row.chosen), words(row.rejected)) == (["left"], ["right"])


def test_runs_that_differ_at_once_share_their_opening() -> None:
    row = sides([turn([user("go")], assistant("a"))], [turn([user("go")], assistant("b"))])
    assert (words(row.prompt), words(row.chosen), words(row.rejected)) == (["go"], ["a"], ["b"])


def test_what_follows_the_parting_stays_in_order() -> None:
    good = [
        turn([user("go")], assistant("a")),
        turn([observed("1")], assistant("b")),
        turn([observed("2")], assistant("c")),
    ]
    row = sides(good, [turn([user("go")], assistant("z"))])
    assert words(row.chosen) == ["a", "1", "b", "2", "c"]


def called(ident: str, book: str) -> Message:
    function = {"name": "find", "arguments": {"book": book}}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": ident, "type": "function", "function": function}]}


def answered(ident: str, text: str) -> Message:
    return {**observed(text), "tool_call_id": ident}


def test_ids_of_calls_part_no_runs() -> None:
    one = [turn([user("go")], called("c1", "Emma")), turn([answered("c1", "none")], called("c2", "Ulysses"))]
    other = [turn([user("go")], called("x7", "Emma")), turn([answered("x7", "none")], assistant("It is not there."))]
    row = sides(one, other)
    assert [json.loads(message).get("tool_call_id") for message in row.prompt] == [
        None,
        None,
        "c1",
    ]  # those of the chosen trajectory
    assert (len(row.chosen), words(row.rejected)) == (1, ["It is not there."])
    step = first_actions(one, other)
    assert (step.shared_turns, step.chosen, step.rejected) == (1, row.chosen, row.rejected)
    with pytest.raises(SameTrajectories):
        sides(one, [one[0], turn([answered("c1", "none")], called("x8", "Ulysses"))])
    with pytest.raises(SameTrajectories):
        corrected_action(one, (1, encode_message(called("x8", "Ulysses"))))


def test_the_same_call_with_another_result_is_no_step_preference() -> None:
    one, other = (
        [turn([user("go")], called(ident, "Emma")), turn([answered(ident, result)], assistant("Done."))]
        for ident, result in (("c1", "shelf 1"), ("x7", "shelf 2"))
    )
    row = sides(one, other)
    assert (words(row.prompt), len(row.chosen), len(row.rejected)) == (["go"], 3, 3)
    with pytest.raises(NoTurn):
        first_actions(one, other)


def test_the_same_action_with_another_result_opens_both_sides() -> None:
    """A prompt that ended in an assistant turn couldn't be followed by another one."""
    row = sides([START, turn([observed("x")], assistant("end"))], [START, turn([observed("y")], assistant("end"))])
    assert words(row.prompt) == ["go"]
    assert (words(row.chosen), words(row.rejected)) == (["look", "x", "end"], ["look", "y", "end"])


def test_a_run_that_is_the_beginning_of_the_other_keeps_a_turn() -> None:
    row = sides([START, turn([observed("x")], assistant("more"))], [START])
    assert words(row.prompt) == ["go"]
    assert (words(row.chosen), words(row.rejected)) == (["look", "x", "more"], ["look"])


def test_different_openings_share_what_they_share() -> None:
    system = {"role": "system", "content": "rules"}
    row = sides([turn([system, user("hi")], assistant("a"))], [turn([system, user("hello")], assistant("b"))])
    assert (words(row.prompt), words(row.chosen), words(row.rejected)) == (["rules"], ["hi", "a"], ["hello", "b"])


def test_openings_with_nothing_in_common_make_no_row() -> None:
    with pytest.raises(NoSharedStart):
        sides([turn([user("hi")], assistant("a"))], [turn([user("hello")], assistant("b"))])


def test_runs_that_begin_without_a_message_make_no_row() -> None:
    with pytest.raises(NoSharedStart):
        sides([turn([], assistant("a"))], [turn([], assistant("b"))])


def test_the_same_runs_make_no_row() -> None:
    with pytest.raises(SameTrajectories):
        sides([START], [turn([user("go")], assistant("look"))])


def test_an_answer_in_the_context_is_no_action() -> None:
    """Such as one that another agent gave, as an example."""
    steps = json.dumps([[[user("go"), assistant("gone")], assistant("look")]]).encode()
    other = json.dumps([[[user("go"), assistant("went")], assistant("look")]]).encode()
    one, another = read_turns(steps), read_turns(other)
    assert [json.loads(message) for message in sides(one, another).chosen] == [
        {"role": "assistant", "weight": 0, "content": "gone"},
        assistant("look"),
    ]
    with pytest.raises(NoTurn):
        first_actions(one, another)

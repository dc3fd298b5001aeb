"""Each call of an episode is trained on once, in the chat in which it was sampled."""

from typing import Any

from contract.episodes import CallTokens, PlayedEpisode
from contract.trajectory import Step, Task, Trajectory
from trainer.algorithms.token_rows import CONTEXT, MAX_LENGTHS, TokenRow, token_rows


def episode(*infos: dict[str, Any], others: tuple[list[CallTokens], ...] = (), calls: str = "") -> PlayedEpisode:
    steps = [Step([], {}, info=info) for info in infos]
    return PlayedEpisode(
        Trajectory(Task("t", "Do it."), steps, info={"calls": list(calls)} if calls else {}), others=others
    )


def step(context: list[int], sampled: list[int], **more: Any) -> dict[str, Any]:
    return {"context_ids": context, "token_ids": sampled, **more}


def row_of(one: PlayedEpisode, **more: Any) -> TokenRow:
    [row] = token_rows([one], empty=0, **more)
    return row


def test_a_row_has_its_turns_and_what_came_between_them() -> None:
    row = row_of(episode(step([1, 2], [3, 4]), step([5], [6])))
    assert row == ([1, 2], [3, 4, 5, 6], [0, 0, CONTEXT, 1], [0, 0, 0, 0])
    assert row.own == [1, 1, 0, 1]
    assert (row.chat_count, row_of(episode()), row_of(episode()).own) == (1, ([0], [0], [CONTEXT], [0]), [0])


def test_a_turn_that_was_cut_off_can_be_left_out_of_the_loss() -> None:
    one = episode(step([1, 2], [3, 9]), step([5], [6, 7]), step([9], [8, 9]))
    assert row_of(one).own == [1, 1, 0, 1, 1, 0, 1, 1]
    masked = row_of(one, ends={9})
    assert masked.turns == [0, 0, CONTEXT, CONTEXT, CONTEXT, CONTEXT, 2, 2]
    assert masked.completion == [3, 9, 5, 6, 7, 9, 8, 9]  # it's still read


SEAM = {"seam": "It begins anew."}
UNKNOWN: dict[str, Any] = {"untrainable": "The server counted otherwise."}


def test_after_a_break_another_chat_begins() -> None:
    row = row_of(episode(step([1], [2]), step([3], [4]), step([5, 6], [7], **SEAM)))
    assert row == ([5, 6], [7, 1, 2, 3, 4], [2, CONTEXT, 0, CONTEXT, 1], [0, -1, 1, 1, 1])


def test_what_follows_unknown_tokens_is_used_from_the_next_break() -> None:
    assert row_of(episode(step([1], [2]), UNKNOWN)) == ([1], [2], [0], [0])
    assert row_of(episode(UNKNOWN, step([1], [2]))) == ([0], [0], [CONTEXT], [0])
    row = row_of(episode(step([1], [2]), UNKNOWN, step([3], [4], **SEAM), step([5], [6])))
    assert row == ([3], [4, 5, 6, 1, 2], [2, CONTEXT, 3, CONTEXT, 0], [0, 0, 0, -1, 1])


def test_sub_agents_and_branches_are_chats_of_the_same_row() -> None:
    """A sub-agent works while call c waits; a branch continues differently from the first call."""
    sub_agent = [CallTokens("b", [20], [21]), CallTokens("d", [22], [23])]
    branch = [CallTokens("a", [1], [2]), CallTokens("f", [30], [31])]
    row = row_of(episode(step([1], [2]), step([3], [4]), step([5], [6]), others=(sub_agent, branch), calls="ace"))
    assert row.prompt == [1]
    assert row.completion == [2, 3, 4, 5, 6, *(20, 21, 22, 23), *(1, 2, 30, 31)]
    assert row.turns == [0, CONTEXT, 1, CONTEXT, 2, *(CONTEXT, 1, CONTEXT, 2), *(CONTEXT, CONTEXT, CONTEXT, 2)]
    assert row.chats == [0, 0, 0, 0, 0, *(-1, 1, 1, 1), *(-2, -2, -2, 2)]
    assert row.chat_count == 3


def test_two_branches_share_their_calls_and_each_is_learned_from_once() -> None:
    shared = CallTokens("b", [10], [11])
    others = [shared, CallTokens("c", [12], [13])], [shared, CallTokens("d", [14], [15])]
    row = row_of(episode(step([1], [2]), others=others, calls="a"))
    assert row.completion == [2, 10, 11, 12, 13, 10, 11, 14, 15]
    assert row.own == [1, 0, 1, 0, 1, 0, 0, 0, 1]


def test_a_row_is_at_most_so_many_times_as_long_as_the_longest_chat() -> None:
    """Otherwise memory would have no bound from which batch sizes could be chosen."""
    many = tuple([CallTokens(f"b{number}", [1], [2])] for number in range(100))
    row = row_of(episode(step([1], [2]), others=many, calls="a"))
    assert row.chat_count == MAX_LENGTHS
    with_longer = token_rows([episode(step([1] * 9, [2])), episode(step([1], [2]), others=many, calls="a")], empty=0)
    assert [row.chat_count for row in with_longer] == [1, 5 * MAX_LENGTHS]

"""Two trajectories are aligned by their actions, two texts by their words, both with bounded cost."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.trajectories.comparison.step_alignment import Pair, action_of, align, matching_blocks, word_diff


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "tool_calls": [{"id": "x", "function": {"name": name, "arguments": json.dumps(arguments)}}],
    }


def run(*messages: dict[str, Any]) -> list[Any]:
    return [action_of(message, []) for message in messages]


def longest_common_subsequence(a: list[str], b: list[str]) -> int:
    best = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            best[i][j] = best[i + 1][j + 1] + 1 if a[i] == b[j] else max(best[i + 1][j], best[i][j + 1])
    return best[0][0]


letters = st.lists(st.sampled_from("abcd"), max_size=12)


@given(letters, letters)
def test_matching_blocks_are_a_longest_common_subsequence(a: list[str], b: list[str]) -> None:
    blocks = matching_blocks(a, b)
    for i, j, size in blocks:
        assert a[i : i + size] == b[j : j + size]
    for (i, j, size), (next_i, next_j, _) in itertools.pairwise(blocks):
        assert i + size <= next_i
        assert j + size <= next_j
    assert sum(size for *_, size in blocks) == longest_common_subsequence(a, b)


@given(st.text(max_size=200), st.text(max_size=200))
def test_the_words_of_a_side_joined_are_its_text(left: str, right: str) -> None:
    left_spans, right_spans = word_diff(left, right)
    assert "".join(span.text for span in left_spans) == left
    assert "".join(span.text for span in right_spans) == right
    assert "".join(s.text for s in left_spans if not s.differs) == "".join(s.text for s in right_spans if not s.differs)


def test_words_that_differ_are_marked() -> None:
    left_spans, right_spans = word_diff("book flight HAT136 now", "book flight HAT039 now")
    assert [span for span in left_spans if span.differs] == [("HAT136", True)]
    assert [span for span in right_spans if span.differs] == [("HAT039", True)]


@given(letters, letters)
def test_every_step_is_paired_once_and_in_order(a: list[str], b: list[str]) -> None:
    pairs = align(run(*[call(x) for x in a]), run(*[call(x) for x in b])).pairs
    assert [pair.left for pair in pairs if pair.left is not None] == list(range(len(a)))
    assert [pair.right for pair in pairs if pair.right is not None] == list(range(len(b)))


def test_an_extra_step_shifts_nothing() -> None:
    left = run(call("ls"), call("cat", path="a"), call("submit"))
    right = run(call("ls"), call("pwd"), call("cat", path="a"), call("submit"))
    alignment = align(left, right)
    assert alignment.pairs == [
        Pair(0, 0, True, True),
        Pair(None, 1),
        Pair(1, 2, True, True),
        Pair(2, 3, True, True),
    ]
    assert (alignment.shared_prefix, alignment.first_divergence) == (1, 1)


def test_the_same_tool_with_other_arguments_is_a_pair_that_differs() -> None:
    alignment = align(run(call("cat", path="a.py"), call("submit")), run(call("cat", path="b.py"), call("submit")))
    assert alignment.pairs == [Pair(0, 0, False, True), Pair(1, 1, True, True)]


def test_equal_runs_never_diverge() -> None:
    steps = run(call("ls"), call("submit"))
    assert align(steps, steps).first_divergence is None
    assert align([], []).first_divergence is None


def test_another_answer_to_the_same_call_is_a_divergence() -> None:
    action = call("roll")
    left = [action_of(action, []), action_of(call("stop"), [{"role": "tool", "tool_call_id": "1", "content": "4"}])]
    right = [action_of(action, []), action_of(call("stop"), [{"role": "tool", "tool_call_id": "2", "content": "6"}])]
    alignment = align(left, right)
    assert alignment.pairs[1] == Pair(1, 1, same_action=True, same_rest=False)
    assert alignment.first_divergence == 1


@pytest.mark.parametrize(
    "arguments", ['{"a": 1, "b": 2}', '{"b":2,"a":1}', {"b": 2, "a": 1}, '"{\\"a\\": 1, \\"b\\": 2}"']
)
def test_arguments_are_compared_as_values(arguments: Any) -> None:
    message = {"tool_calls": [{"id": "other", "function": {"name": "f", "arguments": arguments}}]}
    assert action_of(message).key == action_of(call("f", a=1, b=2)).key


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"content": None},
        {"content": [{"type": "text"}]},
        {"tool_calls": ["x", None, {"function": "y"}]},
        {"content": "\ud800"},
    ],
)
def test_odd_messages_have_an_action_too(message: dict[str, Any]) -> None:
    assert action_of(message).key == action_of(message).key


@pytest.mark.timeout(20)
def test_long_runs_with_nothing_in_common_are_aligned_quickly() -> None:
    left = run(*[call("left", n=i) for i in range(3_000)])
    right = run(*[call("right", n=i) for i in range(3_000)])
    assert len(align(left, right).pairs) == 3_000
    mixed = run(*[call("left", n=i * 7919 % 3_000) for i in range(3_000)])
    assert len(align(left, mixed).pairs) >= 3_000


@pytest.mark.timeout(20)
def test_texts_of_megabytes_are_compared_quickly() -> None:
    left_spans, _ = word_diff("a b " * 1_000_000, "b c " * 1_000_000)
    assert "".join(span.text for span in left_spans) == "a b " * 1_000_000


def test_earlier_calls_count_as_context_without_their_ids() -> None:
    def after(identifier: str, place: str) -> Any:
        function = {"name": "search", "arguments": json.dumps({"place": place})}
        earlier = {"role": "assistant", "content": None, "tool_calls": [{"id": identifier, "function": function}]}
        return action_of({"role": "assistant", "content": "Done."}, [earlier, {"role": "tool", "content": "Nothing."}])

    [same] = align([after("a", "Rome")], [after("b", "Rome")]).pairs
    [other] = align([after("a", "Rome")], [after("b", "Oslo")]).pairs
    assert [same.is_identical, other.is_identical] == [True, False]
    assert action_of({}, [{"role": "user", "tool_calls": 5}])

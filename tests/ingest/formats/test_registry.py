"""Detecting the format of a file; and no record, however odd, breaks a format."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.ingest import formats
from apps.ingest.formats import UnknownFormat
from apps.ingest.records import BadRow
from apps.ingest.upload import recognize
from apps.trajectories.outlines import outline
from tests.ingest.formats.examples import EXAMPLES

WORDS = (
    *(
        "messages",
        "role",
        "content",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "type",
        "text",
        "steps",
        "task",
        "key",
    ),
    *(
        "message",
        "context",
        "action",
        "obs",
        "reward",
        "prompt",
        "completion",
        "traj",
        "info",
        "trajectory",
        "history",
        "agent",
    ),
    *(
        "observation",
        "response",
        "conversations",
        "from",
        "value",
        "trajectory_format",
        "extra",
        "task_id",
        "tools",
        "usage",
    ),
    *(
        "assistant",
        "user",
        "tool",
        "system",
        "gpt",
        "human",
        "function_call",
        "mini-swe-agent-1.1",
        "retrace/1",
        "format",
    ),
    *("schema_version", "ATIF-v1.6", "source", "simulations", "tasks", "results", "requestor", "user_scenario"),
)
words = st.sampled_from(WORDS)
names = st.sampled_from(sorted(EXAMPLES))
scalars = st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats(allow_nan=False) | st.text(max_size=5) | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=5), max_leaves=30
)


def places_in(value: object) -> list[tuple[object, ...]]:
    """The path of every value within a value."""
    inside: list[tuple[object, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [(key,) for key, _ in inside] + [(key, *path) for key, child in inside for path in places_in(child)]


@st.composite
def broken_examples(draw: st.DrawFn) -> object:
    """A complete record with something removed or replaced, which may then match another format."""
    row, other = (copy.deepcopy(EXAMPLES[name]) for name in draw(st.tuples(names, names)))
    for _ in range(draw(st.integers(1, 2))):
        *path, last = draw(st.sampled_from(places_in(row)))
        inner = at(row, path)
        change = draw(st.sampled_from(["remove", "replace", "transplant"]))
        if change == "remove" and len(inner) > 1:
            del inner[last]
        elif change == "transplant":
            inner[last] = copy.deepcopy(at(other, draw(st.sampled_from(places_in(other)))))
        else:
            inner[last] = draw(values)
    return row


def at(value: Any, path: Sequence[Any]) -> Any:
    for key in path:
        value = value[key]
    return value


@settings(max_examples=4 * settings().max_examples)
@given(row=values | broken_examples())
def test_a_format_reads_or_refuses_and_never_stumbles(row):
    refusals: list[BadRow] = []
    for format in formats.known():
        assert format.recognizes(row) in (True, False)
        try:
            for record in format.read(row, "file.jsonl"):
                record.content_hash()
                assert len(outline(record)) == len(record.steps)
        except BadRow as refused:
            refusals.append(refused)
    assert all(refused.reason and refused.expected for refused in refusals)


def test_every_format_says_what_it_looks_like_under_a_name_that_fits_its_column():
    assert all(format.title and format.shape and format.keys for format in formats.known())
    assert all(len(format.name) <= 50 for format in formats.known())


@pytest.mark.parametrize(
    ("rows", "seen"),
    [
        ([], "No known format: none of the first records is JSON."),
        ([{"trace": 1, "observations": []}], "No known format: the first record has the keys `trace`, `observations`."),
        ([{}], "the first record is an empty object."),
        ([7], "the first record is 7."),
        ([[]], "the first record is an empty list."),
        ([[[]]], "the first record is a list whose first element is an empty list."),
        ([{"1": {"a": 0}, "2": {"a": 0}}], "the first record has the keys `1`, `2`; `1` has the keys `a`."),
        ([{"messages": [{"role": "pirate"}]}], "`messages` begins with a message of “pirate”, whom no format knows."),
        ([{"action": "x", "obs": "y"}], "Write all steps of a trajectory into one record"),
        ([{"task_id": "t", "steps": [{"prompt": "a", "response": "b"}]}], "Its `steps` have no `action`"),
        ([{"type": "user", "message": {}}], "Write all messages of a trajectory into one record"),
    ],
)
def test_an_unknown_file_is_told_what_was_seen_and_where_the_formats_are_listed(rows, seen):
    with pytest.raises(UnknownFormat) as refused:
        recognize(rows)
    assert seen in str(refused.value)
    assert str(refused.value).endswith(
        "What can be imported is listed on the page of imports and in docs/importing.md."
    )


@pytest.mark.parametrize(
    ("row", "nearest"),
    [
        ({"simulations": [], "notes": "x"}, "Nearest: tau2-bench results (lacks `tasks`)."),
        (
            {"run_type": "llm", "outputs": {}, "observations": [{"id": 1, "type": "SPAN"}]},
            "Nearest: Langfuse trace (lacks `observations.startTime`); LangSmith runs (lacks `inputs`); ",
        ),
    ],
)
def test_the_formats_that_come_nearest_are_named_with_what_is_lacking(row, nearest):
    with pytest.raises(UnknownFormat) as refused:
        recognize([row])
    assert nearest in str(refused.value)


@given(
    row=st.recursive(
        st.text(max_size=400) | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=400) | words, inner, max_size=30),
        max_leaves=30,
    )
)
def test_a_refusal_is_short_whatever_the_file_holds(row):
    message = ""
    try:
        recognize([row])
    except UnknownFormat as refused:
        message = str(refused)
    assert len(message) <= 900


def test_a_record_that_could_be_of_two_formats_is_refused():
    both = EXAMPLES["langfuse"] | EXAMPLES["adk"]
    with pytest.raises(UnknownFormat, match="Could be Google ADK session or Langfuse trace"):
        recognize([both])


def test_the_first_record_that_is_recognized_decides():
    chat = {"messages": [{"role": "user", "content": "x"}]}
    assert recognize([{"about": "a header"}, chat]).name == "openai-chat"


def questions_and_their_answers_as_text(number: int) -> dict[str, Any]:
    """A row of FireAct's results: `traj` isn't a list of messages, and nothing names the task."""
    traj = f"Question: Who wrote book {number}?\nThought 1: I search.\nAction 1: search[book {number}]"
    about = {"question": f"Who wrote book {number}?", "answer": "Ann", "question_idx": number}
    return {**about, "reward": True, "em": True, "f1": 1.0, "traj": traj, "prompt": "Answer the question."}


@pytest.mark.parametrize("beside", [{}, {"task_id": 0, "trial": 0}, {"info": {}}])
@pytest.mark.parametrize("spell", [list, lambda rows: {str(place): row for place, row in enumerate(rows)}])
def test_questions_whose_runs_are_text_are_no_runs_of_tau_bench(spell, beside):
    rows = spell([{**questions_and_their_answers_as_text(number), **beside} for number in range(3)])
    with pytest.raises(UnknownFormat, match="No known format"):
        recognize([rows])
    with pytest.raises(UnknownFormat, match="tau-bench results"):
        recognize([questions_and_their_answers_as_text(0) | beside])

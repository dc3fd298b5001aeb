"""Which format a file is, and that no record, however odd, breaks a format."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.ingest import formats
from apps.ingest.formats import UnknownFormat
from apps.ingest.records import BadRow
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
    """The path of every value inside a value."""
    inside: list[tuple[object, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [(key,) for key, _ in inside] + [(key, *path) for key, child in inside for path in places_in(child)]


@st.composite
def broken_examples(draw: st.DrawFn) -> object:
    """A whole record in which something is missing, or replaced by something else, which may be of another format."""
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


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_example_of_a_format_is_recognized_as_that_alone(name):
    row = EXAMPLES[name]
    assert [format.name for format in formats.known() if format.recognizes(row)][:1] == [name]
    assert all(record.steps for record in formats.named(name).read(row, "file.jsonl"))


def test_every_format_has_a_name_of_its_own_and_says_what_it_looks_like():
    names = [format.name for format in formats.known()]
    assert names == [
        *("adk", "agents-sdk", "atif", "autogen", "bfcl", "chatgpt", "claude-ai", "claude-code"),
        *("codex", "copilot-chat", "gemini", "gemini-cli", "goose"),
        *(
            "inspect",
            "intercode",
            "langfuse",
            "langsmith",
            "letta",
            "librechat",
            "magentic-one",
            "mind2web",
            "mini-swe-agent",
            "model-calls",
            "oasst",
            "open-webui",
            "opencode",
            "openhands",
        ),
        *(
            "otlp",
            "pydantic-ai",
            "retrace",
            "retrace-simple",
            "sharegpt",
            "smolagents",
            "spans",
            "swe-agent",
            "swe-bench-report",
            "tau-bench",
        ),
        *(
            "tau2-bench",
            "verifiers",
            "weave",
            "who-and-when",
            "judged-pairs",
            "labelled-steps",
            "openai-chat",
            "prompt-response",
            "step-lines",
            "wrapped",
        ),
    ]
    assert all(format.title and format.shape for format in formats.known())
    assert all(len(name) <= 50 for name in names)


@pytest.mark.parametrize(
    ("rows", "seen"),
    [
        ([], "None of the first records is JSON."),
        ([{"trace": 1, "observations": []}], "The first record has the keys `trace`, `observations`."),
        ([{}], "The first record is an empty object."),
        ([7], "The first record is 7."),
        ([[]], "The first record is a list; its first element is empty."),
        ([{"messages": [{"role": "pirate"}]}], "`messages` begins with a message of “pirate”, whom no format knows."),
        ([{"action": "x", "obs": "y"}], "looks like a single step: write all steps of a run into one record"),
        ([{"task_id": "t", "steps": [{"prompt": "a", "response": "b"}]}], "Its `steps` have no `action`"),
        ([{"type": "user", "message": {}}], "looks like a single message: write all messages of a run into one record"),
    ],
)
def test_an_unknown_file_is_told_what_was_seen_and_what_is_known(rows, seen):
    with pytest.raises(UnknownFormat) as refused:
        formats.recognize(rows)
    assert seen in str(refused.value)
    assert "tau-bench results" in str(refused.value)


def test_the_first_record_that_is_recognized_decides():
    chat = {"messages": [{"role": "user", "content": "x"}]}
    assert formats.recognize([{"about": "a header"}, chat]).name == "openai-chat"

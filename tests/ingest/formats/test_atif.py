"""ATIF: what the policy generated, what came back, and what is only a copy."""

import pytest

from apps.ingest import formats
from apps.ingest.records import BadParts
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read, refusal

ROW = EXAMPLES["atif"]


def test_an_observation_opens_the_context_of_the_next_step():
    record = read("atif", ROW)
    assert [step.context for step in record.steps] == [
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "List the files."}],
        [{"role": "tool", "tool_call_id": "c1", "content": "README.md"}],
    ]
    first = record.steps[0]
    assert first.message == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "I look.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": {"command": "ls"}}},
        ],
    }
    assert (first.prompt_tokens, first.completion_tokens, first.info["cost_usd"]) == (9, 3, 0.1)
    assert (record.policy, record.id, record.reward) == ("m", "s1", None)


@pytest.mark.parametrize(
    ("change", "mark"), [({"is_copied_context": True}, "is_copied_context"), ({"llm_call_count": 0}, "is_dispatched")]
)
def test_what_the_policy_did_not_produce_here_is_context(change, mark):
    system, user, called, answer_step = ROW["steps"]
    record = read("atif", {**ROW, "steps": [system, user, {**called, **change}, answer_step]})
    (step,) = record.steps
    assert [message["role"] for message in step.context] == ["system", "user", "assistant", "tool"]
    assert step.context[2][mark] is True


def test_an_observation_without_a_call_is_what_the_other_side_said():
    agent_step = {"source": "agent", "message": "ls", "observation": {"results": [{"content": "README.md"}, {}]}}
    record = read("atif", {**ROW, "steps": [agent_step]})
    assert record.closing == [{"role": "user", "content": "README.md"}]


def test_sub_agents_are_runs_of_their_own():
    row = {**ROW, "subagent_trajectories": [{**ROW, "trajectory_id": "inner"}]}
    records = list(formats.named("atif").read(row, "t.json"))
    assert [record.id for record in records] == ["s1", "inner"]
    both = list(formats.named("atif").read({"parent": ROW, "child": row}, "t.json"))
    assert [record.id for record in both] == ["s1", "s1", "inner"]
    assert [record.whole and record.whole.id for record in both] == [None, None, "s1"]


def test_a_run_that_cannot_be_read_refuses_no_other():
    broken = {**ROW, "steps": [{"step_id": 1, "source": "robot", "message": ""}]}
    for row in ({"a": ROW, "b": broken}, {**ROW, "subagent_trajectories": [broken]}):
        records = formats.named("atif").read(row, "f")
        assert len(next(records).steps) == 2
        with pytest.raises(BadParts, match="robot"):
            next(records)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([], "The record is a list"),
        ({"schema_version": "ATIF-v1.6"}, "`steps` is missing"),
        ({**ROW, "steps": [3]}, "A step is a number"),
        ({**ROW, "steps": [{"source": "dog", "message": ""}]}, "A step's `source` is “dog”"),
    ],
)
def test_refusals_say_what_is_wrong(row, words):
    assert words in refusal("atif", row)[0]


@pytest.mark.parametrize(
    ("name", "steps"), [("harbor_terminus2_summarization", [7]), ("subagent_trajectories", [2, 1])]
)
def test_real_runs(real_file, name, steps):
    records = real_file(f"atif-harbor/phoenix-client-fixtures/{name}.json")
    assert (records.format, records.rejected) == ("atif", [])
    assert [len(record.steps) for record in records.records] == steps

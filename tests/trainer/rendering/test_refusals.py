"""Rows that a template refuses are reported, and end a run only if there are many."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from contract.events import Failed, Warned
from tests.trainer.policies import ANSWER, ASK, FIRST, RESULT, SECOND, TOOLS, save_policy
from tests.trainer.runs import events_of, run_here
from trainer.failures import DataFailure, ExitCode
from trainer.rendering.refusals import Refusals


def only_even(row: int) -> int:
    if row % 2:
        raise TypeError(f"{row} is odd")
    return row * 10


def test_refused_rows_are_passed_over_and_named():
    refusals = Refusals("rows.jsonl")
    assert list(refusals.rendered([*range(0, 40, 2), 3], only_even)) == list(range(0, 400, 20))
    warning = refusals.warning(of=21)
    assert warning is not None
    assert warning.message == (
        "rows.jsonl: 1 of 21 rows cannot be rendered through the chat template (row 21: 3 is odd). They are left out."
    )


def test_more_than_a_tenth_is_a_data_failure_that_names_the_first():
    refusals = Refusals("rows.jsonl")
    list(refusals.rendered(range(20), only_even))
    with pytest.raises(DataFailure, match=r"10 of 20 rows .*row 2: 1 is odd; .*and 5 more\)"):
        refusals.warning(of=20)


def test_none_is_nothing_to_tell():
    refusals = Refusals("rows.jsonl")
    assert list(refusals.rendered([2, 4], only_even)) == [20, 40]
    assert refusals.warning(of=2) is None


BROKEN = {"role": "assistant", "tool_calls": [{"function": {"name": "x"}}]}
"""A call that no template can render."""
ROWS = {
    "sft": ({"messages": [ASK, ANSWER]}, {"messages": [ASK, BROKEN]}),
    "dpo": (
        {"prompt": [ASK], "chosen": [FIRST, RESULT, ANSWER], "rejected": [SECOND, RESULT, ANSWER], "tools": TOOLS},
        {"prompt": [ASK], "chosen": [FIRST], "rejected": [BROKEN], "tools": TOOLS},
    ),
    "kto": (
        {"prompt": [ASK], "completion": [ANSWER], "label": True},
        {"prompt": [ASK], "completion": [BROKEN], "label": False},
    ),
    "reward_model": (
        {"prompt": [ASK], "chosen": [FIRST, RESULT, ANSWER], "rejected": [SECOND, RESULT, ANSWER], "tools": TOOLS},
        {"prompt": [ASK], "chosen": [FIRST], "rejected": [BROKEN], "tools": TOOLS},
    ),
    "process_reward_model": (
        {"messages": [ASK, ANSWER], "step_labels": [1]},
        {"messages": [ASK, BROKEN], "step_labels": [-1]},
    ),
}


def run_of(kind: str, folder: Path, *, good: int, broken: int) -> ExitCode:
    save_policy(folder / "base")
    (folder / "run").mkdir()
    usable, refused = ROWS[kind]
    rows = [usable] * good + [refused] * broken
    (folder / "run" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "kind": kind,
        "model": {"path": "../base"},
        "data": {"train": "rows.jsonl"},
        "optimizer": {"batch_size": 2, "max_steps": 1, "max_length": 512},
    }
    return run_here(folder / "run", config)


@pytest.mark.parametrize("kind", ROWS)
def test_every_algorithm_leaves_a_few_out_and_counts_them(kind: str, tmp_path: Path):
    assert run_of(kind, tmp_path, good=19, broken=1) == ExitCode.FINISHED
    warnings = [stamped.event.message for stamped in events_of(tmp_path / "run") if isinstance(stamped.event, Warned)]
    assert any("1 of 20 rows cannot be rendered" in message and "row 20" in message for message in warnings)
    rows = json.loads((tmp_path / "run" / "report.json").read_text())["rows"]
    assert (rows["train"], rows["refused"]) == (19, 1)


@pytest.mark.parametrize("kind", ["sft", "kto"])
def test_a_run_whose_template_refuses_many_ends_with_the_reason(kind: str, tmp_path: Path):
    assert run_of(kind, tmp_path, good=2, broken=2) == ExitCode.DATA
    last = events_of(tmp_path / "run")[-1].event
    assert isinstance(last, Failed)
    assert "2 of 4 rows cannot be rendered" in last.message


PLAIN = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.role == 'assistant' %}{% generation %}"
    "{{ message.content }}{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}<|im_end|>{% endgeneration %}"
    "{% else %}{{ message.content }}<|im_end|>{% endif %}\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A template without reasoning, like Llama 3's."""


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("kind", ROWS)
def test_reasoning_that_the_template_leaves_out_is_told_before_training(kind: str, keeps: bool, tmp_path: Path):
    save_policy(tmp_path / "base")
    if not keeps:
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / "base")
        tokenizer.chat_template = PLAIN
        tokenizer.save_pretrained(tmp_path / "base")
    (tmp_path / "run").mkdir()
    row = ROWS[kind][0]
    thinking = {
        key: [{**entry, "reasoning_content": "Hm."} if entry["role"] == "assistant" else entry for entry in value]
        if key in ("messages", "chosen", "completion")
        else value
        for key, value in row.items()
    }
    rows = [row, thinking, thinking, row]
    (tmp_path / "run" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "kind": kind,
        "model": {"path": "../base"},
        "data": {"train": "rows.jsonl"},
        "optimizer": {"batch_size": 2, "max_steps": 1, "max_length": 512},
    }
    assert run_here(tmp_path / "run", config) == ExitCode.FINISHED
    warnings = [stamped.event.message for stamped in events_of(tmp_path / "run") if isinstance(stamped.event, Warned)]
    about = [message for message in warnings if "reasoning" in message]
    expected = (
        "rows.jsonl: 2 of 4 rows hold reasoning, which the model's chat template leaves out. "
        "They are learned from without it."
    )
    assert about == ([] if keeps else [expected])

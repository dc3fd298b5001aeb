"""SFT: only the policy's tokens have labels, and a model can be created from scratch."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from contract.events import Failed, Metrics
from tests.trainer.policies import ANSWER, ASK, FIRST, RESULT, TOOLS, save_policy, small_tokenizer
from tests.trainer.runs import events_of, run_here
from trainer.algorithms.sft import sft_dataset, texts_of
from trainer.failures import ExitCode
from trainer.rendering.chat import render_completion
from trainer.rows import Demonstration

DEMONSTRATION = {"messages": [ASK, FIRST, RESULT, ANSWER], "tools": TOOLS}


def sft_run(folder: Path, **changes: Any) -> dict[str, Any]:
    folder.mkdir()
    (folder / "rows.jsonl").write_text(f"{json.dumps(DEMONSTRATION)}\n" * 16)
    return {
        "kind": "sft",
        "model": {"scratch": {"layers": 1, "hidden": 32, "intermediate": 64, "heads": 2, "vocabulary": 400}},
        "data": {"train": "rows.jsonl", "validation": "rows.jsonl"},
        "optimizer": {"learning_rate": 1e-2, "batch_size": 8, "max_steps": 30},
        "log_every": 10,
        **changes,
    }


def test_labels_are_the_policys_tokens_and_nothing_else():
    rendered = render_completion(small_tokenizer(), [], [ASK, FIRST, RESULT, ANSWER], TOOLS)
    (row,) = sft_dataset([rendered])
    labeled = small_tokenizer().decode([label for label in row["labels"] if label != -100])
    assert labeled == (
        '<tool_call>\n{"name": "find", "arguments": {"name": "budget"}}\n</tool_call><|im_end|>There is none.<|im_end|>'
    )


def test_turns_that_are_not_to_be_learned_have_no_labels(tmp_path: Path):
    base = save_policy(tmp_path / "base")
    config = sft_run(tmp_path / "run", model={"path": "../base"}, optimizer={"batch_size": 4, "max_steps": 1})
    (tmp_path / "run" / "rows.jsonl").write_text(f"{json.dumps({**DEMONSTRATION, 'train_turns': [False, True]})}\n" * 4)
    assert run_here(tmp_path / "run", config) == ExitCode.FINISHED
    tokenizer = AutoTokenizer.from_pretrained(base)
    answer = tokenizer("There is none.<|im_end|>")["input_ids"]
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["rows"]["policy_tokens"] == 4 * len(answer)
    ids = render_completion(tokenizer, [], [ASK, FIRST, RESULT, ANSWER], TOOLS).ids
    assert ids[-len(answer) :] == answer
    with torch.no_grad():
        logprobs = AutoModelForCausalLM.from_pretrained(base)(torch.tensor([ids])).logits[0].log_softmax(-1)
    by_hand = -sum(logprobs[i - 1, ids[i]].item() for i in range(len(ids) - len(answer), len(ids))) / len(answer)
    assert report["loss"]["first"] == pytest.approx(by_hand, rel=1e-4)


def test_a_model_from_scratch_learns_its_demonstrations(tmp_path: Path):
    folder = tmp_path / "run"
    assert run_here(folder, sft_run(folder)) == ExitCode.FINISHED
    report = json.loads((folder / "report.json").read_text())
    assert report["validation"]["after"]["loss"] < 0.5 < report["validation"]["before"]["loss"]
    assert "tokens_per_second" in next(
        line.event.values
        for line in events_of(folder)
        if isinstance(line.event, Metrics) and "loss" in line.event.values
    )
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    model = AutoModelForCausalLM.from_pretrained(folder / "model")
    prompt = tokenizer.apply_chat_template([ASK], tools=TOOLS, add_generation_prompt=True, return_tensors="pt")
    generated = model.generate(**prompt, max_new_tokens=24, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert tokenizer.decode(generated).startswith('<tool_call>\n{"name": "find"')


def test_the_loss_reported_is_that_of_the_labeled_tokens(tmp_path: Path):
    base = save_policy(tmp_path / "base")
    config = sft_run(tmp_path / "run", model={"path": "../base"}, optimizer={"batch_size": 16, "max_steps": 1})
    assert run_here(tmp_path / "run", config) == ExitCode.FINISHED
    rendered = render_completion(small_tokenizer(), [], [ASK, FIRST, RESULT, ANSWER], TOOLS)
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(base)(torch.tensor([rendered.ids])).logits[0].log_softmax(-1)
    own = [position for position, mine in enumerate(rendered.mask) if mine]
    by_hand = -sum(logits[position - 1, rendered.ids[position]].item() for position in own) / len(own)
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["loss"]["first"] == pytest.approx(by_hand, rel=1e-4)
    assert report["rows"]["policy_tokens"] == 16 * len(own)


def test_the_tokenizers_text_holds_no_control_tokens():
    (row,) = [Demonstration([], [ASK, FIRST, RESULT, ANSWER], TOOLS)]
    text = "".join(texts_of([row]))
    assert "Find the budget." in text
    assert "<|im_start|>" not in text
    assert "<tool_call>" not in text


def test_a_row_that_the_template_refuses_is_a_data_failure(tmp_path: Path):
    config = sft_run(tmp_path / "run")
    broken = {"messages": [ASK, {"role": "assistant", "tool_calls": [{"function": {"name": "x"}}]}]}
    (tmp_path / "run" / "rows.jsonl").write_text(json.dumps(broken) + "\n")
    assert run_here(tmp_path / "run", config) == ExitCode.DATA
    last = events_of(tmp_path / "run")[-1].event
    assert isinstance(last, Failed)
    assert "1 of 1 rows cannot be rendered" in last.message


def test_a_run_all_of_whose_rows_are_too_long_says_how_long_they_are(tmp_path: Path):
    save_policy(tmp_path / "base")
    config = sft_run(tmp_path / "run", model={"path": "../base"}, optimizer={"batch_size": 4, "max_length": 20})
    assert run_here(tmp_path / "run", config) == ExitCode.DATA
    last = events_of(tmp_path / "run")[-1].event
    assert isinstance(last, Failed)
    assert "has 0 usable rows" in last.message
    assert re.search(r"Every row is longer than optimizer.max_length = 20; the shortest has \d+ tokens", last.advice)


def test_a_base_model_that_learned_to_chat_stops_where_a_turn_ends(tmp_path: Path):
    """A base model's end token is that of a text; a server that knows no other would let it generate up to the limit."""
    base = save_policy(tmp_path / "base")
    for name, wrong in (("generation_config.json", 0), ("tokenizer_config.json", "<|endoftext|>")):
        key = "eos_token_id" if wrong == 0 else "eos_token"
        (base / name).write_text(json.dumps({**json.loads((base / name).read_text()), key: wrong}))
    config = sft_run(tmp_path / "run", model={"path": "../base"}, optimizer={"batch_size": 4, "max_steps": 1})
    assert run_here(tmp_path / "run", config) == ExitCode.FINISHED
    saved = json.loads((tmp_path / "run" / "model" / "generation_config.json").read_text())
    assert saved["eos_token_id"] == [0, small_tokenizer().convert_tokens_to_ids("<|im_end|>")]

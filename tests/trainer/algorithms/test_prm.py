"""The process reward model: one prediction per turn, at the position where the policy stopped."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForTokenClassification, AutoTokenizer

from contract.configs import ModelConfig
from contract.events import Failed, Metrics
from contract.rows import ProcessLabelsRow
from tests.trainer.algorithms.test_dpo import prepared
from tests.trainer.policies import (
    AGAIN,
    ANSWER,
    ASK,
    FIRST,
    NOTHING,
    RESULT,
    SECOND,
    SYSTEM,
    TOOLS,
    preference_rows,
    save_policy,
)
from tests.trainer.rendering.test_chat import QWEN3, SMALL
from tests.trainer.runs import events_of, run_here
from trainer.algorithms.judged_steps import (
    LabeledSteps,
    StepCollator,
    first_error_of,
    labels_of,
    learnable,
    step_dataset,
    targets,
)
from trainer.algorithms.prm import step_loss
from trainer.algorithms.step_figures import first_error, step_accuracy
from trainer.failures import ExitCode
from trainer.models.loader import load_process_model
from trainer.models.reward_scores import step_chances, step_ends, step_scores
from trainer.rendering.chat import render_completion
from trainer.rows import judged_steps_from_json

CHAT = [SYSTEM, ASK, FIRST, RESULT, ANSWER, AGAIN, SECOND, NOTHING, ANSWER]


def step_rows(count: int) -> list[dict[str, Any]]:
    """Alternating runs that ask for the budget, which is right, and for an offer, which is wrong."""
    rows = []
    for number, row in enumerate(preference_rows(count)):
        bad = number % 2 == 1
        messages = row["prompt"] + row["rejected" if bad else "chosen"]
        rows.append({"messages": messages, "tools": TOOLS, "step_labels": [-1, None] if bad else [1, 1]})
    return rows


@pytest.mark.parametrize(("template", "pieces"), [("small", SMALL), ("qwen3", QWEN3)])
def test_a_turn_is_read_at_its_end_of_turn_token(template: str, pieces: list[tuple[str, bool]], tmp_path: Path):
    """Compares log-probabilities at positions found manually, from one unpadded pass, with those of the batch."""
    tokenizer, _ = prepared(template)
    ends, ids = [], []
    for text, own in pieces:
        ids += tokenizer(text, add_special_tokens=False)["input_ids"]
        ends += [len(ids) - 1] if own else []
    rendered = render_completion(tokenizer, [], CHAT, TOOLS)
    assert step_ends(rendered) == ends
    assert {ids[end] for end in ends} == {tokenizer.eos_token_id}

    model = load_process_model(ModelConfig(path=str(save_policy(tmp_path))), tmp_path, torch.float32).eval()
    runs = [LabeledSteps(rendered, [1, None, -1, 0.5], 2, 2.0), LabeledSteps(rendered, [1, 1, 1, 1], -1, 1.0)]
    batch = StepCollator(tokenizer.pad_token_id)([*step_dataset(runs[:1]), *step_dataset(runs[1:])])
    logprobs = model(torch.tensor([ids[: ends[-1] + 1]])).logits[0].log_softmax(-1)
    good = logprobs[:, 2]
    by_hand = [
        *(-2 * good[ends[0]], -2 * 3 * logprobs[ends[2], 0], -2 * (0.5 * logprobs[ends[3], 1] + 0.5 * good[ends[3]])),
        *(-good[end] for end in ends),
    ]
    logits = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    loss = step_loss(logits[batch["row"], batch["end"]], batch["target"], batch["weight"], error_weight=3.0, turns=7)
    torch.testing.assert_close(loss, torch.stack(by_hand).mean(), rtol=1e-5, atol=1e-6)
    (scores, _) = step_scores(model, [rendered, rendered], pad_id=tokenizer.pad_token_id, batch_size=2)
    assert scores[2] == pytest.approx((logprobs[ends[2], 2].exp() - logprobs[ends[2], 0].exp()).item(), abs=1e-5)


def test_targets_spread_a_mean_between_its_neighbors():
    assert targets([-1, 0, 0.25]).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0.75, 0.25]]


@pytest.mark.parametrize(
    ("labels", "error", "expected", "found"),
    [
        ([None, None, None], 1, [1, -1, None], 1),
        ([None, 0, None], -1, [1, 0, 1], -1),
        ([1, -1, 1], None, [1, -1, None], 1),
        ([1, 1, 0], None, [1, 1, 0], -1),
        ([None, -1, 1], None, [None, -1, 1], None),
        ([0, 1, 1], 2, [0, 1, -1], 2),
    ],
)
def test_what_the_first_error_says_of_the_other_turns(labels: Any, error: Any, expected: Any, found: Any):
    row = ProcessLabelsRow([], step_labels=labels, first_error=error)
    assert first_error_of(row) == found
    assert learnable(row, first_error_only=True) == expected


def test_turns_after_the_first_error_can_be_learned_from():
    row = ProcessLabelsRow([], step_labels=[1, -1, 1])
    assert learnable(row, first_error_only=False) == labels_of(row) == [1, -1, 1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"step_labels": [1]}, "not a list of 2, one for each turn"),
        ({"step_labels": [2, 0]}, "outside -1 … 1"),
        ({"first_error": 2}, "not a turn from 0 to 1, -1 or null"),
    ],
)
def test_a_row_that_cannot_be_says_why(change: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        judged_steps_from_json({**step_rows(1)[0], **change})


def run_of(*classes: int) -> torch.Tensor:
    """A run whose turns look bad (0), neutral (1), or good (2)."""
    return torch.eye(3)[list(classes)]


def test_first_error_f1_is_the_harmonic_mean_of_two_shares():
    chances = [run_of(2, 0, 0), run_of(2, 2), run_of(0, 2), run_of(2, 2), run_of(1, 2)]
    # With an error: found at 1 (right), none found (wrong): 1/2. Without: one false alarm among three: 2/3. No threshold changes that.
    report = first_error(chances, [1, 1, -1, -1, -1])
    assert (report["with_error"]["value"], report["without_error"]["value"]) == (0.5, pytest.approx(0.6667))
    assert report["f1"] == pytest.approx(2 * 0.5 * (2 / 3) / (0.5 + 2 / 3), abs=1e-3)
    assert first_error(chances, [None] * 5)["f1"] is None


def test_what_looks_bad_is_learned_from_the_other_half():
    """A model whose order is right but that is overconfident that all is well: errors at 0.3, others at 0.1."""
    wrong, right = torch.tensor([[0.1, 0, 0.9], [0.3, 0, 0.7]]), torch.tensor([[0.1, 0, 0.9], [0.1, 0, 0.9]])
    report = first_error([wrong, right] * 4, [1, -1] * 4)
    assert (report["f1"], report["thresholds"]) == (1.0, [0.3, 0.3])


def test_a_half_cannot_choose_its_own_threshold():
    """The threshold that separates errors in one half is wrong for the other half, so nothing is found there."""
    low, high = torch.tensor([[0.1, 0, 0.9]]), torch.tensor([[0.3, 0, 0.7]])
    report = first_error([low, high, high, low], [-1, 0, -1, 0])
    assert report["f1"] == 0.0


def test_step_accuracy_counts_judged_turns_only():
    report = step_accuracy([run_of(2, 0, 0)], [[1, 1, None]])
    assert (report["value"], report["n"]) == (0.5, 2)
    assert report["by_label"]["good"]["n"] == 2


def prm_run(folder: Path, **changes: Any) -> dict[str, Any]:
    save_policy(folder / "base")
    (folder / "run").mkdir()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in step_rows(16)))
    return {
        "kind": "process_reward_model",
        "model": {"path": "../base"},
        "data": {"train": "../rows.jsonl", "validation": "../rows.jsonl"},
        "optimizer": {"learning_rate": 1e-2, "batch_size": 8, "max_steps": 12},
        **changes,
    }


def test_a_run_learns_reports_and_its_model_judges_the_same_again(tmp_path: Path):
    folder = tmp_path / "run"
    assert run_here(folder, prm_run(tmp_path)) == ExitCode.FINISHED
    report = json.loads((folder / "report.json").read_text())
    assert report["rows"] == {**report["rows"], "train": 16, "turns": 24, "too_long": 0}  # 8 · 2 good, 8 · 1 bad
    assert report["step_accuracy"]["value"] >= 0.9
    assert report["first_error"]["f1"] >= 0.7
    named = set()
    for line in events_of(folder):
        named |= line.event.values.keys() if isinstance(line.event, Metrics) else set()
    assert {"loss", "step_accuracy", "eval/step_accuracy", "eval/loss", "tokens_per_second"} <= named

    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    model = AutoModelForTokenClassification.from_pretrained(folder / "model").eval()
    assert model.config.id2label == {0: "bad", 1: "neutral", 2: "good"}
    rows = list(map(judged_steps_from_json, step_rows(16)))
    runs = [render_completion(tokenizer, [], row.messages, row.tools) for row in rows]
    chances = step_chances(model, runs, pad_id=tokenizer.pad_token_id, batch_size=5)
    again = step_accuracy(chances, [learnable(row, first_error_only=True) for row in rows])
    assert again["value"] == report["step_accuracy"]["value"]


def test_the_accuracy_of_an_evaluation_knows_nothing_of_training(tmp_path: Path):
    """However often a run logs, measurements during training don't affect evaluations."""
    evaluated = []
    for every in (1, 10):
        place = tmp_path / str(every)
        place.mkdir()
        config = prm_run(place, log_every=every, evaluate_every=12)
        assert run_here(place / "run", config) == ExitCode.FINISHED
        report = json.loads((place / "run" / "report.json").read_text())
        evaluated.append(report["validation"]["after"]["step_accuracy"])
    assert evaluated[0] == evaluated[1]


def test_lora_trains_the_head_whole(tmp_path: Path):
    config = prm_run(tmp_path, lora={"rank": 2})
    assert run_here(tmp_path / "run", config) == ExitCode.FINISHED
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["validation"]["after"]["loss"] < report["validation"]["before"]["loss"]
    assert (tmp_path / "run" / "adapter" / "adapter_model.safetensors").is_file()
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "run" / "model")
    assert model.score.weight.shape == (3, 32)


def test_runs_of_the_office_judge_themselves(tmp_path: Path):
    """Rollouts can be used unchanged to train a process reward model: the environment's rewards and errors are the labels."""
    rollout = {
        "kind": "rollout",
        "policy": {"engine": "scripted", "script": "careless"},
        "tasks": {"environment": "office", "split": "train", "levels": ["L1"], "count": 40},
    }
    assert run_here(tmp_path, rollout) == ExitCode.FINISHED
    rows = [judged_steps_from_json(json.loads(line)) for line in (tmp_path / "trajectories.jsonl").open()]
    labels = {label for row in rows for label in row.step_labels}
    assert labels == {-1.0, 0.0, 1.0}
    assert {row.first_error is not None and row.first_error >= 0 for row in rows} == {True, False}


def test_too_few_rows_are_refused(tmp_path: Path):
    config = prm_run(tmp_path, optimizer={"batch_size": 64})
    assert run_here(tmp_path / "run", config) == ExitCode.DATA
    last = events_of(tmp_path / "run")[-1].event
    assert isinstance(last, Failed)
    assert "has 16 usable rows (0 too long). Expected at least 64" in last.message


def test_every_judged_turn_counts_the_same_whatever_its_batch(tmp_path: Path):
    """Batches with different numbers of judged turns: the loss and the accuracy are those of one big batch."""
    logged: list[dict[str, float | None]] = []
    for name, batch_size in (("whole", 4), ("parts", 1)):
        (tmp_path / name).mkdir()
        config = prm_run(tmp_path / name, first_error_only=False)
        base = AutoConfig.from_pretrained(tmp_path / name / "base")
        base.classifier_dropout = 0.0
        base.save_pretrained(tmp_path / name / "base")
        rows = [{**row, "step_labels": [1, 1] if number else [None, -1]} for number, row in enumerate(step_rows(4))]
        (tmp_path / name / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        accumulation = 4 // batch_size
        config["optimizer"] |= {"batch_size": batch_size, "gradient_accumulation": accumulation, "max_steps": 1}
        assert run_here(tmp_path / name / "run", config) == ExitCode.FINISHED
        metrics = [line.event for line in events_of(tmp_path / name / "run") if isinstance(line.event, Metrics)]
        logged.append({name: value for event in metrics if event.step == 1 for name, value in event.values.items()})
    for name in ("loss", "grad_norm", "step_accuracy", "eval/step_accuracy"):
        assert logged[1][name] == pytest.approx(logged[0][name], rel=1e-4), name

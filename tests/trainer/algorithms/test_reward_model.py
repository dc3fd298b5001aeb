"""The reward model: Bradley–Terry on one number per trajectory, read where the policy stopped."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from contract.configs import RewardModelConfig
from contract.events import Metrics
from contract.rows import PreferenceRow
from tests.trainer.policies import preference_rows, save_policy
from tests.trainer.runs import events_of, run_here
from trainer.algorithms.pair_loss import pair_losses
from trainer.algorithms.preferences import PairCollator, pair_dataset, rendered_pair, usable
from trainer.algorithms.reward_model import PairReward
from trainer.failures import ExitCode


def reward_run(folder: Path, **changes: Any) -> dict[str, Any]:
    save_policy(folder / "base")
    (folder / "run").mkdir()
    rows = [{**row, "margin": 0.5} for row in preference_rows(16)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "kind": "reward_model",
        "model": {"path": "../base"},
        "data": {"train": "../rows.jsonl", "validation": "../rows.jsonl"},
        "optimizer": {"learning_rate": 3e-3, "batch_size": 8, "max_steps": 8},
        **changes,
    }


def test_a_run_learns_to_rank_and_its_model_gives_the_same_rewards_again(tmp_path: Path):
    folder = tmp_path / "run"
    assert run_here(folder, reward_run(tmp_path)) == ExitCode.FINISHED
    report = json.loads((folder / "report.json").read_text())
    assert report["held_out_accuracy"]["n"] == 16
    assert report["held_out_accuracy"]["value"] >= 0.9
    named = set()
    for line in events_of(folder):
        named |= line.event.values.keys() if isinstance(line.event, Metrics) else set()
    assert {"loss", "rewards/accuracies", "rewards/margins", "eval/rewards/accuracies", "eval/loss"} <= named

    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    model = AutoModelForSequenceClassification.from_pretrained(folder / "model")
    rows = map(PreferenceRow.from_json, preference_rows(16))
    pairs = usable([rendered_pair(tokenizer, row) for row in rows], max_length=999).pairs
    with torch.no_grad():
        rewards = [
            [model(torch.tensor([side.ids])).logits.item() for side in (pair.chosen, pair.rejected)] for pair in pairs
        ]
        batch = PairCollator(tokenizer.pad_token_id)(list(pair_dataset(pairs)))
        padded = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits.squeeze(-1)
    assert sum(chosen > rejected for chosen, rejected in rewards) == round(16 * report["held_out_accuracy"]["value"])
    alone = torch.tensor([chosen for chosen, _ in rewards] + [rejected for _, rejected in rewards])
    torch.testing.assert_close(padded, alone, rtol=1e-3, atol=1e-4)


def test_a_row_ends_with_the_end_of_the_policys_last_turn(tmp_path: Path):
    tokenizer = AutoTokenizer.from_pretrained(save_policy(tmp_path / "base"))
    pairs = usable(
        [rendered_pair(tokenizer, PreferenceRow.from_json(row)) for row in preference_rows(3)], max_length=999
    ).pairs
    assert {side.ids[-1] for pair in pairs for side in (pair.chosen, pair.rejected)} == {tokenizer.eos_token_id}


class Fixed:
    """A model with given rewards."""

    def __init__(self, rewards: list[float]) -> None:
        self.logits = torch.tensor(rewards).unsqueeze(-1).requires_grad_()

    def __call__(self, **inputs: Any) -> Any:
        return type("Outputs", (), {"logits": self.logits})()


def trainer_with(**settings: Any) -> PairReward:
    trainer = object.__new__(PairReward)
    trainer.model = torch.nn.Linear(1, 1)
    trainer.args = type("Arguments", (), {"center_rewards_coefficient": None})()
    trainer.accelerator = type("Accelerator", (), {"gather": lambda _, x: x, "gather_for_metrics": lambda _, x: x})()
    trainer._metrics = {
        "train": {name: [] for name in ("min_reward", "mean_reward", "max_reward", "accuracy", "margin")}
    }
    trainer._counts = {True: defaultdict(list), False: defaultdict(list)}
    trainer._total_train_tokens, trainer._tp_size = 0, 1
    trainer.settings = RewardModelConfig.from_json(
        {"kind": "reward_model", "model": {"path": "m"}, "data": {"train": "t"}, "center": 0, **settings}
    )
    return trainer


def batch(**about: list[float]) -> dict[str, torch.Tensor]:
    usual = {"weight": 1.0, "margin": 0.0, "strength": 0.0, "soft_label": 1.0, "tie": 0.0}
    columns = {name: [value, value] for name, value in usual.items()} | about
    columns.setdefault("label_weight", columns["weight"])
    tokens = {name: torch.ones(4, 3, dtype=torch.long) for name in ("input_ids", "attention_mask", "completion_mask")}
    return tokens | {name: torch.tensor(values) for name, values in columns.items()}


def test_the_loss_asks_for_the_margin_and_weights_each_pair():
    """-log σ(r_c - r_r - m), averaged over two pairs, each multiplied by its weight."""
    model = Fixed([1.0, 0.0, 0.0, 0.0])
    loss = trainer_with().compute_loss(model, batch(weight=[1.0, 3.0], margin=[0.5, 0.0]))
    # pair 1: -log σ(0.5) = 0.474077; pair 2: -log σ(0) = 0.693147; (0.474077 + 3 · 0.693147) / 2 = 1.276759
    assert loss.item() == pytest.approx(1.276759, abs=1e-5)
    loss.backward()
    # d/dr_chosen = -σ(-x)/2 · weight: -0.377541/2 · 1, -0.5/2 · 3
    assert model.logits.grad.squeeze(-1).tolist() == pytest.approx([-0.18877, -0.75, 0.18877, 0.75], abs=1e-4)


def test_stronger_judgments_ask_for_more():
    loss = trainer_with(margin=0.25).compute_loss(Fixed([1.0, 1.0, 0.0, 0.0]), batch(strength=[2.0, 0.0]))
    # (-log σ(1 - 0.25 · 2) - log σ(1)) / 2 = (0.474077 + 0.313262) / 2
    assert loss.item() == pytest.approx(0.393669, abs=1e-5)


def test_a_soft_label_mixes_both_orders_and_brings_its_own_weight():
    soft = batch(soft_label=[0.75, 0.75], label_weight=[2.0, 2.0])
    loss = trainer_with().compute_loss(Fixed([1.0, 1.0, 0.0, 0.0]), soft)
    # 2 · (-0.75 log σ(1) - 0.25 log σ(-1)) = 2 · (0.75 · 0.313262 + 0.25 · 1.313262) = 1.126523
    assert loss.item() == pytest.approx(1.126523, abs=1e-5)
    hard = batch(soft_label=[0.75, 0.75], label_weight=[2.0, 2.0])
    loss = trainer_with(soft_labels=False).compute_loss(Fixed([1.0, 1.0, 0.0, 0.0]), hard)
    assert loss.item() == pytest.approx(0.313262, abs=1e-5)


def test_ties_pull_rewards_together():
    model = Fixed([2.0, 2.0, 0.0, 0.0])
    trainer_with().compute_loss(model, batch(tie=[1.0, 1.0])).backward()
    # half a win for each side: d/dr_chosen = (σ(2) - 0.5)/2 = 0.190399
    assert model.logits.grad[0].item() == pytest.approx(0.190399, abs=1e-5)


def test_the_chances_of_winning_losing_and_tying_add_up_to_one():
    """The model of Rao and Kupper: η > 0 makes ties possible, most likely where the rewards are equal."""
    apart = torch.tensor([0.0, 1.0, -3.0])
    none = torch.zeros(3)

    def chance(difference: torch.Tensor, tie: float) -> torch.Tensor:
        columns = {"margin": none, "soft_label": none + 1, "tie": none + tie, "tie_margin": 0.4}
        return (-pair_losses(difference, none, **columns)).exp()

    total = chance(apart, 0) + chance(-apart, 0) + chance(apart, 1)
    torch.testing.assert_close(total, torch.ones(3))
    assert chance(apart, 1).argmax() == 0


def test_rewards_are_kept_near_zero():
    loss = trainer_with(center=0.5).compute_loss(Fixed([1.0, 0.0, 1.0, 0.0]), batch())
    # pairs of equal rewards: log 2; centering: 0.5 · ((1 + 1)² + 0) / 2 = 1
    assert loss.item() == pytest.approx(1.693147, abs=1e-5)


def test_a_new_head_on_frozen_bfloat16_weights_learns_in_float32(tmp_path: Path):
    """In bfloat16, a step of 1e-5 on a weight of 0.02 is rounded away."""
    optimizer = {"learning_rate": 3e-3, "batch_size": 8, "max_steps": 2, "precision": "bfloat16"}
    folder = tmp_path / "run"
    assert run_here(folder, reward_run(tmp_path, lora={"rank": 2}, optimizer=optimizer)) == ExitCode.FINISHED
    trained = load_file(folder / "checkpoints" / "checkpoint-2" / "adapter_model.safetensors")
    assert any("score" in name for name in trained)
    assert {weight.dtype for weight in trained.values()} == {torch.float32}
    assert load_file(folder / "model" / "model.safetensors")["score.weight"].dtype == torch.bfloat16


def test_the_curve_of_accuracy_is_that_of_the_report(tmp_path: Path):
    """Nine pairs in batches of eight: the last one counts as much as any other, and ties don't count."""
    config = reward_run(tmp_path, data={"train": "../rows.jsonl", "validation": "../validation.jsonl"})
    rows = preference_rows(9)
    rows[3] |= {"tie": True}
    rows[8] |= {"chosen": rows[8]["rejected"], "rejected": rows[8]["chosen"]}
    (tmp_path / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_here(tmp_path / "run", config) == ExitCode.FINISHED
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (report["held_out_accuracy"]["n"], report["held_out_accuracy"]["value"]) == (8, 0.875)
    assert report["validation"]["after"]["rewards/accuracies"] == 0.875

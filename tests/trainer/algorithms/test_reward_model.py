"""The reward model: Bradley-Terry on one number a trajectory, read where the policy stopped."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.trainer.policies import preference_rows, save_policy
from tests.trainer.runs import events_of, run_here
from trainer.algorithms.preferences import PairCollator, pair_dataset, tokenise_pairs
from trainer.algorithms.reward_model import WeightedReward
from trainer.events import Metrics
from trainer.failures import ExitCode
from trainer.rows import preference_from_json


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
    rows = map(preference_from_json, preference_rows(16))
    pairs = tokenise_pairs(rows, tokenizer, max_length=999).pairs
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
    pairs = tokenise_pairs(map(preference_from_json, preference_rows(3)), tokenizer, max_length=999).pairs
    assert {side.ids[-1] for pair in pairs for side in (pair.chosen, pair.rejected)} == {tokenizer.eos_token_id}


class Fixed:
    """A model whose rewards are given."""

    def __init__(self, rewards: list[float]) -> None:
        self.logits = torch.tensor(rewards).unsqueeze(-1).requires_grad_()

    def __call__(self, **inputs: Any) -> Any:
        return type("Outputs", (), {"logits": self.logits})()


def test_the_loss_asks_for_the_margin_and_weights_each_pair():
    """-log σ(r_c - r_r - m), averaged over two pairs; its gradient is weighted."""
    trainer = object.__new__(WeightedReward)
    trainer.model = torch.nn.Linear(1, 1)
    trainer.args = type("Arguments", (), {"center_rewards_coefficient": None})()
    trainer.accelerator = type("Accelerator", (), {"gather": lambda _, x: x, "gather_for_metrics": lambda _, x: x})()
    trainer._metrics = {
        "train": {name: [] for name in ("min_reward", "mean_reward", "max_reward", "accuracy", "margin")}
    }
    trainer._total_train_tokens, trainer._tp_size = 0, 1
    model = Fixed([1.0, 0.0, 0.0, 0.0])
    inputs = {
        "input_ids": torch.ones(4, 3, dtype=torch.long),
        "attention_mask": torch.ones(4, 3, dtype=torch.long),
        "completion_mask": torch.ones(4, 3, dtype=torch.long),
        "weight": torch.tensor([1.0, 3.0]),
        "margin": torch.tensor([0.5, 0.0]),
    }
    loss = trainer.compute_loss(model, inputs)
    # pair 1: -log σ(0.5) = 0.474077; pair 2: -log σ(0) = 0.693147; mean = 0.583612
    assert loss.item() == pytest.approx(0.583612, abs=1e-5)
    loss.backward()
    # d/dr_chosen = -σ(-x)/2 · weight: -0.377541/2 · 1, -0.5/2 · 3
    assert model.logits.grad.squeeze(-1).tolist() == pytest.approx([-0.18877, -0.75, 0.18877, 0.75], abs=1e-4)

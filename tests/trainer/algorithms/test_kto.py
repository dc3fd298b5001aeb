"""KTO over TRL: its log-probabilities are those of the policy's own tokens, in matched and in mismatched rows."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from trl.trainer.kto_config import KTOConfig as TrlKtoConfig

from contract.configs import InvalidConfig, KtoConfig
from contract.events import Metrics, Warned
from tests.trainer.algorithms.test_dpo import logprob_by_hand, prepared
from tests.trainer.policies import preference_rows, save_policy, small_model
from tests.trainer.runs import events_of, run_here
from trainer.algorithms.kto import (
    LabeledRow,
    PolicyTokenKto,
    UnpairedCollator,
    crossed,
    render_row,
    unpaired_dataset,
    warn_of_imbalance,
)
from trainer.failures import ExitCode
from trainer.rendering.chat import Rendered
from trainer.rows import unpaired_from_json

PAIRS = preference_rows(4)
ROWS = [
    {"prompt": pair["prompt"], "completion": pair[side], "label": side == "chosen", "tools": pair["tools"]}
    for pair, side in zip(PAIRS, ("chosen", "rejected", "chosen", "rejected"), strict=True)
]
BETA = 0.2


def trainer_for(tokenizer: Any, rows: list[LabeledRow], folder: Path, loss: str = "kto") -> PolicyTokenKto:
    """A policy that has moved away from its reference, so that no term of the loss is zero."""
    return PolicyTokenKto(
        model=small_model(seed=1),
        ref_model=small_model(seed=2),
        args=TrlKtoConfig(
            output_dir=str(folder),
            beta=BETA,
            loss_type=loss,
            desirable_weight=1.5,
            use_cpu=True,
            report_to=[],
            max_length=None,
            remove_unused_columns=False,
        ),
        data_collator=UnpairedCollator(tokenizer.pad_token_id, max_length=999, with_mismatched=loss == "kto"),
        train_dataset=unpaired_dataset(rows),
        processing_class=tokenizer,
    )


def labeled(tokenizer: Any) -> list[LabeledRow]:
    return [render_row(tokenizer, row) for line in ROWS for row in unpaired_from_json(line)]


@pytest.mark.parametrize("template", ["small", "qwen3"])
@pytest.mark.parametrize("loss", ["kto", "apo_zero_unpaired"])
def test_logprobs_divergence_and_loss_are_those_computed_by_hand(template: str, loss: str, tmp_path: Path):
    tokenizer, thinks = prepared(template)
    trainer = trainer_for(tokenizer, labeled(tokenizer), tmp_path, loss)
    actual = trainer.compute_loss(trainer.model, trainer.data_collator(list(trainer.train_dataset)))

    def ratios(prompts: list[Any], rows: list[Any]) -> torch.Tensor:
        """log π/π_ref of each row's completion after another row's prompt."""
        mixed = [{**row, "prompt": prompt["prompt"]} for prompt, row in zip(prompts, rows, strict=True)]
        policy, reference = (
            torch.stack([logprob_by_hand(model, tokenizer, row, "completion", thinks=thinks) for row in mixed])
            for model in (trainer.model, trainer.ref_model)
        )
        return (policy - reference).detach()

    own = ratios(ROWS, ROWS)
    divergence = ratios(ROWS, ROWS[-1:] + ROWS[:-1]).mean().clamp(min=0) if loss == "kto" else 0.0
    desirable = torch.tensor([row["label"] for row in ROWS])
    signs = torch.where(desirable, 1.0, -1.0)
    losses = torch.where(desirable, 1.5, 1.0) * (1 - torch.sigmoid(BETA * signs * (own - divergence)))
    torch.testing.assert_close(actual.detach(), losses.mean(), rtol=1e-4, atol=1e-6)
    metrics = trainer._metrics["train"]  # small differences of large sums, in single precision
    assert metrics["rewards/chosen"] == [pytest.approx(BETA * own[desirable].mean().item(), rel=5e-3)]
    assert metrics["rewards/rejected"] == [pytest.approx(BETA * own[~desirable].mean().item(), rel=5e-3)]


def test_a_mismatched_row_has_ones_prompt_and_anothers_turns():
    prompt, completion = Rendered([1, 2, 3, 4], [0, 0, 1, 1]), Rendered([7, 8, 9, 6, 5], [0, 1, 1, 0, 1])
    assert crossed(prompt, completion, max_length=6) == Rendered([1, 2, 8, 9, 6, 5], [0, 0, 1, 1, 0, 1])


def test_a_mismatched_row_is_no_longer_than_rows_may_be():
    prompt, completion = Rendered([1, 2, 3, 4], [0, 0, 1, 1]), Rendered([7, 8, 9, 6, 5], [0, 1, 1, 0, 1])
    assert crossed(prompt, completion, max_length=4) == Rendered([1, 2, 8, 9], [0, 0, 1, 1])


def test_rewards_are_averaged_over_rows_even_if_batches_are_unequal(tmp_path: Path):
    tokenizer, _ = prepared("small")
    trainer = trainer_for(tokenizer, labeled(tokenizer)[:3], tmp_path)
    rows = list(trainer.train_dataset)
    logs: list[dict[str, float]] = []
    for batches in ([rows], [rows[:1], rows[1:]]):
        for batch in batches:
            trainer.compute_loss(trainer.model, trainer.data_collator(batch))
        logs.append({})
        trainer.log(logs[-1])
    names = ("rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected")
    for name in names:
        assert logs[1][name] == pytest.approx(logs[0][name], rel=1e-4)


def test_the_balance_of_the_two_kinds_counts_the_weights_of_rows():
    row = LabeledRow(Rendered([1], [1]), desirable=True, weight=1.0)
    rows = [row, replace(row, desirable=False, weight=0.5), replace(row, desirable=False, weight=0.5)]
    warnings: list[Any] = []
    run: Any = SimpleNamespace(events=SimpleNamespace(emit=warnings.append))
    config = SimpleNamespace(desirable_weight=1.0, undesirable_weight=1.0)
    warn_of_imbalance(run, config, rows)  # type: ignore[arg-type]  # only these two settings matter
    assert warnings == []


def test_a_rows_weight_scales_its_gradient(tmp_path: Path):
    tokenizer, _ = prepared("small")
    rows = labeled(tokenizer)[:2]

    def gradient(*weights: float) -> torch.Tensor:
        weighted = [LabeledRow(row.rendered, row.desirable, weight) for row, weight in zip(rows, weights, strict=True)]
        trainer = trainer_for(tokenizer, weighted, tmp_path)
        trainer.compute_loss(trainer.model, trainer.data_collator(list(trainer.train_dataset))).backward()
        return trainer.model.model.layers[0].self_attn.q_proj.weight.grad

    torch.testing.assert_close(gradient(3, 0.5), 3 * gradient(1, 0) + 0.5 * gradient(0, 1))


def kto_run(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    save_policy(folder / "base")
    (folder / "run").mkdir()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "kind": "kto",
        "model": {"path": "../base"},
        "data": {"train": "../rows.jsonl", "validation": "../rows.jsonl"},
        "optimizer": {"learning_rate": 3e-3, "batch_size": 4, "max_steps": 8},
        **changes,
    }


def test_preference_rows_train_as_two_rows_each(tmp_path: Path):
    assert run_here(tmp_path / "run", kto_run(tmp_path, preference_rows(8))) == ExitCode.FINISHED
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (report["rows"]["train"], report["rows"]["desirable"]) == (16, 8)
    assert report["validation"]["after"]["rewards/margins"] > 0.1
    assert report["validation"]["after"]["loss"] < report["validation"]["before"]["loss"]
    events = [line.event for line in events_of(tmp_path / "run")]
    assert {"kl", "rewards/chosen"} <= {name for e in events if isinstance(e, Metrics) for name in e.values}
    assert not [event for event in events if isinstance(event, Warned)]


def test_rows_of_one_kind_only_are_warned_of(tmp_path: Path):
    config = kto_run(tmp_path, [row for row in ROWS if row["label"]] * 2, optimizer={"batch_size": 4, "max_steps": 1})
    assert run_here(tmp_path / "run", config) == ExitCode.FINISHED
    warnings = [line.event.message for line in events_of(tmp_path / "run") if isinstance(line.event, Warned)]
    assert warnings[0] == "All rows have the same label, so there is nothing to distinguish."
    assert "no server can be proven to answer with it" in warnings[1]  # one step with a small learning rate


def test_a_batch_of_one_is_refused_where_others_are_needed():
    settings = {"kind": "kto", "model": {"path": "m"}, "data": {"train": "t"}, "optimizer": {"batch_size": 1}}
    with pytest.raises(InvalidConfig, match="batch_size: got 1, expected 2 or more"):
        KtoConfig.from_json(settings)
    KtoConfig.from_json({**settings, "loss": "apo_zero_unpaired"})

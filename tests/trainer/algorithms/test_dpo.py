"""DPO over TRL: its log-probabilities are those of the policy's own tokens, checked against values computed here."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from datasets import Dataset
from trl.trainer.dpo_config import DPOConfig as TrlDpoConfig
from trl.trainer.dpo_trainer import DPOTrainer

from contract.configs import DpoConfig, DpoLoss, InvalidConfig
from contract.events import CheckpointSaved, Failed, Metrics, Started
from contract.rows import PreferenceRow
from tests.trainer.policies import (
    ANSWER,
    NOTHING,
    preference_rows,
    qwen3_tokenizer,
    save_policy,
    small_model,
    small_tokenizer,
)
from tests.trainer.rendering.test_chat import THINKS
from tests.trainer.runs import events_of, run_here
from trainer.algorithms.data_files import first_turns
from trainer.algorithms.dpo import PolicyTokenDpo, trl_arguments
from trainer.algorithms.preferences import Pair, PairCollator, pair_dataset, rendered_pair, usable
from trainer.failures import ExitCode
from trainer.rendering.templates import prepare_template

ROWS = preference_rows(4)
BETA = 0.2


def pairs_of(tokenizer: Any) -> list[Pair]:
    return usable([rendered_pair(tokenizer, PreferenceRow.from_json(row)) for row in ROWS], max_length=999).pairs


def trainer_for(tokenizer: Any, pairs: list[Pair], folder: Path, loss: TrlDpoConfig | None = None) -> PolicyTokenDpo:
    """A policy that has moved away from its reference, so that no term of the loss is zero."""
    usual = {"beta": BETA, "use_cpu": True, "report_to": [], "max_length": None, "remove_unused_columns": False}
    return PolicyTokenDpo(
        model=small_model(seed=1),
        ref_model=small_model(seed=2),
        args=loss or TrlDpoConfig(output_dir=str(folder), **usual),
        data_collator=PairCollator(tokenizer.pad_token_id),
        train_dataset=pair_dataset(pairs),
        processing_class=tokenizer,
    )


def logprob_by_hand(model: Any, tokenizer: Any, row: dict[str, Any], side: str, *, thinks: str) -> torch.Tensor:
    """The sum of the log-probabilities of the policy's tokens, from one unpadded forward pass over text written out here."""
    text = tokenizer.apply_chat_template(row["prompt"], tools=row["tools"], tokenize=False)
    pieces = [(text, False)]
    for message in row[side]:
        if message["role"] == "tool":
            response = f"<|im_start|>user\n<tool_response>\n{message['content']}\n</tool_response><|im_end|>\n"
            pieces.append((response, False))
            continue
        written = message["content"]
        for call in message.get("tool_calls", []):
            arguments = json.dumps(call["function"]["arguments"])
            written += f'<tool_call>\n{{"name": "{call["function"]["name"]}", "arguments": {arguments}}}\n</tool_call>'
        pieces += [("<|im_start|>assistant\n", False), (f"{thinks}{written}<|im_end|>", True), ("\n", False)]
    ids: list[int] = []
    own: list[int] = []
    for piece, mine in pieces:
        tokens = tokenizer(piece, add_special_tokens=False)["input_ids"]
        own += range(len(ids), len(ids) + len(tokens)) if mine else []
        ids += tokens
    logprobs = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    return torch.stack([logprobs[position - 1, ids[position]] for position in own]).sum()


def prepared(name: str) -> tuple[Any, str]:
    if name == "small":
        return small_tokenizer(), ""
    tokenizer = qwen3_tokenizer()
    prepare_template(tokenizer)
    return tokenizer, THINKS


@pytest.mark.parametrize("template", ["small", "qwen3"])
def test_logprobs_loss_and_rewards_are_those_computed_by_hand(template: str, tmp_path: Path):
    tokenizer, thinks = prepared(template)
    trainer = trainer_for(tokenizer, pairs_of(tokenizer), tmp_path)
    batch = trainer.data_collator(list(trainer.train_dataset))
    loss = trainer.compute_loss(trainer.model, batch)
    sums = {
        (which, side): torch.stack(
            [logprob_by_hand(model, tokenizer, row, side, thinks=thinks) for row in ROWS]
        ).detach()
        for which, model in (("policy", trainer.model), ("reference", trainer.ref_model))
        for side in ("chosen", "rejected")
    }
    ratios = {side: sums["policy", side] - sums["reference", side] for side in ("chosen", "rejected")}
    expected = -torch.nn.functional.logsigmoid(BETA * (ratios["chosen"] - ratios["rejected"])).mean()
    metrics = trainer._metrics["train"]
    assert metrics["logps/chosen"] == [pytest.approx(sums["policy", "chosen"].mean().item(), rel=1e-5)]
    assert metrics["logps/rejected"] == [pytest.approx(sums["policy", "rejected"].mean().item(), rel=1e-5)]
    # A ratio is the difference of two sums, and float32 keeps a sum to a relative precision of about 1e-5.
    kept = BETA * 2e-5 * sums["policy", "chosen"].abs().max().item()
    assert metrics["rewards/chosen"] == [pytest.approx(BETA * ratios["chosen"].mean().item(), abs=kept)]
    torch.testing.assert_close(loss, expected, rtol=0, atol=2 * kept)


def test_trl_alone_would_train_on_tool_results(tmp_path: Path):
    """The reason for masking rows here: TRL counts tool results in the same rows as part of the completion."""
    tokenizer = small_tokenizer()
    theirs = DPOTrainer(
        model=small_model(),
        ref_model=small_model(),
        args=TrlDpoConfig(output_dir=str(tmp_path), use_cpu=True, report_to=[]),
        train_dataset=Dataset.from_list(ROWS, on_mixed_types="use_json"),
        processing_class=tokenizer,
    )
    completion = tokenizer.decode(theirs.train_dataset[0]["chosen_ids"])
    pair = pairs_of(tokenizer)[0]
    own = tokenizer.decode([token for token, mine in zip(*pair.chosen, strict=True) if mine])
    assert '<tool_response>\n[{"file": "f0"}]\n</tool_response>' in completion
    assert "<tool_response>" not in own
    assert own.count("<|im_end|>") == 2


def test_a_rows_weight_scales_its_gradient_and_nothing_else(tmp_path: Path):
    tokenizer = small_tokenizer()
    pairs = pairs_of(tokenizer)[:2]

    def gradient(*weights: float) -> torch.Tensor:
        weighted = [pair._replace(weight=weight) for pair, weight in zip(pairs, weights, strict=True)]
        trainer = trainer_for(tokenizer, weighted, tmp_path)
        trainer.compute_loss(trainer.model, trainer.data_collator(list(trainer.train_dataset))).backward()
        return trainer.model.model.layers[0].self_attn.q_proj.weight.grad

    first, second = gradient(1, 0), gradient(0, 1)
    torch.testing.assert_close(gradient(3, 0.5), 3 * first + 0.5 * second)


@pytest.mark.parametrize("template", ["small", "qwen3"])
def test_a_step_preference_is_the_first_turn_of_each_side(template: str, tmp_path: Path):
    """The conversation up to the step is the prompt; what comes after the step carries no loss and isn't even read."""
    tokenizer, thinks = prepared(template)
    steps = [first_turns(PreferenceRow.from_json(row)) for row in ROWS]
    pairs = usable([rendered_pair(tokenizer, step) for step in steps if step], max_length=999).pairs
    trainer = trainer_for(tokenizer, pairs, tmp_path)
    trainer.compute_loss(trainer.model, trainer.data_collator(list(trainer.train_dataset)))
    for side in ("chosen", "rejected"):
        cut = [{**row, side: row[side][:1]} for row in ROWS]
        sums = [logprob_by_hand(trainer.model, tokenizer, row, side, thinks=thinks).item() for row in cut]
        assert trainer._metrics["train"][f"logps/{side}"] == [pytest.approx(sum(sums) / len(sums), rel=1e-5)]


def test_rows_in_which_no_turn_is_preferred_make_no_step_preference():
    row = PreferenceRow.from_json(ROWS[0])
    assert first_turns(replace(row, tie=True)) is None
    assert first_turns(replace(row, rejected=[NOTHING, ANSWER])) is None


@pytest.mark.parametrize("loss", get_args(DpoLoss))
def test_every_loss_variant_takes_a_step(loss: str, tmp_path: Path):
    smoothing = 0.1 if loss == "exo_pair" else 0.0
    config = DpoConfig.from_json(
        {"kind": "dpo", "model": {"path": "m"}, "data": {"train": "t"}, "loss": loss, "label_smoothing": smoothing}
    )
    arguments = trl_arguments(config, tmp_path, rows=4, has_validation=False)
    tokenizer = small_tokenizer()
    trainer = trainer_for(tokenizer, pairs_of(tokenizer), tmp_path, loss=arguments)
    trainer.compute_loss(trainer.model, trainer.data_collator(list(trainer.train_dataset))).backward()
    assert trainer.model.model.layers[0].self_attn.q_proj.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("change", [{"label_smoothing": 0.1}, {"loss": "exo_pair"}])
def test_smoothing_goes_with_the_losses_that_know_it(change: dict[str, Any]):
    with pytest.raises(InvalidConfig, match="label_smoothing"):
        DpoConfig.from_json({"kind": "dpo", "model": {"path": "m"}, "data": {"train": "t"}, **change})


def dpo_run(folder: Path, *, rows: int = 12, **changes: Any) -> dict[str, Any]:
    """A run in `folder/run`, on a small policy next to it."""
    save_policy(folder / "base")
    (folder / "run").mkdir()
    for name, part in (("train", preference_rows(rows)), ("validation", preference_rows(4))):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return {
        "kind": "dpo",
        "model": {"path": "../base"},
        "data": {"train": "../train.jsonl", "validation": "../validation.jsonl"},
        "optimizer": {"learning_rate": 1e-3, "batch_size": 4, "max_steps": 6},
        "checkpoints": {"every": 2},
        **changes,
    }


@pytest.mark.parametrize("lora", [None, {"rank": 2}])
def test_the_reference_computes_as_the_policy_does(lora: dict[str, Any] | None, tmp_path: Path):
    """In different precisions, the two would differ before anything is learned, by nats over a long run; equal models have a first loss of ln 2."""
    optimizer = {"learning_rate": 1e-9, "batch_size": 4, "max_steps": 1, "precision": "bfloat16"}
    assert run_here(tmp_path / "run", dpo_run(tmp_path, lora=lora, optimizer=optimizer)) == ExitCode.FINISHED
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["loss"]["first"] == pytest.approx(math.log(2), abs=1e-6)


def test_a_run_learns_reports_and_leaves_a_policy(tmp_path: Path):
    folder = tmp_path / "run"
    assert run_here(folder, dpo_run(tmp_path, evaluate_every=3)) == ExitCode.FINISHED
    events = [line.event for line in events_of(folder)]
    started = next(event for event in events if isinstance(event, Started))
    assert (started.total_steps, started.step) == (6, 0)
    assert started.trainable_parameters == started.total_parameters > 1000
    train = [event for event in events if isinstance(event, Metrics) and "loss" in event.values]
    assert [event.step for event in train] == [1, 2, 3, 4, 5, 6]
    assert train[0].values["loss"] == pytest.approx(0.6931, abs=1e-4)  # log 2: policy and reference are equal
    assert train[-1].values["loss"] < 0.65
    assert train[-1].values["rewards/margins"] > 0
    expected = {"learning_rate", "grad_norm", "tokens_per_second", "memory_mb", "rewards/chosen", "rewards/rejected"}
    assert expected | {"rewards/accuracies"} <= train[0].values.keys()
    evaluations = [event for event in events if isinstance(event, Metrics) and "eval/loss" in event.values]
    assert [event.step for event in evaluations] == [0, 3, 6]
    assert "eval/rewards/accuracies" in evaluations[-1].values
    assert [event.path for event in events if isinstance(event, CheckpointSaved)] == [
        "checkpoints/checkpoint-2",
        "checkpoints/checkpoint-4",
        "checkpoints/checkpoint-6",
    ]
    assert sorted(path.name for path in (folder / "checkpoints").glob("checkpoint-*")) == [
        "checkpoint-4",
        "checkpoint-6",
    ]
    report = json.loads((folder / "report.json").read_text())
    assert report["validation"]["after"]["loss"] < report["validation"]["before"]["loss"]
    assert report["rows"] == {**report["rows"], "train": 12, "validation": 4, "too_long": 0, "identical": 0}
    names = {path.name for path in (folder / "model").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= names


def test_lora_leaves_an_adapter_and_a_merged_policy(tmp_path: Path):
    folder = tmp_path / "run"
    config = dpo_run(tmp_path, lora={"rank": 2}, optimizer={"learning_rate": 1e-2, "batch_size": 4, "max_steps": 2})
    assert run_here(folder, config) == ExitCode.FINISHED
    started = next(line.event for line in events_of(folder) if isinstance(line.event, Started))
    assert 0 < started.trainable_parameters < started.total_parameters / 5
    assert (folder / "adapter" / "adapter_model.safetensors").is_file()
    assert (folder / "model" / "model.safetensors").is_file()
    assert not (folder / "model" / "adapter_config.json").exists()


@pytest.mark.parametrize(
    ("spoil", "category", "message"),
    [
        (
            {"rows": 3},
            "data",
            "../train.jsonl has 3 usable rows (0 too long, 0 with two equal sides). Expected at least 4",
        ),
        ({"optimizer": {"max_length": 20}}, "data", "(12 too long, 0 with two equal sides)"),
        ({"data": {"train": "../none.jsonl"}}, "data", "There is no data file"),
        ({"model": {"path": "../nowhere"}}, "config", "model.path: there is no folder '../nowhere'"),
        ({"model": {"path": "../run"}}, "config", "model.path: cannot load '../run'"),
    ],
)
def test_what_cannot_be_trained_says_why(tmp_path: Path, spoil: dict[str, Any], category: str, message: str):
    folder = tmp_path / "run"
    code = run_here(folder, dpo_run(tmp_path, **spoil))
    last = events_of(folder)[-1].event
    assert isinstance(last, Failed)
    assert (last.category, code.name.lower()) == (category, category)
    assert message in last.message


def test_a_corrupt_row_is_named_by_its_number(tmp_path: Path):
    config = dpo_run(tmp_path)
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write('{"prompt": [{"role": "user", "content": "Hi"}], "chosen": [\n')
    assert run_here(tmp_path / "run", config) == ExitCode.DATA
    last = events_of(tmp_path / "run")[-1].event
    assert isinstance(last, Failed)
    assert "Row 13 of train.jsonl cannot be used: it isn't JSON" in last.message

"""What is known before a run starts: the model's size, the memory, and refusals."""

import json
import shutil
import socket
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import DryRunFileInfo, HfApi

from apps.policies.models import Policy
from apps.training.launch import check_with_worker, key_of
from contract.configs import DpoConfig, ScratchConfig, SftConfig, run_config_from_json
from tests import factories
from tests.training.test_launch import a_plan
from trainer.failures import OutOfMemory, RunFailure
from workers.bridge import capacity, estimates, preflight
from workers.bridge.capacity import Capacity, local_capacity
from workers.bridge.estimates import (
    Unreadable,
    estimate,
    gpu_tflops,
    seconds_of,
    shape_of_folder,
    shape_of_hub,
    shape_of_scratch,
)
from workers.tasks import check_plan

SHAPE = {"hidden_size": 1024, "num_hidden_layers": 28, "intermediate_size": 3072, "vocab_size": 151_936}


@pytest.fixture(autouse=True)
def model_roots(settings, tmp_path: Path) -> None:
    settings.MODEL_ROOTS = [tmp_path]


def a_model(folder: Path, parameters: int = 600_000_000) -> Path:
    """config.json and the header of a weights file, which is all that is read before a run."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(SHAPE))
    header = {"__metadata__": {}, "w": {"dtype": "BF16", "shape": [1000, parameters // 1000], "data_offsets": [0, 0]}}
    body = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(body)) + body)
    return folder


def dpo(**changes) -> DpoConfig:
    config = run_config_from_json(
        {"kind": "dpo", "model": {"path": "/models/base"}, "data": {"train": "train.jsonl"}, **changes}
    )
    assert isinstance(config, DpoConfig)
    return config


def test_a_models_size_is_read_from_the_header_of_its_weights(tmp_path: Path):
    facts = shape_of_folder(a_model(tmp_path / "model"))
    assert (facts.parameters, facts.hidden, facts.layers) == (600_000_000, 1024, 28)


def test_a_second_copy_of_the_weights_beside_those_that_are_loaded_is_not_counted(tmp_path: Path):
    """Some models on the hub come in their makers' own format, too."""
    model = a_model(tmp_path / "model")
    shutil.copy(model / "model.safetensors", model / "consolidated.safetensors")
    assert shape_of_folder(model).parameters == 600_000_000


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "isn't JSON"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"no \*.safetensors"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\xff" * 20), "isn't a safetensors file"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "isn't a safetensors file"),
    ],
)
def test_a_folder_without_a_readable_model_is_named(tmp_path: Path, spoil, words: str):
    folder = a_model(tmp_path / "model")
    spoil(folder)
    with pytest.raises(Unreadable, match=words):
        shape_of_folder(folder)


@pytest.fixture
def on_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Stands in for a hub whose model has this config.json; returns the revisions that were downloaded."""

    def put(config: str, *, size: int | None = None) -> list[str | None]:
        path = tmp_path / "config.json"
        path.write_text(config)
        downloaded: list[str | None] = []

        def download(model: str, file: str, *, revision: str | None, etag_timeout: float, dry_run: bool = False):
            if dry_run:
                length = len(config) if size is None else size
                return DryRunFileInfo("c0ffee", length, file, str(path), is_cached=False, will_download=True)
            downloaded.append(revision)
            return str(path)

        described = SimpleNamespace(safetensors=SimpleNamespace(total=600_000_000))
        monkeypatch.setattr(estimates, "HfApi", lambda: SimpleNamespace(model_info=lambda *_, **__: described))
        monkeypatch.setattr(estimates, "hf_hub_download", download)
        return downloaded

    return put


def test_a_hub_models_size_is_read_from_the_config_that_was_measured(on_the_hub):
    downloaded = on_the_hub(json.dumps(SHAPE))
    facts = shape_of_hub("owner/base", "main")
    assert facts is not None
    assert (facts.parameters, facts.hidden, facts.layers) == (600_000_000, 1024, 28)
    assert downloaded == ["c0ffee"]


def test_nothing_is_said_of_a_hub_model_while_the_hub_cannot_be_reached(monkeypatch):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # not listening: connections are refused
        hub = HfApi(endpoint=f"http://127.0.0.1:{nobody.getsockname()[1]}")
        monkeypatch.setattr(estimates, "HfApi", lambda: hub)
        assert shape_of_hub("owner/base", None) is None


def test_a_large_config_on_the_hub_is_not_downloaded(on_the_hub):
    downloaded = on_the_hub(json.dumps(SHAPE), size=20 << 30)
    with pytest.raises(Unreadable, match="more than 4 MiB"):
        shape_of_hub("owner/base", None)
    assert downloaded == []


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{", "isn't JSON"),
        ("[" * 200_000, "isn't JSON"),
        ("[]", "doesn't describe a model"),
        ('{"text_config": 7}', "doesn't describe a model"),
        ('{"hidden_size": "wide"}', "doesn't describe a model"),
        ('{"hidden_size": Infinity}', "doesn't describe a model"),
        ('{"num_hidden_layers": 1' + "0" * 400 + "}", "doesn't describe a model"),
        ('{"vocab_size": -1}', "doesn't describe a model"),
    ],
)
def test_a_config_on_the_hub_that_describes_no_model_is_named(on_the_hub, config: str, words: str):
    on_the_hub(config)
    with pytest.raises(Unreadable, match=words):
        shape_of_hub("owner/base", None)


def test_full_dpo_takes_weights_gradients_adam_and_a_reference(tmp_path: Path):
    facts = shape_of_folder(a_model(tmp_path / "model"))
    needs = estimate(dpo(), facts, row_tokens=1, has_bf16=False)
    # 600 M × (4 weights + 12 gradient and Adam + 4 reference) = 12,000 MB; one token each for 16 sequences is negligible.
    assert 12_900 <= needs.memory_mb < 13_000
    lora = estimate(dpo(lora={"rank": 16}), facts, row_tokens=1, has_bf16=True)
    assert lora.memory_mb < 2_500  # 600 M × 2 bytes, and adapters


def test_logits_take_no_more_for_more_rows_than_fill_a_tile(tmp_path: Path):
    """Pairs of 2,048 tokens from a 0.6 B model with adapters fit a card of 24 GB, four at once: TRL never has all their logits."""
    facts = shape_of_folder(a_model(tmp_path / "model"))
    optimizer = {"batch_size": 4, "gradient_checkpointing": True, "max_length": 4096}
    few, many = (
        estimate(dpo(lora={}, optimizer=optimizer), facts, row_tokens=tokens, has_bf16=True) for tokens in (512, 2048)
    )
    # 12,288 more tokens, of each 28 × 1024 kept values and one layer's activations, in two bytes.
    assert many.memory_mb - few.memory_mb == pytest.approx(12_288 * 2 * (28 * 1024 + 9 * 1024 + 3 * 3072) / 1e6, abs=1)
    assert many.memory_mb < 10_000


def test_longer_rows_and_larger_batches_take_more_and_recomputing_less(tmp_path: Path):
    facts = shape_of_folder(a_model(tmp_path / "model"))
    short = estimate(dpo(), facts, row_tokens=256, has_bf16=True)
    long = estimate(dpo(), facts, row_tokens=2048, has_bf16=True)
    beyond = estimate(dpo(), facts, row_tokens=100_000, has_bf16=True)
    recomputed = estimate(dpo(optimizer={"gradient_checkpointing": True}), facts, row_tokens=2048, has_bf16=True)
    assert short.memory_mb < long.memory_mb == beyond.memory_mb  # max_length is 2048
    assert recomputed.memory_mb < long.memory_mb


def test_the_size_of_a_model_from_scratch_is_what_the_trainer_counts():
    assert shape_of_scratch(ScratchConfig(vocabulary=600)).parameters == 706_176 - 1_152  # except the norms


def test_the_time_is_that_of_the_passes_over_the_rows(tmp_path: Path):
    facts = shape_of_folder(a_model(tmp_path / "model"))
    facts_given = {"rows": 1000, "validation_rows": 0, "row_tokens": 500, "tflops": 100.0}
    # Rows of 500 tokens are padded to 625. A token meets 600 M weights, and in each of 28 layers 625 others, 1,024 numbers wide: 617.92 M operations a
    # pass, halved. 1,000 pairs of two, 2 forward + 4 backward + 2 of the reference: 6.1792e15 operations in all, and 125 steps.
    assert seconds_of(dpo(), facts, **facts_given) == pytest.approx(61.792 + 125 * 0.05)
    assert seconds_of(dpo(lora={"rank": 16}), facts, **facts_given) == pytest.approx(61.792 * 6 / 8 + 125 * 0.05)
    evaluated = seconds_of(dpo(), facts, **{**facts_given, "validation_rows": 100})
    # Before the first step, after 12, 24, …, 120, and at the end.
    assert evaluated == pytest.approx(61.792 + 6.25 + 12 * 100 * 2 * 625 * 4 * 617.92e6 / 1e14)
    often = seconds_of(dpo(evaluate_every=5), facts, **{**facts_given, "validation_rows": 100})
    assert often == pytest.approx(61.792 + 6.25 + 26 * 100 * 2 * 625 * 4 * 617.92e6 / 1e14)
    assert gpu_tflops("NVIDIA H200") == pytest.approx(989 * 0.35)
    assert gpu_tflops("Some new card") is None


@pytest.mark.django_db
def test_a_plan_is_answered_with_its_size_and_its_run_json(tmp_path: Path):
    base = factories.policy(kind=Policy.Kind.MODEL, location=str(a_model(tmp_path / "model")))
    capacity.report()
    plan = a_plan(workspace=base.workspace, base=base)
    check_plan(key_of(plan), plan.as_json())
    check = check_with_worker(plan)
    assert check.parameters == 600_000_000
    assert check.device
    assert (check.seconds_high or 0) > 0
    assert json.loads(check.run_json)["kind"] == "dpo"


@pytest.mark.django_db
def test_what_does_not_fit_the_largest_worker_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    base = factories.policy(kind=Policy.Kind.MODEL, location=str(a_model(tmp_path / "model")))
    monkeypatch.setattr(preflight, "largest_capacity", lambda: Capacity("1 GPU", 8_000, on_gpu=True))
    check = preflight.check(a_plan(workspace=base.workspace, base=base).as_json())
    assert check.state == "refused"
    assert check.refusals[0].field == "optimizer.batch_size"
    assert "(1 GPU) has 8.0 GB" in check.refusals[0].message


@pytest.mark.django_db
def test_four_bits_need_a_gpu_and_take_less_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    base = factories.policy(kind=Policy.Kind.MODEL, location=str(a_model(tmp_path / "model")))
    plan = a_plan(workspace=base.workspace, base=base, method="qlora").as_json()
    monkeypatch.setattr(preflight, "largest_capacity", lambda: Capacity("CPU", 64_000, on_gpu=False))
    check = preflight.check(plan)
    assert (check.state, [refusal.field for refusal in check.refusals]) == ("refused", ["method"])
    monkeypatch.setattr(preflight, "largest_capacity", lambda: Capacity("1 GPU", 64_000, on_gpu=True, has_bf16=True))
    assert preflight.check(plan).state == "passed"
    facts = shape_of_folder(tmp_path / "model")
    lora, qlora = (
        estimate(dpo(lora={"quantized": quantized}), facts, row_tokens=1, has_bf16=True) for quantized in (False, True)
    )
    # 600 M × (2 bytes - 0.55 bytes) = 870 MB less
    assert lora.memory_mb - qlora.memory_mb == pytest.approx(870, abs=2)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("algorithm", "row_type"), [("kto", "unpaired"), ("process_reward_model", "steps"), ("star", None)]
)
def test_every_algorithms_plan_becomes_a_run_json(tmp_path: Path, algorithm: str, row_type: str | None):
    base = factories.policy(kind=Policy.Kind.MODEL, location=str(a_model(tmp_path / "model")))
    version = factories.dataset_version(of=base.workspace, row_type=row_type) if row_type else None
    plan = a_plan(workspace=base.workspace, base=base, algorithm=algorithm, version=version)
    assert json.loads(preflight.check(plan.as_json()).run_json)["kind"] == algorithm


@pytest.mark.django_db
def test_a_missing_folder_is_refused_at_the_base(tmp_path: Path):
    base = factories.policy(kind=Policy.Kind.MODEL, location=str(tmp_path / "nothing"))
    check = preflight.check(a_plan(workspace=base.workspace, base=base).as_json())
    assert (check.state, check.refusals[0].field) == ("refused", "base")
    assert f"There is no folder {tmp_path / 'nothing'}" in check.refusals[0].message


@pytest.mark.django_db
def test_a_reward_model_whose_weights_are_gone_is_refused_at_its_term(tmp_path: Path):
    base = factories.policy(kind=Policy.Kind.MODEL, location=str(a_model(tmp_path / "model")))
    model = factories.trained_policy(of=base.workspace, kind=Policy.Kind.REWARD_MODEL, name="taste")
    terms = [{"component": "outcome"}, {"component": "learned_outcome", "policy": str(model.pk)}]
    changes = {"rewards": {"terms": terms}}
    plan = a_plan(workspace=base.workspace, base=base, algorithm="grpo", version=None, changes=changes)
    [refusal] = preflight.check(plan.as_json()).refusals
    assert refusal.field == "rewards.terms[1].policy"
    assert refusal.message.startswith("The training run that made taste left no model, or its folder ")


@pytest.mark.django_db
def test_without_a_worker_the_page_says_that_nobody_knows():
    plan = a_plan(base=None, algorithm="sft")
    check = preflight.check(plan.as_json())
    assert check.state == "passed"
    assert any("No training worker" in note for note in check.notes)


@pytest.mark.django_db
@pytest.mark.parametrize(("failed", "is_told"), [(5, False), (30, True)])
def test_whoever_plans_is_told_of_many_pairs_of_two_failures(tmp_path: Path, failed: int, is_told: bool):
    base = factories.policy(kind=Policy.Kind.MODEL, location=str(a_model(tmp_path / "model")))
    card = {"failed_pairs": {"count": failed, "of": 100, "share": failed / 100, "low": 0.0, "high": 1.0}}
    version = factories.dataset_version(of=base.workspace, card=card)
    check = preflight.check(a_plan(workspace=base.workspace, base=base, version=version).as_json())
    told = [note for note in check.notes if "both trajectories failed" in note]
    note = (
        f"In {failed} of 100 rows, both trajectories failed. A policy may learn from them to fail sooner. "
        "To freeze a version without them, set “Pairs of two failures” to “Leave them out”."
    )
    assert told == ([note] if is_told else [])


@pytest.mark.django_db
def test_the_worker_looks_again_at_what_it_really_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from apps.training.folders import RunFolder

    config = run_config_from_json(
        {"kind": "sft", "model": {"path": str(a_model(tmp_path / "model"))}, "data": {"train": "train.jsonl"}}
    )
    assert isinstance(config, SftConfig)
    monkeypatch.setattr(preflight, "local_capacity", lambda: Capacity("CPU", 1_000, on_gpu=False))
    with pytest.raises(OutOfMemory, match="Nothing was started"):
        preflight.check_feasibility(config, RunFolder(tmp_path), version=factories.dataset_version(), base=None)


@pytest.mark.django_db
def test_a_run_that_is_resumed_needs_no_second_room_for_what_it_has_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from apps.training.folders import RunFolder

    model = {"path": str(a_model(tmp_path / "base", parameters=1_000_000))}
    config = run_config_from_json({"kind": "sft", "model": model, "data": {"train": "train.jsonl"}})
    assert isinstance(config, SftConfig)
    run = RunFolder(tmp_path / "run")
    monkeypatch.setattr(RunFolder, "free_bytes", lambda _: 10_000_000)  # each checkpoint takes 12 MB
    with pytest.raises(RunFailure, match="has 10 MB left") as refused:
        preflight.check_feasibility(config, run, version=factories.dataset_version(), base=None)
    assert refused.value.advice == "Once there is space, resume it."
    for step in (10, 20, 30):
        checkpoint = run.path / "checkpoints" / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "optimizer.pt").write_bytes(b"0" * 12_000_000)
    preflight.check_feasibility(config, run, version=factories.dataset_version(), base=None)


@pytest.mark.parametrize(("capability", "has_bf16"), [("7.5", False), ("8.0", True), ("10.0", True)])
def test_a_gpu_before_ampere_has_no_bfloat16_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capability: str, has_bf16: bool
):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho 'Tesla T4, 15360, {capability}'\n")
    program.chmod(0o755)
    monkeypatch.setattr("workers.bridge.capacity.shutil.which", lambda _: str(program))
    capacity = local_capacity()
    assert (capacity.on_gpu, capacity.has_bf16, capacity.memory_mb) == (True, has_bf16, pytest.approx(16_106, abs=1))


@pytest.mark.django_db
@pytest.mark.parametrize("has_bf16", [False, True])
def test_whoever_plans_is_told_where_bfloat16_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_bf16: bool
):
    base = factories.policy(kind=Policy.Kind.MODEL, location=str(a_model(tmp_path / "model")))
    monkeypatch.setattr(
        preflight, "largest_capacity", lambda: Capacity("1 GPU", 64_000, on_gpu=True, has_bf16=has_bf16)
    )
    check = preflight.check(a_plan(workspace=base.workspace, base=base).as_json())
    assert any("doesn't support bfloat16 natively" in note for note in check.notes) is not has_bf16

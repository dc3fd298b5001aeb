"""Runs with the real trainer, from a claimed row to a new policy."""

import json
from pathlib import Path

import pytest
from django.core.files.storage import default_storage

from apps.accounts.models import Workspace
from apps.datasets.models import Version
from apps.jobs import lifecycle
from apps.policies.models import Policy
from apps.training.folders import folder_of, read_log
from apps.training.launch import RUNS
from apps.training.models import Run
from tests import factories
from tests.workers.frozen_versions import SMALLEST, freeze, office_pairs, small_base
from workers.bridge import preflight
from workers.bridge.capacity import Capacity
from workers.bridge.supervisor import supervise
from workers.bridge.training_job import TrainingJob

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    return office_pairs(tmp_path_factory.mktemp("pairs"), 12)


@pytest.fixture
def version(pairs: list[dict]) -> Version:
    return freeze({"train": pairs[:8], "validation": pairs[8:]}, of=factories.workspace())


def sft(version: Version, **config: object) -> Run:
    """Four steps of fine-tuning a model from scratch."""
    return Run.objects.create(
        workspace=version.workspace,
        name="sft",
        algorithm=Run.Algorithm.SFT,
        version=version,
        config={
            "model": {"scratch": SMALLEST},
            "optimizer": {"batch_size": 4, "max_steps": 4, "learning_rate": 0.002},
            "checkpoints": {"every": 2},
            **config,
        },
    )


def work_on(run: Run) -> Run:
    taken = lifecycle.claim(RUNS, run.pk, worker="here:1")
    assert taken is not None
    supervise(TrainingJob(taken))
    return Run.objects.get(pk=run.pk)


@pytest.fixture(scope="module")
def a_model(tmp_path_factory: pytest.TempPathFactory, pairs: list[dict]) -> Path:
    """Weights of a base model, trained once for this file."""
    from tests.trainer.runs import run_here

    folder = tmp_path_factory.mktemp("base")
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs))
    optimizer = {"batch_size": 4, "max_steps": 1}
    run_here(
        folder,
        {"kind": "sft", "model": {"scratch": SMALLEST}, "data": {"train": "train.jsonl"}, "optimizer": optimizer},
    )
    return folder / "model"


def test_a_run_becomes_a_policy_with_metrics_checkpoint_and_report(version: Version):
    run = work_on(sft(version))
    assert (run.state, run.step, run.total_steps, run.checkpoint_step) == ("finished", 4, 4, 4)
    assert run.failure == {}
    assert run.result is not None
    assert run.result.kind == Policy.Kind.MODEL
    assert [checkpoint.step for checkpoint in run.result.checkpoints.order_by("step")] == [2, 4]
    assert run.result.settings == {"parameters": run.parameters}
    assert (folder_of(run.pk).model / "model.safetensors").is_file()
    assert set(run.metrics.values_list("step", flat=True)) >= {1, 2, 3, 4}
    assert run.metrics.get(step=4).values["loss"] > 0
    assert "eval/loss" in run.metrics.get(step=4).values
    assert set(run.events.values_list("kind", flat=True)) >= {"taken", "started", "checkpoint", "finished"}
    assert run.report["kind"] == "sft"


def test_a_run_leaves_its_pace_to_those_that_are_planned_after_it(version: Version):
    run = work_on(sft(version))
    assert run.step_seconds is not None
    assert run.finished_at is not None
    assert run.running_since is not None
    took = (run.finished_at - run.running_since).total_seconds()
    assert 0 < run.step_seconds * run.step < took
    assert (run.evaluation_seconds or 0) > 0
    assert run.evaluations_ahead == 0
    assert run.expected_because.startswith("calculated from a probe of the worker's processor")
    again = work_on(sft(version))
    assert again.expected_because.startswith("from 1 earlier run here")


def test_dpo_begins_from_the_base_and_names_it_as_its_parent(version: Version, a_model: Path, settings):
    settings.MODEL_ROOTS = [a_model.parent]
    base = small_base(version.workspace, a_model)
    run = work_on(
        factories.run(
            of=version.workspace,
            version=version,
            base=base,
            config={"optimizer": {"batch_size": 4, "max_steps": 2}, "beta": 0.2},
        )
    )
    assert run.failure == {}
    assert run.result is not None
    assert run.result.base == base
    assert {"loss", "rewards/margins", "rewards/accuracies"} <= set(run.metrics.get(step=2).values)
    assert json.loads(folder_of(run.pk).config.read_text())["beta"] == 0.2


def test_judged_steps_become_a_process_reward_model(pairs: list[dict], a_model: Path, settings):
    settings.MODEL_ROOTS = [a_model.parent]
    rows = [
        {"messages": pair["prompt"] + pair[side], "tools": pair["tools"], "first_error": error}
        for pair in pairs[:4]
        for side, error in (("chosen", -1), ("rejected", 0))
    ]
    version = freeze({"train": rows, "validation": rows[:2]}, of=factories.workspace())
    run = work_on(
        factories.run(
            of=version.workspace,
            algorithm=Run.Algorithm.PROCESS_REWARD_MODEL,
            version=version,
            base=small_base(version.workspace, a_model),
            config={"optimizer": {"batch_size": 4, "max_steps": 2, "max_length": 20_000}},
        )
    )
    assert run.state == Run.State.FINISHED, run.failure
    assert run.result is not None
    assert run.result.kind == Policy.Kind.PROCESS_MODEL
    assert run.report["step_accuracy"]["n"] > 0
    assert not Policy.objects.acting().filter(pk=run.result.pk).exists()


def test_the_trainer_reads_the_very_bytes_that_were_frozen(version: Version):
    run = work_on(sft(version))
    for split in ("train", "validation"):
        stored = default_storage.open(version.files["jsonl"][split]["name"]).read()
        assert (folder_of(run.pk).path / f"{split}.jsonl").read_bytes() == stored


def test_a_changed_dataset_file_is_refused_by_its_hash_before_anything_starts(version: Version):
    name = version.files["jsonl"]["train"]["name"]
    with default_storage.open(name, "ab") as file:
        file.write(b"\n")
    run = work_on(sft(version))
    assert (run.state, run.failure["category"]) == ("failed", "data")
    assert "has changed since it was frozen" in run.failure["message"]
    assert read_log(folder_of(run.pk)).text == ""
    assert run.process_id is None


def test_a_missing_dataset_file_is_named(version: Version):
    default_storage.delete(version.files["jsonl"]["train"]["name"])
    run = work_on(sft(version))
    assert run.failure["category"] == "data"
    assert version.files["jsonl"]["train"]["name"] in run.failure["message"]


def test_a_row_that_cannot_be_used_is_a_failure_of_the_data(pairs: list[dict]):
    version = freeze({"train": [*pairs[:4], {"prompt": []}]}, of=factories.workspace())
    run = work_on(sft(version))
    assert run.failure["category"] == "data"
    assert run.failure["message"].startswith("Row 5 of train.jsonl cannot be used")
    assert run.failure["command"].endswith("run.json")


def test_a_resumed_run_goes_on_from_its_checkpoint_and_counts_on(version: Version):
    run = work_on(sft(version))
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED, result=None, finished_at=None)
    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED)
    before = run.events_seq
    again = work_on(run)
    assert again.state == Run.State.FINISHED
    assert again.events_seq > before
    assert again.attempt == 2


def test_a_child_that_does_not_exist_is_reported_with_its_last_line(version: Version, settings):
    settings.TRAINER_COMMAND = [settings.TRAINER_COMMAND[0], "-m", "no_such_trainer"]
    run = work_on(sft(version))
    assert (run.state, run.failure["category"]) == ("failed", "crash")
    assert "No module named no_such_trainer" in run.failure["message"]
    assert run.failure["log"][-1].endswith("No module named no_such_trainer")


def test_a_child_that_exceeds_its_address_space_ran_out_of_memory(
    version: Version, settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(preflight, "local_capacity", lambda: Capacity("CPU", 64_000, on_gpu=False))  # so that it starts
    settings.TRAINER_MEMORY_MB = 600  # importing torch alone maps more than this
    run = work_on(sft(version))
    assert (run.state, run.failure["category"]) == ("failed", "out_of_memory"), run.failure
    assert "batch" in run.failure["advice"]
    assert read_log(folder_of(run.pk)).text


def test_what_cannot_fit_is_refused_before_anything_starts(version: Version, settings):
    settings.TRAINER_MEMORY_MB = 600
    run = work_on(sft(version))
    assert run.failure["category"] == "out_of_memory"
    assert "Nothing was started" in run.failure["message"]
    assert run.process_id is None
    assert Workspace.objects.filter(pk=run.workspace_id).exists()

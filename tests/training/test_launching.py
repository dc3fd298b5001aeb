"""A launch is checked before anything is stored, and each refusal has its name."""

from dataclasses import replace
from typing import get_args, get_type_hints

import pytest
from django.core.cache import cache

from apps.accounts.models import AuditEntry
from apps.datasets.models import Version
from apps.policies.models import Policy
from apps.training.checking import (
    Check,
    Refusal,
    RefusedByWorker,
    answer,
    check_with_worker,
    key_of,
    refuse_if_known,
)
from apps.training.choices import LOSSES, ONLY_FOR, InvalidSetting
from apps.training.launching import (
    BaseMissing,
    DataTooSmall,
    FolderMissing,
    LaunchRefused,
    NotFrozen,
    NotTrainable,
    Plan,
    RolloutsUneven,
    SplitEmpty,
    VersionMissing,
    VersionUnused,
    WrongRows,
    launch_run,
)
from apps.training.models import Run
from apps.training.recipes import PRESETS, RunSettings, settings_from
from tests import factories
from trainer.configs import GrpoConfig, KtoConfig, run_config_from_json
from trainer.configs.training import DpoLoss
from workers.bridge.configs import training_config

pytestmark = pytest.mark.django_db


def a_plan(**changes) -> Plan:
    workspace = changes.pop("workspace", None) or factories.workspace()
    version = changes.pop("version", None) or factories.dataset_version(of=workspace)
    base = changes.pop("base", "a model")
    if base == "a model":
        base = factories.policy(of=workspace, kind=Policy.Kind.MODEL, location="example/base")
    return Plan(
        **{
            "workspace": workspace,
            "name": "first",
            "algorithm": "dpo",
            "version": version,
            "base": base,
            "preset": "standard",
            "settings": RunSettings(batch_size=4),
            **changes,
        }
    )


def test_a_launch_queues_a_run_and_is_audited(django_capture_on_commit_callbacks):
    plan, person = a_plan(), factories.member().user
    with django_capture_on_commit_callbacks() as sent:
        run = launch_run(plan=plan, by=person)
    assert len(sent) == 1
    assert (run.state, run.total_steps, run.created_by) == ("queued", 10, person)  # 40 rows, 4 a step, once
    assert run.config["optimizer"]["batch_size"] == 4
    assert AuditEntry.objects.get(action="launched a run").subject_id == str(run.pk)


@pytest.mark.parametrize(
    ("refusal", "field", "change"),
    [
        (NotFrozen, "version", lambda ws: {"version": factories.dataset_version(of=ws, state=Version.State.FREEZING)}),
        (WrongRows, "version", lambda ws: {"version": factories.dataset_version(of=ws, row_type="steps")}),
        (SplitEmpty, "version", lambda ws: {"version": factories.dataset_version(of=ws, row_counts={"test": 5})}),
        (DataTooSmall, "version", lambda ws: {"settings": RunSettings(batch_size=16, gradient_accumulation=4)}),
        (BaseMissing, "base", lambda ws: {"base": None}),
        (NotTrainable, "base", lambda ws: {"base": factories.policy(of=ws)}),
        (NotTrainable, "base", lambda ws: {"base": factories.policy(of=ws, kind=Policy.Kind.REWARD_MODEL)}),
    ],
)
def test_what_cannot_be_is_refused_by_name(refusal: type[LaunchRefused], field: str, change):
    workspace = factories.workspace()
    plan = a_plan(workspace=workspace, **change(workspace))
    with pytest.raises(refusal) as caught:
        launch_run(plan=plan, by=factories.member().user)
    assert caught.value.field == field
    assert not Run.objects.exists()


def test_what_learns_from_its_own_rollouts_needs_a_base_and_no_version():
    workspace = factories.workspace()
    person = factories.member().user
    base = factories.policy(of=workspace, kind=Policy.Kind.MODEL, location="example/base")
    chosen = {"preset": "standard", "algorithm": "grpo", "method": "full", "parameters": 1_000_000}
    practice = settings_from(**chosen, changes={"levels": "L1 L2", "credit": "turn"})
    plan = replace(a_plan(workspace=workspace, algorithm="grpo", base=base, settings=practice), version=None)
    with pytest.raises(BaseMissing):
        launch_run(plan=replace(plan, base=None), by=person)
    with pytest.raises(VersionUnused):
        launch_run(plan=replace(plan, version=factories.dataset_version(of=workspace)), by=person)
    with pytest.raises(VersionMissing):
        launch_run(plan=replace(plan, algorithm="dpo"), by=person)
    with pytest.raises(RolloutsUneven, match="A step has 32 rollouts"):
        launch_run(plan=replace(plan, settings=replace(practice, samples=5)), by=person)
    run = launch_run(plan=plan, by=person)
    assert (run.version, run.total_steps) == (None, 60)
    config = training_config(run, files={})
    assert isinstance(config, GrpoConfig)
    assert (config.tasks.levels, config.credit, config.samples) == (("L1", "L2"), "turn", 8)


def test_a_base_whose_folder_is_gone_is_refused(settings):
    made = factories.trained_policy()
    plan = a_plan(workspace=made.workspace, base=made)
    with pytest.raises(FolderMissing, match=f"{made.made_by.pk}/model"):
        launch_run(plan=plan, by=factories.member().user)
    (settings.RUNS_DIR / str(made.made_by.pk) / "model").mkdir(parents=True)
    assert launch_run(plan=plan, by=factories.member().user).state == "queued"


def test_presets_and_single_changes_make_the_settings():
    chosen = {"preset": "standard", "algorithm": "dpo", "method": "lora", "parameters": 7_000_000_000}
    settings = settings_from(**chosen, changes={"beta": 0.3, "max_steps": 12})
    assert (settings.learning_rate, settings.beta, settings.max_steps, settings.rows_a_step) == (2e-5, 0.3, 12, 16)
    assert settings.as_config("dpo")["lora"] == {"rank": 16, "alpha": 32.0}
    assert "beta" not in settings.as_config("sft")


@pytest.mark.parametrize(
    ("algorithm", "changes", "expected"),
    [
        (
            "dpo",
            {"loss": "ipo", "scope": "step"},
            {"beta": 0.1, "loss": "ipo", "scope": "step", "label_smoothing": 0.0},
        ),
        ("kto", {"undesirable_weight": 2}, {"beta": 0.1, "desirable_weight": 1.0, "undesirable_weight": 2.0}),
        ("reward_model", {"tie_margin": 0.5}, {"tie_margin": 0.5, "margin": 0.0}),
        ("process_reward_model", {"error_weight": 3}, {"error_weight": 3.0}),
    ],
)
def test_each_algorithm_has_settings_of_its_own_which_the_trainer_takes(algorithm: str, changes: dict, expected: dict):
    settings = settings_from(
        preset="standard", algorithm=algorithm, method="qlora", parameters=7_000_000_000, changes=changes
    )
    config = settings.as_config(algorithm)
    assert {name: config[name] for name in config if name in ONLY_FOR} == expected
    assert config["lora"] == {"rank": 16, "alpha": 32.0, "quantized": True}
    read = run_config_from_json({"kind": algorithm, "model": {"path": "m"}, "data": {"train": "t"}, **config})
    assert read.kind == algorithm


def test_the_losses_offered_are_the_trainers():
    assert set(LOSSES["dpo"]) == set(get_args(DpoLoss))
    hints = get_type_hints(KtoConfig)
    assert set(LOSSES["kto"]) == set(get_args(hints["loss"]))


def test_a_small_model_gets_the_learning_rate_that_it_needs():
    chosen = {"preset": "quick", "algorithm": "sft", "method": "full", "changes": {}}
    assert settings_from(**chosen, parameters=0).learning_rate == 2e-3
    assert settings_from(**chosen, parameters=500_000_000).learning_rate == 1e-5


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"learning_rate": 0.0}, "learning_rate", "Got 0, expected 1e-08 to 1"),
        ({"batch_size": "many"}, "batch_size", "Got 'many', expected a whole number"),
        ({"batch_size": True}, "batch_size", "expected a whole number"),
        ({"batchsize": 4}, "batchsize", "There is no such setting"),
        ({"error_weight": 2}, "error_weight", "It is a setting of Process reward model alone"),
        ({"loss": "kto"}, "loss", "Got 'kto', expected one of sigmoid, "),
        ({"scope": "word"}, "scope", "Got 'word', expected one of step, trajectory"),
        ({"learning_rate": 10**399}, "learning_rate", "Got a number of 400 digits"),
        ({"batch_size": -(10**399)}, "batch_size", "Got a number of 400 digits"),
    ],
)
def test_a_setting_that_cannot_be_is_named(changes: dict, field: str, words: str):
    chosen = {"preset": "standard", "algorithm": "dpo", "method": "full", "parameters": None}
    with pytest.raises(InvalidSetting) as caught:
        settings_from(**chosen, changes=changes)
    assert caught.value.field == field
    assert words in str(caught.value)


def test_the_question_to_a_worker_goes_out_once(django_capture_on_commit_callbacks):
    plan = a_plan()
    with django_capture_on_commit_callbacks() as sent:
        assert check_with_worker(plan).state == "pending"
        assert check_with_worker(plan).state == "pending"
    assert len(sent) == 1


def test_a_workers_answer_is_found_by_the_same_plan_only():
    plan = a_plan()
    answer(key_of(plan), Check("refused", refusals=[Refusal("batch_size", "It does not fit.")], memory_mb=9.0))
    assert check_with_worker(plan).memory_mb == 9.0
    with pytest.raises(RefusedByWorker, match="It does not fit") as caught:
        refuse_if_known(plan, seconds=0)
    assert caught.value.field == "batch_size"
    assert check_with_worker(a_plan()).state == "pending"


def test_without_an_answer_nothing_is_refused():
    cache.clear()
    refuse_if_known(a_plan(), seconds=0)


def test_a_large_model_is_given_room_to_think_and_time_to_wait():
    """Cut off in its thought a turn calls nothing; cut off by the clock a rollout is unlearnt for being played on a slow machine."""
    large = PRESETS["standard"].settings(algorithm="grpo", method="lora", parameters=600_000_000).as_config("grpo")
    small = PRESETS["standard"].settings(algorithm="grpo", method="full", parameters=700_000).as_config("grpo")
    assert (large["sampling"]["max_new_tokens"], small["sampling"]["max_new_tokens"]) == (512, 48)
    assert large["budget"] == {"steps": 12, "seconds": 3600.0}
    rows = PRESETS["standard"].settings(algorithm="dpo", method="lora", parameters=None).as_config("dpo")
    assert rows["optimizer"]["max_length"] == 4096

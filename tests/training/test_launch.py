"""A launch is validated before anything is stored, and each refusal has its own class."""

from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction

from apps.accounts.models import AuditEntry, Membership, Role
from apps.common import broker
from apps.datasets.models import Version
from apps.policies.models import Policy
from apps.policies.registration import NoSuchPlace, hub_base
from apps.training.launch import (
    CHECK_TASK,
    Check,
    Refusal,
    RefusedByWorker,
    answer,
    check_with_worker,
    key_of,
    launch_run,
    refuse_if_known,
)
from apps.training.plan import Plan, plan_run
from apps.training.presets import PRESETS
from apps.training.refusals import (
    BaseMissing,
    DataTooSmall,
    FolderMissing,
    LaunchRefused,
    NotFrozen,
    NotTrainable,
    SettingsRefused,
    SplitEmpty,
    UnknownChoice,
    VersionMissing,
    VersionUnused,
    WrongRows,
)
from contract.configs import GrpoConfig
from tests import factories
from workers.bridge.configs import training_config

pytestmark = pytest.mark.django_db


def a_plan(*, workspace=None, version="a version", base="a model", **chosen: Any) -> Plan:
    """A plan by a researcher of the workspace: DPO with four pairs per step unless specified otherwise."""
    workspace = workspace or factories.workspace()
    if version == "a version":
        version = factories.dataset_version(of=workspace)
    if base == "a model":
        base = factories.policy(of=workspace, kind=Policy.Kind.MODEL, location="example/base")
    member = Membership.objects.filter(workspace=workspace).first() or factories.member(Role.RESEARCHER, of=workspace)
    usual = {"algorithm": "dpo", "changes": {"optimizer": {"batch_size": 4, "gradient_accumulation": 1}}}
    return plan_run(member=member, version=version, base=base, **{**usual, **chosen})


def test_a_launch_queues_a_run_and_is_audited(django_capture_on_commit_callbacks):
    plan, person = a_plan(), factories.member().user
    with django_capture_on_commit_callbacks() as sent:
        run = launch_run(plan=plan, by=person)
    assert len(sent) == 1
    assert (run.state, run.total_steps, run.created_by) == ("queued", 10, person)  # 40 rows, 4 per step, one epoch
    assert run.config["optimizer"]["batch_size"] == 4
    assert AuditEntry.objects.get(action="launched a training run").subject_id == str(run.pk)


@pytest.mark.parametrize(
    ("refusal", "field", "change"),
    [
        (UnknownChoice, "preset", lambda ws: {"preset": "endless"}),
        (UnknownChoice, "method", lambda ws: {"method": "half"}),
        (VersionMissing, "version", lambda ws: {"version": None}),
        (NotFrozen, "version", lambda ws: {"version": factories.dataset_version(of=ws, state=Version.State.FREEZING)}),
        (WrongRows, "version", lambda ws: {"version": factories.dataset_version(of=ws, row_type="steps")}),
        (SplitEmpty, "version", lambda ws: {"version": factories.dataset_version(of=ws, row_counts={"test": 5})}),
        (DataTooSmall, "version", lambda ws: {"changes": {"optimizer": {"batch_size": 64}}}),
        (BaseMissing, "base", lambda ws: {"base": None}),
        (NotTrainable, "base", lambda ws: {"base": factories.policy(of=ws)}),
        (NotTrainable, "base", lambda ws: {"base": factories.policy(of=ws, kind=Policy.Kind.REWARD_MODEL)}),
        (NotTrainable, "base", lambda ws: {"base": factories.policy(kind=Policy.Kind.MODEL, location="example/base")}),
    ],
)
def test_what_cannot_be_is_refused_by_name(refusal: type[LaunchRefused], field: str, change):
    workspace = factories.workspace()
    with pytest.raises(refusal) as caught:
        a_plan(workspace=workspace, **change(workspace))
    assert caught.value.field == field


def test_what_learns_from_its_own_rollouts_needs_a_base_and_no_version():
    online: dict[str, Any] = {"algorithm": "grpo", "changes": {"tasks": {"levels": ["L1", "L2"]}, "credit": "turn"}}
    with pytest.raises(BaseMissing):
        a_plan(**online, version=None, base=None)
    with pytest.raises(VersionUnused):
        a_plan(**online)
    plan = a_plan(**online, version=None)
    run = launch_run(plan=plan, by=factories.member().user)
    assert (run.version, run.total_steps) == (None, 60)
    config = training_config(run, files={})
    assert isinstance(config, GrpoConfig)
    assert (config.tasks.levels, config.credit, config.samples) == (("L1", "L2"), "turn", 8)


def test_a_base_whose_folder_is_gone_is_refused(settings):
    made = factories.trained_policy()
    with pytest.raises(FolderMissing, match=f"{made.made_by.pk}/model"):
        a_plan(workspace=made.workspace, base=made)
    (settings.RUNS_DIR / str(made.made_by.pk) / "model").mkdir(parents=True)
    assert a_plan(workspace=made.workspace, base=made).base == made


def test_presets_and_single_changes_make_the_config():
    base = factories.policy(kind=Policy.Kind.MODEL, location="example/base", settings={"parameters": 7_000_000_000})
    changes = {"beta": 0.3, "optimizer": {"max_steps": 12}, "lora": {"rank": 4}}
    config = a_plan(workspace=base.workspace, base=base, method="qlora", changes=changes).config.to_json()
    assert (config["optimizer"]["learning_rate"], config["beta"], config["optimizer"]["max_steps"]) == (2e-5, 0.3, 12)
    assert {name: config["lora"][name] for name in ("rank", "alpha", "quantized")} == {
        "rank": 4,
        "alpha": 8.0,
        "quantized": True,
    }


def test_a_small_model_gets_the_learning_rate_that_it_needs():
    chosen: dict[str, Any] = {"algorithm": "sft", "method": "full"}
    assert PRESETS["quick"].config(**chosen, parameters=0)["optimizer"]["learning_rate"] == 2e-3
    assert PRESETS["quick"].config(**chosen, parameters=500_000_000)["optimizer"]["learning_rate"] == 1e-5


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"optimizer": {"learning_rate": 0.0}}, "optimizer.learning_rate", "Got 0.0, expected above 0 and at most 1."),
        ({"optimizer": {"batch_size": "many"}}, "optimizer.batch_size", "Got 'many' (str), expected a whole number."),
        ({"optimizer": {"batchsize": 4}}, "optimizer.batchsize", "Unknown field. Did you mean 'batch_size'?"),
        ({"error_weight": 2}, "error_weight", "Unknown field."),
        ({"loss": "kto"}, "loss", "Got 'kto' (str), expected 'sigmoid' or"),
        ({"seed": -(10**399)}, "seed", "Got a number of about 399 digits"),
        ({"lora": {"rank": 4}}, "lora", "the run trains all weights"),
        ({"resume": False}, "resume", "Can't be set: Retrace always resumes a run"),
        ({"data": {"train": "/etc/passwd"}}, "data.train", "Can't be set: the worker exports the version's rows"),
        ({"model": {"path": "/etc"}}, "model.path", "Can't be set"),
        ({"kind": "sft"}, "kind", "Can't be set"),
    ],
)
def test_a_setting_that_cannot_be_is_named(changes: dict, field: str, words: str):
    with pytest.raises(SettingsRefused) as caught:
        a_plan(changes=changes)
    assert caught.value.problems[0].field == field
    assert words in caught.value.problems[0].message


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"samples": 5}, "samples", "5 does not divide the 64 rollouts of a step"),
        ({"tasks": {"environment": "moon"}}, "tasks.environment", "Got 'moon', expected 'office' or"),
        ({"tasks": {"levels": ["L1", "L9"]}}, "tasks.levels[1]", "Got 'L9', expected 'L1' or"),
        ({"rewards": {"terms": []}}, "rewards.terms", "Got none, expected at least one."),
        (
            {"rewards": {"terms": [{"component": "learned_outcome", "path": "../0192/model"}]}},
            "rewards.terms[0].path",
            "Can't be set: the worker looks up where the policy's weights are",
        ),
        (
            {"rewards": {"terms": [{"component": "outcome"}, {"component": "learned_process", "path": "/etc"}]}},
            "rewards.terms[1].path",
            "Can't be set",
        ),
        (
            {"rewards": {"terms": [{"component": "judge", "url": "http://192.0.2.1/v1", "model": "x"}]}},
            "rewards.terms[0].url",
            "Can't be set: the worker looks it up at",
        ),
        (
            {"rewards": {"terms": [{"component": "judge", "policy": "x", "api_key_variable": "VLLM_API_KEY"}]}},
            "rewards.terms[0].api_key_variable",
            "Can't be set",
        ),
    ],
)
def test_an_online_setting_that_cannot_be_is_named(changes: dict, field: str, words: str):
    workspace = factories.workspace()
    with pytest.raises(SettingsRefused) as caught:
        a_plan(workspace=workspace, base=small_model(workspace), algorithm="grpo", version=None, changes=changes)
    assert caught.value.problems[0].field == field
    assert words in caught.value.problems[0].message


def small_model(workspace) -> Policy:
    return factories.policy(
        of=workspace, kind=Policy.Kind.MODEL, location="example/base", settings={"parameters": 700_000}
    )


def test_the_question_to_a_worker_goes_out_once_and_waits_for_no_transaction(monkeypatch):
    enqueued = []
    monkeypatch.setattr(broker.app, "send_task", lambda task, args, **_: enqueued.append((task, args[0])))
    plan = a_plan()
    with transaction.atomic():
        assert check_with_worker(plan).state == "pending"
        assert check_with_worker(plan).state == "pending"
        assert enqueued == [(CHECK_TASK, key_of(plan))]


def test_many_questions_of_a_workspace_wait_for_its_own_answers(monkeypatch):
    enqueued: list[str] = []
    monkeypatch.setattr(broker.app, "send_task", lambda task, args, expires: enqueued.append(args[0]))
    workspace = factories.workspace()
    shared: dict[str, Any] = {"workspace": workspace, "base": small_model(workspace)}
    shared["version"] = factories.dataset_version(of=workspace)
    many = [a_plan(**shared, changes={"optimizer": {"batch_size": size}}) for size in range(1, 31)]
    elsewhere = a_plan()
    for plan in (*many, elsewhere, *many):
        assert check_with_worker(plan).state == "pending"
    assert enqueued == [key_of(many[0]), key_of(many[1]), key_of(elsewhere)]
    answer(key_of(many[1]), Check("passed"), workspace_id=workspace.pk)
    for plan in many:
        check_with_worker(plan)
    assert enqueued[3:] == [key_of(many[2])]


def test_a_workers_answer_is_found_by_the_same_plan_only():
    plan = a_plan()
    refused = Check("refused", refusals=[Refusal("optimizer.batch_size", "It does not fit.")], memory_mb=9.0)
    answer(key_of(plan), refused, workspace_id=plan.workspace.pk)
    assert check_with_worker(plan).memory_mb == 9.0
    with pytest.raises(RefusedByWorker, match="It does not fit") as caught:
        refuse_if_known(plan, seconds=0)
    assert caught.value.field == "optimizer.batch_size"
    assert check_with_worker(a_plan()).state == "pending"


def test_without_an_answer_nothing_is_refused():
    cache.clear()
    refuse_if_known(a_plan(), seconds=0)


def test_a_large_model_is_given_room_to_think_and_time_to_wait():
    """A turn cut off while thinking calls no tool; with a tight time limit, rollouts would be penalized for a slow machine."""
    large = PRESETS["standard"].config(algorithm="grpo", method="lora", parameters=600_000_000)
    small = PRESETS["standard"].config(algorithm="grpo", method="full", parameters=700_000)
    assert (large["sampling"]["max_new_tokens"], small["sampling"]["max_new_tokens"]) == (512, 48)
    assert large["budget"] == {"seconds": 3600.0}
    rows = PRESETS["standard"].config(algorithm="dpo", method="lora", parameters=None)
    assert rows["optimizer"]["max_length"] == 4096


@pytest.mark.parametrize("algorithm", ["grpo", "rloo"])
def test_presets_leave_cut_off_turns_out_of_the_loss_unless_told_otherwise(algorithm):
    assert a_plan(version=None, algorithm=algorithm, changes={}).stored["mask_cut_off"] is True
    learned_from = a_plan(version=None, algorithm=algorithm, changes={"mask_cut_off": False})
    assert learned_from.stored["mask_cut_off"] is False


@pytest.mark.parametrize("algorithm", ["grpo", "rloo"])
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_of_online_training_reward_success_alone_at_a_rate_that_falls(algorithm, preset):
    stored = a_plan(version=None, algorithm=algorithm, preset=preset, changes={}).stored
    assert stored["rewards"]["terms"] == [{"component": "outcome", "weight": 1.0, "name": "", "measure": "success"}]
    assert stored["optimizer"]["schedule"] == "linear"
    graded = {"rewards": {"terms": [{"component": "outcome", "measure": "reward"}]}}
    changed = a_plan(version=None, algorithm=algorithm, preset=preset, changes=graded)
    assert changed.stored["rewards"]["terms"][0]["measure"] == "reward"


def test_a_small_model_takes_as_many_rollouts_a_step_as_were_measured():
    small = PRESETS["standard"].config(algorithm="grpo", method="full", parameters=700_000)["optimizer"]
    large = PRESETS["standard"].config(algorithm="grpo", method="lora", parameters=600_000_000)["optimizer"]
    assert [optimizer["batch_size"] * optimizer["gradient_accumulation"] for optimizer in (small, large)] == [64, 32]
    assert (small["max_steps"], small["learning_rate"]) == (60, 3e-4)


def test_a_run_of_before_whose_config_is_partial_is_still_understood(tmp_path):
    """Configs of earlier runs contain only the chosen settings; all others have their defaults."""
    config = {
        "optimizer": {
            "learning_rate": 1e-4,
            "batch_size": 4,
            "gradient_accumulation": 1,
            "epochs": 1.0,
            "max_steps": 0,
        },
        "checkpoints": {"every": 100, "keep": 2},
        "seed": 0,
        "pause_on_alarms": False,
        "tasks": {"environment": "office", "levels": ["L1"], "count": 1000},
        "samples": 4,
        "sampling": {"max_new_tokens": 48},
        "budget": {"steps": 12, "seconds": 3600.0},
        "credit": "trajectory",
    }
    run = factories.run(algorithm="grpo", config=config)
    understood = training_config(run, files={})
    assert isinstance(understood, GrpoConfig)
    assert (understood.samples, understood.rewards.terms[0].weight) == (4, 1.0)


def hub_plan(**chosen: Any) -> Plan:
    workspace = factories.workspace()
    return a_plan(workspace=workspace, base=hub_base(workspace=workspace, hub_id="Qwen/Qwen3-0.6B"), **chosen)


def test_a_model_on_the_hub_becomes_a_policy_when_a_run_is_launched_on_it():
    plan, person = hub_plan(), factories.member().user
    assert (plan.as_json()["base"], plan.as_json()["hub_base"]) == (None, "Qwen/Qwen3-0.6B")
    assert not Policy.objects.filter(workspace=plan.workspace).exists()
    run = launch_run(plan=plan, by=person)
    assert (run.base.name, run.base.kind, run.base.location) == ("Qwen/Qwen3-0.6B", "model", "Qwen/Qwen3-0.6B")
    again = a_plan(workspace=plan.workspace, base=hub_base(workspace=plan.workspace, hub_id="Qwen/Qwen3-0.6B"))
    assert launch_run(plan=again, by=person).base == run.base


def test_equal_plans_on_a_model_of_the_hub_are_checked_once():
    plan = hub_plan()
    again = a_plan(
        workspace=plan.workspace,
        version=plan.version,
        base=hub_base(workspace=plan.workspace, hub_id="Qwen/Qwen3-0.6B"),
    )
    assert key_of(plan) == key_of(again)


def test_a_name_that_is_taken_by_another_policy_gets_a_number():
    plan = hub_plan()
    factories.policy(of=plan.workspace, name="Qwen/Qwen3-0.6B", kind=Policy.Kind.EXTERNAL)
    assert launch_run(plan=plan, by=factories.member().user).base.name == "Qwen/Qwen3-0.6B (2)"


@pytest.mark.parametrize("text", ["/models/base", "./base", "../base", "owner/name/more", "a--b", "name.git"])
def test_what_is_no_hub_id_is_no_base(text: str):
    with pytest.raises(NoSuchPlace, match="isn't a hub id"):
        hub_base(workspace=factories.workspace(), hub_id=text)

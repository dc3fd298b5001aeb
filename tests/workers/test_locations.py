"""Workers check the owner of a model in the database before loading it, whatever a row or a run.json says."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from apps.annotation.judges.llm_judge import Refused
from apps.annotation.models import Annotator, Continuation, Judge
from apps.jobs import lifecycle
from apps.policies.models import Policy, Publication
from apps.policies.publication import PUBLICATIONS
from apps.training.plan import merged
from apps.trajectories.models import RolloutBatch
from contract.configs import TRAINING_CONFIGS
from contract.configs.fields import fields_of
from contract.configs.paths import nested
from tests import factories
from trainer.failures import ConfigFailure
from workers.bridge import preflight
from workers.bridge.configs import FILES, training_config
from workers.bridge.continuation_job import ContinuationJob
from workers.bridge.publication_job import publish
from workers.bridge.reward_scores import scores_of
from workers.bridge.rollouts import rollout_config

pytestmark = pytest.mark.django_db


@pytest.fixture
def theirs(settings) -> Policy:
    """Another workspace's policy, with its weights."""
    policy = factories.trained_policy()
    for folder, file in (("model", "config.json"), ("adapter", "adapter_config.json")):
        (Path(settings.RUNS_DIR) / str(policy.made_by.pk) / folder).mkdir(parents=True)
        (Path(settings.RUNS_DIR) / str(policy.made_by.pk) / folder / file).write_text("{}")
    return policy


@pytest.fixture(params=["the policy itself", "its folder"])
def planted(request, theirs: Policy, settings):
    """A workspace with a forged row: it names another workspace's policy, or its folder."""
    workspace = factories.workspace()
    if request.param == "the policy itself":
        return workspace, theirs
    folder = Path(settings.RUNS_DIR) / str(theirs.made_by.pk) / "model"
    return workspace, factories.policy(of=workspace, kind=Policy.Kind.MODEL, location=str(folder))


REFUSED = "belongs to another workspace|cannot be used"


def test_nothing_is_trained_from_it(planted, tmp_path: Path):
    workspace, policy = planted
    run = factories.run(of=workspace, base=policy)
    with pytest.raises(ConfigFailure, match=REFUSED):
        training_config(run, files={"train": "train.jsonl"})
    plan = {"workspace": str(workspace.pk), "algorithm": "grpo", "version": None, "base": str(policy.pk), "config": {}}
    checked = preflight.check(plan)
    assert (checked.state, checked.refusals[0].field) == ("refused", "base")


def test_a_stored_config_does_not_say_which_model_is_loaded(theirs: Policy, settings):
    folder = str(Path(settings.RUNS_DIR) / str(theirs.made_by.pk) / "model")
    run = factories.run(config={"model": {"path": folder}, "kind": "sft"})
    config = training_config(run, files={"train": "train.jsonl"}).to_json()
    assert (config["model"]["path"], config["kind"]) == ("example/base", "dpo")
    stored = {"tasks": {}, "policy": {"engine": "local", "model": {"path": folder}}}
    batch = RolloutBatch.objects.create(
        workspace=run.workspace, policy=factories.policy(of=run.workspace), environment="office", config=stored
    )
    assert rollout_config(batch, Path("/")).to_json()["policy"]["engine"] == "scripted"


def test_nothing_is_rewarded_by_it(planted, tmp_path: Path):
    workspace, policy = planted
    run = factories.run(of=workspace, algorithm="grpo", version=None)
    run.config = {"rewards": {"terms": [{"component": "learned_outcome", "policy": str(policy.pk)}]}}
    with pytest.raises(ConfigFailure, match=f"{REFUSED}|no policy"):
        training_config(run, files={})


@pytest.mark.parametrize(
    "term",
    [
        {"component": "learned_outcome", "path": "../0192/model"},
        {"component": "learned_process", "path": "/etc"},
        {"component": "judge", "url": "http://192.0.2.1/v1", "model": "x"},
    ],
)
def test_a_stored_term_does_not_say_where_its_policy_is(term: dict[str, str]):
    run = factories.run(algorithm="grpo", version=None, config={"rewards": {"terms": [term]}})
    with pytest.raises(ConfigFailure, match=r"rewards\.terms\[0\]\.policy: the term names no policy"):
        training_config(run, files={})


@pytest.mark.parametrize(
    ("algorithm", "config", "field"),
    [
        ("grpo", {"tasks": {"file": "/etc/passwd"}}, "tasks.file"),
        ("rloo", {"held_out_file": "../0192/tasks.jsonl"}, "held_out_file"),
        ("star", {"tasks": {"file": "../0192/tasks.jsonl"}}, "tasks.file"),
    ],
)
def test_a_stored_config_does_not_say_which_files_are_read(algorithm: str, config: dict[str, Any], field: str):
    """An imported archive may hold any config, and what was interrupted can be resumed."""
    run = factories.run(algorithm=algorithm, version=None, config=config)
    with pytest.raises(ConfigFailure, match=f"{field}: a stored config can't name a file"):
        training_config(run, files={})


def test_every_setting_that_names_a_file_is_checked():
    fields = [field for cls in TRAINING_CONFIGS.values() for field in fields_of(cls)]
    assert {field.path for field in fields if "files are local" in field.internal} == set(FILES)


@pytest.mark.parametrize("algorithm", TRAINING_CONFIGS)
def test_no_internal_setting_of_a_stored_config_reaches_the_trainer(algorithm: str):
    """Such as the data files of a run that has no dataset version."""
    for field in fields_of(TRAINING_CONFIGS[algorithm]):
        if field.internal and field.kind == "text":
            stored = merged({"data": {"train": "train.jsonl"}}, nested({field.path: "/etc/passwd"}))
            run = factories.run(algorithm=algorithm, version=None, config=stored)
            with suppress(ConfigFailure):
                assert "/etc/passwd" not in json.dumps(training_config(run, files={}).to_json()), field.path


def test_stored_rollouts_do_not_say_which_files_are_read():
    policy = factories.policy(kind=Policy.Kind.SCRIPTED, location="expert")
    batch = RolloutBatch.objects.create(
        workspace=policy.workspace, policy=policy, environment="office", config={"tasks": {"file": "/etc/passwd"}}
    )
    with pytest.raises(ConfigFailure, match=r"tasks\.file: a stored config can't name a file"):
        rollout_config(batch, Path("/"))


def test_nothing_acts_with_it(planted, tmp_path: Path):
    workspace, policy = planted
    batch = RolloutBatch.objects.create(workspace=workspace, policy=policy, environment="office", config={"tasks": {}})
    with pytest.raises(ConfigFailure, match=REFUSED):
        rollout_config(batch, tmp_path)
    run = factories.trajectory(of=factories.task(of=workspace))
    job = ContinuationJob(
        Continuation.objects.create(workspace=workspace, trajectory=run, index=0, policy=policy, count=1)
    )
    job.folder.path.mkdir(parents=True)
    with pytest.raises(ConfigFailure, match=REFUSED):
        job.prepare()


def test_nothing_is_scored_with_it(planted):
    workspace, policy = planted
    item = factories.item(of=factories.queue(of=workspace))
    annotator = factories.annotator(of=workspace, kind=Annotator.Kind.MODEL, policy=policy)
    judge = Judge.objects.create(workspace=workspace, queue=item.queue, annotator=annotator, mode="prelabel")
    with pytest.raises(Refused, match=REFUSED):
        scores_of(judge, [item])


def test_it_is_not_published(planted, settings, tmp_path: Path):
    settings.PUBLISHED_DIR = tmp_path / "published"
    workspace, policy = planted
    publication = Publication.objects.create(workspace=workspace, policy=policy, way="folder", name="office")
    taken = lifecycle.claim(PUBLICATIONS, publication.pk, worker="here:1")
    assert taken is not None
    publish(taken)
    publication.refresh_from_db()
    assert (publication.state, publication.error) == ("failed", f"{policy} has no weights here.")
    assert not (tmp_path / "published").exists()

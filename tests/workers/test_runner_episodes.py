"""The worker's part in episodes of runners: storing them in the database and returning results to files, whatever an earlier attempt left."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

import contract.episodes
from apps.accounts.models import Membership, Role
from apps.datasets.models import Split, TaskSplit
from apps.gateway import sessions
from apps.gateway.models import Path as SessionPath
from apps.jobs.models import Superseded
from apps.training import episodes
from apps.training.models import EpisodeBatch, Run
from apps.training.workspace_tasks import workspace_environments
from apps.trajectories.models import Task as StoredTask
from contract.configs import GrpoConfig, ModelConfig
from contract.configs.online import TrainingTasksConfig
from contract.episodes import Batch, EpisodeFolder, WantedEpisode
from contract.left_out_tasks import read_left_out
from contract.task_parts import MARK
from contract.trajectory import Task
from tests import factories
from trainer.checkpoints import mark_complete
from trainer.records import read_tasks
from workers.bridge import runner_episodes
from workers.bridge.left_out_tasks import leave_out_tested_tasks
from workers.bridge.runner_episodes import RunnerEpisodes
from workers.bridge.runner_tasks import HELD_OUT, TASKS, with_tasks_of_workspace

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_episodes, "POLL_SECONDS", 0.0)


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def run(researcher: Membership) -> Run:
    return factories.run(of=researcher.workspace, algorithm=Run.Algorithm.GRPO, state=Run.State.RUNNING)


def wanted() -> Batch:
    episode = WantedEpisode(str(uuid4()), Task("t", "Say it.", "talk"), 0)
    return Batch(str(uuid4()), "step 1", "http://127.0.0.1:1/x/v1", 60, 5, (episode,))


def test_what_is_wanted_is_given_out_and_what_came_of_it_is_told(
    researcher: Membership, run: Run, tmp_path: Path
) -> None:
    files, worker = EpisodeFolder(tmp_path), RunnerEpisodes(run, tmp_path)
    worker.serve_requests()
    files.open(batch := wanted())
    for _ in range(2):
        worker.serve_requests()
    lease = episodes.lease(member=researcher, runner="r")
    assert lease is not None
    sessions.finish_session(session=lease.opened.session, reward=1.0)
    worker.serve_requests()
    assert files.answered(batch) == {batch.episodes[0].id}
    files.close()
    worker.serve_requests()
    assert not EpisodeBatch.objects.filter(closed_at=None).exists()


def test_a_next_attempt_begins_with_nothing_of_the_one_before(researcher: Membership, run: Run, tmp_path: Path) -> None:
    files, killed = EpisodeFolder(tmp_path), RunnerEpisodes(run, tmp_path)
    files.open(wanted())
    killed.serve_requests()
    after = RunnerEpisodes(run, tmp_path)
    after.begin()
    assert files.batch() is None
    assert episodes.lease(member=researcher, runner="r") is None
    after.serve_requests()


def test_a_worker_that_wakes_after_its_lease_leaves_its_successors_episodes_alone(
    researcher: Membership, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    suspended = RunnerEpisodes(run, tmp_path / "one")
    EpisodeFolder(tmp_path / "one").open(wanted())
    suspended.serve_requests()
    Run.objects.filter(pk=run.pk).update(attempt=run.attempt + 1)
    successor = RunnerEpisodes(Run.objects.get(pk=run.pk), tmp_path / "two")
    successor.begin()
    EpisodeFolder(tmp_path / "two").open(wanted())
    successor.serve_requests()
    with pytest.raises(Superseded):
        suspended.close()
    EpisodeFolder(tmp_path / "one").open(wanted())
    with pytest.raises(Superseded):
        suspended.serve_requests()
    assert episodes.lease(member=researcher, runner="r") is not None


def test_an_answer_to_a_request_that_is_just_being_withdrawn_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, write = EpisodeFolder(tmp_path), contract.episodes.write_atomically
    files.open(batch := wanted())

    def withdrawn(path: Path, text: bytes) -> None:
        files.close()
        write(path, text)

    monkeypatch.setattr(contract.episodes, "write_atomically", withdrawn)
    files.answer(batch, batch.episodes[0].id, None)
    assert files.answered(batch) == set()


def test_neither_tasks_that_versions_are_tested_with_nor_those_of_sub_agents_are_trained_on(
    researcher: Membership, tmp_path: Path
) -> None:
    def task(key: str, **fields: object) -> StoredTask:
        return factories.task(of=researcher.workspace, environment="talk", key=key, **fields)

    for split in Split:
        TaskSplit.objects.create(workspace=researcher.workspace, task=task(f"in {split.value}"), split=split)
    for held_out in (False, True):
        session = factories.session(of=researcher.workspace, messages=[{"role": "assistant", "content": "a"}] * 2)
        whole, part = task(f"whole {held_out}", held_out=held_out), task(f"part {held_out}", held_out=held_out)
        for is_main, attempted, leaf in zip((True, False), (whole, part), session.calls.all(), strict=True):
            trajectory = factories.trajectory(of=attempted)
            SessionPath.objects.create(session=session, leaf=leaf, trajectory=trajectory, is_main=is_main)
        task(f"whole {held_out}{MARK}{'0' * 16}", held_out=held_out)
    tasks = TrainingTasksConfig(environment="talk")
    config = GrpoConfig(model=ModelConfig(path="base"), tasks=tasks, played_by="runners", held_out=9)
    with_tasks_of_workspace(config, tmp_path, workspace_id=researcher.workspace_id)
    assert [task.key for task in read_tasks(tmp_path / TASKS)] == ["in train", "whole False"]
    assert [task.key for task in read_tasks(tmp_path / HELD_OUT)] == ["whole True"]
    assert workspace_environments(researcher.workspace_id) == [("talk", 2)]
    assert workspace_environments(researcher.workspace_id, held_out=True) == [("talk", 1)]


def test_the_trainer_is_told_which_tasks_versions_are_tested_with(researcher: Membership, tmp_path: Path) -> None:
    def in_split(split: Split, key: str, environment: str = "office") -> None:
        task = factories.task(of=researcher.workspace, environment=environment, key=key)
        TaskSplit.objects.create(workspace=researcher.workspace, task=task, split=split)

    def left_out() -> frozenset[str]:
        leave_out_tested_tasks("office", tmp_path, workspace_id=researcher.workspace_id)
        return read_left_out(tmp_path)

    assert read_left_out(tmp_path) == frozenset()
    for split in Split:
        in_split(split, split.value)
        in_split(split, f"{split.value} of another", environment="search")
    factories.task(environment="office", key="of another workspace")
    assert left_out() == {"validation", "test"}
    in_split(Split.TEST, "frozen since")
    assert left_out() == {"validation", "test"}, "a resumed training run draws the same tasks"


def test_a_resumed_training_run_keeps_the_tasks_that_are_still_there(researcher: Membership, tmp_path: Path) -> None:
    def task(key: str, **fields: object) -> StoredTask:
        return factories.task(of=researcher.workspace, environment="talk", key=key, **fields)

    def drawn() -> tuple[list[str], list[str]]:
        tasks = TrainingTasksConfig(environment="talk")
        config = GrpoConfig(model=ModelConfig(path="base"), tasks=tasks, played_by="runners", held_out=9)
        with_tasks_of_workspace(config, tmp_path, workspace_id=researcher.workspace_id)
        of_file = ([task.key for task in read_tasks(tmp_path / name)] for name in (TASKS, HELD_OUT))
        return next(of_file), next(of_file)

    removed = task("a")
    task("b")
    task("h", held_out=True)
    drawn()
    task("new")
    assert drawn() == (["a", "b", "new"], ["h"]), "it hasn't learned anything yet"
    checkpoint = tmp_path / "checkpoints" / "checkpoint-1"
    checkpoint.mkdir(parents=True)
    mark_complete(checkpoint, config_hash="")
    removed.delete()
    task("newer")
    task("newly held out", held_out=True)
    assert drawn() == (["b", "new"], ["h"])


def test_tasks_of_a_workspace_go_into_files(researcher: Membership, tmp_path: Path) -> None:
    for number in range(5):
        factories.task(
            of=researcher.workspace,
            environment="talk",
            key=f"t{number}",
            difficulty=f"L{number % 2}",
            held_out=number > 2,
        )
    factories.task(of=researcher.workspace, environment="other", key="o")
    factories.task(environment="talk", key="of another workspace")

    def config(**tasks: object) -> GrpoConfig:
        drawn = TrainingTasksConfig(environment="talk").replaced(**tasks)
        return GrpoConfig(model=ModelConfig(path="base"), tasks=drawn, played_by="runners", held_out=9)

    written = with_tasks_of_workspace(config(), tmp_path, workspace_id=researcher.workspace_id)
    assert (written.tasks.file, written.held_out_file, written.held_out) == (TASKS, HELD_OUT, 2)
    assert [task.key for task in read_tasks(tmp_path / TASKS)] == ["t0", "t1", "t2"]
    assert [task.key for task in read_tasks(tmp_path / HELD_OUT)] == ["t3", "t4"]
    written = with_tasks_of_workspace(config(levels=("L0",), count=1), tmp_path, workspace_id=researcher.workspace_id)
    assert [task.key for task in read_tasks(tmp_path / TASKS)] == ["t0"]
    office = config(environment="office")
    assert with_tasks_of_workspace(office, tmp_path, workspace_id=researcher.workspace_id) is office

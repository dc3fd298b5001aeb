"""GRPO and RLOO: only the policy's tokens carry loss, a killed run ends like an uninterrupted one, and rollouts are kept."""

import json
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from contract.configs import TrainingTasksConfig
from contract.episodes import CallTokens, PlayedEpisode
from contract.events import CheckpointSaved, Failed, Metrics, Progress, RunCancelled
from contract.left_out_tasks import write_left_out
from contract.messages import Message
from contract.trajectory import Outcome, Step, Task, Trajectory
from tests.trainer.policies import save_policy, small_tokenizer
from tests.trainer.runs import events_of, run_here
from trainer.algorithms import online_training
from trainer.algorithms.online_training import (
    Batch,
    Group,
    RolloutSource,
    counts_of,
    figures_of,
    training_figures,
    training_tasks,
)
from trainer.algorithms.policy_rollouts import Attempt
from trainer.algorithms.token_rows import token_rows
from trainer.algorithms.training_run import TrainingRun
from trainer.environments import ENVIRONMENTS
from trainer.environments.protocol import Score, Transition
from trainer.failures import DataFailure, ExitCode
from trainer.records import read_trajectories
from trainer.rewards import Reward

KINDS = ("grpo", "rloo")


class Letters:
    """Three turns of chat in which every capital letter is rewarded, so that even an untrained policy gets different rewards."""

    name = "letters"
    levels = usual_levels = ("L1",)
    scripts: ClassVar[dict[str, Any]] = {}
    waits = False
    tools: ClassVar[list[Any]] = []

    def reset(self, task: Task) -> list[Message]:
        self.turns, self.reward = 0, 0.0
        return [{"role": "user", "content": task.instruction}]

    def step(self, action: Message) -> Transition:
        self.turns += 1
        gained = sum(letter.isupper() for letter in action["content"]) / 20
        self.reward += gained
        return Transition([{"role": "user", "content": f"Turn {self.turns} is over."}], gained, self.turns == 3, {})

    def score(self) -> Score:
        return Score(min(1.0, self.reward), self.reward > 0.5, {})

    def close(self) -> None:
        pass

    @classmethod
    def tasks(cls, *, levels: tuple[str, ...], split: str, seed: int) -> Iterator[Task]:
        for number in count():
            text = "Say something. " * (1 + number % 3)
            yield Task(f"{split}/{number}", text, cls.name, difficulty="L1", held_out=split == "held_out")


@pytest.fixture(autouse=True)
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENTS, Letters.name, Letters)


def online_run(folder: Path, kind: str, **changes: Any) -> dict[str, Any]:
    """Two tasks per step, four rollouts of each."""
    folder.mkdir()
    save_policy(folder.parent / "base")
    terms = [{"component": "outcome"}, {"component": "step_cost", "weight": 0.1}]
    return {
        "kind": kind,
        "model": {"path": "../base"},
        "optimizer": {"learning_rate": 1e-3, "batch_size": 4, "gradient_accumulation": 2, "max_steps": 3},
        "tasks": {"environment": "letters", "count": 6},
        "samples": 4,
        "sampling": {"max_new_tokens": 12},
        "rewards": {"terms": terms},
        "held_out": 2,
        "checkpoints": {"every": 1, "keep": 9},
        **changes,
    }


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(folder / "model").state_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_whose_turns_are_all_cut_off_learns_nothing_from_them(tmp_path: Path, kind: str):
    """With one token per turn, no turn can end."""
    folder = tmp_path / "run"
    config = online_run(folder, kind, mask_cut_off=True, sampling={"max_new_tokens": 1}, held_out=0)
    config["budget"] = {"steps": 2}
    assert run_here(folder, config) == ExitCode.FINISHED
    before = AutoModelForCausalLM.from_pretrained(tmp_path / "base").state_dict()
    for name, weights in weights_of(folder).items():
        torch.testing.assert_close(weights, before[name], rtol=0, atol=0, msg=name)


def test_a_rollout_with_a_lone_surrogate_is_kept(tmp_path: Path):
    """A policy's call may contain one in JSON, but UTF-8 can't encode it: hours of rollouts must not be lost to it."""
    step = Step([{"role": "user", "content": "Go."}], {"role": "assistant", "content": "\ud800"})
    RolloutSource.write(SimpleNamespace(folder=tmp_path), "step-000001", [(Trajectory(Task("t", ""), [step]), {})], 1)
    (kept,) = read_trajectories(tmp_path / "step-000001.jsonl")
    assert kept.steps[0].message["content"] == "\ud800"


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_keeps_its_rollouts_and_tells_its_figures(tmp_path: Path, kind: str):
    folder = tmp_path / "run"
    assert run_here(folder, online_run(folder, kind, resample=1, evaluate_every=3)) == ExitCode.FINISHED
    metrics = [line.event for line in events_of(folder) if isinstance(line.event, Metrics)]
    trained = [event.values for event in metrics if "reward" in event.values]
    assert len(trained) == 3
    expected = {"reward_std", "rewards/outcome/mean", "rewards/step_cost/mean", "frac_reward_zero_std", "entropy"}
    expected |= {"success", "turns", "tools/failure_frequency", "completions/mean_length", "resampled", "loss"}
    assert expected <= trained[0].keys()
    evaluations = {event.step: event.values for event in metrics if "eval/success" in event.values}
    assert evaluations.keys() == {0, 3}
    assert {"eval/success/L1", "eval/reward", "eval/turns"} <= evaluations[0].keys()
    kept = list(read_trajectories(folder / "rollouts" / "step-000002.jsonl"))
    assert len(kept) == 8
    assert len({rollout.id for rollout in kept}) == 8
    assert all({"reward", "reward_parts", "advantage"} <= rollout.info.keys() for rollout in kept)
    assert sum(rollout.info["advantage"] for rollout in kept[:4]) == pytest.approx(0, abs=1e-3)
    evaluated = list(read_trajectories(folder / "rollouts" / "evaluation-000003.jsonl"))
    assert {rollout.task.held_out for rollout in evaluated} == {True}
    report = json.loads((folder / "report.json").read_text())
    assert (report["rollouts"], report["steps"]) == (24, 3)
    assert (report["canary"]["probes"], report["canary"]["tokens"] > 100) == (6, True)
    assert report["validation"]["after"]["success"] == evaluations[3]["eval/success"]


@pytest.fixture
def gradients(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The gradient of one weight in each optimizer step of a training run in this process, before clipping."""
    from trainer.algorithms.training_run import TrainingRun

    seen: list[torch.Tensor] = []
    train = TrainingRun.train

    def watched(run: TrainingRun, trainer: Any) -> None:
        clip = trainer._clip_grad_norm

        def clipped(model: Any) -> Any:
            seen.append(dict(model.named_parameters())[WATCHED].grad.clone())
            return clip(model)

        trainer._clip_grad_norm = clipped
        train(run, trainer)

    monkeypatch.setattr(TrainingRun, "train", watched)
    return seen


WATCHED = "model.layers.0.self_attn.q_proj.weight"
ONE_UNCLIPPED_STEP = {
    "learning_rate": 1e-3,
    "batch_size": 4,
    "gradient_accumulation": 2,
    "max_steps": 1,
    "max_grad_norm": 1e9,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_update_is_that_of_the_policys_own_tokens(tmp_path: Path, kind: str, gradients: list[torch.Tensor]):
    """The gradient of the first step is computed here from the rollouts that it kept: advantage times the gradient of each own token's log-probability."""
    folder = tmp_path / "run"
    assert run_here(folder, online_run(folder, kind, held_out=0, optimizer=ONE_UNCLIPPED_STEP)) == ExitCode.FINISHED
    rollouts = list(read_trajectories(folder / "rollouts" / "step-000001.jsonl"))
    assert any(len(rollout.steps) > 1 for rollout in rollouts)
    chats = [[tokens_of(rollout)] for rollout in rollouts]
    assert_gradient(gradients[0], kind, tmp_path / "base", rollouts, chats)


@pytest.mark.parametrize("kind", KINDS)
def test_all_chats_of_an_episode_share_its_advantage(
    tmp_path: Path, kind: str, gradients: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch
):
    """Every second episode has a sub-agent. The gradient is that of all chats, each read separately; averages are over episodes."""
    from trainer.algorithms.policy_rollouts import Player

    play, others = Player.play, list[list[list[CallTokens]]]()

    def with_sub_agents(player: Player, attempts: Any, *, moment: str) -> list[PlayedEpisode]:
        played = play(player, attempts, moment=moment)
        if not moment.startswith("step"):
            return played
        sub_agents = [tokens_of(episode.rollout) for episode in play(player, attempts, moment=f"{moment}, below")]
        others.extend([chat] if number % 2 else [] for number, chat in enumerate(sub_agents))
        return [PlayedEpisode(episode.rollout, tuple(chats)) for episode, chats in zip(played, others, strict=True)]

    monkeypatch.setattr(Player, "play", with_sub_agents)
    folder = tmp_path / "run"
    assert run_here(folder, online_run(folder, kind, held_out=0, optimizer=ONE_UNCLIPPED_STEP)) == ExitCode.FINISHED
    rollouts = list(read_trajectories(folder / "rollouts" / "step-000001.jsonl"))
    chats = [[tokens_of(rollout), *more] for rollout, more in zip(rollouts, others, strict=True)]
    assert_gradient(gradients[0], kind, tmp_path / "base", rollouts, chats)


def tokens_of(rollout: Trajectory) -> list[CallTokens]:
    return [CallTokens.of_step(f"step {number}", step.info) for number, step in enumerate(rollout.steps)]


def assert_gradient(
    logps: torch.Tensor, kind: str, base: Path, rollouts: list[Trajectory], chats: list[list[list[CallTokens]]]
) -> None:
    model = AutoModelForCausalLM.from_pretrained(base)
    tokens = 0
    loss = torch.zeros(())
    for rollout, of_one in zip(rollouts, chats, strict=True):
        for chat in of_one:
            ids: list[int] = []
            own: list[int] = []
            for call in chat:
                ids += call.context
                own += range(len(ids), len(ids) + len(call.sampled))
                ids += call.sampled
            logprobs = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
            total = torch.stack([logprobs[place - 1, ids[place]] for place in own]).sum()
            loss = loss - rollout.info["advantage"] * total
            tokens += len(own)
    loss = loss / (tokens if kind == "grpo" else len(rollouts))  # dapo averages over tokens, RLOO over episodes
    loss.backward()
    expected = dict(model.named_parameters())[WATCHED].grad
    assert expected is not None
    assert expected.abs().max() > 1e-6
    torch.testing.assert_close(logps, expected, rtol=2e-2, atol=1e-2 * expected.abs().max().item())


def test_the_divergence_is_told_a_token_that_the_policy_wrote(tmp_path: Path):
    folder = tmp_path / "run"
    config = online_run(folder, "rloo", beta=0.05, held_out=0)
    config["optimizer"] = {**config["optimizer"], "max_steps": 2, "learning_rate": 1e-2}
    assert run_here(folder, config) == ExitCode.FINISHED
    divergences = [line.event.values["kl"] for line in events_of(folder) if isinstance(line.event, Metrics)]
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    after_one_step = AutoModelForCausalLM.from_pretrained(folder / "checkpoints" / "checkpoint-1")
    apart: list[float] = []
    for rollout in read_trajectories(folder / "rollouts" / "step-000002.jsonl"):
        [row] = token_rows([PlayedEpisode(rollout)], empty=0)
        ids = torch.tensor([row.prompt + row.completion])
        with torch.no_grad():
            now, then = (model(ids).logits[0].log_softmax(-1) for model in (after_one_step, base))
        places = [len(row.prompt) + index for index, own in enumerate(row.own) if own]
        apart += [(now - then)[place - 1, ids[0, place]].item() for place in places]
    assert divergences[0] == pytest.approx(0, abs=1e-6)
    assert abs(divergences[1]) > 1e-4
    assert divergences[1] == pytest.approx(sum(apart) / len(apart), rel=1e-2)


def test_turns_get_credit_of_their_own(tmp_path: Path):
    folder = tmp_path / "run"
    config = online_run(folder, "grpo", credit="turn", held_out=0, kept=1)
    config["optimizer"] = {**config["optimizer"], "max_steps": 1}
    assert run_here(folder, config) == ExitCode.FINISHED
    kept = list(read_trajectories(folder / "rollouts" / "step-000001.jsonl"))
    advantages = [rollout.info["turn_advantages"] for rollout in kept]
    assert [len(advantage) for advantage in advantages] == [len(rollout.steps) for rollout in kept]
    for turn in range(3):  # the turns that all rollouts have
        assert sum(advantage[turn] for advantage in advantages) == pytest.approx(0, abs=1e-6)


def test_a_run_that_was_stopped_between_two_updates_on_the_same_rollouts_resumes_with_the_second(tmp_path: Path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert run_here(whole, online_run(whole, "grpo", updates=2)) == ExitCode.FINISHED
    config = online_run(stopped, "grpo", updates=2)
    code = run_here(stopped, config, stop_on=lambda event: isinstance(event, Progress) and event.step == 1)
    assert code == ExitCode.CANCELLED
    assert [path.name for path in (stopped / "checkpoints").glob("checkpoint-*")] == ["checkpoint-2"]
    assert run_here(stopped, config) == ExitCode.FINISHED
    assert_same_end(whole, stopped, step=3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_stopped_in_a_later_epoch_ends_with_the_same_weights(tmp_path: Path, kind: str):
    """Six tasks are three steps; the second epoch has a different order."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    optimizer = {"learning_rate": 1e-3, "batch_size": 4, "gradient_accumulation": 2, "max_steps": 6}
    assert run_here(whole, online_run(whole, kind, optimizer=optimizer, held_out=0)) == ExitCode.FINISHED
    config = online_run(stopped, kind, optimizer=optimizer, held_out=0)
    code = run_here(stopped, config, stop_on=lambda event: isinstance(event, Progress) and event.step == 4)
    assert code == ExitCode.CANCELLED
    left = {path.name for path in (stopped / "checkpoints").glob("checkpoint-*")}
    assert left == {f"checkpoint-{step}" for step in (1, 2, 3, 4)}
    assert run_here(stopped, config) == ExitCode.FINISHED

    def tasks(folder: Path, step: int) -> list[str]:
        return [trajectory.task.key for trajectory in rollouts_of(folder, step)]

    assert [tasks(whole, step) for step in range(1, 7)] == [tasks(stopped, step) for step in range(1, 7)]
    assert [tasks(whole, step) for step in (1, 2, 3)] != [tasks(whole, step) for step in (4, 5, 6)]
    assert_same_end(whole, stopped, step=6)


def test_a_resumed_run_forgets_the_rollouts_of_steps_that_it_takes_again(tmp_path: Path):
    folder = tmp_path / "run"
    config = online_run(folder, "grpo", held_out=0)
    code = run_here(folder, config, stop_on=lambda event: isinstance(event, Progress) and event.step == 2)
    assert code == ExitCode.CANCELLED
    lost = folder / "rollouts" / "step-000009.jsonl"
    lost.touch()
    assert run_here(folder, config) == ExitCode.FINISHED
    kept = sorted(path.name for path in lost.parent.iterdir())
    assert kept == ["step-000001.jsonl", "step-000002.jsonl", "step-000003.jsonl"]


def rollouts_of(folder: Path, step: int) -> list[Trajectory]:
    return list(read_trajectories(folder / "rollouts" / f"step-{step:06d}.jsonl"))


def assert_same_end(whole: Path, stopped: Path, *, step: int) -> None:
    """Both runs have the same weights, and the same chats in their last step."""
    first, second = weights_of(whole), weights_of(stopped)
    assert all(torch.equal(first[name], second[name]) for name in first)
    chats = [[trajectory.messages() for trajectory in rollouts_of(folder, step)] for folder in (whole, stopped)]
    assert chats[0] == chats[1]


def test_a_stop_within_a_step_is_prompt_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """SIGTERM during sampling: the run exits with a checkpoint of the last complete step."""
    from trainer.rollouts import local

    sample = local.sample
    calls = 0

    def sampled(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        return None if calls == 4 else sample(*arguments, **more)  # as when the stop is noticed

    monkeypatch.setattr(local, "sample", sampled)
    folder = tmp_path / "run"
    config = online_run(folder, "grpo", held_out=0)
    assert run_here(folder, config) == ExitCode.CANCELLED
    assert run_here(folder, config) == ExitCode.FINISHED
    assert json.loads((folder / "report.json").read_text())["steps"] == 3


@pytest.mark.parametrize(
    ("changes", "category", "message"),
    [
        ({"samples": 3}, "config", "samples: 3 does not divide the 8 rollouts of a step"),
        ({"sampling": {"temperature": 0}}, "config", "sampling.temperature: got 0"),
        (
            {"tasks": {"environment": "letters", "count": 1}},
            "data",
            "There are 1 tasks to train on. Expected at least 2",
        ),
        ({"tasks": {"levels": ["L9"]}}, "config", "tasks.levels: got 'L9'"),
        ({"tasks": {"file": "tasks.jsonl"}}, "data", "'h' is held out, so nothing may be learned from it"),
    ],
)
def test_what_cannot_be_practiced_says_why(tmp_path: Path, changes: dict[str, Any], category: str, message: str):
    folder = tmp_path / "run"
    config = online_run(folder, "grpo", **changes)
    (folder / "tasks.jsonl").write_text(json.dumps({"key": "h", "instruction": "Do it.", "held_out": True}) + "\n")
    run_here(folder, config)
    last = events_of(folder)[-1].event
    assert isinstance(last, Failed)
    assert (last.category, message in last.message) == (category, True), last.message


def test_the_tokenizers_end_is_the_last_token_of_a_turn_that_was_not_cut_short(tmp_path: Path):
    folder = tmp_path / "run"
    run_here(folder, online_run(folder, "grpo", held_out=0, optimizer={"batch_size": 8, "max_steps": 1}))
    end = small_tokenizer().eos_token_id
    ends = {
        (before.info["token_ids"][-1] == end, step.info["context_ids"][0] == end)
        for rollout in read_trajectories(folder / "rollouts" / "step-000001.jsonl")
        for before, step in pairwise(rollout.steps)
    }
    assert ends == {(True, False), (False, True)}


@pytest.mark.parametrize("held_out", [0, 2])
def test_a_run_ends_whose_rollouts_come_to_no_turn(tmp_path: Path, held_out: int, monkeypatch: pytest.MonkeyPatch):
    """Its steps would continue without a gradient, as if it were learning."""
    monkeypatch.setattr(Letters, "reset", lambda *_: 1 // 0)
    folder = tmp_path / "run"
    assert run_here(folder, online_run(folder, "rloo", held_out=held_out)) == ExitCode.DATA
    last = events_of(folder)[-1].event
    assert isinstance(last, Failed)
    assert "rollouts had a turn: environment error, ZeroDivisionError" in last.message


def test_tasks_that_versions_are_tested_with_are_not_drawn(tmp_path: Path):
    write_left_out(["train/0", "train/2"], tmp_path)
    tasks = training_tasks(TrainingTasksConfig(environment="letters", count=3), tmp_path)
    assert [task.key for task in tasks] == ["train/1", "train/3", "train/4"]


def test_success_is_that_of_the_rollouts_whose_outcome_is_known():
    task, step = Task(key="t", instruction=""), Step([], {"role": "assistant", "content": "Hello."})
    ends = [Outcome(1.0, True, "done"), Outcome(0.0, False, "done"), Outcome(termination="environment_error")]
    figures = figures_of([counts_of(Trajectory(task, [step], end)) for end in ends], [])
    assert (figures["success"], figures["rollouts_scored"]) == (0.5, 2)
    only_rewards = figures_of([counts_of(Trajectory(task, [step], Outcome(0.7)))], [])
    assert ("success" in only_rewards, only_rewards["rollouts_scored"]) == (False, 0)


def test_figures_of_several_processes_are_those_of_all_their_rollouts(monkeypatch: pytest.MonkeyPatch):
    task = Task(key="t", instruction="")
    fine, failed = (Step([], {"role": "assistant", "content": "Hello."}, error=error) for error in (None, "No."))
    mine = Batch([Trajectory(task, [failed], Outcome(1.0, True))], [Reward(1.0, {"outcome": 1.0}, [])], [])
    mine.costs = {"resampled": 0.5, "rollout_seconds": 2.0}
    ends = [Outcome(0.0, False), Outcome(0.0, False), Outcome()]
    parts = [0.0, 0.0, None]
    other = Batch(
        [Trajectory(task, [fine] * 3, end) for end in ends], [Reward(0.0, {"outcome": part}, []) for part in parts], []
    )
    other.costs = {"resampled": 0.0, "rollout_seconds": 3.0}
    sent: list[list[Any]] = []
    monkeypatch.setattr(online_training, "gather_object", lambda rows: sent.append(rows) or rows)
    training_figures(other)
    of_other = iter(sent)
    monkeypatch.setattr(online_training, "gather_object", lambda rows: rows + next(of_other))
    assert training_figures(mine) == {
        "success": pytest.approx(1 / 3),
        "rollouts_scored": 3,
        "turns": (1 + 3 * 3) / 4,
        "tools/call_frequency": 0.0,
        "tools/failure_frequency": 1 / 10,
        "reward": 0.25,
        "reward_std": pytest.approx(0.1875**0.5),  # of 1, 0, 0, 0
        "rewards/outcome/mean": pytest.approx(1 / 3),
        "rewards/outcome/std": pytest.approx((2 / 9) ** 0.5),
        "rewards/outcome/missing": 0.25,
        "resampled": 0.25,
        "rollout_seconds": 3.0,
    }


def test_a_stop_right_after_a_checkpoint_leaves_it_as_it_is(tmp_path: Path):
    """Writing the same checkpoint again could fail halfway, and it may be the only one."""
    folder = tmp_path / "run"
    config = online_run(folder, "grpo", held_out=0, checkpoints={"every": 2, "keep": 1})
    assert run_here(folder, config, stop_on=lambda event: isinstance(event, CheckpointSaved)) == ExitCode.CANCELLED
    events = [line.event for line in events_of(folder)]
    saved = [event.path for event in events if isinstance(event, CheckpointSaved)]
    assert saved == ["checkpoints/checkpoint-2"]
    last = events[-1]
    assert isinstance(last, RunCancelled)
    assert last.checkpoint == saved[0]


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_those_of_what_the_policy_wrote(tmp_path: Path, kind: str):
    folder = tmp_path / "run"
    optimizer = {"learning_rate": 1e-3, "batch_size": 4, "gradient_accumulation": 2, "max_steps": 1}
    assert run_here(folder, online_run(folder, kind, held_out=0, optimizer=optimizer)) == ExitCode.FINISHED
    (values,) = [line.event.values for line in events_of(folder) if isinstance(line.event, Metrics)]
    rollouts = read_trajectories(folder / "rollouts" / "step-000001.jsonl")
    lengths = [sum(len(step.info["token_ids"]) for step in rollout.steps) for rollout in rollouts]
    measured = [values[f"completions/{name}_length"] for name in ("mean", "min", "max")]
    assert measured == [pytest.approx(sum(lengths) / len(lengths)), min(lengths), max(lengths)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_that_ends_with_any_of_the_policys_ends_is_not_cut_off(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
):
    """A base model's EOS ends a text; its chat template ends turns with another token."""
    trainers: list[Any] = []

    def train(_: Any, trainer: Any) -> None:
        trainers.append(trainer)
        raise DataFailure("Enough.")

    monkeypatch.setattr(TrainingRun, "train", train)
    folder = tmp_path / "run"
    config = online_run(folder, kind, held_out=0)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "base")
    end_of_turn, end_of_text = tokenizer.eos_token_id, tokenizer.pad_token_id
    assert end_of_turn != end_of_text
    tokenizer.eos_token = tokenizer.pad_token
    tokenizer.save_pretrained(tmp_path / "base")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    model.generation_config.eos_token_id = end_of_text
    model.save_pretrained(tmp_path / "base")
    assert run_here(folder, config) == ExitCode.DATA
    assert {end_of_turn, end_of_text} <= set(trainers[0].eos_token_ids)


def test_tasks_are_exchanged_for_ones_that_were_not_played_in_this_step(monkeypatch: pytest.MonkeyPatch):
    """With the same weights, a task that taught nothing would teach nothing again."""
    steps: list[list[str]] = []

    def play(source: RolloutSource, groups: list[list[Attempt]], step: int) -> list[Group]:
        steps.append([attempts[0].task.key for attempts in groups])
        turn = Step([], {"role": "assistant"}, info={"context_ids": [1], "token_ids": [2]})
        return [
            Group(
                tuple(PlayedEpisode(Trajectory(attempt.task, [turn])) for attempt in attempts),
                tuple(Reward(1.0, {}, []) for _ in attempts),
            )
            for attempts in groups
        ]

    monkeypatch.setattr(RolloutSource, "_play", play)
    source = RolloutSource.__new__(RolloutSource)
    source.config = SimpleNamespace(samples=2, resample=3, seed=0, mask_cut_off=False, played_by="retrace")
    source.player, source.empty = SimpleNamespace(ends=frozenset()), 0
    source.tasks = {key: Task(key) for key in "ab"}
    source.play(["a", "a"], step=1)
    assert [key for keys in steps for key in keys] == ["a", "b"]

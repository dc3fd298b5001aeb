"""A model in this process plays episodes like any other policy."""

import asyncio
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from contract.configs import Sampling
from contract.events import Failed, Progress
from contract.trajectory import Trajectory
from tests.trainer.policies import save_policy, small_model, small_tokenizer
from tests.trainer.runs import events_of, run_here
from trainer.failures import ExitCode
from trainer.interruption import StopRequest
from trainer.records import read_trajectories
from trainer.rollouts.local import LocalEngine
from trainer.rollouts.sampling import Memory, Request, Sampled


def local_run(folder: Path, **changes: Any) -> dict[str, Any]:
    save_policy(folder / "policy")
    return {
        "kind": "rollout",
        "policy": {"engine": "local", "name": "tiny", "model": {"path": "./policy"}, "sampling": {"max_new_tokens": 8}},
        "tasks": {"count": 6},
        "budget": {"steps": 3},
        **changes,
    }


def trajectories(folder: Path) -> dict[str, Trajectory]:
    return {trajectory.id: trajectory for trajectory in read_trajectories(folder / "trajectories.jsonl")}


def test_every_turn_keeps_its_tokens_logprobs_and_times(tmp_path: Path):
    assert run_here(tmp_path, local_run(tmp_path)) == ExitCode.FINISHED
    rollouts = trajectories(tmp_path)
    assert len(rollouts) == 6
    for trajectory in rollouts.values():
        assert trajectory.policy == "tiny"
        assert trajectory.outcome.termination in {"done", "max_steps"}
        for step in trajectory.steps:
            assert step.completion_tokens == len(step.info["token_ids"]) == len(step.info["logprobs"]) <= 8
            assert step.prompt_tokens is not None
            assert step.prompt_tokens > 10
            assert all(logprob <= 0 for logprob in step.info["logprobs"])
            assert step.info["generation_seconds"] > 0


def test_episodes_do_not_depend_on_how_many_are_played_at_once(tmp_path: Path):
    chats = []
    for parallel in (1, 6):
        folder = tmp_path / str(parallel)
        folder.mkdir()
        run_here(folder, local_run(folder, parallel=parallel))
        chats.append({key: json.dumps(trajectory.messages()) for key, trajectory in trajectories(folder).items()})
    assert chats[0] == chats[1]


def test_a_stop_is_prompt_and_the_rest_is_played_later(tmp_path: Path):
    config = local_run(tmp_path, parallel=2, samples=2)
    code = run_here(tmp_path, config, stop_on=lambda event: isinstance(event, Progress) and event.step == 3)
    assert code == ExitCode.CANCELLED
    assert 3 <= len(trajectories(tmp_path)) < 12
    assert run_here(tmp_path, config) == ExitCode.FINISHED
    assert len(trajectories(tmp_path)) == 12


def test_a_chat_longer_than_the_models_context_ends_its_episode_only(tmp_path: Path):
    config = local_run(tmp_path)
    model = tmp_path / "policy" / "config.json"
    model.write_text(json.dumps({**json.loads(model.read_text()), "max_position_embeddings": 16}))
    assert run_here(tmp_path, config) == ExitCode.FINISHED
    ended = [*trajectories(tmp_path).values()]
    assert len(ended) == 6
    for trajectory in ended:
        assert trajectory.outcome.termination == "policy_error"
        assert "the model's context 16" in trajectory.info["policy_error"]


def test_a_failure_of_the_model_fails_the_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("trainer.rollouts.local.sample", full)
    assert run_here(tmp_path, local_run(tmp_path)) == ExitCode.OUT_OF_MEMORY
    assert [line.event.category for line in events_of(tmp_path) if isinstance(line.event, Failed)] == ["out_of_memory"]


def test_a_failure_reaches_everybody_though_one_has_given_up(monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        time.sleep(0.3)
        raise MemoryError

    monkeypatch.setattr("trainer.rollouts.local.sample", full)
    engine = LocalEngine(small_model(), small_tokenizer(), Sampling(), StopRequest(), name="tiny")
    request = Request([1, 2], 3, random.Random(0))

    async def ask() -> list[BaseException | Sampled]:
        impatient = asyncio.wait_for(engine.answer(request), 0.05)
        return await asyncio.gather(
            impatient, *(asyncio.wait_for(engine.answer(request), 20) for _ in range(2)), return_exceptions=True
        )

    assert [type(result) for result in asyncio.run(ask())] == [TimeoutError, MemoryError, MemoryError]


def test_a_folder_without_a_model_is_a_configuration_failure(tmp_path: Path):
    config = local_run(tmp_path, policy={"engine": "local", "model": {"path": "./nowhere"}})
    assert run_here(tmp_path, config) == ExitCode.CONFIG


def test_a_model_whose_calls_nobody_could_read_is_refused(tmp_path: Path):
    """If it continued, it would never act: every call would be taken for an answer."""
    config = local_run(tmp_path)
    tokenizer = small_tokenizer()
    saved = tmp_path / "policy" / "tokenizer_config.json"
    settings = json.loads(saved.read_text())
    assert settings.pop("response_template") == tokenizer.response_template
    saved.write_text(json.dumps(settings))
    assert run_here(tmp_path, config) == ExitCode.CONFIG
    last = events_of(tmp_path)[-1].event
    assert isinstance(last, Failed)
    assert "none of its calls could be read" in last.message
    assert "react" in last.advice
    plain = {**config, "policy": {**config["policy"], "tool_calls": "react"}}
    assert run_here(tmp_path, plain) == ExitCode.FINISHED


def test_chats_for_which_there_is_no_room_are_answered_in_smaller_batches(monkeypatch: pytest.MonkeyPatch):
    model: Any = small_model().eval()
    engine = LocalEngine(model, small_tokenizer(), Sampling(), StopRequest(), name="tiny")

    def requests(*memories: Memory | None) -> list[Request]:
        known = [*memories, *[None] * 5]
        return [Request([5 + number, 6, 7, 8], 6, random.Random(number), known[number]) for number in range(5)]

    expected = engine._sample(requests())
    begun = engine._sample([Request([5, 6, 7], 1, random.Random(0))])
    assert begun is not None
    memory = begun[0].memory
    assert memory is not None
    sizes: list[int] = []
    forward = type(model).forward

    def without_room(self: Any, **inputs: Any) -> Any:
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > 2 and len(sizes) > 2:  # half-way through a turn
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, **inputs)

    monkeypatch.setattr(type(model), "forward", without_room)
    samples = engine._sample(requests(memory))
    assert not memory.keys
    assert expected is not None
    assert samples is not None
    assert [sample.ids for sample in samples] == [sample.ids for sample in expected]
    assert all(sample.memory is None for sample in samples)
    assert sizes[:2] == [5, 5]
    assert set(sizes[3:]) <= {1, 2}
    sizes.clear()
    assert engine._sample(requests()) is not None
    assert max(sizes) == 2

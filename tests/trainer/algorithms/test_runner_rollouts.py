"""A training run whose episodes are played by others: over HTTP, with exactly the sampled tokens, and without waiting for episodes that never arrive."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from transformers import AutoTokenizer

from contract.episodes import Batch, EpisodeFolder, PlayedEpisode, WantedEpisode
from contract.events import Failed, Metrics, Warned
from contract.trajectory import Outcome, Step, Trajectory
from tests.trainer.algorithms.test_online import Letters, online_run
from tests.trainer.runs import events_of, run_here
from trainer.algorithms.token_rows import CONTEXT, token_rows
from trainer.environments import ENVIRONMENTS
from trainer.failures import ExitCode
from trainer.records import read_trajectories

TOLD = "Go on."
ONE_STEP = {"batch_size": 8, "max_steps": 1}
Answer = Callable[[Batch, WantedEpisode], Trajectory | None]


@pytest.fixture(autouse=True)
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENTS, Letters.name, Letters)


def complete(address: str, session: str, chat: list[dict[str, Any]], **more: Any) -> httpx.Response:
    body = {"model": "policy", "messages": chat, **more}
    return httpx.post(f"{address}/chat/completions", json=body, headers={"X-Session-Id": session}, timeout=60)


def played(batch: Batch, episode: WantedEpisode, *, turns: int = 2) -> Trajectory:
    """A chat of some turns, as the gateway records one."""
    chat: list[dict[str, Any]] = [{"role": "user", "content": episode.task.instruction}]
    steps: list[Step] = []
    known = 0
    for _ in range(turns):
        reply = complete(batch.address, episode.id, chat).raise_for_status().json()
        choice = reply["choices"][0]
        ids = {"context_ids": reply["prompt_token_ids"][known:], "token_ids": choice["token_ids"]}
        steps.append(Step(chat[-1:], choice["message"], info=ids))
        known = len(reply["prompt_token_ids"]) + len(choice["token_ids"])
        chat += [choice["message"], {"role": "user", "content": TOLD}]
    reward = sum(letter.isupper() for step in steps for letter in step.message["content"]) / 20
    return Trajectory(episode.task, steps, Outcome(reward=min(1.0, reward), success=reward > 0.5))


@contextmanager
def runner(folder: Path, answer: Answer = played) -> Iterator[list[Batch]]:
    """Plays the episodes that the training run in `folder` requests; yields the batches that it has seen."""
    ended, seen = threading.Event(), list[Batch]()
    files = EpisodeFolder(folder)

    def run() -> None:
        while not ended.wait(0.02):
            batch = files.batch()
            if batch is None or batch in seen:
                continue
            seen.append(batch)
            for episode in batch.episodes:
                rollout = answer(batch, episode)
                files.answer(batch, episode.id, rollout and PlayedEpisode(rollout))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def runner_run(folder: Path, **changes: Any) -> dict[str, Any]:
    return online_run(folder, "grpo", played_by="runners", **changes)


def test_runners_play_every_step_and_evaluation(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    config = runner_run(folder, evaluate_every=3)
    with runner(folder) as batches:
        assert run_here(folder, config) == ExitCode.FINISHED
    assert Counter(batch.moment for batch in batches)["step 2"] == 1
    assert [len(batch.episodes) for batch in batches if batch.moment.startswith("step")] == [8, 8, 8]
    assert {batch.moment for batch in batches} >= {"step 1", "step 3", "evaluation"}
    trained = [
        line.event.values
        for line in events_of(folder)
        if isinstance(line.event, Metrics) and "reward" in line.event.values
    ]
    assert len(trained) == 3
    assert all(values["turns"] == 2 for values in trained)
    assert list((folder / "episodes").iterdir()) == []
    kept = read_trajectories(folder / "rollouts" / "step-000001.jsonl")
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path / "base")
    for rollout in kept:
        [row] = token_rows([PlayedEpisode(rollout)], empty=0)
        wrote = [token for token, turn in zip(row.completion, row.turns, strict=True) if turn != CONTEXT]
        assert wrote == [token for step in rollout.steps for token in step.info["token_ids"]]
        between = [token for token, turn in zip(row.completion, row.turns, strict=True) if turn == CONTEXT]
        assert TOLD in tokenizer.decode(between)


def test_a_step_goes_on_without_an_episode_that_nobody_ends(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    config = runner_run(folder, held_out=0, optimizer=ONE_STEP, deadline_seconds=2.0)

    def all_but_the_first(batch: Batch, episode: WantedEpisode) -> Trajectory | None:
        return None if episode.id == batch.episodes[0].id else played(batch, episode, turns=1)

    with runner(folder, all_but_the_first):
        assert run_here(folder, config) == ExitCode.FINISHED
    warned = [line.event.message for line in events_of(folder) if isinstance(line.event, Warned)]
    assert any(re.match(r"step 1: \d of 8 episodes didn't finish", words) for words in warned)
    absent, *others = read_trajectories(folder / "rollouts" / "step-000001.jsonl")
    assert (absent.steps, absent.outcome.termination, absent.outcome.success) == ([], "abandoned", None)
    group = [rollout for rollout in others if rollout.task.key == absent.task.key]
    assert absent.info["reward"] == pytest.approx(
        sum(rollout.info["reward"] for rollout in group) / len(group), abs=1e-3
    )
    assert absent.info["advantage"] == pytest.approx(0, abs=1e-3)


def test_an_episode_that_nobody_ends_changes_no_credit_of_turns(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    config = runner_run(folder, held_out=0, optimizer=ONE_STEP, deadline_seconds=2.0, credit="turn", scale="none")

    def all_but_the_first(batch: Batch, episode: WantedEpisode) -> Trajectory | None:
        return None if episode.id == batch.episodes[0].id else played(batch, episode, turns=1)

    with runner(folder, all_but_the_first):
        assert run_here(folder, config) == ExitCode.FINISHED
    absent, *others = read_trajectories(folder / "rollouts" / "step-000001.jsonl")
    group = [rollout for rollout in others if rollout.task.key == absent.task.key]
    assert absent.info["turn_advantages"] == []
    assert sum(advantage for rollout in group for advantage in rollout.info["turn_advantages"]) == pytest.approx(0)


def test_a_run_whose_episodes_all_fail_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with runner(folder, lambda *_: None):
        assert run_here(folder, runner_run(folder, held_out=0, optimizer=ONE_STEP)) != ExitCode.FINISHED
    failed = next(line.event for line in events_of(folder) if isinstance(line.event, Failed))
    assert "The runners failed repeatedly at each of them" in failed.message


def test_the_server_answers_streams_and_refuses_what_does_not_fit_and_whoever_lacks_its_secret(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    response: dict[str, Any] = {}

    def look(batch: Batch, episode: WantedEpisode) -> Trajectory | None:
        if not response:
            ask = [{"role": "user", "content": "Say it."}]
            response["stream"] = complete(batch.address, "a", ask, stream=True).text
            too_long = [{"role": "user", "content": "word " * 3000}]
            response["too long"] = complete(batch.address, "b", too_long)
            origin = "/".join(batch.address.split("/")[:3])
            response["odd"] = [
                complete(batch.address, "c", ask, max_tokens="many"),
                complete(batch.address, "d", ask, max_tokens=-1),
                complete(batch.address, "e", [{"role": "assistant", "tool_calls": [{"function": 5}]}]),
                complete(batch.address, "f", [{"role": "user", "content": [{"type": "image_url"}]}], tools=[3]),
            ]
            response["stranger"] = httpx.post(f"{origin}/guess/v1/chat/completions", json={})
        return played(batch, episode, turns=1)

    with runner(folder, look):
        assert run_here(folder, runner_run(folder, held_out=0, optimizer=ONE_STEP)) == ExitCode.FINISHED
    assert response["stream"].endswith("data: [DONE]\n\n")
    assert response["stream"].count('"token_ids"') == 1
    assert response["too long"].status_code == 400
    assert "the model's context" in response["too long"].json()["error"]["message"]
    assert [answer.status_code for answer in response["odd"][:2]] == [400, 400]
    assert all(answer.status_code in (200, 400) for answer in response["odd"])
    assert response["stranger"].status_code == 404


def test_a_branch_goes_on_from_the_same_tokens_and_a_changed_past_begins_anew(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    replies: list[dict[str, Any]] = []

    def branching(batch: Batch, episode: WantedEpisode) -> Trajectory | None:
        if not replies:
            ask = [{"role": "user", "content": "Say it."}]
            first = complete(batch.address, "a", ask).json()
            message = first["choices"][0]["message"]
            on = [*ask, {**message, "refusal": None}, {"role": "user", "content": TOLD}]
            changed = [*ask, {"role": "assistant", "content": "Another."}, {"role": "user", "content": TOLD}]
            replies.append(first)
            replies.extend(
                complete(batch.address, session, chat).json()
                for session, chat in (("a", on), ("a", on), ("a", changed), ("b", on))
            )
        return played(batch, episode, turns=1)

    with runner(folder, branching):
        assert run_here(folder, runner_run(folder, held_out=0, optimizer=ONE_STEP)) == ExitCode.FINISHED
    first, second, third, changed, _ = replies
    sequence = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
    for reply in (second, third):
        assert reply["prompt_token_ids"][: len(sequence)] == sequence
    assert changed["prompt_token_ids"][: len(sequence)] != sequence


def test_a_killed_trainers_wishes_are_forgotten(tmp_path: Path) -> None:
    files = EpisodeFolder(tmp_path)
    files.path.mkdir()
    first = Batch("1", "step 1", "http://x", 10, 5, ())
    files.open(first)
    files.answer(first, "e", None)
    files.open(Batch("2", "step 1", "http://y", 10, 5, ()))
    files.answer(first, "f", None)
    wanted = files.batch()
    assert wanted is not None
    assert wanted.id == "2"
    assert sorted(path.name for path in files.path.iterdir()) == ["2.json"]


ODD = [
    {"max_tokens": "many"},
    {"max_tokens": [1]},
    {"max_completion_tokens": -5},
    {"tools": {"name": "x"}},
    {"tools": [1, None]},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
    {"messages": [{"role": "assistant", "content": 5, "tool_calls": "zz"}]},
    {"messages": [{"role": 5, "content": {"a": 1}}]},
    {"messages": "x"},
    {"messages": []},
]


def test_what_an_agent_sends_ends_no_training_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    statuses = []

    def odd_first(batch: Batch, episode: WantedEpisode) -> Trajectory:
        if not statuses:
            statuses.extend(complete(batch.address, episode.id, [], **report).status_code for report in ODD)
            headers = {"Content-Type": "application/json"}
            for content in (b"{", b"[]", b"[" * 100_000, b"\xff"):
                answer = httpx.post(f"{batch.address}/chat/completions", content=content, headers=headers)
                statuses.append(answer.status_code)
        return played(batch, episode, turns=1)

    with runner(folder, odd_first):
        assert run_here(folder, runner_run(folder, held_out=0, optimizer=ONE_STEP)) == ExitCode.FINISHED
    assert set(statuses) <= {200, 400}
    assert statuses.count(400) >= 6

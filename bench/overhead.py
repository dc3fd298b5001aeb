"""Trainer overhead: an optimizer step of ours compared with one of the same TRL trainer used directly.

Both train the demo's small model on one thread, with the same rows in the same order, the same batch, and the same arguments, each in its own
process, alternating step by step. A step includes reading the batch, the passes, the optimizer, and logging; on our side also events, alarms, and
checking for a stop request. Checkpoints and evaluations are off. The model is the smallest that anyone trains, so a fixed cost per step weighs
most here.

The sides differ where the products do. Our rows have a loss mask: the same tokens go through the model, but fewer of them have a loss.
Plain TRL learns from all tokens of a demonstration, and from all of a pair's after the shared prefix, including tool results and the line
break that the template writes after the last turn. For GRPO both sides play the same questions in their own way, ours through the engine and the
environment (`qa`, one turn each), plain TRL with `generate` and a reward function; lengths differ randomly.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from apps.demo import recipe
from bench.harness import Figure, Size
from bench.learning.pairs import pair
from bench.side_by_side import Spent, compared, side_by_side
from contract.configs import DpoConfig, GrpoConfig, RolloutConfig, ScratchConfig, SftConfig, run_config_from_json
from contract.events import Event, Progress
from contract.messages import Message, ToolSchema
from trainer.events import EventLog
from trainer.interruption import StopRequest
from trainer.job import keep_freed_memory, set_up_libraries
from trainer.records import read_trajectories
from trainer.rows import read_demonstrations, read_preferences

STEPS = 46
WARM_UP = 6
"""Steps of each side that aren't counted: memory is allocated in them."""
MAX_PERCENT = 3.0
TASKS = 150
SAMPLES = 8
TURN_TOKENS = 32
Ended = Callable[[], None]


def measure(_: Size) -> Iterator[Figure]:
    """Ignores the size: the duration of a step doesn't depend on the number of rows."""
    os.environ["OMP_NUM_THREADS"] = "1"
    set_up_libraries()
    with tempfile.TemporaryDirectory(prefix="retrace-overhead-") as name:
        work_folder = Path(name)
        with (work_folder / "log.txt").open("w") as log, redirect_stdout(log):
            play_scripts(work_folder)
            make_base(work_folder)
        for algorithm, ours, bare in (
            ("sft", our_sft, bare_sft),
            ("dpo", our_dpo, bare_dpo),
            ("grpo", our_grpo, bare_grpo),
        ):
            folder = work_folder / algorithm
            folder.mkdir()
            yield from figures(algorithm, *side_by_side(partial(quietly, ours, folder), partial(quietly, bare, folder)))


def quietly(train: Callable[[Path, Ended], None], folder: Path, ended: Ended) -> None:
    """Redirect a run's output to a file, as a worker would. Freed memory is kept on both sides, so that its savings don't hide a cost of ours."""
    keep_freed_memory()
    with (folder / f"{train.__name__}.txt").open("w") as log, redirect_stdout(log):
        train(folder, ended)


def figures(algorithm: str, ours: list[Spent], bare: list[Spent]) -> Iterator[Figure]:
    """The overhead in CPU time, which has the limit, and in wall time, which is affected by other load on the machine."""
    ours, bare = ours[WARM_UP:], bare[WARM_UP:]
    for clock in ("processor", "wall"):
        our_times, other_times = ([getattr(step, clock) for step in side] for side in (ours, bare))
        comparison = compared(our_times, other_times)
        yield Figure(
            name=f"overhead.{algorithm}.{clock}",
            value=percent(comparison.ratio),
            unit="%",
            limit=MAX_PERCENT if clock == "processor" else None,
            with_={
                "interval": [round(percent(comparison.low), 2), round(percent(comparison.high), 2)],
                "steps": len(our_times),
                "step_ms": round(median(our_times) * 1000, 2),
                "bare_step_ms": round(median(other_times) * 1000, 2),
            },
        )


def percent(ratio: float) -> float:
    return (ratio - 1) * 100


class Paced(EventLog):
    """The real log of a run, which also signals the end of each step."""

    def __init__(self, path: Path, ended: Ended) -> None:
        self._ended = ended
        super().__init__(path)

    def emit(self, event: Event) -> None:
        super().emit(event)
        if isinstance(event, Progress):
            self._ended()


def play_scripts(work_folder: Path) -> None:
    """Run two scripts on the same tasks, for demonstrations and for pairs of them."""
    from trainer.rollouts.runner import run_rollout

    played = {}
    for script in ("expert", "careless"):
        folder = work_folder / script
        folder.mkdir()
        config = run_config_from_json(
            {
                "kind": "rollout",
                "policy": {"engine": "scripted", "script": script},
                "tasks": {"split": "train", "levels": recipe.LEVELS, "count": TASKS},
            }
        )
        assert isinstance(config, RolloutConfig)
        with EventLog(folder / "events.jsonl") as events:
            run_rollout(config, folder, events, StopRequest())
        played[script] = {
            trajectory.task.key: trajectory for trajectory in read_trajectories(folder / "trajectories.jsonl")
        }
    pairs = [pair(chosen, played["careless"][key]) for key, chosen in played["expert"].items()]
    useful = [row for row in pairs if row["chosen"] and row["rejected"]]
    (work_folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in useful))


def make_base(folder: Path) -> None:
    """Create the demo's small model with random weights, and a tokenizer for the demonstrations."""
    from trainer.algorithms.sft import texts_of
    from trainer.models.scratch import make_model, train_tokenizer

    shape = ScratchConfig(**recipe.MODEL)
    tokenizer = train_tokenizer(texts_of(read_demonstrations(folder / "expert/trajectories.jsonl")), shape.vocabulary)
    make_model(shape, tokenizer, 0).save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")


def configuration(kind: str, optimizer: dict[str, Any], **more: Any) -> Any:
    """The config of one of our runs, in a folder beside `base`."""
    return run_config_from_json(
        {
            "kind": kind,
            "model": {"path": "../base"},
            "optimizer": {**optimizer, "max_steps": STEPS},
            "checkpoints": {"every": 10_000},
            **more,
        }
    )


def sft_config() -> SftConfig:
    config = configuration("sft", recipe.SFT, data={"train": "../expert/trajectories.jsonl"})
    assert isinstance(config, SftConfig)
    return config


def dpo_config() -> DpoConfig:
    config = configuration("dpo", recipe.DPO, data={"train": "../pairs.jsonl"})
    assert isinstance(config, DpoConfig)
    return config


def grpo_config() -> GrpoConfig:
    config = configuration(
        "grpo",
        {**recipe.SHORT["optimizer"], "gradient_accumulation": 1},
        tasks={"environment": "qa", "count": TASKS},
        samples=SAMPLES,
        sampling={"max_new_tokens": TURN_TOKENS},
        budget={"steps": 1},
        held_out=0,
        kept=0,
    )
    assert isinstance(config, GrpoConfig)
    return config


def our_sft(folder: Path, ended: Ended) -> None:
    from trainer.algorithms.sft import train_sft

    with Paced(folder / "events.jsonl", ended) as events:
        train_sft(sft_config(), folder, events, StopRequest())


def our_dpo(folder: Path, ended: Ended) -> None:
    from trainer.algorithms.dpo import train_dpo

    with Paced(folder / "events.jsonl", ended) as events:
        train_dpo(dpo_config(), folder, events, StopRequest())


def our_grpo(folder: Path, ended: Ended) -> None:
    from trainer.algorithms.grpo import train_grpo

    with Paced(folder / "events.jsonl", ended) as events:
        train_grpo(grpo_config(), folder, events, StopRequest())


def bare_sft(folder: Path, ended: Ended) -> None:
    from trl.trainer.sft_config import SFTConfig as TrlSftConfig
    from trl.trainer.sft_trainer import SFTTrainer

    from trainer.algorithms.arguments import arguments_for
    from trainer.algorithms.row_order import order_of_rows
    from trainer.rendering.chat import render_completion

    config = sft_config()
    model, tokenizer = loaded(folder)
    rows = read_demonstrations(folder / config.data.train)
    lengths = [len(render_completion(tokenizer, row.prompt, row.completion, row.tools).ids) for row in rows]
    batch = config.optimizer.batch_size
    order = order_of_rows(lengths, together=batch, count=STEPS * batch, seed=config.seed)
    arguments = arguments_for(config, folder / "bare", rows=len(rows), has_validation=False)
    SFTTrainer(
        model=model,
        args=TrlSftConfig(train_sampling_strategy="sequential", **arguments),
        train_dataset=dataset([({"messages": rows[index].completion}, rows[index].tools) for index in order]),
        processing_class=tokenizer,
        callbacks=[clock(ended)],
    ).train()


def bare_dpo(folder: Path, ended: Ended) -> None:
    from trl.trainer.dpo_config import DPOConfig as TrlDpoConfig
    from trl.trainer.dpo_trainer import DPOTrainer

    from trainer.algorithms.arguments import arguments_for

    config = dpo_config()
    model, tokenizer = loaded(folder)
    reference, _ = loaded(folder)
    rows = read_preferences(folder / config.data.train)
    arguments = arguments_for(config, folder / "bare", rows=len(rows), has_validation=False)
    DPOTrainer(
        model=model,
        ref_model=reference,
        args=TrlDpoConfig(beta=config.beta, **arguments),
        train_dataset=dataset(
            [({"prompt": row.prompt, "chosen": row.chosen, "rejected": row.rejected}, row.tools) for row in rows]
        ),
        processing_class=tokenizer,
        callbacks=[clock(ended)],
    ).train()


def bare_grpo(folder: Path, ended: Ended) -> None:
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig as TrlGrpoConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from trainer.algorithms.arguments import common_arguments
    from trainer.algorithms.online_training import training_tasks
    from trainer.environments.qa import Qa

    config = grpo_config()
    model, tokenizer = loaded(folder)
    tasks = training_tasks(config.tasks, folder)
    arguments = common_arguments(config, folder / "bare", rows=len(tasks) * SAMPLES, has_validation=False)

    def right(completions: list[Any], answer: list[str], **_: Any) -> list[float | None]:
        return [float(reply[0]["content"] == expected) for reply, expected in zip(completions, answer, strict=True)]

    GRPOTrainer(
        model=model,
        reward_funcs=[right],
        args=TrlGrpoConfig(
            num_generations=SAMPLES,
            max_completion_length=TURN_TOKENS,
            temperature=config.sampling.temperature,
            beta=config.beta,
            epsilon=config.epsilon,
            epsilon_high=config.epsilon_high,
            loss_type=config.loss,
            scale_rewards=config.scale,
            disable_dropout=True,
            **arguments,
        ),
        train_dataset=Dataset.from_list(
            [{"prompt": Qa().reset(task), "answer": str(task.success_check["answer"])} for task in tasks]
        ),
        processing_class=tokenizer,
        callbacks=[clock(ended)],
    ).train()


def loaded(folder: Path) -> tuple[Any, Any]:
    """The base and its tokenizer, as in TRL's documentation."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base = folder.parent / "base"
    return AutoModelForCausalLM.from_pretrained(base), AutoTokenizer.from_pretrained(base)


def dataset(rows: Sequence[tuple[dict[str, list[Message]], Sequence[ToolSchema]]]) -> Any:
    """Chats and their tools as a TRL dataset. Messages are JSON, since Arrow would give each call the arguments of all others."""
    from datasets import Dataset, Features, Json, List, Value

    features = Features({**{name: List(Json()) for name in rows[0][0]}, "tools": Value("string")})
    return Dataset.from_list([{**chats, "tools": json.dumps(tools)} for chats, tools in rows], features=features)


def clock(ended: Ended) -> Any:
    """A callback that signals the end of each step of TRL's trainer."""
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ended()

    return Clock()

"""Downloaded files load in `datasets` and train in TRL's own trainers, unmodified."""

import json
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management import call_command
from django.test import RequestFactory

from apps.accounts.models import Membership
from apps.annotation.models import Annotator
from apps.datasets import freezing
from apps.datasets.models import Version
from apps.datasets.recipe import Recipe
from apps.datasets.snippets import snippets
from apps.trajectories.models import Task, Trajectory
from tests import factories
from tests.live import LiveStack

Message = dict[str, Any]
MESSAGES = ("prompt", "chosen", "rejected")


def call(name: str, arguments: object, number: int = 0) -> Message:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }


def result(text: str, number: int = 0) -> Message:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


def tool(name: str, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    return {
        "type": "function",
        "function": {"name": name, "description": "", "parameters": {"type": "object", "properties": properties}},
    }


AWKWARD_ARGUMENTS: list[object] = [
    {"city": "Ulm"},
    {"at": [1, "two", None, {"deep": [[]]}]},
    {},
    '{"query": "a \\"quoted\\" word", "limit": 5}',
    "not JSON at all",
    {"where": {"x": 1.5, "y": -2}, "city": 7},
    '{"id": 123456789012345678901234567890}',
]


@pytest.fixture
def member(transactional_db: None) -> Membership:
    return factories.member()


@pytest.fixture
def awkward(member: Membership) -> Version:
    """Rows that differ in everything that Arrow expects to be uniform; the first has no tool call, and types are inferred from the first."""
    queue = factories.queue(of=member.workspace)
    user = {"role": "user", "content": "Say something."}
    plain = factories.task(of=member.workspace, key="0 plain", environment="")
    runs = [
        factories.trajectory(of=plain, steps=[([user], factories.assistant_message(word))]) for word in ("Yes.", "No.")
    ]
    factories.preference(2, on=factories.item(of=queue, a=runs[0], b=runs[1]))
    for number, arguments in enumerate(AWKWARD_ARGUMENTS):
        task = factories.task(of=member.workspace, key=f"{number + 1} tools", environment=f"env-{number % 3}")
        context = [{"role": "system", "content": "Be brief. \x00 é 😀 \u2028 </script>"}, user]
        good = [
            (context, call(f"tool_{number}", arguments)),
            ([result("[1, 2]")], factories.assistant_message("Done.", reasoning_content="Hm.")),
        ]
        bad = [(context, factories.assistant_message(f"I cannot {number}."))]
        tools = [tool(f"tool_{number}", city="string"), tool("other", x="number")][: 1 + number % 2]
        runs = [factories.trajectory(of=task, steps=steps, tools=tools) for steps in (good, bad)]
        factories.preference(
            -1 if number % 2 else 3, on=factories.item(of=queue, a=runs[number % 2], b=runs[1 - number % 2])
        )
    return freeze(member, queue.pk)


def freeze(member: Membership, queue: object) -> Version:
    dataset = freezing.create_dataset(name=f"dataset of {queue}", description="", license="", by=member)
    recipe = Recipe(queues=(str(queue),), train=100, validation=0, test=0)
    version = freezing.request_version(dataset=dataset, recipe=recipe, by=member)
    freezing.freeze(version.pk)  # unless the live worker was faster
    for _ in range(600):
        version.refresh_from_db()
        if not version.is_active:
            break
        time.sleep(0.1)
    assert version.state == Version.State.FROZEN, version.error
    return version


@pytest.fixture
def download(live_stack: LiveStack, member: Membership, tmp_path: Path) -> Callable[[Version, str], Path]:
    """Downloads the training split to a file, over HTTP."""
    headers = {"Authorization": f"Bearer {factories.token(member)}"}

    def fetch(version: Version, format: str) -> Path:
        address = f"{live_stack.url}/api/v1/datasets/{version.dataset_id}/versions/{version.number}/rows"
        answer = httpx.get(address, params={"format": format, "split": "train"}, headers=headers)
        answer.raise_for_status()
        path = tmp_path / f"train.{format}"
        path.write_bytes(answer.content)
        return path

    return fetch


def load(path: Path) -> Any:
    from datasets import load_dataset

    kind = {".jsonl": "json", ".parquet": "parquet"}[path.suffix]
    return load_dataset(kind, data_files=str(path), split="train", cache_dir=str(path.parent / "cache"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open("rb")]


def bare(messages: list[Message]) -> list[Message]:
    """The messages without the mark in a file's first row."""
    return [{key: value for key, value in message.items() if value is not None} for message in messages]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_mixed_tool_calls_come_back_unchanged(
    awkward: Version, download: Callable[[Version, str], Path], format: str
) -> None:
    expected = lines(download(awkward, "jsonl"))
    assert len(expected) == 1 + len(AWKWARD_ARGUMENTS)
    rows = load(download(awkward, format))
    for row, original in zip(rows, expected, strict=True):
        for column in MESSAGES:
            assert bare(row[column]) == bare(original[column])
        assert {name: row[name] for name in row if name not in MESSAGES} == {
            name: original[name] for name in original if name not in MESSAGES
        }


def test_arguments_are_objects_wherever_they_are_json(
    awkward: Version, download: Callable[[Version, str], Path]
) -> None:
    calls = [
        message["tool_calls"][0]["function"]["arguments"]
        for row in lines(download(awkward, "jsonl"))
        for side in ("chosen", "rejected")
        for message in row[side]
        if message.get("tool_calls")
    ]
    expected = list(AWKWARD_ARGUMENTS)
    expected[3] = {"query": 'a "quoted" word', "limit": 5}
    assert sorted(map(json.dumps, calls)) == sorted(map(json.dumps, expected))


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_dpo_and_reward_trainers_train_on_awkward_rows(
    awkward: Version, download: Callable[[Version, str], Path], tmp_path: Path, format: str
) -> None:
    rows = load(download(awkward, format))
    assert losses_of_dpo(rows, tmp_path)
    assert losses_of_reward_model(rows, tmp_path)


def test_the_snippet_of_the_page_runs(
    awkward: Version, live_stack: LiveStack, member: Membership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = RequestFactory().get("/", HTTP_HOST=live_stack.url.partition("//")[2])
    [code] = [snippet.text for snippet in snippets(request, awkward) if snippet.id == "export-python"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RETRACE_TOKEN", factories.token(member))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    names: dict[str, Any] = {}
    exec(code.partition("\ntrainer = ")[0], names)  # the rest would download a model
    assert len(names["rows"]) == awkward.row_counts["train"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("files", "fewest"),
    [
        ("tau-bench/historical_trajectories/*.json", 200),
        ("swe-agent-demos/**/*.traj", 1),  # other trajectories of the same task there have different system prompts
    ],
)
def test_real_runs_train(
    member: Membership,
    real_data: Callable[[str], Path],
    download: Callable[[Version, str], Path],
    tmp_path: Path,
    files: str,
    fewest: int,
) -> None:
    """Trajectories of other people's agents, judged by a rule: higher reward or, if equal, fewer steps."""
    folder, _, pattern = files.partition("/")
    paths = sorted(real_data(folder).glob(pattern))
    call_command("import_trajectories", *map(str, paths), "--workspace", member.workspace.slug, "--json")
    queue = factories.queue(of=member.workspace)
    rule = factories.annotator(of=member.workspace, kind=Annotator.Kind.RULE, name="reward, then fewer steps")
    for task in Task.objects.filter(workspace=member.workspace):
        for a, b in combinations(Trajectory.objects.filter(task=task).order_by("pk")[:8], 2):
            better = (a.reward or 0, -a.step_count) >= (b.reward or 0, -b.step_count)
            factories.preference(2 if better else -2, on=factories.item(of=queue, a=a, b=b), by=rule)

    version = freeze(member, queue.pk)

    assert version.row_counts["train"] >= fewest, version.card["dropped"]
    for format in ("jsonl", "parquet"):
        rows = load(download(version, format))
        assert len(rows) == version.row_counts["train"]
        assert set(rows["annotators"][0]) == {"rule:reward, then fewer steps"}
    shortest = sorted(range(len(rows)), key=lambda number: len(json.dumps(rows[number]["chosen"])))
    some = rows.select(shortest[:2])
    assert losses_of_dpo(some, tmp_path)
    assert losses_of_reward_model(some, tmp_path)


def losses_of_dpo(rows: Any, folder: Path) -> list[float]:
    from trl import DPOConfig, DPOTrainer

    config = DPOConfig(output_dir=str(folder / "dpo"), max_length=8192, **QUICK)
    trainer = DPOTrainer(model=tiny_model(rows, folder / "base"), args=config, train_dataset=rows)
    trainer.train()
    return losses(trainer)


def losses_of_reward_model(rows: Any, folder: Path) -> list[float]:
    from trl import RewardConfig, RewardTrainer

    config = RewardConfig(output_dir=str(folder / "reward"), max_length=None, **QUICK)
    trainer = RewardTrainer(model=tiny_model(rows, folder / "base"), args=config, train_dataset=rows)
    trainer.train()
    return losses(trainer)


QUICK: dict[str, Any] = {
    "max_steps": 2,
    "per_device_train_batch_size": 1,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
}


def losses(trainer: Any) -> list[float]:
    """The loss of every step, all of which are finite."""
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == QUICK["max_steps"]
    assert all(0 < loss < 100 for loss in losses)
    return losses


def tiny_model(rows: Any, folder: Path) -> str:
    """A folder with a language model of a few thousand random weights, and a tokenizer with TRL's Qwen3 template."""
    from transformers import Qwen3Config, Qwen3ForCausalLM
    from trl.chat_template_utils import qwen3_chat_template

    from trainer.models.scratch import train_tokenizer

    if not folder.exists():
        texts = [str(message.get("content")) for row in rows for message in row["chosen"]]
        tokenizer = train_tokenizer(texts, 600)
        tokenizer.chat_template = qwen3_chat_template
        tokenizer.save_pretrained(folder)
        shape = Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
        Qwen3ForCausalLM(shape).save_pretrained(folder)
    return str(folder)

"""What `run.json` may say: one frozen dataclass for each kind of run.

    {"kind": "sft",          "model": {"scratch": {}},         "data": {"train": "demonstrations.jsonl"}}
    {"kind": "dpo",          "model": {"path": "../1/model"},  "data": {"train": "train.jsonl", "validation": "validation.jsonl"}}
    {"kind": "reward_model", "model": {"path": "Qwen/Qwen3-0.6B"}, "lora": {"rank": 16}, "data": {"train": "train.jsonl"}}
    {"kind": "rollout",      "tasks": {"environment": "office", "count": 50}, "policy": {"engine": "local", "model": {"path": "../2/model"}}}

Everything else has the default that its class below states. Paths are relative to the folder of `run.json`. Unknown fields,
wrong types and values out of range are refused by name.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from trainer.failures import ConfigFailure
from trainer.validation import Above, Between, Checked, Count, InvalidField, NonNegative, Positive, Whole, choose

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class ScratchConfig(Checked):
    """A Qwen3-shaped model with random weights, and a tokenizer trained on the text of the training file."""

    layers: Count = 2
    """Transformer blocks."""
    hidden: Count = 192
    """Width of the residual stream."""
    intermediate: Count = 576
    """Width of the feed-forward layer."""
    heads: Count = 4
    """Attention heads; `hidden` must be divisible by it."""
    kv_heads: Count = 2
    """Key-value heads; must divide `heads`."""
    vocabulary: Annotated[int, Between(300, 50_000)] = 1000
    """Tokens, the 256 bytes and the special ones included."""
    initializer_range: Positive = 0.08
    """Standard deviation of the initial weights. Small models learn to copy from their context much sooner with 0.08 than with the usual 0.02."""

    def check(self) -> None:
        if self.hidden % self.heads:
            raise InvalidField("heads", f"{self.heads} does not divide hidden = {self.hidden}")
        if self.heads % self.kv_heads:
            raise InvalidField("kv_heads", f"{self.kv_heads} does not divide heads = {self.heads}")


@dataclass(frozen=True)
class ModelConfig(Checked):
    """Where the base model comes from: exactly one of `path` and `scratch`."""

    path: str = ""
    """A folder (relative to run.json, or absolute) or the id of a model on the Hugging Face hub."""
    revision: str | None = None
    """Commit, tag or branch of a hub model."""
    scratch: ScratchConfig | None = None
    """Make a small model instead of loading one."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model. Leave it off unless you have read that code."""

    def check(self) -> None:
        if bool(self.path) == (self.scratch is not None):
            raise InvalidField("path", "give either a path (folder or hub id) or scratch, and not both")


@dataclass(frozen=True)
class DataConfig(Checked):
    """JSON Lines files, as REST exports them."""

    train: str
    """Rows to learn from."""
    validation: str | None = None
    """Rows to measure on, from tasks that are in no training row."""


@dataclass(frozen=True)
class OptimizerConfig(Checked):
    """AdamW, and how often it steps."""

    learning_rate: Positive = 1e-5
    """At the top of the schedule. Try 1e-5 for full fine-tuning, 1e-4 with LoRA, 2e-3 for a model from scratch."""
    batch_size: Count = 8
    """Rows (for preferences: pairs) in one forward pass on one device."""
    gradient_accumulation: Count = 1
    """Forward passes before each optimizer step."""
    epochs: Positive = 1.0
    """Passes over the training rows, unless `max_steps` is set."""
    max_steps: Whole = 0
    """Stop after so many optimizer steps; 0 leaves it to `epochs`."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How the learning rate falls after warm-up."""
    warmup_steps: Whole = 0
    """Steps over which the learning rate rises from 0."""
    weight_decay: NonNegative = 0.0
    """Decoupled weight decay."""
    max_grad_norm: Positive = 1.0
    """Gradients are clipped to this norm."""
    max_length: Annotated[int, Above(7)] = 2048
    """Longest row in tokens. Longer rows are left out, counted, and named in a warning: cutting one would change what its judgement is about."""
    precision: Precision = "auto"
    """auto is bfloat16 where the accelerator has it, else float32."""
    gradient_checkpointing: bool = False
    """Recompute activations: about a third slower, much less memory."""


@dataclass(frozen=True)
class LoraConfig(Checked):
    """Low-rank adapters (Hu et al., 2021) instead of full fine-tuning."""

    rank: Count = 16
    """Width of each adapter."""
    alpha: Positive = 32.0
    """Scale: an adapter's output is multiplied by alpha / rank."""
    dropout: Annotated[float, Between(0, 0.9)] = 0.0
    """On the adapters' inputs."""
    targets: tuple[str, ...] = ("all-linear",)
    """Names of the layers to adapt; "all-linear" is every linear layer but the head."""


@dataclass(frozen=True)
class CheckpointConfig(Checked):
    """Saving while training, so that a killed run loses little."""

    every: Count = 100
    """Optimizer steps between two checkpoints. One more is saved on SIGTERM."""
    keep: Count = 2
    """How many of the newest to keep."""


@dataclass(frozen=True)
class TrainingConfig(Checked):
    """What every training run has."""

    tag: ClassVar[str] = "kind"

    model: ModelConfig
    """The policy or model to begin from."""
    data: DataConfig
    """What to learn from."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """How to learn."""
    lora: LoraConfig | None = None
    """Adapters instead of full fine-tuning; null trains every weight."""
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    """When to save."""
    evaluate_every: Whole = 0
    """Optimizer steps between evaluations on the validation rows; 0 evaluates before, at each tenth, and after."""
    log_every: Count = 1
    """Optimizer steps between metrics."""
    seed: Whole = 0
    """Fixes initial weights, the order of rows and dropout."""
    resume: bool = True
    """Go on from the newest complete checkpoint in the run's folder, if there is one."""


@dataclass(frozen=True)
class SftConfig(TrainingConfig):
    """Supervised fine-tuning on the policy's own messages."""

    kind: Literal["sft"] = "sft"


@dataclass(frozen=True)
class DpoConfig(TrainingConfig):
    """Direct preference optimization."""

    kind: Literal["dpo"] = "dpo"
    beta: Positive = 0.1
    """How strongly to stay near the base policy (the inverse temperature of the implicit reward)."""
    loss: Literal["sigmoid", "ipo", "hinge", "robust"] = "sigmoid"
    """The pairwise loss; `robust` assumes that a share of `label_smoothing` of the labels is flipped."""
    label_smoothing: Annotated[float, Between(0, 0.49)] = 0.0
    """Assumed share of wrong labels."""
    sft_weight: NonNegative = 0.0
    """Adds so much of the SFT loss on chosen messages, which keeps their likelihood from falling."""


@dataclass(frozen=True)
class RewardModelConfig(TrainingConfig):
    """A Bradley–Terry reward model."""

    kind: Literal["reward_model"] = "reward_model"
    center: NonNegative = 0.01
    """Weight of the squared mean reward, which keeps rewards near zero (Eisenstein et al., 2023)."""


@dataclass(frozen=True)
class TasksConfig(Checked):
    """Which tasks to roll out: drawn by the environment, or from a file."""

    environment: str = "office"
    """A built-in environment, for tasks that name none themselves."""
    file: str | None = None
    """A JSON Lines file with one task a line; then the fields below do not apply."""
    levels: tuple[str, ...] = ()
    """Levels to draw from in turn; empty is all of them."""
    split: Literal["train", "held_out"] = "held_out"
    """Never ask a policy to show what it has learnt on tasks it has learnt from."""
    count: Count = 50
    """How many tasks to draw."""
    seed: Whole = 0
    """Which ones."""


@dataclass(frozen=True)
class Sampling(Checked):
    """How a language model's turn is sampled."""

    temperature: NonNegative = 1.0
    """0 always takes the likeliest token."""
    top_p: Annotated[float, Between(0.01, 1)] = 1.0
    """Sample from the smallest set of tokens with this probability."""
    max_new_tokens: Count = 512
    """Longest turn."""


@dataclass(frozen=True)
class ScriptedPolicy(Checked):
    """A scripted worker that comes with the environment."""

    tag: ClassVar[str] = "engine"

    engine: Literal["scripted"] = "scripted"
    script: str = "expert"
    """expert, hasty, careless or demonstrator."""
    name: str = ""
    """The policy's name in the trajectories; empty is the script's."""


@dataclass(frozen=True)
class LocalPolicy(Checked):
    """A model loaded into this process (transformers)."""

    tag: ClassVar[str] = "engine"

    model: ModelConfig
    """What to load; `scratch` makes no sense here."""
    engine: Literal["local"] = "local"
    name: str = ""
    """The policy's name in the trajectories; empty is the model's path."""
    sampling: Sampling = field(default_factory=Sampling)
    """How turns are sampled."""
    precision: Precision = "auto"
    """auto is bfloat16 where the accelerator has it, else float32."""

    def check(self) -> None:
        if self.model.scratch is not None:
            raise InvalidField("model.scratch", "a policy without training cannot act", advice="Give model.path.")


@dataclass(frozen=True)
class ServerPolicy(Checked):
    """An OpenAI-compatible server, such as vLLM."""

    tag: ClassVar[str] = "engine"

    url: str
    """Base address with version, such as http://127.0.0.1:8000/v1."""
    model: str
    """The model's name on that server."""
    engine: Literal["server"] = "server"
    name: str = ""
    """The policy's name in the trajectories; empty is the model's."""
    sampling: Sampling = field(default_factory=Sampling)
    """How turns are sampled."""
    api_key_variable: str = ""
    """Name of the environment variable that holds the key; the key itself is never stored in run.json."""
    timeout_seconds: Positive = 120.0
    """For one answer."""

    def check(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise InvalidField("url", f"got {self.url!r}, expected an http:// or https:// address")


PolicyConfig = ScriptedPolicy | LocalPolicy | ServerPolicy


@dataclass(frozen=True)
class Budget(Checked):
    """What one episode may use."""

    steps: Count = 12
    """Agent turns."""
    tokens: Count = 16_384
    """Tokens that the policy may generate in all, where the engine counts them."""
    seconds: Positive = 600.0
    """Wall-clock time."""


@dataclass(frozen=True)
class RolloutConfig(Checked):
    """A policy acts on tasks; trajectories come out."""

    tag: ClassVar[str] = "kind"

    policy: PolicyConfig
    """Who acts."""
    kind: Literal["rollout"] = "rollout"
    tasks: TasksConfig = field(default_factory=TasksConfig)
    """On what."""
    samples: Count = 1
    """Episodes of each task."""
    parallel: Count = 32
    """Episodes at once."""
    budget: Budget = field(default_factory=Budget)
    """When an episode is cut short."""
    output: str = "trajectories.jsonl"
    """Where the trajectories go, one a line."""
    seed: Whole = 0
    """Fixes what each episode samples."""


RunConfig = SftConfig | DpoConfig | RewardModelConfig | RolloutConfig
RUN_CONFIGS: list[type[Checked]] = [SftConfig, DpoConfig, RewardModelConfig, RolloutConfig]


def run_config_from_json(data: object) -> RunConfig:
    """The config that decoded JSON stands for. Raises InvalidField."""
    config: RunConfig = choose(RUN_CONFIGS, data, path="").from_json(data)
    return config


def read_run_config(path: Path) -> RunConfig:
    """Read `run.json`. Raises ConfigFailure."""
    try:
        return run_config_from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigFailure(f"Cannot read {path}: {error.strerror}.", advice="Give the path of a run.json.") from None
    except ValueError as error:
        raise ConfigFailure(f"{path} is no JSON: {error}.") from None


def write_run_config(config: RunConfig, path: Path) -> None:
    """Write it with all defaults spelled out, so that it means the same later."""
    path.write_text(json.dumps(config.to_json(), indent=2) + "\n", encoding="utf-8")


def config_hash(config: RunConfig) -> str:
    """SHA-256 over everything that changes the result (not `resume`)."""
    relevant = {key: value for key, value in config.to_json().items() if key != "resume"}
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()

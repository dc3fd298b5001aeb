"""Settings of every training run, and where its model comes from."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from contract.configs.declaration import Config, Count, Positive, Seed, Setting, Whole, Words, internal
from contract.configs.errors import InvalidField
from contract.tracking import TITLES, Tracker

Precision = Literal["auto", "float32", "bfloat16"]


class ScratchConfig(Config):
    """A Qwen3-shaped model with random weights, and a tokenizer trained on the text of the training file."""

    layers: Annotated[Count, Setting("Layers")] = 2
    """Transformer blocks."""
    hidden: Annotated[Count, Setting("Hidden size")] = 192
    """Width of the residual stream."""
    intermediate: Annotated[Count, Setting("Feed-forward size")] = 256
    """Width of the feed-forward layer, small because attention does most of the work."""
    heads: Annotated[Count, Setting("Attention heads")] = 4
    """Attention heads; `hidden` must be divisible by it."""
    vocabulary: Annotated[int, Field(ge=300, le=50_000), Setting(unit="tokens")] = 1000
    """Number of tokens, including the 256 bytes and the special tokens."""
    initializer_range: Annotated[float, Field(gt=0, le=1)] = 0.08
    """Standard deviation of the initial weights. Small models learn to copy from context much earlier with 0.08 than with the usual 0.02."""

    def check(self) -> None:
        if self.hidden % self.heads:
            raise InvalidField("heads", f"{self.heads} doesn't divide hidden = {self.hidden}")


class ModelConfig(Config):
    """Where the base model comes from: exactly one of `path` and `scratch`."""

    path: Annotated[str, internal("the worker fills in the location of the base policy's weights")] = ""
    """A folder, which starts with `/`, `./` or `../` (relative to run.json), or the id of a model on the Hugging Face hub."""
    revision: Annotated[str | None, internal("it belongs to the base policy")] = None
    """Commit, tag or branch of a hub model."""
    scratch: Annotated[ScratchConfig | None, Setting("New model")] = None
    """Create a small model instead of loading one."""
    trust_remote_code: Annotated[
        bool, internal("code from a hub runs on the worker, so only its operator may allow it")
    ] = False
    """Run Python code that comes with the model. Leave it off unless you have read that code."""

    def check(self) -> None:
        if bool(self.path) == (self.scratch is not None):
            raise InvalidField("path", "give either a path (folder or hub id) or scratch, and not both")


class DataConfig(Config):
    """JSON Lines files, as REST exports them."""

    train: Annotated[str, internal("the worker exports the version's rows")]
    """Rows to learn from."""
    validation: Annotated[str | None, internal("the worker exports the version's rows")] = None
    """Rows to evaluate on, from tasks that no training row is from."""


class OptimizerConfig(Config):
    """AdamW and its schedule."""

    learning_rate: Annotated[float, Field(gt=0, le=1), Setting(basic=True)] = 1e-5
    """Peak of the schedule. Try 1e-5 for full fine-tuning, 1e-4 with LoRA, 2e-3 for a model from scratch."""
    batch_size: Annotated[int, Field(ge=1, le=1024), Setting(basic=True)] = 8
    """Rows (for preferences: pairs; online: rollouts) in one forward pass on one device."""
    gradient_accumulation: Annotated[int, Field(ge=1, le=1024), Setting(unit="passes")] = 1
    """Forward passes before each optimizer step."""
    epochs: Annotated[float, Field(ge=0.01, le=100), Setting(basic=True)] = 1.0
    """Passes over the training rows or tasks; ignored if the number of steps is set."""
    max_steps: Annotated[Whole, Setting("Steps", basic=True)] = 0
    """Stop after this many optimizer steps; 0 uses the number of epochs."""
    schedule: Annotated[Literal["cosine", "linear", "constant"], Setting("Learning rate schedule")] = "cosine"
    """How the learning rate falls after warm-up."""
    warmup_steps: Annotated[int, Field(ge=0, le=100_000), Setting("Warm-up", unit="steps")] = 0
    """Steps over which the learning rate rises from 0."""
    weight_decay: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Decoupled weight decay."""
    max_grad_norm: Annotated[float, Field(gt=0, le=1e12), Setting("Gradient clipping")] = 1.0
    """Maximum norm of the gradient."""
    max_length: Annotated[int, Field(ge=8, le=1_000_000), Setting("Longest row", unit="tokens")] = 2048
    """Maximum length of a row. Longer rows are skipped, counted, and named in a warning: truncating one would change what its judgment is about."""
    precision: Precision = "auto"
    """auto is bfloat16 where the accelerator has it (emulation does not count), else float32."""
    gradient_checkpointing: Annotated[bool, Setting("Recompute activations")] = False
    """Recompute activations in the backward pass: about a third slower, much less memory."""


class LoraConfig(Config):
    """Low-rank adapters (Hu et al., 2021) instead of full fine-tuning."""

    rank: Annotated[int, Field(ge=1, le=1024)] = 16
    """Width of each adapter."""
    alpha: Positive = 32.0
    """Scale: an adapter's output is multiplied by alpha / rank. Defaults to twice the rank."""
    dropout: Annotated[float, Field(ge=0, le=0.9)] = 0.0
    """Dropout on the adapters' inputs. Only SFT, STaR, and process reward models use it; elsewhere it would add noise to what is compared."""
    targets: Annotated[Words, Setting("Adapted layers")] = ("all-linear",)
    """Names of the layers to adapt; "all-linear" is every linear layer but the head."""
    quantized: Annotated[bool, internal("set by the choice between full, LoRA, and QLoRA")] = False
    """QLoRA (Dettmers et al., 2023): the frozen weights in 4 bits (NF4). Needs an NVIDIA GPU and the package bitsandbytes."""


class CheckpointConfig(Config):
    """Checkpoints during training, so that a killed run loses little."""

    every: Annotated[Count, Setting("Save every", unit="steps")] = 100
    """Optimizer steps between two checkpoints. One more is saved on SIGTERM."""
    keep: Annotated[int, Field(ge=1, le=1000), Setting("Keep")] = 2
    """Number of newest checkpoints to keep."""


class TrainingConfig(Config):
    """Settings of every training run."""

    tag: ClassVar[str] = "kind"

    model: Annotated[ModelConfig, internal("set from the base policy")]
    """The policy or model to start from."""
    optimizer: Annotated[OptimizerConfig, Setting("Optimizer")] = OptimizerConfig()
    """Optimizer and schedule."""
    lora: Annotated[LoraConfig | None, Setting("LoRA")] = None
    """Train adapters; null trains all weights."""
    checkpoints: Annotated[CheckpointConfig, Setting("Checkpoints")] = CheckpointConfig()
    """When to save checkpoints."""
    evaluate_every: Annotated[Whole, Setting(unit="steps")] = 0
    """Optimizer steps between evaluations on held-out data; 0 evaluates before training, after each tenth of it, and at the end."""
    log_every: Annotated[Count, Setting(unit="steps")] = 1
    """Optimizer steps between metrics."""
    seed: Seed = 0
    """Seed for initial weights, row order, and dropout."""
    resume: Annotated[bool, internal("Retrace always resumes a run from its own checkpoint")] = True
    """Resume from the newest complete checkpoint in the run's folder, if there is one."""
    tracker: Annotated[Tracker, Setting("Report to", labels=TITLES, is_added=True)] = "none"
    """Also log curves to an experiment tracker that this installation has an account with (TRACKERS)."""
    pause_on_alarms: bool = False
    """Pause at a checkpoint when an alarm is raised, so that you can inspect and resume the run."""

    @property
    def rows_per_step(self) -> int:
        """Rows, pairs, or rollouts per optimizer step of one process."""
        return self.optimizer.batch_size * self.optimizer.gradient_accumulation

    def steps(self, rows: int, *, processes: int = 1) -> int:
        """Optimizer steps of the whole run, given the number of rows."""
        if self.optimizer.max_steps:
            return self.optimizer.max_steps
        return max(1, round(self.optimizer.epochs * rows / (self.rows_per_step * processes)))


class FileTrainingConfig(TrainingConfig):
    """Settings of a run that learns from rows of a file."""

    data: DataConfig
    """The data to learn from."""

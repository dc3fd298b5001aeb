"""What a training run may be told."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from trainer.configs.models import ModelConfig, Precision
from trainer.validation import Above, Between, Checked, Count, InvalidField, NonNegative, Positive, Whole


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
    """auto is bfloat16 where the accelerator has it (emulation does not count), else float32."""
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
    quantized: bool = False
    """QLoRA (Dettmers et al., 2023): the frozen weights in 4 bits (NF4). Needs an NVIDIA GPU and the package bitsandbytes."""


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
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """How to learn."""
    lora: LoraConfig | None = None
    """Adapters instead of full fine-tuning; null trains every weight."""
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    """When to save."""
    evaluate_every: Whole = 0
    """Optimizer steps between evaluations on what was held out; 0 evaluates before, at each tenth, and after."""
    log_every: Count = 1
    """Optimizer steps between metrics."""
    seed: Whole = 0
    """Fixes initial weights, the order of rows and dropout."""
    resume: bool = True
    """Go on from the newest complete checkpoint in the run's folder, if there is one."""
    pause_on_alarms: bool = False
    """Stop at a checkpoint when an alarm rises (see trainer.alarms), to be looked at and resumed."""


@dataclass(frozen=True)
class FileTrainingConfig(TrainingConfig):
    """What a run has that learns from rows of a file."""

    data: DataConfig = field(kw_only=True)
    """What to learn from."""


@dataclass(frozen=True)
class SftConfig(FileTrainingConfig):
    """Supervised fine-tuning on the policy's own messages."""

    kind: Literal["sft"] = "sft"


DpoLoss = Literal[
    "sigmoid",
    "sigmoid_norm",
    "hinge",
    "ipo",
    "robust",
    "exo_pair",
    "nca_pair",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "apo_zero",
    "apo_down",
    "discopop",
]
SMOOTHED = ("robust", "exo_pair", "aot", "aot_unpaired")


@dataclass(frozen=True)
class DpoConfig(FileTrainingConfig):
    """Direct preference optimization."""

    kind: Literal["dpo"] = "dpo"
    beta: Positive = 0.1
    """How strongly to stay near the base policy (the inverse temperature of the implicit reward)."""
    loss: DpoLoss = "sigmoid"
    """The pairwise loss, by TRL's names. `robust` and `exo_pair` assume that a share of `label_smoothing` of the labels is flipped."""
    label_smoothing: Annotated[float, Between(0, 0.49)] = 0.0
    """Assumed share of wrong labels, for the losses that know one: robust, exo_pair, aot and aot_unpaired."""
    scope: Literal["trajectory", "step"] = "trajectory"
    """Learn from everything after the shared prefix, or from the first turn after it alone."""
    sft_weight: NonNegative = 0.0
    """Adds so much of the SFT loss on chosen messages, which keeps their likelihood from falling."""

    def check(self) -> None:
        if self.label_smoothing and self.loss not in SMOOTHED:
            raise InvalidField("label_smoothing", f"the loss {self.loss!r} knows none; {', '.join(SMOOTHED)} do")
        if self.loss == "exo_pair" and not self.label_smoothing:
            raise InvalidField("label_smoothing", "got 0, expected above 0 for the loss 'exo_pair'")


@dataclass(frozen=True)
class KtoConfig(FileTrainingConfig):
    """Kahneman-Tversky optimization: from runs that are desirable or not, without pairs."""

    kind: Literal["kto"] = "kto"
    beta: Positive = 0.1
    """How strongly to stay near the base policy."""
    loss: Literal["kto", "apo_zero_unpaired"] = "kto"
    """`apo_zero_unpaired` takes the base itself as the point of reference and needs no estimate of the divergence."""
    desirable_weight: Positive = 1.0
    """How much a desirable row counts."""
    undesirable_weight: Positive = 1.0
    """How much an undesirable row counts. Where one kind is rarer, raise its weight until both count alike."""

    def check(self) -> None:
        if self.loss == "kto" and self.optimizer.batch_size < 2:
            raise InvalidField(
                "optimizer.batch_size",
                "got 1, expected 2 or more: the divergence is estimated from the batch's other rows",
            )


@dataclass(frozen=True)
class RewardModelConfig(FileTrainingConfig):
    """A Bradley–Terry reward model."""

    kind: Literal["reward_model"] = "reward_model"
    center: NonNegative = 0.01
    """Weight of the squared mean reward, which keeps rewards near zero (Eisenstein et al., 2023)."""
    soft_labels: bool = True
    """Learn from `soft_label` and `label_weight` where rows have them; off takes the chosen side for certain and its `weight`."""
    margin: NonNegative = 0.0
    """The least difference of rewards to ask for, for each grade of a row's `strength`; a row's own `margin` is added."""
    tie_margin: NonNegative = 0.0
    """Rewards that differ by less are likely a tie (log θ of Rao and Kupper, 1967). 0 counts a tie as half a win for each side."""


@dataclass(frozen=True)
class ProcessRewardModelConfig(FileTrainingConfig):
    """A process reward model: how good each turn is, read at its end."""

    kind: Literal["process_reward_model"] = "process_reward_model"
    error_weight: Positive = 1.0
    """How much more a bad turn counts than another. Raise it where errors are rare and are missed."""
    first_error_only: bool = True
    """Learn nothing from turns after the first error, which few annotators judge alike (Lightman et al., 2023)."""

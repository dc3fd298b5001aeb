"""What a rollout may be told: who acts, on which tasks, within which budget."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from trainer.configs.models import ModelConfig, Precision
from trainer.validation import Between, Checked, Count, InvalidField, NonNegative, Positive, Whole


@dataclass(frozen=True)
class TasksConfig(Checked):
    """Which tasks to roll out: drawn by the environment, or from a file."""

    environment: str = "office"
    """A built-in environment, for tasks that name none themselves."""
    file: str | None = None
    """A JSON Lines file with one task a line; then the fields below do not apply."""
    levels: tuple[str, ...] = ()
    """Levels to draw from in turn; empty is the environment's usual ones (of the office L1 to L3, elsewhere all)."""
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


ToolCalls = Literal["native", "react"]
"""native: through the model's own chat template. react: as plain text (ReAct), for models and servers that know no tools."""


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
    """auto is bfloat16 where the accelerator has it (emulation does not count), else float32."""
    tool_calls: ToolCalls = "native"
    """How tools are called: native is the model's own chat template, react is plain text (ReAct)."""

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
    tool_calls: ToolCalls = "native"
    """How tools are called: native is the server's tool calling, react is plain text (ReAct), which needs nothing of it."""
    token_ids: bool = False
    """Ask for the ids of tokens; vLLM has them, other servers may refuse the question."""

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

"""Config of rollouts: the policy, the tasks, and the budget."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from contract.configs.declaration import Config, Count, Positive, Seed, Setting, Words, internal
from contract.configs.errors import InvalidField
from contract.configs.training import ModelConfig, Precision


class TasksConfig(Config):
    """The tasks to roll out: drawn by the environment, or read from a file."""

    environment: Annotated[str, Setting(source="environment", basic=True)] = "office"
    """A built-in environment, for tasks that don't name one."""
    file: Annotated[str | None, internal("files are local to the worker")] = None
    """A JSON Lines file with one task per line; if set, the fields below don't apply."""
    levels: Annotated[Words, Setting(source="levels", basic=True)] = ()
    """Levels to draw from in turn; if empty, the environment's default levels (L1 to L3 in the office, all elsewhere)."""
    split: Literal["train", "held_out"] = "held_out"
    """The split to draw from. Evaluate a policy only on tasks that it wasn't trained on."""
    count: Count = 50
    """Number of tasks to draw."""
    seed: Seed = 0
    """Determines which tasks are drawn."""


class Sampling(Config):
    """How a language model's turn is sampled."""

    temperature: Annotated[float, Field(ge=0, le=5), Setting(basic=True)] = 1.0
    """0 always takes the most likely token."""
    top_p: Annotated[float, Field(ge=0.01, le=1), Setting("Top p")] = 1.0
    """Sample from the smallest set of tokens with this probability."""
    max_new_tokens: Annotated[int, Field(ge=1, le=100_000), Setting("Longest turn", unit="tokens")] = 512
    """Longer turns are truncated."""


ToolCalls = Literal["native", "react"]
"""native: through the model's own chat template. react: as plain text (ReAct), for models and servers without tool calling."""


class ScriptedPolicy(Config):
    """A scripted policy that comes with the environment."""

    tag: ClassVar[str] = "engine"

    engine: Literal["scripted"] = "scripted"
    script: str = "expert"
    """expert, hasty, careless or demonstrator."""
    name: str = ""
    """The policy's name in the trajectories; if empty, the script's."""


class LocalPolicy(Config):
    """A model loaded into this process (transformers)."""

    tag: ClassVar[str] = "engine"

    model: ModelConfig
    """The model to load; `scratch` isn't allowed here."""
    engine: Literal["local"] = "local"
    name: str = ""
    """The policy's name in the trajectories; if empty, the model's path."""
    sampling: Sampling = Sampling()
    """How turns are sampled."""
    precision: Precision = "auto"
    """auto is bfloat16 where the accelerator has it (emulation does not count), else float32."""
    tool_calls: ToolCalls = "native"
    """How tools are called: native is the model's own chat template, react is plain text (ReAct)."""

    def check(self) -> None:
        if self.model.scratch is not None:
            raise InvalidField("model.scratch", "an untrained policy can't act", advice="Give model.path.")


class ServerPolicy(Config):
    """An OpenAI-compatible server, such as vLLM."""

    tag: ClassVar[str] = "engine"

    url: str
    """Base URL including the version, such as http://127.0.0.1:8000/v1."""
    model: str
    """The model's name on that server."""
    replicas: Words = ()
    """Base URLs of more servers with the same model; episodes are spread among them."""
    published: bool = False
    """Retrace loads the model there and verifies it. If set, a server that is unreachable or doesn't know the name yet is waited for from the
    beginning; otherwise, only a server that has answered before is."""
    engine: Literal["server"] = "server"
    name: str = ""
    """The policy's name in the trajectories; if empty, the model's."""
    sampling: Sampling = Sampling()
    """How turns are sampled."""
    api_key_variable: str = ""
    """Name of the environment variable that holds the key; the key itself is never stored in run.json."""
    timeout_seconds: Positive = 120.0
    """Timeout of one request."""
    patience_seconds: Positive = 900.0
    """How long to wait for an unreachable server, such as one that is restarting."""
    tool_calls: ToolCalls = "native"
    """How tools are called: native is the server's tool calling; react is plain text (ReAct), which needs no server support."""
    token_ids: bool = False
    """Ask for token ids. vLLM returns them; other servers may refuse the request."""

    def check(self) -> None:
        for name, address in (("url", self.url), *(("replicas", address) for address in self.replicas)):
            if not address.startswith(("http://", "https://")):
                raise InvalidField(name, f"got {address!r}, expected an http:// or https:// address")


PolicyConfig = Annotated[ScriptedPolicy | LocalPolicy | ServerPolicy, Field(discriminator="engine")]


class Budget(Config):
    """Limits of one episode."""

    steps: Annotated[int, Field(ge=1, le=1000), Setting("Longest rollout", unit="turns", basic=True)] = 12
    """Agent turns."""
    tokens: Annotated[Count, Setting("Longest rollout", unit="tokens")] = 16_384
    """Total tokens that the policy may generate, if the engine counts them."""
    seconds: Annotated[Positive, Setting("Longest rollout", unit="seconds")] = 600.0
    """Wall-clock time."""


class RolloutConfig(Config):
    """A policy acts on tasks and produces trajectories."""

    tag: ClassVar[str] = "kind"

    policy: PolicyConfig
    """Who acts."""
    kind: Literal["rollout"] = "rollout"
    tasks: TasksConfig = TasksConfig()
    """On what."""
    samples: Count = 1
    """Episodes per task."""
    parallel: Count = 32
    """Concurrent episodes."""
    budget: Budget = Budget()
    """When an episode is cut short."""
    output: str = "trajectories.jsonl"
    """File for the trajectories, one per line."""
    seed: Seed = 0
    """Seed for each episode's sampling."""

"""What a rollout may be told: who acts, on which tasks, within which budget."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from contract.configs.declaration import Config, Count, Positive, Seed, Setting, Words, internal
from contract.configs.errors import InvalidField
from contract.configs.training import ModelConfig, Precision


class TasksConfig(Config):
    """Which tasks to roll out: drawn by the environment, or from a file."""

    environment: Annotated[str, Setting(source="environment", basic=True)] = "office"
    """A built-in environment, for tasks that name none themselves."""
    file: Annotated[str | None, internal("files stay on the worker")] = None
    """A JSON Lines file with one task a line; then the fields below do not apply."""
    levels: Annotated[Words, Setting(source="levels", basic=True)] = ()
    """Levels to draw from in turn; empty is the environment's usual ones (of the office L1 to L3, elsewhere all)."""
    split: Literal["train", "held_out"] = "held_out"
    """Never ask a policy to show what it has learned on tasks it has learned from."""
    count: Count = 50
    """How many tasks to draw."""
    seed: Seed = 0
    """Which ones."""


class Sampling(Config):
    """How a language model's turn is sampled."""

    temperature: Annotated[float, Field(ge=0, le=5), Setting(basic=True)] = 1.0
    """0 always takes the likeliest token."""
    top_p: Annotated[float, Field(ge=0.01, le=1), Setting("Top p")] = 1.0
    """Sample from the smallest set of tokens with this probability."""
    max_new_tokens: Annotated[int, Field(ge=1, le=100_000), Setting("Longest turn", unit="tokens")] = 512
    """Longer turns are cut."""


ToolCalls = Literal["native", "react"]
"""native: through the model's own chat template. react: as plain text (ReAct), for models and servers that know no tools."""


class ScriptedPolicy(Config):
    """A scripted worker that comes with the environment."""

    tag: ClassVar[str] = "engine"

    engine: Literal["scripted"] = "scripted"
    script: str = "expert"
    """expert, hasty, careless or demonstrator."""
    name: str = ""
    """The policy's name in the trajectories; empty is the script's."""


class LocalPolicy(Config):
    """A model loaded into this process (transformers)."""

    tag: ClassVar[str] = "engine"

    model: ModelConfig
    """What to load; `scratch` makes no sense here."""
    engine: Literal["local"] = "local"
    name: str = ""
    """The policy's name in the trajectories; empty is the model's path."""
    sampling: Sampling = Sampling()
    """How turns are sampled."""
    precision: Precision = "auto"
    """auto is bfloat16 where the accelerator has it (emulation does not count), else float32."""
    tool_calls: ToolCalls = "native"
    """How tools are called: native is the model's own chat template, react is plain text (ReAct)."""

    def check(self) -> None:
        if self.model.scratch is not None:
            raise InvalidField("model.scratch", "a policy without training cannot act", advice="Give model.path.")


class ServerPolicy(Config):
    """An OpenAI-compatible server, such as vLLM."""

    tag: ClassVar[str] = "engine"

    url: str
    """Base address with version, such as http://127.0.0.1:8000/v1."""
    model: str
    """The model's name on that server."""
    replicas: Words = ()
    """Addresses of further servers with the same model, among which episodes are spread."""
    published: bool = False
    """Retrace loads the model there and proves it. So a server that is away, or doesn't know the name yet, is waited for from the beginning;
    otherwise only one that has answered before."""
    engine: Literal["server"] = "server"
    name: str = ""
    """The policy's name in the trajectories; empty is the model's."""
    sampling: Sampling = Sampling()
    """How turns are sampled."""
    api_key_variable: str = ""
    """Name of the environment variable that holds the key; the key itself is never stored in run.json."""
    timeout_seconds: Positive = 120.0
    """For one answer."""
    patience_seconds: Positive = 900.0
    """For a server that is away and may come back, as one that restarts does."""
    tool_calls: ToolCalls = "native"
    """How tools are called: native is the server's tool calling, react is plain text (ReAct), which needs nothing of it."""
    token_ids: bool = False
    """Ask for the ids of tokens; vLLM has them, other servers may refuse the question."""

    def check(self) -> None:
        for name, address in (("url", self.url), *(("replicas", address) for address in self.replicas)):
            if not address.startswith(("http://", "https://")):
                raise InvalidField(name, f"got {address!r}, expected an http:// or https:// address")


PolicyConfig = Annotated[ScriptedPolicy | LocalPolicy | ServerPolicy, Field(discriminator="engine")]


class Budget(Config):
    """What one episode may use."""

    steps: Annotated[int, Field(ge=1, le=1000), Setting("Longest rollout", unit="turns", basic=True)] = 12
    """Agent turns."""
    tokens: Annotated[Count, Setting("Longest rollout", unit="tokens")] = 16_384
    """Tokens that the policy may generate in all, where the engine counts them."""
    seconds: Annotated[Positive, Setting("Longest rollout", unit="seconds")] = 600.0
    """Wall-clock time."""


class RolloutConfig(Config):
    """A policy acts on tasks; trajectories come out."""

    tag: ClassVar[str] = "kind"

    policy: PolicyConfig
    """Who acts."""
    kind: Literal["rollout"] = "rollout"
    tasks: TasksConfig = TasksConfig()
    """On what."""
    samples: Count = 1
    """Episodes of each task."""
    parallel: Count = 32
    """Episodes at once."""
    budget: Budget = Budget()
    """When an episode is cut short."""
    output: str = "trajectories.jsonl"
    """Where the trajectories go, one a line."""
    seed: Seed = 0
    """Fixes what each episode samples."""

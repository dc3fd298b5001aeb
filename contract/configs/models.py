"""Where a model comes from."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.declaration import Config, Count, Setting, internal
from contract.configs.errors import InvalidField

Precision = Literal["auto", "float32", "bfloat16"]


class ScratchConfig(Config):
    """A Qwen3-shaped model with random weights, and a tokenizer trained on the text of the training file."""

    layers: Annotated[Count, Setting("Layers")] = 2
    """Transformer blocks."""
    hidden: Annotated[Count, Setting("Hidden size")] = 192
    """Width of the residual stream."""
    intermediate: Annotated[Count, Setting("Feed-forward size")] = 256
    """Width of the feed-forward layer: small, for the work is in the attention."""
    heads: Annotated[Count, Setting("Attention heads")] = 4
    """Attention heads; `hidden` must be divisible by it."""
    vocabulary: Annotated[int, Field(ge=300, le=50_000), Setting(unit="tokens")] = 1000
    """Tokens, the 256 bytes and the special ones included."""
    initializer_range: Annotated[float, Field(gt=0, le=1)] = 0.08
    """Standard deviation of the initial weights. Small models learn to copy from their context much sooner with 0.08 than with the usual 0.02."""

    def check(self) -> None:
        if self.hidden % self.heads:
            raise InvalidField("heads", f"{self.heads} does not divide hidden = {self.hidden}")


class ModelConfig(Config):
    """Where the base model comes from: exactly one of `path` and `scratch`."""

    path: Annotated[str, internal("the worker writes where the base policy's weights are")] = ""
    """A folder, which begins with `/`, `./` or `../` (relative to run.json), or the id of a model on the Hugging Face hub."""
    revision: Annotated[str | None, internal("it belongs to the base policy")] = None
    """Commit, tag or branch of a hub model."""
    scratch: Annotated[ScratchConfig | None, Setting("New model")] = None
    """Make a small model instead of loading one."""
    trust_remote_code: Annotated[
        bool, internal("code from a hub runs on the worker, which is for its operator to decide")
    ] = False
    """Run Python code that comes with the model. Leave it off unless you have read that code."""

    def check(self) -> None:
        if bool(self.path) == (self.scratch is not None):
            raise InvalidField("path", "give either a path (folder or hub id) or scratch, and not both")

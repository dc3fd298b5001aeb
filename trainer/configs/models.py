"""Where a model comes from."""

from dataclasses import dataclass
from typing import Annotated, Literal

from trainer.validation import Between, Checked, Count, InvalidField, Positive

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class ScratchConfig(Checked):
    """A Qwen3-shaped model with random weights, and a tokenizer trained on the text of the training file."""

    layers: Count = 2
    """Transformer blocks."""
    hidden: Count = 192
    """Width of the residual stream."""
    intermediate: Count = 256
    """Width of the feed-forward layer: small, for the work is in the attention."""
    heads: Count = 4
    """Attention heads; `hidden` must be divisible by it."""
    vocabulary: Annotated[int, Between(300, 50_000)] = 1000
    """Tokens, the 256 bytes and the special ones included."""
    initializer_range: Positive = 0.08
    """Standard deviation of the initial weights. Small models learn to copy from their context much sooner with 0.08 than with the usual 0.02."""

    def check(self) -> None:
        if self.hidden % self.heads:
            raise InvalidField("heads", f"{self.heads} does not divide hidden = {self.hidden}")


@dataclass(frozen=True)
class ModelConfig(Checked):
    """Where the base model comes from: exactly one of `path` and `scratch`."""

    path: str = ""
    """A folder, which begins with `/`, `./` or `../` (relative to run.json), or the id of a model on the Hugging Face hub."""
    revision: str | None = None
    """Commit, tag or branch of a hub model."""
    scratch: ScratchConfig | None = None
    """Make a small model instead of loading one."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model. Leave it off unless you have read that code."""

    def check(self) -> None:
        if bool(self.path) == (self.scratch is not None):
            raise InvalidField("path", "give either a path (folder or hub id) or scratch, and not both")

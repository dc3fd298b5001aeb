"""How a config is declared: one pydantic class, with one annotated line for each setting.

    class DpoConfig(FileTrainingConfig):
        beta: Annotated[float, Field(ge=0.001, le=10), Setting(basic=True)] = 0.1
        \"\"\"How strongly to stay near the base policy.\"\"\"

The form field, REST's schema, the JSON Schema in `docs/schemas/`, `run.json`, and the validation errors come from that line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.json_schema import JsonSchemaValue

from contract.configs.errors import translated

Source = Literal["environment", "levels", "reward_model", "process_model", "judge"]
"""Choices that depend on the workspace or the installation; the contract knows only their kind."""


@dataclass(frozen=True)
class Setting:
    """What a form needs to know about a field beyond its type, range, default, and docstring."""

    title: str = ""
    """If empty, it's derived from the field's name."""
    unit: str = ""
    """For example, tokens or steps."""
    basic: bool = False
    """Shown at first; the others are collapsed."""
    internal: str = ""
    """Why people can't set it; empty where they can."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Label for each choice of a Literal."""
    source: Source | None = None
    """Where the choices come from, if they aren't fixed."""
    is_added: bool = False
    """Added after the first runs were stored: left out of the hash when it has its default, so their hashes stay the same."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Title, unit and tier for JSON Schema."""
        described = handler(schema)
        properties = {"title": self.title, "x-unit": self.unit, "x-internal": self.internal}
        described |= {name: text for name, text in properties.items() if text}
        if not self.internal:
            described["x-tier"] = "basic" if self.basic else "advanced"
        return described


def internal(reason: str) -> Setting:
    """A field that only Retrace writes."""
    return Setting(internal=reason)


LARGEST = 2**31 - 1
Positive = Annotated[float, Field(gt=0, le=1e6)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Whole = Annotated[int, Field(ge=0, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, le=LARGEST)]
Words = Annotated[tuple[str, ...], Field(strict=False, max_length=100)]
"""Turns JSON's lists into tuples, so that a config is immutable."""


def title_of(name: str) -> str:
    """evaluate_every -> Evaluate every"""
    return name.replace("_", " ").capitalize()


class Config(BaseModel):
    """Frozen and strict: no unknown fields, no text for numbers. The same rules apply to Python and JSON."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        field_title_generator=lambda name, _: title_of(name),
    )

    tag: ClassVar[str] = ""
    """Name of the discriminator field in a union of these classes, such as "kind"."""

    def check(self) -> None:
        """Refuse invalid combinations of fields. Raises InvalidField."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self.check()
        return self

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Build a config from decoded JSON. Raises InvalidConfig, which lists every mistake."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise translated(error, cls) from None

    def to_json(self) -> dict[str, Any]:
        """All fields, defaults included, so that a stored file keeps its meaning when defaults change."""
        return self.model_dump(mode="json")

    def replaced(self, **changes: Any) -> Self:
        """A validated copy with some fields changed."""
        return type(self)(**{**dict(self), **changes})

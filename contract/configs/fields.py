"""Every setting of a config as a flat list, for forms, REST's schema, and the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from contract.configs.declaration import Config, Setting, Source, title_of
from contract.configs.hints import Range, bare, is_list, is_optional, item_of, members_of, range_of
from contract.configs.paths import at

Kind = Literal["whole", "number", "text", "switch", "choice", "words", "terms"]
"""`terms` is a list of configs of several classes."""
KINDS: Mapping[Any, Kind] = {int: "whole", float: "number", str: "text", bool: "switch"}


@dataclass(frozen=True)
class ConfigField:
    """One setting, at any depth in the config."""

    path: str
    """Dotted path from the top of the config."""
    kind: Kind
    title: str
    help: str
    unit: str
    is_basic: bool
    section: str
    """The title of the nested config that holds it; empty at the top level."""
    default: Any
    range: Range
    choices: Mapping[str, str]
    """Label of each choice; empty unless `kind` is choice."""
    source: Source | None
    internal: str
    """Why people can't set it; empty where they can."""
    is_optional: bool
    is_required: bool

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


@cache
def fields_of(cls: type[Config]) -> tuple[ConfigField, ...]:
    """The settings of `cls` and its nested configs in declaration order, base classes first."""
    return tuple(_fields(cls, prefix="", section="", internal="", default=None))


def settable_fields(cls: type[Config]) -> tuple[ConfigField, ...]:
    """The settings that people can change."""
    return tuple(field for field in fields_of(cls) if not field.internal)


def field_at(config: Config, path: str) -> ConfigField | None:
    """The setting at a path of this config, which may index lists (`rewards.terms[0].measure`); None if there is none."""
    owner, in_list, rest = path.rpartition("].")
    if in_list:
        item = at(config, f"{owner}]")
        return field_at(item, rest) if isinstance(item, Config) else None
    return next((field for field in fields_of(type(config)) if field.path == path), None)


def added_fields(cls: type[Config]) -> dict[str, Any]:
    """The settings added after the first runs were stored, each with its default."""
    return {name: info.default for name, info in cls.model_fields.items() if _setting(info).is_added}


def _fields(
    cls: type[Config], *, prefix: str, section: str, internal: str, default: Config | None
) -> Iterator[ConfigField]:
    for name, info in cls.model_fields.items():
        if name == cls.tag or _is_tag(info):
            continue
        setting = _setting(info)
        path = f"{prefix}{name}"
        value = getattr(default, name) if default is not None else _default(info)
        members = members_of(info.annotation)
        if len(members) == 1 and not is_list(info.annotation):
            yield from _fields(
                members[0],
                prefix=f"{path}.",
                section=setting.title or section or title_of(name),
                internal=internal or setting.internal,
                default=value if isinstance(value, Config) else None,
            )
            continue
        yield ConfigField(
            path=path,
            kind=_kind(info.annotation),
            title=setting.title or title_of(name),
            help=info.description or "",
            unit=setting.unit,
            is_basic=setting.basic,
            section=section,
            default=value,
            range=range_of(info),
            choices=_choices(info.annotation, setting),
            source=setting.source,
            internal=internal or setting.internal,
            is_optional=is_optional(info.annotation),
            is_required=info.is_required() and default is None,
        )


def _setting(info: FieldInfo) -> Setting:
    """The last `Setting` wins, since a type alias may carry one of its own."""
    return next((fact for fact in reversed(info.metadata) if isinstance(fact, Setting)), Setting())


def _default(info: FieldInfo) -> Any:
    return None if info.default is PydanticUndefined else info.default


def _is_tag(info: FieldInfo) -> bool:
    return get_origin(info.annotation) is Literal and len(get_args(info.annotation)) == 1


def _kind(hint: Any) -> Kind:
    if is_list(hint):
        return "terms" if members_of(item_of(hint)) else "words"
    inner = bare(hint)
    return "choice" if get_origin(inner) is Literal else KINDS[inner]


def _choices(hint: Any, setting: Setting) -> Mapping[str, str]:
    inner = bare(hint)
    if get_origin(inner) is not Literal:
        return {}
    return {str(choice): setting.labels.get(choice, str(choice)) for choice in get_args(inner)}

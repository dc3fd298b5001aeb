"""What a model's folder may not have: code, pickles, and references to files that aren't its own.

Whoever registers a model wrote its folder. transformers follows what the folder says: the files of an index, the base of an adapter, a kernel on the
hub. So these are looked at before it's let in.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainer.failures import ConfigFailure


def refuse_foreign(place: Path, *, with_code: bool) -> None:
    """Raises ConfigFailure where loading from `place` would read another folder, open a pickle, or fetch native code.

    with_code: its own code may run, which can do all of that.
    """
    if with_code:
        return
    if (place / "adapter_config.json").is_file():
        raise _refusal(
            place,
            "adapter_config.json makes it an adapter, which loads a base from wherever it says",
            "Merge it into its base.",
        )
    for index in sorted(place.glob("*.index.json")):
        for shard in _shards(index):
            if Path(shard).name != shard or not shard.endswith(".safetensors"):
                raise _refusal(
                    place,
                    f"{index.name} names {shard!r}, expected *.safetensors beside it",
                    "Save the model as safetensors.",
                )
    for name, value in _settings(_read(place / "config.json")):
        if name.endswith("attn_implementation") and isinstance(value, str) and "/" in value:
            raise _refusal(place, f"config.json asks for the kernel {value!r} from the hub", f"Remove {name}.")


def forget_code(loaded: Any) -> None:
    """Drop what a model or tokenizer says of its code: it isn't used here, and what is saved and published must not bring it along."""
    config = getattr(loaded, "config", None)
    for settings in (getattr(loaded, "init_kwargs", {}), vars(config) if config is not None else {}):
        settings.pop("auto_map", None)


def _shards(index: Path) -> Iterator[str]:
    weight_map = _read(index).get("weight_map")
    yield from set(map(str, weight_map.values())) if isinstance(weight_map, dict) else ()


def _read(path: Path) -> dict[str, Any]:
    """Nothing where it's no JSON object: whoever loads the folder says so."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _settings(content: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each name and value, also of configs within it."""
    waiting = [content]
    while waiting:
        for name, value in waiting.pop().items():
            yield name, value
            if isinstance(value, dict):
                waiting.append(value)


def _refusal(place: Path, problem: str, advice: str) -> ConfigFailure:
    return ConfigFailure(f"model.path: {place.name!r} isn't loaded: {problem}.", advice=advice)

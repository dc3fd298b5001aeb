"""What the Hugging Face hub says about a model, without downloading its weights."""

from __future__ import annotations

import json
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

from workers.bridge.memory_estimate import ModelFacts, facts_of_config

TIMEOUT_SECONDS = 6.0


class NotOnHub(ValueError):
    """The hub answered, and there is no such model (or no access to it)."""


def facts_of_hub(model: str, revision: str | None) -> ModelFacts | None:
    """The shape of a hub model; None when the hub cannot be reached. Raises NotOnHub."""
    try:
        weights = HfApi().model_info(model, revision=revision, timeout=TIMEOUT_SECONDS).safetensors
        config = Path(hf_hub_download(model, "config.json", revision=revision, etag_timeout=TIMEOUT_SECONDS))
    except (RepositoryNotFoundError, EntryNotFoundError) as error:
        if isinstance(error, LocalEntryNotFoundError):
            return None
        raise NotOnHub(
            f"the hub has no model {model!r} that this worker may see (private ones need HF_TOKEN)"
        ) from None
    except (HfHubHTTPError, OSError, RuntimeError):
        return None
    if weights is None:
        raise NotOnHub(f"{model!r} has no safetensors on the hub; other formats can run code and are not loaded")
    return facts_of_config(json.loads(config.read_text(encoding="utf-8")), weights.total)

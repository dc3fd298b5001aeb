"""Where the files of a policy lie that a run here made. The workers and the web share RUNS_DIR."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from apps.policies.models import Policy


@dataclass(frozen=True)
class Weights:
    """What its run left behind. The layout is the trainer's."""

    run: Path

    @property
    def model(self) -> Path:
        """The whole model."""
        return self.run / "model"

    @property
    def adapter(self) -> Path:
        """The LoRA adapter alone; there is none after full fine-tuning."""
        return self.run / "adapter"

    @property
    def has_adapter(self) -> bool:
        return (self.adapter / "adapter_config.json").is_file()

    @property
    def has_model(self) -> bool:
        return (self.model / "config.json").is_file()


def weights_of_run(policy: Policy) -> Weights | None:
    """The files of the run that made the policy; None where no run of its own workspace did. `location` has no say in it."""
    run = getattr(policy, "made_by", None)
    if run is None or run.workspace_id != policy.workspace_id:
        return None
    return Weights(Path(settings.RUNS_DIR) / str(run.pk))


def weights_of(policy: Policy) -> Weights | None:
    """The same for what can be published: language models."""
    return weights_of_run(policy) if policy.kind == Policy.Kind.MODEL else None

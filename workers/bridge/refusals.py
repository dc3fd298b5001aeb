"""Why a policy isn't published, for display on its page."""

from __future__ import annotations

from typing import Any

from apps.policies.locations import Weights
from apps.policies.models import Publication
from trainer.canary import Canary, Verdict, read_canary


class CannotPublish(Exception):
    """Publishing isn't possible; says what to do instead."""


class Refused(Exception):
    """The server answered with other weights."""

    def __init__(self, verdict: Verdict, *, server: str) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict
        self.server = server


def canary_of(publication: Publication, weights: Weights) -> Canary:
    """The canary to verify servers with. Raises DataFailure if it isn't the one that the run wrote."""
    canary: dict[str, Any] = publication.policy.report.get("canary") or {}
    return read_canary(weights.run, sha256=canary.get("sha256", ""))

"""Blind A/B experiments."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.experiments import Experiment, Promote, Promotion, Standing, Start


class Experiments(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Experiment]:
        """All experiments, newest first."""
        return Listing("/experiments", Experiment, {"page_size": page_size})

    @operation
    def start(self, **experiment: Unpack[Start]) -> Flow[Experiment]:
        """Start an experiment."""
        return self._create("/experiments", answer=Experiment, body=experiment)

    @operation
    def read(self, experiment_id: str) -> Flow[Standing]:
        """Read an experiment with its current figures."""
        return self._read("/experiments/{}", experiment_id, answer=Standing)

    @operation
    def stop(self, experiment_id: str) -> Flow[Standing]:
        """End an experiment early."""
        return self._act("/experiments/{}/stop", experiment_id, answer=Standing)

    @operation
    def promote(self, experiment_id: str, **promotion: Unpack[Promote]) -> Flow[Promotion]:
        """Promote one of the two policies to champion."""
        return self._create("/experiments/{}/promote", experiment_id, answer=Promotion, body=promotion)

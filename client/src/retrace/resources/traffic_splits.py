"""Traffic splits: gateway model names that are routed to several policies."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.traffic_splits import ChangeSplit, NewSplit, SplitStanding, Switch, TrafficSplit


class TrafficSplits(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[TrafficSplit]:
        """All traffic splits, newest first."""
        return Listing("/traffic-splits", TrafficSplit, {"page_size": page_size})

    @operation
    def create(self, **split: Unpack[NewSplit]) -> Flow[SplitStanding]:
        """Create a traffic split. Agents can request its name from then on."""
        return self._create("/traffic-splits", answer=SplitStanding, body=split)

    @operation
    def read(self, split_id: str) -> Flow[SplitStanding]:
        """Read a traffic split, with the figures of its arms."""
        return self._read("/traffic-splits/{}", split_id, answer=SplitStanding)

    @operation
    def change(self, split_id: str, **arms: Unpack[ChangeSplit]) -> Flow[SplitStanding]:
        """Change a traffic split's arms. Open sessions keep theirs."""
        return self._create("/traffic-splits/{}", split_id, answer=SplitStanding, body=arms)

    @operation
    def switch(self, split_id: str, **switch: Unpack[Switch]) -> Flow[SplitStanding]:
        """Turn a traffic split off, so that the champion answers, or on again."""
        return self._create("/traffic-splits/{}/switch", split_id, answer=SplitStanding, body=switch)

    @operation
    def remove(self, split_id: str) -> Flow[TrafficSplit]:
        """Remove a traffic split that no session has requested."""
        return self._act("/traffic-splits/{}/remove", split_id, answer=TrafficSplit)

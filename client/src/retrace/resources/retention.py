"""Retention rules: what is deleted automatically, once a day."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.retention import ChangeRule, NewRule, PreviewedRule, RetentionRule


class RetentionRules(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[RetentionRule]:
        """All retention rules, newest first."""
        return Listing("/retention-rules", RetentionRule, {"page_size": page_size})

    @operation
    def create(self, **rule: Unpack[NewRule]) -> Flow[PreviewedRule]:
        """Create a rule, which is initially off."""
        return self._create("/retention-rules", answer=PreviewedRule, body=rule)

    @operation
    def read(self, rule_id: str) -> Flow[PreviewedRule]:
        """Read a rule, with the number of trajectories that it would delete now."""
        return self._read("/retention-rules/{}", rule_id, answer=PreviewedRule)

    @operation
    def change(self, rule_id: str, **change: Unpack[ChangeRule]) -> Flow[PreviewedRule]:
        """Change a rule, or turn it on or off."""
        return self._create("/retention-rules/{}/change", rule_id, answer=PreviewedRule, body=change)

    @operation
    def remove(self, rule_id: str) -> Flow[RetentionRule]:
        """Remove a rule."""
        return self._act("/retention-rules/{}/remove", rule_id, answer=RetentionRule)

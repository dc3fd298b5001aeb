"""Redaction rules of a workspace."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.redaction import NewRedactionRule, RedactionRule, RedactionSample, Tried


class RedactionRules(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[RedactionRule]:
        """All redaction rules, newest first."""
        return Listing("/redaction-rules", RedactionRule, {"page_size": page_size})

    @operation
    def create(self, **rule: Unpack[NewRedactionRule]) -> Flow[RedactionRule]:
        """Add a rule: from now on, what a detector finds or a pattern matches is replaced before anything is stored."""
        return self._create("/redaction-rules", answer=RedactionRule, body=rule)

    @operation
    def test(self, **sample: Unpack[RedactionSample]) -> Flow[Tried]:
        """Apply the rules, or a given pattern, to a sample, which isn't stored."""
        return self._create("/redaction-rules/test", answer=Tried, body=sample, is_remembered=False)

    @operation
    def remove(self, redaction_rule_id: str) -> Flow[RedactionRule]:
        """Remove a redaction rule. What it replaced stays replaced."""
        return self._act("/redaction-rules/{}/remove", redaction_rule_id, answer=RedactionRule)

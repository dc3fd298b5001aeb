"""Feedback from an agent's users, and the keys with which their browsers send it."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.feedback import Feedback, FeedbackKey, FeedbackKeyName, NewFeedback, NewFeedbackKey


class FeedbackOfUsers(Resource[C]):
    @operation
    def create(self, **feedback: Unpack[NewFeedback]) -> Flow[Feedback]:
        """Send a user's feedback on a session. The client's token can be a feedback key, which allows nothing else."""
        return self._create("/feedback", answer=Feedback, body=feedback, is_remembered=False)


class FeedbackKeys(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[FeedbackKey]:
        """All feedback keys, newest first."""
        return Listing("/feedback-keys", FeedbackKey, {"page_size": page_size})

    @operation
    def create(self, **key: Unpack[FeedbackKeyName]) -> Flow[NewFeedbackKey]:
        """Create a feedback key, which is safe to embed in web pages. It's shown only once."""
        return self._create("/feedback-keys", answer=NewFeedbackKey, body=key, is_remembered=False)

    @operation
    def revoke(self, feedback_key_id: str) -> Flow[FeedbackKey]:
        """Revoke a feedback key with immediate effect."""
        return self._act("/feedback-keys/{}/revoke", feedback_key_id, answer=FeedbackKey)

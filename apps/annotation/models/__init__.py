"""Queues of items to judge, who is judging what right now, and the judgements."""

from apps.annotation.models.items import Assignment, Desk, Item
from apps.annotation.models.preferences import Preference
from apps.annotation.models.queues import Annotator, Guideline, Queue

__all__ = ["Annotator", "Assignment", "Desk", "Guideline", "Item", "Preference", "Queue"]

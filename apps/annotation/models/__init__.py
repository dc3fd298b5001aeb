"""Queues of items to judge, assignments, and judgments."""

from apps.annotation.models.bulk import BulkAct, ItemAssignee
from apps.annotation.models.comments import Comment, Mention
from apps.annotation.models.continuations import Continuation
from apps.annotation.models.items import Assignment, Desk, Item
from apps.annotation.models.judges import Judge, JudgeAnswer, JudgePrompt
from apps.annotation.models.judgments import Correction, Inspection, Judgment, Mark, Preference, Rating, StepLabel
from apps.annotation.models.layouts import DeskLayout, LayoutChoice
from apps.annotation.models.queues import Annotator, Guideline, QualityReport, Queue
from apps.annotation.models.reviews import Adjudication, Remark

__all__ = [
    "Adjudication",
    "Annotator",
    "Assignment",
    "BulkAct",
    "Comment",
    "Continuation",
    "Correction",
    "Desk",
    "DeskLayout",
    "Guideline",
    "Inspection",
    "Item",
    "ItemAssignee",
    "Judge",
    "JudgeAnswer",
    "JudgePrompt",
    "Judgment",
    "LayoutChoice",
    "Mark",
    "Mention",
    "Preference",
    "QualityReport",
    "Queue",
    "Rating",
    "Remark",
    "StepLabel",
]

"""What every kind of judgment has in common."""

from __future__ import annotations

from typing import ClassVar, Self, TypeVar

from django.db import models
from django.db.models import Exists, F, OuterRef, Q

from apps.accounts.models import Membership, Role, WorkspaceModel
from apps.annotation.models.items import Assignment, Item, OpinionQuerySet
from apps.annotation.models.queues import Annotator, Queue
from apps.annotation.models.reviews import Adjudication

J = TypeVar("J", bound="Judgement")


def undecided_for(member: Membership) -> models.QuerySet[Item]:
    """The items that a reviewer may yet have to decide without knowing what was said: disputed ones, and those that the next
    judgment may make so. What a member has judged isn't new to them. Researchers, who also answer for the queue, are told everything.
    """
    if member.role != Role.REVIEWER:
        return Item.objects.none()
    own = Assignment.objects.filter(item=OuterRef("pk"), annotator__user=member.user_id, state=Assignment.State.JUDGED)
    decided = Adjudication.objects.standing().filter(item=OuterRef("pk"))
    unsettled = Q(disputed=True) | Q(purpose=Item.Purpose.WORK, overlap__gt=1, judged__lt=F("overlap"))
    return Item.objects.filter(unsettled, ~Exists(own), ~Exists(decided), queue__blind_review=True)


class JudgementQuerySet(OpinionQuerySet[J]):
    def visible_to(self, member: Membership, *, at_least: Role | None = None) -> Self:
        """Nor those of items that this member may have to decide."""
        found = super().visible_to(member, at_least=at_least)
        if member.role == Role.REVIEWER and self.model.reviewers_answer:
            found = found.exclude(Exists(undecided_for(member).filter(pk=OuterRef("item"))))
        return found

    def standing(self) -> Self:
        """Those that nobody took back."""
        return self.filter(retracted_at=None)


class Judgement(WorkspaceModel):
    """What one annotator said of one item. Never changed; taking it back sets `retracted_at`, and a new one may follow."""

    visible_from = Role.REVIEWER
    reviewers_answer: ClassVar[bool] = False
    """Whether reviewers answer the question themselves, so that they can do so blind; or say whose judgment stands."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="%(class)ss", db_index=False)
    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="%(class)ss")
    annotator = models.ForeignKey(Annotator, on_delete=models.PROTECT, related_name="%(class)ss")
    assignment = models.OneToOneField(Assignment, on_delete=models.PROTECT, related_name="%(class)s")
    guideline_version = models.PositiveIntegerField(default=0)
    seconds = models.FloatField(help_text="Time at work: pauses without input do not count.")
    retracted_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

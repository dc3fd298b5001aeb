"""Adding and removing comments on trajectories, and marking mentions as read."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.db import transaction
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Membership, User
from apps.annotation.models import Comment, Mention
from apps.annotation.refusals import Refusal
from apps.common.text_encoding import is_storable
from apps.trajectories.models import Trajectory
from apps.webhooks.events import EventType
from apps.webhooks.outbox import announce

MAX_LENGTH = 5000


class NothingSaid(Refusal):
    code = "nothing_said"
    message = f"A comment needs text, at most {MAX_LENGTH:,} characters, none of them null."


class NotYours(Refusal):
    code = "not_yours"
    message = "Only its author can remove a comment."


@transaction.atomic
def comment_on(*, trajectory: Trajectory, by: Membership, text: str) -> Comment:
    """Store a comment; people mentioned by `@` and their name or email address see it on their home page. Raises NothingSaid."""
    text = text.strip()
    if not text or len(text) > MAX_LENGTH or not is_storable(text):
        raise NothingSaid
    comment = Comment.objects.create(workspace_id=by.workspace_id, trajectory=trajectory, by=by.user, text=text)
    people = User.objects.filter(memberships__workspace=by.workspace_id).exclude(pk=by.user_id)
    mentioned = mentioned_in(text, people)
    Mention.objects.bulk_create(Mention(comment=comment, user=user) for user in mentioned)
    for user in mentioned:
        # The event omits the text, since recipients may still have to judge the trajectory blind.
        announce(
            EventType.MENTION,
            workspace_id=by.workspace_id,
            name=f"{by.user} mentioned {user}",
            page=reverse("trajectories:detail", args=[trajectory.pk]),
            trajectory=str(trajectory.pk),
            comment=str(comment.pk),
            member=user.email,
        )
    return comment


def mentioned_in(text: str, people: Iterable[User]) -> list[User]:
    """The users that `text` mentions. Longer names match first: `@Ann Lee` doesn't mention Ann."""
    names = [(name, user) for user in people for name in (user.name, user.email) if name]
    users: dict[int, User] = {}
    for name, user in sorted(names, key=lambda entry: -len(entry[0])):
        pattern = re.compile(rf"(?<![\w@])@{re.escape(name)}(?!\w)", re.IGNORECASE)
        if pattern.search(text):
            users[user.pk] = user
            # Two people with the same name are both mentioned, so only longer names hide shorter ones.
            if not any(other != user and other_name.lower() == name.lower() for other_name, other in names):
                text = pattern.sub(" ", text)
    return list(users.values())


def remove_comment(*, comment: Comment, by: Membership) -> None:
    """Remove a comment and its mentions. Raises NotYours."""
    if comment.by_id != by.user_id:
        raise NotYours
    comment.delete()


def mark_read(*, mention: Mention) -> None:
    """Remove a mention from its person's home page."""
    Mention.objects.filter(pk=mention.pk, read_at=None).update(read_at=now())

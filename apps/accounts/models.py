"""People, the workspaces they share, and what they may do there."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Self, TypeVar
from uuid import UUID

from django.contrib.auth.base_user import BaseUserManager
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import CheckConstraint, Q, UniqueConstraint
from django.db.models.functions import Lower, Now
from django.utils.functional import cached_property
from django.utils.timezone import now

from apps.common.ids import new_id

M = TypeVar("M", bound=models.Model, covariant=True)


class Role(models.IntegerChoices):
    """What a member may do; each role includes the previous ones."""

    ANNOTATOR = 1, "Annotator"
    REVIEWER = 2, "Reviewer"
    RESEARCHER = 3, "Researcher"
    OWNER = 4, "Owner"


# Addresses are compared as the constraint of one account per address does. UPPER, and so `iexact`, takes “ı” for “i” and “ſ” for “s”.
models.EmailField.register_lookup(Lower)


class UserManager(BaseUserManager["User"]):
    def create_user(self, *, email: str, password: str | None = None, **fields: Any) -> User:
        """A person who signs in by e-mail address; without a password they cannot sign in yet."""
        user = self.model(email=self.normalize_email(email), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, *, email: str, password: str | None = None, **fields: Any) -> User:
        """Create a superuser, for `manage.py createsuperuser`."""
        return self.create_user(email=email, password=password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email__lower=(username or "").lower())


class User(AbstractUser):
    """A person. They sign in with their e-mail address, case-insensitively."""

    username = None  # type: ignore[assignment]  # replaced by email
    first_name = None  # type: ignore[assignment]  # names are one field: not everyone has two
    last_name = None  # type: ignore[assignment]
    email = models.EmailField(unique=True)
    name = models.CharField(max_length=100)
    preferences = models.JSONField(default=dict, blank=True, help_text="Theme and remapped keys.")

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = ["name"]
    objects = UserManager()  # type: ignore[misc,assignment]  # AbstractUser declares a manager for usernames

    class Meta:
        constraints = [UniqueConstraint(Lower("email"), name="one_user_per_email_in_any_case")]

    def __str__(self) -> str:
        return self.name or self.email

    def get_full_name(self) -> str:
        return self.name

    def get_short_name(self) -> str:
        return self.name

    @property
    def remapped_keys(self) -> dict[str, str]:
        """Remapped keys by action. In a template, `preferences.keys` could resolve to the dict's method."""
        keys: dict[str, str] = self.preferences.get("keys", {})
        return keys

    @property
    def may_found(self) -> bool:
        """Whether they may create workspaces, and so train and publish: researchers and owners of any workspace, and superusers."""
        return self.is_superuser or any(membership.is_researcher for membership in self.own_memberships)

    @cached_property
    def own_memberships(self) -> list[Membership]:
        """Their memberships, the oldest first, each with its workspace."""
        return list(Membership.objects.of(self.pk))


class Workspace(models.Model):
    """A team's trajectories, queues, datasets, runs, and policies, isolated from other workspaces."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=100)
    slug = models.SlugField(max_length=100, unique=True)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name


class WorkspaceQuerySet(models.QuerySet[M]):
    """Rows of one workspace. `visible_to` is the only access control: views start from it."""

    def visible_to(self, member: Membership, *, at_least: Role | None = None) -> Self:
        """What this member may see; nothing below the model's `visible_from` role (or `at_least`)."""
        needed = at_least if at_least is not None else Role(getattr(self.model, "visible_from", Role.RESEARCHER))
        if member.role < needed:
            return self.none()
        return self.filter(workspace=member.workspace_id)


class WorkspaceModel(models.Model):
    """Something that belongs to a workspace."""

    visible_from: ClassVar[Role] = Role.RESEARCHER

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        abstract = True


class MembershipQuerySet(WorkspaceQuerySet["Membership"]):
    def of(self, user_id: int) -> Self:
        """A person's memberships, oldest first, with the person and the workspaces."""
        return self.filter(user=user_id).select_related("user", "workspace").order_by("created_at", "pk")


class Membership(models.Model):
    """A person's membership in a workspace."""

    visible_from: ClassVar[Role] = Role.RESEARCHER

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    role = models.PositiveSmallIntegerField(choices=Role.choices)
    created_at = models.DateTimeField(db_default=Now())

    objects = MembershipQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["user", "workspace"], name="one_membership_per_workspace"),
            CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_is_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} ({self.get_role_display()})"

    @property
    def is_reviewer(self) -> bool:
        return self.role >= Role.REVIEWER

    @property
    def is_researcher(self) -> bool:
        return self.role >= Role.RESEARCHER

    @property
    def is_owner(self) -> bool:
        return self.role >= Role.OWNER


class InvitationQuerySet(WorkspaceQuerySet["Invitation"]):
    def open(self) -> Self:
        return self.filter(accepted_at=None, revoked_at=None, expires_at__gt=now())


class Invitation(WorkspaceModel):
    """An invitation to a workspace. Its link contains a secret that is shown once and stored hashed."""

    visible_from = Role.OWNER

    email = models.EmailField()
    role = models.PositiveSmallIntegerField(choices=Role.choices)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    objects = InvitationQuerySet.as_manager()


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def usable(self, at: datetime | None = None) -> Self:
        """Not revoked and not expired, now or at another time."""
        return self.filter(revoked_at=None).filter(Q(expires_at=None) | Q(expires_at__gt=at or now()))

    def visible_to(self, member: Membership) -> Self:
        """A researcher's own; for an owner, all of the workspace, since owners are responsible for access."""
        if member.role < Role.RESEARCHER:
            return self.none()
        tokens = self.filter(membership__workspace=member.workspace_id)
        return tokens if member.is_owner else tokens.filter(membership=member)


class ApiToken(models.Model):
    """An API token with its owner's role in one workspace. Only its SHA-256 is stored; the prefix identifies it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    membership = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    objects = ApiTokenQuerySet.as_manager()

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= now()


class AuditEntry(WorkspaceModel):
    """An audit log entry. Written in the transaction of the audited change, and never modified."""

    visible_from = Role.OWNER

    actor = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    action = models.CharField(max_length=60)
    subject = models.CharField(max_length=200, help_text="The object of the action, as text.")
    subject_id = models.CharField(max_length=60, blank=True)
    detail = models.JSONField(default=dict)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["workspace", "-id"], name="audit_newest")]

    @property
    def facts(self) -> list[tuple[str, Any]]:
        """The detail's items, for templates: one of the keys may itself be `items`."""
        return list(self.detail.items())


def subject_id(thing: models.Model | UUID | None) -> str:
    """The text form of an identifier for `AuditEntry.subject_id`."""
    return "" if thing is None else str(thing.pk if isinstance(thing, models.Model) else thing)

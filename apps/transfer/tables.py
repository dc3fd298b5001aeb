"""What an archive contains of a workspace: every model is listed here, as a table or with the reason why it's left out.

Tables are in the order in which an import writes them. Fields that aren't mentioned are copied unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from types import SimpleNamespace
from typing import Any, Final, cast

from django.db.models import Field, Model, Q, QuerySet

from apps.accounts.models import ApiToken, AuditEntry, Invitation, Membership, User, Workspace
from apps.annotation.kinds import KINDS
from apps.annotation.models import (
    Adjudication,
    Annotator,
    Assignment,
    BulkAct,
    Comment,
    Continuation,
    Correction,
    Desk,
    DeskLayout,
    Guideline,
    Inspection,
    Item,
    ItemAssignee,
    Judge,
    JudgeAnswer,
    JudgePrompt,
    LayoutChoice,
    Mark,
    Mention,
    Preference,
    QualityReport,
    Queue,
    Rating,
    Remark,
    StepLabel,
)
from apps.arena.lifecycle import UNFINISHED
from apps.arena.models import Experiment, LiveAttempt
from apps.common.models import AnsweredRequest
from apps.datasets.card import markdown
from apps.datasets.models import Dataset, TaskSplit, Version, VersionJudgment, VersionPreference
from apps.datasets.recipe import Recipe
from apps.datasets.rows import ROW_TYPES
from apps.gateway.dialects.steps import end_of, reply_of
from apps.gateway.models import Call, Feedback, FeedbackKey, Path, Price, Session, SessionEvent, UsageLimits
from apps.gateway.splits.models import Arm, TrafficSplit
from apps.jobs.models import ACTIVE, Job, Phase
from apps.policies.models import Checkpoint, Endpoint, Policy, Promotion, Publication
from apps.policies.registration import MAX_REPLICAS
from apps.redaction.detectors import DETECTORS
from apps.redaction.models import RedactionRule, RuleVersion
from apps.redaction.rules import MAX_RULES, refuse_pattern
from apps.removal.models import Removal, RetentionRule
from apps.traces.models import Source, Span, Trace, TracePart
from apps.training.models import Episode, EpisodeBatch, Metric, Run, RunEvent, RunReward
from apps.trajectories.filters import Filters
from apps.trajectories.imports.preparation import MAX_TAGS
from apps.trajectories.models import (
    ImportBatch,
    Original,
    RejectedRow,
    RolloutBatch,
    SavedView,
    Step,
    Task,
    Trajectory,
    Upload,
)
from apps.trajectories.rollouts.rollout_batches import MAX_EPISODES
from apps.trajectories.view_names import MAX_VIEWS
from apps.transfer.models import Export, Import
from apps.webhooks.models import Delivery, Destination
from contract import questions
from contract.endpoint_keys import address_of

Row = dict[str, Any]
UNREACHABLE: Final = "http://weights-in-training.invalid"
"""Stands in for the address of weights in training, whose run has ended in the other installation."""
INTERRUPTED: Final = {
    "category": "moved",
    "message": "It was in progress when its workspace was exported.",
    "advice": "Start it again here.",
}


@dataclass(frozen=True)
class LeftOut:
    """A field that isn't in the archive: the reason, and its value in imported rows."""

    reason: str
    value: Callable[[Row], Any] | None = None
    """None: the field's default."""


@dataclass(frozen=True)
class Table:
    """A model whose rows are in the archive."""

    model: type[Model]
    of: tuple[str, ...] = ("workspace",)
    """Paths of relations to the workspace; a row belongs to it by any of them."""
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    harmless: Mapping[str, str] = field(default_factory=dict)
    """Fields whose names suggest secrets or addresses, and why they're included anyway."""
    elsewhere: tuple[str, ...] = ()
    """Fields that are in another member of the archive."""
    on_import: Mapping[str, Any] = field(default_factory=dict)
    """Values of fields in imported rows, whatever the archive has: nothing that acts is turned on, and nothing was measured here."""
    settle: Callable[[Row], None] = lambda row: None
    """Ends what is in progress, both on export and on import."""
    ids_in_text: tuple[str, ...] = ()
    """Text fields that contain ids of other rows. In JSON fields, ids are found without being listed."""
    check: Callable[[Row], None] = lambda row: None
    """Raises ValueError if Retrace couldn't read a JSON value back."""
    most: int | None = None
    """Maximum number of rows per workspace; None: no limit."""
    not_restored: str = ""
    """Why an import skips the table; empty if it doesn't."""

    @property
    def name(self) -> str:
        """The name of the archive's member with these rows."""
        return f"tables/{self.model._meta.label_lower}.jsonl"

    @property
    def label(self) -> str:
        return str(self.model._meta.label_lower)

    @property
    def columns(self) -> list[Field[Any, Any]]:
        """The fields in the archive, the primary key first."""
        hidden = {*self.left_out, *self.elsewhere, "workspace"}
        return [
            field
            for field in self.model._meta.concrete_fields
            if field.name not in hidden and not (is_numbered(field) and self.model not in NUMBERED)
        ]

    def rows(self, workspace: Workspace) -> QuerySet[Any]:
        """The rows of a workspace, by primary key."""
        leads = Q()
        for path in self.of:
            leads |= Q(**{path: workspace})
        return self.model._base_manager.filter(leads).order_by("pk")


def is_numbered(column: Field[Any, Any]) -> bool:
    """Whether it's a primary key that the database numbers."""
    return column.primary_key and column.get_internal_type() in ("AutoField", "BigAutoField")


NUMBERED: Final = (Item,)
"""Models with numeric primary keys that others refer to: the archive has them, and an import assigns new ones."""


def ended(row: Row, model: type[Job]) -> None:
    """End a job in progress, since another installation can't continue it."""
    if model.PHASES.get(row["state"]) not in ACTIVE:
        return
    over = model.states_in(Phase.CANCELLED) or model.states_in(Phase.FAILED)
    row["state"] = str(over[0])
    row["finished_at"] = row["finished_at"] or row["started_at"] or row["queued_at"]
    if model.PHASES[over[0]] == Phase.FAILED:
        row["failure"] = INTERRUPTED


OF_MACHINE: Final = LeftOut("It is about a machine of the other installation.")
TIMED: Final = {"worker": OF_MACHINE, "process_id": OF_MACHINE, "leased_until": OF_MACHINE}
STORED: Final = LeftOut("A name in the storage of the other installation.")


UNCLAIMED: Final = {"attempt": 0}
"""No worker of this installation has had the job. The count is also that of the names under which attempts store files."""


def _job(model: type[Job], **options: Any) -> Table:
    """A table of jobs."""
    left_out = {**TIMED, **options.pop("left_out", {})}
    on_import = {**UNCLAIMED, **options.pop("on_import", {})}
    return Table(model, left_out=left_out, on_import=on_import, settle=lambda row: ended(row, model), **options)


def _end_session(row: Row) -> None:
    if row["state"] == Session.State.OPEN:
        row.update(state=Session.State.ABANDONED.value, ended_at=row["expires_at"])


def _end_filling(row: Row) -> None:
    if row["state"] == Queue.State.FILLING:
        row.update(state=Queue.State.FAILED.value, error=INTERRUPTED["message"], filling_at=None)


def _end_rollouts(row: Row) -> None:
    """End an experiment that waits for rollouts, since those are ended, too."""
    is_waiting = row["state"] == Experiment.State.ROLLING_OUT
    if is_waiting or (row["state"] == Experiment.State.FAILED and row["error"].startswith(UNFINISHED)):
        row.update(state=Experiment.State.FAILED.value, error=INTERRUPTED["message"])


def _close_batch(row: Row) -> None:
    row["closed_at"] = row["closed_at"] or row["opened_at"]


def _freeze_nothing(row: Row) -> None:
    """Mark a version as failed if its freezing was in progress; of a frozen one's files, keep everything except their names in storage."""
    ended(row, Version)
    row["files"] = {
        format: {split: {name: entry[name] for name in FILE_COLUMNS} for split, entry in splits.items()}
        for format, splits in row["files"].items()
    }


def _check_version(row: Row) -> None:
    Recipe.from_json(row["recipe"])
    if row["row_type"] not in ROW_TYPES:
        raise ValueError(f"{row['row_type']!r} isn't a row type.")
    if row["state"] == Version.State.FROZEN:
        fields = {**row, "dataset": Dataset(name="", description="")}
        markdown(cast("Version", SimpleNamespace(**fields)))
        counts = {split: entry["rows"] for split, entry in row["files"]["jsonl"].items()}
        if row["row_counts"] != counts:
            raise ValueError("its files have other numbers of rows.")


def _check_asks(row: Row) -> None:
    asks = KINDS[row["kind"]].asks
    asks.from_json(row["asks"])
    questions.read(row["asks"].get("questions", []), asks.allowed)


def _check_known(row: Row) -> None:
    if row["known"] is not None:
        KINDS[row["kind"]].known_answer_text(row["known"]["answer"])


def _check_reply(row: Row) -> None:
    if row["status"] == Call.Status.OK and row["reply"] is not None:
        reply_of(row["dialect"], row["reply"])
        end_of(row["dialect"], row["reply"])


def _check_tags(row: Row) -> None:
    if len(row["tags"]) > MAX_TAGS:
        raise ValueError(f"a trajectory has at most {MAX_TAGS} tags.")


def _check_rollouts(row: Row) -> None:
    config = row["config"]
    if config.get("tasks", {}).get("count", 1) * config.get("samples", 1) > MAX_EPISODES:
        raise ValueError(f"a batch has at most {MAX_EPISODES:,} episodes.")


def _check_filters(row: Row) -> None:
    if Filters.read(row["query"]).query != row["query"]:
        raise ValueError("the filters aren't in the list's own form.")


def _check_endpoint(row: Row) -> None:
    if len(row["replicas"]) > MAX_REPLICAS:
        raise ValueError(f"an endpoint has at most {MAX_REPLICAS} more servers.")
    for address in (row["base_url"], *row["replicas"]):
        address_of(address)  # workers read its port, and URL validators allow 99999


def _check_rule(row: Row) -> None:
    if row["pattern"]:
        refuse_pattern(row["name"], row["pattern"])
    elif row["detector"] not in DETECTORS or row["name"] != DETECTORS[row["detector"]].name:
        raise ValueError("there is no such detector.")


FILE_COLUMNS: Final = ("rows", "bytes", "sha256")
KEY: Final = LeftOut("A secret, or made from one: new ones have to be created.")
IN_QUEUE: Final = ("queue__workspace",)

TABLES: Final = (
    Table(
        Endpoint,
        left_out={"key_variable": LeftOut("It names a secret of the other installation's environment: give it again.")},
        harmless={"base_url": "An address without its key."},
        check=_check_endpoint,
    ),
    Table(
        Policy,
        harmless={"location": "Entered by somebody. Each use checks it against the rules of its installation."},
    ),
    Table(Promotion),
    Table(RedactionRule, most=MAX_RULES, check=_check_rule),
    Table(UsageLimits),
    Table(Price),
    _job(
        ImportBatch,
        left_out={"file": STORED, "idempotency_key": LeftOut("It belongs to a request to the other installation.")},
        harmless={"filename": "Chosen by its sender.", "sha256": "A digest of an imported file."},
    ),
    Table(RejectedRow, of=("batch__workspace",)),
    _job(RolloutBatch, check=_check_rollouts),
    Table(Task, harmless={"key": "Identifies a task."}),
    Table(
        Trajectory,
        elsewhere=("tools", "closing", "info"),
        check=_check_tags,
        harmless={"content_hash": "A digest of data in the archive."},
    ),
    Table(SavedView, ids_in_text=("query",), check=_check_filters, most=MAX_VIEWS),
    Table(TrafficSplit, on_import={"is_on": False}),
    Table(Arm, of=("split__workspace",)),
    Table(
        Session,
        left_out={
            "training_address": LeftOut("It holds a secret.", lambda row: "" if row["policy"] else UNREACHABLE),
            "key_digest": LeftOut(KEY.reason, lambda row: token_hex(32)),
            "token": KEY,
        },
        harmless={
            "key_prefix": "The part of a key that pages show; it reveals nothing of the rest.",
            "unit_digest": "A digest of a name that an agent chose.",
        },
        settle=_end_session,
    ),
    Table(
        Call,
        of=("session__workspace",),
        harmless={
            "body_digest": "A digest of data in the archive.",
            "tools_digest": "A digest of data in the archive.",
            "chat_digest": "A digest of data in the archive.",
            "sequence_digest": "A digest of data in the archive.",
        },
        check=_check_reply,
    ),
    Table(SessionEvent, of=("session__workspace",), harmless={"key": "What its sender called the event."}),
    Table(Path, of=("session__workspace",)),
    Table(Feedback, of=("session__workspace",), left_out={"key": KEY}),
    Table(Annotator),
    Table(Queue, settle=_end_filling, check=_check_asks),
    Table(Queue.labelers.through, of=IN_QUEUE),
    Table(Guideline, of=IN_QUEUE),
    Table(Item, of=IN_QUEUE, check=_check_known),
    Table(Desk, of=IN_QUEUE),
    Table(
        Assignment,
        left_out={"draft": LeftOut("Drafts belong to the people who write them.")},
    ),
    Table(ItemAssignee, of=IN_QUEUE),
    Table(Preference),
    Table(Rating),
    Table(Mark, of=("rating__workspace",)),
    Table(Inspection),
    Table(StepLabel, of=("inspection__workspace",)),
    Table(Correction, of=("inspection__workspace",)),
    Table(Adjudication),
    Table(Remark),
    Table(Comment),
    Table(Mention, of=("comment__workspace",)),
    _job(Continuation, harmless={"action_hash": "A digest of data in the archive."}),
    _job(Judge),
    Table(JudgePrompt, of=("judge__workspace",)),
    Table(
        JudgeAnswer,
        of=("judge__workspace",),
    ),
    Table(TaskSplit),
    Table(Dataset),
    # Before versions, since nothing can be added to the rows of a frozen one.
    Table(VersionPreference, of=("version__workspace",)),
    Table(VersionJudgment, of=("version__workspace",)),
    Table(
        Version,
        left_out=TIMED,
        on_import=UNCLAIMED,
        harmless={"content_hash": "A hash of files in the archive.", "files": "Their sizes and hashes."},
        settle=_freeze_nothing,
        check=_check_version,
    ),
    _job(Run, on_import={"step_seconds": None, "evaluation_seconds": None}),
    Table(RunReward, of=("run__workspace",)),
    Table(Metric, of=("run__workspace",)),
    Table(RunEvent, of=("run__workspace",)),
    Table(
        EpisodeBatch,
        of=("run__workspace", "rollouts__workspace"),
        left_out={"address": LeftOut("It holds a secret.", lambda row: UNREACHABLE if row["run"] else "")},
        settle=_close_batch,
    ),
    Table(Episode, of=("batch__run__workspace", "batch__rollouts__workspace")),
    Table(Experiment, settle=_end_rollouts),
    Table(LiveAttempt, of=("experiment__workspace",)),
    Table(RetentionRule, on_import={"is_on": False, "ran_at": None}),
)
"""All tables, in the order in which an import writes them."""

LISTED: Final = (
    Table(
        AuditEntry,
        not_restored="The audit log says what was done here. That of the other installation is in the archive, to be read.",
    ),
    _job(Removal, not_restored="What they deleted isn't in the archive."),
    Table(
        Destination,
        left_out={
            "address": LeftOut("Whoever knows the address of a webhook may be able to post there: give it again."),
            "salt": KEY,
            "earlier_salt": KEY,
            "leased_until": OF_MACHINE,
        },
        not_restored="Webhooks have to be created again, since their addresses and secrets aren't in the archive.",
    ),
)
"""Tables that are in the archive but aren't imported."""

SPECIAL: Final[Mapping[type[Model], str]] = {
    Step: "In the trajectories' lines, in the format retrace/1.",
    Original: "In a separate member.",
    User: "Everybody that rows refer to is in a separate member, with only their name and e-mail address.",
    Membership: "The roles are listed with the people. An import gives nobody a role.",
}
"""Models whose data is in other members of the archive."""

EXCEPTIONS: Final[Mapping[type[Model], str]] = {
    Workspace: "The archive as a whole. Its name is in the manifest.",
    ApiToken: "Secrets: issue new ones.",
    Invitation: "Each is a secret that grants access: invite people again.",
    FeedbackKey: "Secrets: create new ones.",
    AnsweredRequest: "Answers to repeated requests, kept for a day.",
    RuleVersion: "Makes processes of this installation reload the redaction rules.",
    Delivery: "Messages to webhooks, which aren't restored.",
    Checkpoint: "Saved states of training in progress, on a disk of this installation.",
    Publication: "Models live on servers of this installation: publish them again.",
    Trace: "Spans are kept for a day; their trajectories move.",
    Source: "Part of a trace.",
    Span: "Part of a trace.",
    TracePart: "Part of a trace.",
    QualityReport: "Measured again from the judgments.",
    BulkAct: "Data for undoing an action.",
    Upload: "Files that no job has taken yet.",
    DeskLayout: "Belongs to a person, not to a workspace.",
    LayoutChoice: "Belongs to a person, not to a workspace.",
    Export: "Archives aren't part of an archive.",
    Import: "Archives aren't part of an archive.",
}
"""Models that aren't in the archive at all, and why."""

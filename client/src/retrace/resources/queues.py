"""Queues, their items, and judging."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.core.replies import parsed
from retrace.core.request import Request, address
from retrace.models.judges import Judge, Resume, Send
from retrace.models.judgments import (
    Adjudication,
    Decide,
    Disputed,
    Inspection,
    Judged,
    Judgment,
    Preference,
    Rating,
    Skipped,
)
from retrace.models.queues import (
    Assign,
    BulkAct,
    ChangeQueue,
    DrawGold,
    Guideline,
    Held,
    Item,
    LabelAll,
    MakeKnown,
    NewQueue,
    Queue,
    QueueSettings,
    Revise,
    Skip,
)


class Queues(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Queue]:
        """All queues, newest first."""
        return Listing("/queues", Queue, {"page_size": page_size})

    @operation
    def create(self, **queue: Unpack[NewQueue]) -> Flow[Queue]:
        """Create a queue. Returns at once; `client.wait` waits until it's filled."""
        return self._create("/queues", answer=Queue, body=queue)

    @operation
    def read(self, queue_id: str) -> Flow[Queue]:
        """Read a queue."""
        return self._read("/queues/{}", queue_id, answer=Queue)

    @operation
    def settings(self, queue_id: str) -> Flow[QueueSettings]:
        """Read the settings that can change while people work."""
        return self._read("/queues/{}/settings", queue_id, answer=QueueSettings)

    @operation
    def change(self, queue_id: str, **change: Unpack[ChangeQueue]) -> Flow[QueueSettings]:
        """Change settings; those left out stay as they are."""
        return self._create("/queues/{}/settings", queue_id, answer=QueueSettings, body=change)

    @operation
    def pause(self, queue_id: str) -> Flow[Queue]:
        """Pause a queue: no new items are given out."""
        return self._act("/queues/{}/pause", queue_id, answer=Queue)

    @operation
    def resume(self, queue_id: str) -> Flow[Queue]:
        """Give out items again, even after closing."""
        return self._act("/queues/{}/resume", queue_id, answer=Queue)

    @operation
    def close(self, queue_id: str) -> Flow[Queue]:
        """Close a queue. Its judgments stay."""
        return self._act("/queues/{}/close", queue_id, answer=Queue)

    @listing
    def guidelines(self, queue_id: str, *, page_size: int | None = None) -> Listing[Guideline]:
        """The versions of its guidelines, newest first."""
        return Listing(address("/queues/{}/guidelines", queue_id), Guideline, {"page_size": page_size})

    @operation
    def revise_guidelines(self, queue_id: str, **revision: Unpack[Revise]) -> Flow[Guideline]:
        """Add a version of the guidelines. The same text adds none."""
        return self._create("/queues/{}/guidelines", queue_id, answer=Guideline, body=revision)

    @listing
    def items(self, queue_id: str, *, page_size: int | None = None) -> Listing[Item]:
        """Its items, in the queue's order."""
        return Listing(address("/queues/{}/items", queue_id), Item, {"page_size": page_size})

    @operation
    def make_known(self, queue_id: str, item_id: int, **known: Unpack[MakeKnown]) -> Flow[Item]:
        """Set or remove the known answer of an item that nobody has seen."""
        return self._create("/queues/{}/items/{}/known", queue_id, item_id, answer=Item, body=known)

    @operation
    def draw_gold(self, queue_id: str, **gold: Unpack[DrawGold]) -> Flow[QueueSettings]:
        """Make unseen items gold if their answer follows from how their trajectories ended."""
        return self._create("/queues/{}/gold", queue_id, answer=QueueSettings, body=gold)

    @operation
    def skip(self, assignment_id: str, **skip: Unpack[Skip]) -> Flow[Skipped]:
        """Skip the item that `next` returned, leaving it to others."""
        return self._create("/assignments/{}/skip", assignment_id, answer=Skipped, body=skip)

    @operation
    def undo(self, queue_id: str) -> Flow[Held]:
        """Undo your latest judgment or skip; you hold the item again."""
        return self._act("/queues/{}/undo", queue_id, answer=Held)

    @operation
    def next(self, queue_id: str) -> Flow[Held | None]:
        """The item to judge: the one already assigned to you, or the next. None when nothing is left."""
        request = Request("POST", address("/queues/{}/next", queue_id), is_remembered=True)
        reply = yield from self._exchange(request)
        return parsed(request, reply, Held) if reply.content else None

    @operation
    def judge(self, assignment_id: str, **judgment: Unpack[Judgment]) -> Flow[Judged]:
        """Submit the judgment of the item that `next` returned; `assignment_id` is its `id`."""
        return self._create("/assignments/{}/judgment", assignment_id, answer=Judged, body=judgment)

    @listing
    def preferences(self, queue_id: str, *, page_size: int | None = None) -> Listing[Preference]:
        """The judgments of a pairwise queue, newest first."""
        return Listing(address("/queues/{}/preferences", queue_id), Preference, {"page_size": page_size})

    @listing
    def inspections(self, queue_id: str, *, page_size: int | None = None) -> Listing[Inspection]:
        """The judgments of a queue of step labels, newest first."""
        return Listing(address("/queues/{}/inspections", queue_id), Inspection, {"page_size": page_size})

    @listing
    def ratings(self, queue_id: str, *, page_size: int | None = None) -> Listing[Rating]:
        """The judgments of a queue of ratings, newest first."""
        return Listing(address("/queues/{}/ratings", queue_id), Rating, {"page_size": page_size})

    @operation
    def assign(self, queue_id: str, **assignment: Unpack[Assign]) -> Flow[BulkAct]:
        """Assign items to named people, or to everybody again. It can be undone."""
        return self._create("/queues/{}/assign", queue_id, answer=BulkAct, body=assignment)

    @listing
    def disputed(self, queue_id: str, *, page_size: int | None = None) -> Listing[Disputed]:
        """Disputed items without a decision, in the queue's order."""
        return Listing(address("/queues/{}/disputed", queue_id), Disputed, {"page_size": page_size})

    @listing
    def adjudications(self, queue_id: str, *, page_size: int | None = None) -> Listing[Adjudication]:
        """The current decisions, newest first."""
        return Listing(address("/queues/{}/adjudications", queue_id), Adjudication, {"page_size": page_size})

    @operation
    def adjudicate(self, queue_id: str, **decision: Unpack[Decide]) -> Flow[Adjudication]:
        """Decide an item. A new decision replaces the previous one."""
        return self._create("/queues/{}/adjudications", queue_id, answer=Adjudication, body=decision)


class Judges(Resource[C]):
    """Model annotators of a queue."""

    @listing
    def list(self, queue_id: str, *, page_size: int | None = None) -> Listing[Judge]:
        """The model annotators of a queue, newest first."""
        return Listing(address("/queues/{}/judges", queue_id), Judge, {"page_size": page_size})

    @operation
    def enroll(self, queue_id: str, **judge: Unpack[Send]) -> Flow[Judge]:
        """Enroll a served model or a reward model as an annotator."""
        return self._create("/queues/{}/judges", queue_id, answer=Judge, body=judge)

    @operation
    def read(self, queue_id: str, judge_id: str) -> Flow[Judge]:
        """Read its progress, its cost, and its agreement with people."""
        return self._read("/queues/{}/judges/{}", queue_id, judge_id, answer=Judge)

    @operation
    def pause(self, queue_id: str, judge_id: str) -> Flow[Judge]:
        """Pause it after its current pair."""
        return self._act("/queues/{}/judges/{}/pause", queue_id, judge_id, answer=Judge)

    @operation
    def resume(self, queue_id: str, judge_id: str, **changes: Unpack[Resume]) -> Flow[Judge]:
        """Resume it, even after errors, or with a new budget."""
        return self._create("/queues/{}/judges/{}/resume", queue_id, judge_id, answer=Judge, body=changes)


class Bulk(Resource[C]):
    """Actions on many items at once."""

    @listing
    def list(self, *, page_size: int | None = None) -> Listing[BulkAct]:
        """Bulk actions, newest first."""
        return Listing("/bulk-acts", BulkAct, {"page_size": page_size})

    @operation
    def label(self, **label: Unpack[LabelAll]) -> Flow[BulkAct]:
        """Give many trajectories one label; nothing is labeled if the number of matches isn't `count`."""
        return self._create("/bulk-labels", answer=BulkAct, body=label)

    @operation
    def undo(self, act_id: str) -> Flow[BulkAct]:
        """Undo a bulk action."""
        return self._act("/bulk-acts/{}/undo", act_id, answer=BulkAct)

"""Deleting trajectories, tasks, queues, datasets, and failed versions: completely or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import IntegrityError, connection, transaction
from django.utils.timezone import now

from apps.accounts.models import AuditEntry, Membership, Role
from apps.annotation.models import Adjudication, Assignment, Comment, Desk, Item, Judge, Mention, Preference, Queue
from apps.annotation.queues.queue_lifecycle import close_queue
from apps.annotation.review.adjudication import adjudicate
from apps.arena.models import Experiment, LiveAttempt
from apps.datasets import freezing
from apps.datasets.models import TaskSplit, Version, VersionPreference
from apps.datasets.recipe import BadRecipe, Recipe
from apps.gateway.models import Call, Path, Session
from apps.jobs.models import JobState
from apps.removal import deletion, dependents, removal_job
from apps.removal.blockers import NEVER
from apps.removal.models import Removal
from apps.traces.models import Source, Span, Trace, TracePart
from apps.trajectories.models import ImportBatch, Original, Step, Task, Trajectory
from tests import factories
from tests.annotation import builders
from tests.trajectories.uploads import imported, lines

pytestmark = pytest.mark.django_db
STEP = {"context": [], "message": {"role": "assistant", "content": "Done."}}


@pytest.fixture
def ada(monkeypatch: pytest.MonkeyPatch) -> Membership:
    monkeypatch.setattr("apps.jobs.lifecycle.enqueue", lambda *_: None)
    return factories.member(Role.RESEARCHER, name="Ada")


def removed(thing: str, target: Any, by: Membership) -> Removal:
    """The result of a deletion carried out by a worker."""
    removal = removal_job.ask_for_removal(thing=thing, target=target, by=by)
    assert removal_job.remove(removal.pk)
    removal.refresh_from_db()
    return removal


def closed_queue(by: Membership, **fields: Any) -> Queue:
    queue = builders.queue(of=by.workspace, **fields)
    close_queue(queue=queue, by=by.user)
    queue.refresh_from_db()
    return queue


def refusal(target: Any) -> str:
    with pytest.raises(deletion.StillNeeded) as caught:
        deletion.delete(target)
    return str(caught.value)


def test_a_trajectory_goes_with_all_that_belongs_to_it_and_nothing_else(ada: Membership) -> None:
    run = factories.imported_run([STEP, STEP], of=ada.workspace, task_key="lamp")
    other = factories.imported_run([STEP], of=ada.workspace, task_key="lamp")
    branch = factories.trajectory(of=run.task, parent=run, branch_step=0)
    comment = Comment.objects.create(workspace=ada.workspace, trajectory=run, by=ada.user, text="Look, @ada.")
    Mention.objects.create(comment=comment, user=ada.user)
    foreseen = deletion.outlook(run).goes
    removal = removed("trajectory", run, ada)
    assert (removal.state, removal.removed) == ("done", foreseen)
    assert (foreseen["trajectories"], foreseen["steps"], foreseen["comments"]) == (1, 2, 1)
    assert set(Trajectory.objects.values_list("pk", flat=True)) == {other.pk, branch.pk}
    assert not Step.objects.filter(trajectory=run.pk).exists()
    assert not Original.objects.filter(trajectory=run.pk).exists()
    assert (Comment.objects.count(), Mention.objects.count()) == (0, 0)
    branch.refresh_from_db()
    assert branch.parent is None
    entries = list(AuditEntry.objects.order_by("pk").values_list("action", "subject", "actor"))
    assert entries[-2:] == [
        ("asked to delete", "trajectory lamp", ada.user.pk),
        ("deleted", "trajectory lamp", ada.user.pk),
    ]


def test_a_trajectory_in_a_queue_stays_and_the_queue_is_named(ada: Membership) -> None:
    queue = builders.queue(of=ada.workspace, name="Orders", steps=1)
    run = queue.items.get().b
    outlook = deletion.outlook(run)
    assert [blocker.words for blocker in outlook.blockers] == ["queue Orders has it as an item"]
    assert (outlook.blockers[0].url, outlook.goes) == (f"/queues/{queue.pk}/", {})
    assert "queue Orders has it as an item" in refusal(run)
    with pytest.raises(deletion.StillNeeded):
        removal_job.ask_for_removal(thing="trajectory", target=run, by=ada)
    assert not Removal.objects.exists()


def test_a_queue_that_is_filled_while_dependents_are_counted_is_named(
    ada: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = factories.item(of=factories.queue(of=ada.workspace, name="Filled just now"))
    reads = [lambda target: [], deletion._blockers_of]  # when they were read first, there were none
    monkeypatch.setattr(deletion, "_blockers_of", lambda target: reads.pop(0)(target))
    with pytest.raises(deletion.StillNeeded, match="Filled just now"):
        removal_job.ask_for_removal(thing="trajectory", target=item.a, by=ada)


def test_what_rests_on_a_trajectory_is_named_up_to_ten(ada: Membership) -> None:
    run = factories.trajectory(of=factories.task(of=ada.workspace))
    for number in range(12):
        queue = factories.queue(of=ada.workspace, name=f"Q{number}", kind="rating")
        Item.objects.create(queue=queue, kind="rating", position=0, task=run.task, a=run, overlap=1)
    outlook = deletion.outlook(run)
    assert (len(outlook.blockers), outlook.has_more) == (10, True)
    assert refusal(run).endswith("; and more.")


@pytest.mark.parametrize("way", ["recorded", "live", "rolled out"])
def test_what_an_experiment_compares_stays(ada: Membership, way: str) -> None:
    run = factories.trajectory(of=factories.task(of=ada.workspace))
    fields: dict[str, Any] = {"recorded_b": [run.pk]} if way == "recorded" else {}
    a, b = factories.policy(of=ada.workspace), factories.policy(of=ada.workspace)
    if way == "rolled out":
        from apps.trajectories.models import RolloutBatch

        batch = RolloutBatch.objects.create(workspace=ada.workspace, policy=a, environment="office", state="done")
        Trajectory.objects.filter(pk=run.pk).update(rollout_batch=batch)
        fields["rollouts_a"] = batch
    experiment = Experiment.objects.create(
        workspace=ada.workspace, name="Which?", environment="office", policy_a=a, policy_b=b, **fields
    )
    if way == "live":
        LiveAttempt.objects.create(experiment=experiment, side=0, task=run.task, trajectory=run)
    assert "experiment Which? compares it" in refusal(run)
    assert "experiment Which? compares it" in refusal(run.task)


def test_a_trajectory_of_an_import_in_progress_stays(ada: Membership) -> None:
    batch = imported(lines({"format": "retrace/1", "id": "1", "task": {"key": "a"}, "steps": [STEP]}), ada.workspace)
    run = batch.trajectories.get()
    ImportBatch.objects.filter(pk=batch.pk).update(state=JobState.RUNNING)
    assert "is in progress" in refusal(run)


def test_the_last_trajectory_of_an_import_takes_the_uploaded_file_along(
    ada: Membership, django_capture_on_commit_callbacks: Any
) -> None:
    rows = [{"format": "retrace/1", "id": str(n), "task": {"key": str(n)}, "steps": [STEP]} for n in range(2)]
    batch = imported(lines(*rows, {"nothing": 1}), ada.workspace)
    name = batch.file.name or default_storage.save("imports/x.jsonl", ContentFile(b"x"))
    ImportBatch.objects.filter(pk=batch.pk).update(file=name)
    first, second = batch.trajectories.order_by("pk")
    for run, stays in ((first, True), (second, False)):
        with django_capture_on_commit_callbacks(execute=True):
            deletion.delete(run)
        assert default_storage.exists(name) == stays
    batch.refresh_from_db()
    assert (batch.file.name, batch.rejected_rows.count()) == ("", 0)


def test_quotes_of_an_import_whose_file_is_elsewhere_go_with_its_last_trajectory(ada: Membership) -> None:
    row = {"format": "retrace/1", "id": "1", "task": {"key": "1"}, "steps": [STEP]}
    batch = imported(lines(row, {"nothing": 1}), ada.workspace)
    ImportBatch.objects.filter(pk=batch.pk).update(file="")  # as after the import of a workspace's archive
    assert batch.rejected_rows.count() == 1
    deletion.delete(batch.trajectories.get())
    assert not batch.rejected_rows.exists()


def test_a_recorded_session_goes_with_its_last_trajectory(ada: Membership) -> None:
    session = factories.session(of=ada.workspace, messages=[STEP["message"], STEP["message"]])
    task = factories.task(of=ada.workspace)
    runs = [factories.trajectory(of=task) for _ in range(2)]
    leaves = list(session.calls.order_by("pk"))
    for run, leaf in zip(runs, leaves, strict=True):
        Path.objects.create(session=session, leaf=leaf, trajectory=run, is_main=run == runs[0])
    assert "recorded calls" not in deletion.outlook(runs[0]).goes
    deletion.delete(runs[0])
    assert Call.objects.filter(session=session).count() == 2
    assert deletion.outlook(runs[1]).goes["recorded calls"] == 2
    deletion.delete(runs[1])
    assert not Session.objects.filter(pk=session.pk).exists()
    assert not Call.objects.exists()


def test_late_spans_do_not_bring_a_deleted_trajectory_back(ada: Membership) -> None:
    run = factories.trajectory(of=factories.task(of=ada.workspace))
    trace = Trace.objects.create(workspace=ada.workspace, trace_id="0" * 32, changed_at=now(), due_at=now())
    Source.objects.create(trace=trace, digest=bytes(16), body=b"{}")
    Span.objects.create(trace=trace, span_id="0" * 16, ended=1, source_digest=bytes(16), body=b"{}")
    TracePart.objects.create(trace=trace, trajectory=run, span_ids=["0" * 16], content_hash=bytes(32))
    deletion.delete(run)
    trace.refresh_from_db()
    assert (trace.closed_at is not None, trace.due_at) == (True, None)
    assert (Span.objects.count(), Source.objects.count(), TracePart.objects.count()) == (0, 0, 0)


def test_a_task_goes_with_its_trajectories(ada: Membership) -> None:
    run = factories.imported_run([STEP], of=ada.workspace, task_key="lamp")
    factories.imported_run([STEP, STEP], of=ada.workspace, task_key="lamp")
    kept = factories.imported_run([STEP], of=ada.workspace, task_key="cup")
    TaskSplit.objects.create(task=run.task, workspace=ada.workspace, split="train")
    removal = removed("task", run.task, ada)
    assert (removal.removed["tasks"], removal.removed["trajectories"], removal.removed["steps"]) == (1, 2, 3)
    assert list(Task.objects.values_list("key", flat=True)) == ["cup"]
    assert list(Trajectory.objects.values_list("pk", flat=True)) == [kept.pk]


def test_a_task_of_a_frozen_version_stays(ada: Membership) -> None:
    version = frozen(ada)
    task = Task.objects.get()
    assert f"dataset version {version} is frozen, and can't be deleted" in refusal(task)


def frozen(by: Membership) -> Version:
    queue = closed_queue(by)
    factories.preference(on=queue.items.get())
    dataset = freezing.create_dataset(name="shop", description="", license="", by=by)
    version = freezing.request_version(dataset=dataset, recipe=Recipe(queues=(str(queue.pk),)), by=by)
    freezing.freeze(version.pk)
    version.refresh_from_db()
    assert version.state == Version.State.FROZEN
    return version


def test_a_queue_goes_with_its_items_and_judgments_and_its_trajectories_stay(ada: Membership) -> None:
    queue, kept = closed_queue(ada, items=2), builders.queue(of=ada.workspace)
    item = queue.items.order_by("pk").first()
    factories.preference(on=item)
    other = factories.preference(on=kept.items.get())
    adjudicate(item=item, by=ada.user, reason="Clear.", strength=1, both_bad=False, upheld=None, blind=False)
    queue.labelers.add(ada.user)
    foreseen = deletion.outlook(queue).goes
    removal = removed("queue", queue, ada)
    assert removal.removed == foreseen
    assert (foreseen["items"], foreseen["judgments"], foreseen["decisions"]) == (2, 1, 1)
    assert list(Queue.objects.all()) == [kept]
    assert list(Preference.objects.all()) == [other]
    assert set(Assignment.objects.values_list("queue", flat=True)) | set(
        Desk.objects.values_list("queue", flat=True)
    ) <= {kept.pk}
    assert not Adjudication.objects.exists()
    assert Trajectory.objects.count() == 6
    deletion.delete(Trajectory.objects.get(pk=item.a_id))  # nothing depends on it any more


def test_an_open_queue_one_with_a_judge_at_work_and_one_of_an_experiment_stay(ada: Membership) -> None:
    queue = builders.queue(of=ada.workspace, name="Orders")
    assert "it is open: pause or close it first" in refusal(queue)
    close_queue(queue=queue, by=ada.user)
    judge = Judge.objects.create(
        workspace=ada.workspace,
        queue=queue,
        annotator=builders.rule(of=ada.workspace),
        mode="prelabel",
        state="running",
    )
    assert "is judging it: pause that first" in refusal(queue)
    Judge.objects.filter(pk=judge.pk).update(state="done")
    Experiment.objects.create(
        workspace=ada.workspace,
        name="Which?",
        environment="office",
        policy_a=factories.policy(of=ada.workspace),
        policy_b=factories.policy(of=ada.workspace),
        queue=queue,
    )
    assert "experiment Which? depends on its judgments" in refusal(queue)


def test_a_queue_that_something_frozen_rests_on_stays_and_so_does_the_version(ada: Membership) -> None:
    version = frozen(ada)
    [queue] = Queue.objects.all()
    words = f"dataset version {version} is frozen, and can't be deleted"
    for target in (queue, version, version.dataset):
        assert words in refusal(target)
    with pytest.raises(IntegrityError), transaction.atomic():
        Version.objects.filter(pk=version.pk).delete()  # enforced by the database


def test_a_queue_of_a_version_that_is_being_frozen_stays(ada: Membership) -> None:
    queue = closed_queue(ada)
    factories.preference(on=queue.items.get())
    dataset = freezing.create_dataset(name="shop", description="", license="", by=ada)
    version = freezing.request_version(dataset=dataset, recipe=Recipe(queues=(str(queue.pk),)), by=ada)
    assert f"dataset version {version} is being frozen" in refusal(queue)
    assert f"dataset version {version} is being frozen" in refusal(dataset)
    Version.objects.filter(pk=version.pk).update(state=Version.State.FAILED)
    TaskSplit.objects.create(task=queue.items.get().task, workspace=ada.workspace, split="train")
    VersionPreference.objects.create(
        version=version, preference=Preference.objects.get(), task=queue.items.get().task, split="train", row=0
    )
    for target in (queue, queue.items.get().task):
        deletion.outlook(target)  # the page before a deletion
    deletion.delete(queue)
    assert not VersionPreference.objects.exists()
    deletion.delete(version)
    deletion.delete(dataset)
    assert not Version.objects.exists()


def test_a_version_can_not_be_asked_for_of_a_queue_that_is_gone(ada: Membership) -> None:
    queue = closed_queue(ada)
    factories.preference(on=queue.items.get())
    dataset = freezing.create_dataset(name="shop", description="", license="", by=ada)
    recipe = Recipe(queues=(str(queue.pk),))
    removed("queue", queue, ada)
    with pytest.raises(BadRecipe):
        freezing.request_version(dataset=dataset, recipe=recipe, by=ada)


def test_asked_for_twice_it_is_one_deletion_and_a_second_delivery_does_nothing(ada: Membership) -> None:
    run = factories.trajectory(of=factories.task(of=ada.workspace))
    first = removal_job.ask_for_removal(thing="trajectory", target=run, by=ada)
    assert removal_job.ask_for_removal(thing="trajectory", target=run, by=ada) == first
    assert (removal_job.remove(first.pk), removal_job.remove(first.pk)) == (True, False)
    assert AuditEntry.objects.filter(action="deleted").count() == 1


def test_what_comes_to_rest_on_it_before_a_worker_is_there_keeps_it(ada: Membership) -> None:
    run = factories.trajectory(of=factories.task(of=ada.workspace))
    removal = removal_job.ask_for_removal(thing="trajectory", target=run, by=ada)
    queue = factories.queue(of=ada.workspace, name="Late", kind="rating")
    Item.objects.create(queue=queue, kind="rating", position=0, task=run.task, a=run, overlap=1)
    removal_job.remove(removal.pk)
    removal.refresh_from_db()
    assert (removal.state, "queue Late has it as an item" in removal.error) == ("failed", True)
    assert Trajectory.objects.filter(pk=run.pk).exists()


def test_a_deletion_that_was_cancelled_deletes_nothing(ada: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    run = factories.trajectory(of=factories.task(of=ada.workspace))
    removal = removal_job.ask_for_removal(thing="trajectory", target=run, by=ada)
    delete = deletion.delete

    def cancelled_meanwhile(target: Any) -> dict[str, int]:
        Removal.objects.filter(pk=removal.pk).update(state="cancelled")
        return delete(target)

    monkeypatch.setattr(deletion, "delete", cancelled_meanwhile)
    with transaction.atomic():
        assert not removal_job.remove(removal.pk)
    assert Trajectory.objects.filter(pk=run.pk).exists()


def test_what_is_gone_already_is_as_good_as_deleted(ada: Membership) -> None:
    run = factories.trajectory(of=factories.task(of=ada.workspace))
    removal = removal_job.ask_for_removal(thing="trajectory", target=run, by=ada)
    deletion.delete(run)
    removal_job.remove(removal.pk)
    removal.refresh_from_db()
    assert (removal.state, removal.removed) == ("done", {})


def test_it_is_decided_of_every_key_what_becomes_of_it() -> None:
    """A model that refers to one of these is deleted with it, loses the reference, or prevents the deletion: new models must be added to one of the lists."""
    relations = {
        model: {(relation.model.__name__, relation.is_emptied) for relation in dependents.relations_to(model)}
        for model in (Trajectory, Task, Queue, Session)
    }
    assert {name for name, is_emptied in relations[Trajectory] if not is_emptied} - {
        model_class.__name__ for model_class in NEVER
    } == {
        *("Step", "Original", "Comment", "Continuation", "Path", "TracePart"),
    }
    assert {name for name, is_emptied in relations[Task] if not is_emptied} - {
        model_class.__name__ for model_class in NEVER
    } == {
        "Trajectory",
        "TaskSplit",
    }
    assert {name for name, is_emptied in relations[Queue] if not is_emptied} - {
        model_class.__name__ for model_class in NEVER
    } == {
        *("Guideline", "QualityReport", "Desk", "Assignment", "Adjudication", "Remark", "Preference", "Rating"),
        *("Inspection", "Judge", "ItemAssignee", "BulkAct", "LayoutChoice", "Queue_labelers"),
    }
    assert {name for name, is_emptied in relations[Session] if not is_emptied} == {
        "Call",
        "SessionEvent",
        "Path",
        "Feedback",
    }


def test_what_goes_is_found_without_reading_it(ada: Membership, django_assert_max_num_queries: Any) -> None:
    queue = closed_queue(ada, items=3)
    for item in queue.items.all():
        factories.preference(on=item)
    with django_assert_max_num_queries(120):
        deletion.delete(queue)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as at the end of the transaction

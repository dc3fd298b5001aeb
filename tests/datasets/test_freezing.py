"""Freezing a version: rows, splits, and immutability."""

import errno
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction
from django.utils.timezone import now

from apps.accounts.models import AuditEntry, Membership
from apps.annotation.desk.actions import flag
from apps.annotation.models import Annotator, Queue
from apps.annotation.review.adjudication import adjudicate
from apps.datasets import freezing
from apps.datasets.card import markdown
from apps.datasets.files.splitfiles import SplitFiles
from apps.datasets.freezing import VERSIONS
from apps.datasets.models import Dataset, TaskSplit, Version, VersionPreference
from apps.datasets.recipe import BadRecipe, Recipe
from apps.datasets.selection import pairs as selected_pairs
from apps.jobs import lifecycle
from apps.jobs.models import Phase
from tests import factories

pytestmark = pytest.mark.django_db


def freeze(dataset: Dataset, by: Membership, *queues: Queue, **rules: object) -> Version:
    recipe = Recipe.from_json({"queues": [str(queue.pk) for queue in queues], **rules})
    version = freezing.request_version(dataset=dataset, recipe=recipe, by=by)
    assert freezing.freeze(version.pk)
    version.refresh_from_db()
    return version


def rows_of(version: Version, split: str = "train") -> list[dict]:
    with default_storage.open(version.files["jsonl"][split]["name"]) as file:
        return [json.loads(line) for line in file]


def test_a_judged_pair_becomes_a_row(dataset: Dataset, member: Membership, queue: Queue) -> None:
    task = factories.task(of=member.workspace, key="buy milk", environment="shop")
    prompt = [{"role": "user", "content": "Buy milk."}]
    better = factories.trajectory(of=task, steps=[(prompt, factories.assistant_message("Bought."))])
    worse = factories.trajectory(of=task, steps=[(prompt, factories.assistant_message("No."))])
    judged = factories.preference(-3, on=factories.item(of=queue, a=worse, b=better))

    version = freeze(dataset, member, queue, train=100, validation=0, test=0)

    [row] = rows_of(version)
    assert [m["content"] for m in row["prompt"]] == ["Buy milk."]
    assert [m["content"] for m in row["chosen"]] == ["Bought."]
    assert [m["content"] for m in row["rejected"]] == ["No."]
    assert row["task"] == "buy milk"
    assert row["environment"] == "shop"
    assert row["strength"] == 3.0
    assert row["chosen_run"] == str(better.pk)
    assert row["judgments"] == [str(judged.pk)]
    assert version.state == Version.State.FROZEN
    assert version.row_counts == {"train": 1, "validation": 0, "test": 0}


def test_every_row_knows_its_judgments(dataset: Dataset, member: Membership, queue: Queue) -> None:
    pair = factories.item(of=queue)
    votes = {factories.preference(s, on=pair).pk for s in (2, 1, -1)}

    version = freeze(dataset, member, queue)

    assert set(version.sources.values_list("preference", flat=True)) == votes
    assert set(version.sources.values_list("split", "row")) == {("train", 0)}
    [row] = rows_of(version)
    assert (row["votes_for"], row["votes_against"], row["votes_tied"]) == (2, 1, 0)
    assert row["weight"] == pytest.approx(1 / 3)  # a lead of one in three votes
    assert (row["soft_label"], row["label_weight"]) == (pytest.approx(2 / 3, abs=1e-6), 1.0)


def test_flagged_items_can_be_left_out_and_a_version_stays_as_it_was_made(
    dataset: Dataset, member: Membership, queue: Queue
) -> None:
    odd, fine = (
        factories.preference(2, on=factories.item(of=queue)),
        factories.preference(2, on=factories.item(of=queue)),
    )
    flag(assignment=odd.assignment, reason="The run is empty.")
    everything = {"train": 100, "validation": 0, "test": 0}
    assert freeze(dataset, member, queue, **everything).row_counts["train"] == 2
    without = freeze(dataset, member, queue, **everything, flagged="leave_out")
    assert [row["items"] for row in rows_of(without)] == [[str(fine.item_id)]]
    assert without.recipe["without_items"] == [odd.item_id]
    flag(assignment=odd.assignment, flagged=False)
    flag(assignment=fine.assignment)
    again = freezing.request_version(dataset=dataset, recipe=Recipe.from_json(without.recipe), by=member)
    freezing.freeze(again.pk)
    again.refresh_from_db()
    assert again.content_hash == without.content_hash


def test_a_version_that_left_out_no_flagged_item_can_be_made_again_too(
    dataset: Dataset, member: Membership, queue: Queue
) -> None:
    vote = factories.preference(2, on=factories.item(of=queue))
    first = freeze(dataset, member, queue, flagged="leave_out", train=100, validation=0, test=0)
    assert first.recipe["without_items"] == []
    flag(assignment=vote.assignment)
    again = freezing.request_version(dataset=dataset, recipe=Recipe.from_json(first.recipe), by=member)
    freezing.freeze(again.pk)
    again.refresh_from_db()
    assert again.content_hash == first.content_hash


def test_pairs_of_two_failures_are_counted_and_can_be_left_out(
    dataset: Dataset, member: Membership, queue: Queue
) -> None:
    outcomes = [(False, False), (False, True), (True, True), (None, False), (None, None)]
    for a, b in outcomes:
        task = factories.task(of=member.workspace)
        pair = (factories.trajectory(of=task, success=success) for success in (a, b))
        factories.preference(2, on=factories.item(of=queue, **dict(zip("ab", pair, strict=True))))
    everything = {"train": 100, "validation": 0, "test": 0}

    kept = freeze(dataset, member, queue, **everything)
    assert (kept.row_counts["train"], kept.card["failed_pairs"]["count"], kept.card["failed_pairs"]["of"]) == (5, 1, 5)
    without = freeze(dataset, member, queue, **everything, failed_pairs="leave_out")
    assert (without.row_counts["train"], without.card["failed_pairs"]["count"]) == (4, 0)
    assert without.card["dropped"] == {"both_failed": 1}


def test_skill_decides_where_the_recipe_believes_in_it(dataset: Dataset, member: Membership, queue: Queue) -> None:
    careful, other, careless = (factories.annotator(of=member.workspace) for _ in range(3))
    for n in range(12):  # two annotators always agree; the third contradicts them every other time
        pair = factories.item(of=queue)
        for who, strength in ((careful, 2), (other, 2), (careless, 2 if n % 2 else -2)):
            factories.preference(strength if n % 3 else -strength, on=pair, by=who)
    lonely = factories.item(of=queue)
    factories.preference(2, on=lonely, by=careful)
    factories.preference(-2, on=lonely, by=careless)  # a draw by votes

    plain = freeze(dataset, member, queue, train=100, validation=0, test=0)
    skilled = freeze(dataset, member, queue, train=100, validation=0, test=0, aggregation="dawid_skene")
    assert (plain.row_counts["train"], skilled.row_counts["train"]) == (12, 13)
    [row] = [row for row in rows_of(skilled) if row["items"] == [str(lonely.pk)]]
    assert row["chosen_run"] == str(lonely.a_id)
    assert 0.6 < row["soft_label"] < 1.0
    assert (
        freeze(dataset, member, queue, train=100, validation=0, test=0, aggregation="dawid_skene").content_hash
        == skilled.content_hash
    )


@pytest.mark.parametrize("aggregation", ["dawid_skene", "glad"])
def test_the_worker_alone_estimates_skill(
    dataset: Dataset, member: Membership, queue: Queue, monkeypatch: pytest.MonkeyPatch, aggregation: str
) -> None:
    def in_the_request(*_: object) -> None:
        raise AssertionError("It takes seconds.")

    pair = factories.item(of=queue)
    for strength in (2, -2):
        factories.preference(strength, on=pair)
    recipe = Recipe(queues=(str(queue.pk),), aggregation=aggregation, minimum_confidence=99)
    with monkeypatch.context() as patch:
        patch.setattr(selected_pairs, "beliefs", in_the_request)
        version = freezing.request_version(dataset=dataset, recipe=recipe, by=member)
        with pytest.raises(freezing.NothingToFreeze):
            freezing.request_version(dataset=dataset, recipe=replace(recipe, minimum_strength=3), by=member)
    assert freezing.freeze(version.pk)
    version.refresh_from_db()
    assert (version.phase, version.failure["message"]) == (Phase.FAILED, freezing.NO_ROWS)


def test_a_reviewers_decision_is_the_row_whatever_the_votes(dataset: Dataset, member: Membership, queue: Queue) -> None:
    pair = factories.item(of=queue)
    votes = {factories.preference(strength, on=pair).pk for strength in (2, 1, -1)}
    ruling = adjudicate(item=pair, by=member.user, strength=-3, reason="It deleted the file.")

    version = freeze(dataset, member, queue, train=100, validation=0, test=0)
    [row] = rows_of(version)
    assert row["chosen_run"] == str(pair.b_id)
    assert (row["strength"], row["soft_label"], row["adjudication"]) == (3.0, 1.0, str(ruling.pk))
    assert (row["votes_for"], row["votes_against"]) == (1, 2)
    assert set(version.sources.values_list("preference", flat=True)) == votes
    plain = freeze(dataset, member, queue, train=100, validation=0, test=0, adjudicated="ignore")
    assert rows_of(plain)[0]["chosen_run"] == str(pair.a_id)
    adjudicate(item=pair, by=member.user, strength=0, reason="Both did.")
    with pytest.raises(freezing.NothingToFreeze):
        freeze(dataset, member, queue)


def test_a_decision_is_the_row_also_where_every_vote_was_a_tie_that_is_dropped(
    dataset: Dataset, member: Membership, queue: Queue
) -> None:
    pair = factories.item(of=queue)
    tie = factories.preference(0, on=pair)
    adjudicate(item=pair, by=member.user, strength=-2, reason="It deleted the file.")
    version = freeze(dataset, member, queue, train=100, validation=0, test=0, ties="drop")
    [row] = rows_of(version)
    assert (row["chosen_run"], row["votes_tied"], row["judgments"]) == (str(pair.b_id), 1, [str(tie.pk)])


def test_the_same_judgments_and_recipe_give_the_same_bytes(dataset: Dataset, member: Membership, queue: Queue) -> None:
    for strength in (3, -2, 1, -1, 2):
        factories.preference(strength, on=factories.item(of=queue))
    first = freeze(dataset, member, queue, seed=7)
    second = freeze(dataset, member, queue, seed=7)

    assert first.content_hash == second.content_hash
    assert [f["sha256"] for f in first.files["parquet"].values()] == [
        f["sha256"] for f in second.files["parquet"].values()
    ]


def test_an_earlier_moment_gives_the_earlier_version_again(dataset: Dataset, member: Membership, queue: Queue) -> None:
    pair = factories.item(of=queue)
    early = factories.preference(2, on=pair)
    first = freeze(dataset, member, queue)
    factories.preference(-3, on=factories.item(of=queue))
    early.retracted_at = Version.objects.get(pk=first.pk).frozen_at
    early.save()

    again = freeze(dataset, member, queue, until=first.recipe["until"])

    assert again.content_hash == first.content_hash


def test_a_moment_to_come_is_the_present(dataset: Dataset, member: Membership, queue: Queue) -> None:
    """Otherwise, judgments made while a worker builds the version would be in some of its queries and not in others."""
    factories.preference(2, on=factories.item(of=queue))
    version = freeze(dataset, member, queue, until="2999-01-01T00:00:00Z")
    assert datetime.fromisoformat(version.recipe["until"]) <= now()


def test_a_frozen_version_cannot_be_changed_or_deleted(dataset: Dataset, member: Membership, queue: Queue) -> None:
    factories.preference(2, on=factories.item(of=queue))
    version = freeze(dataset, member, queue)

    with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
        Version.objects.filter(pk=version.pk).update(row_counts={})
    with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
        version.delete()
    with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
        VersionPreference.objects.filter(version=version).update(row=9)
    with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
        VersionPreference.objects.filter(version=version).delete()
    mode = Path(default_storage.path(version.files["jsonl"]["train"]["name"])).stat().st_mode
    assert mode & 0o222 == 0


def test_someone_who_froze_a_version_may_leave(dataset: Dataset, member: Membership, queue: Queue) -> None:
    factories.preference(2, on=factories.item(of=queue))
    version = freeze(dataset, member, queue)
    Version.objects.filter(pk=version.pk).update(created_by=None)
    version.refresh_from_db()
    assert version.created_by is None


def test_a_task_stays_in_its_split(dataset: Dataset, member: Membership, queue: Queue) -> None:
    pair = factories.item(of=queue)
    factories.preference(2, on=pair)
    freeze(dataset, member, queue, train=0, validation=0, test=100)

    later = freeze(dataset, member, queue, train=100, validation=0, test=0)

    assert later.row_counts == {"train": 0, "validation": 0, "test": 1}
    with pytest.raises(IntegrityError, match="for ever"), transaction.atomic():
        TaskSplit.objects.filter(task=pair.task).update(split="train")


def test_the_database_refuses_a_row_in_another_split_than_its_task(
    dataset: Dataset, member: Membership, queue: Queue
) -> None:
    pair = factories.item(of=queue)
    judged = factories.preference(2, on=pair)
    freeze(dataset, member, queue, train=100, validation=0, test=0)
    other = Version.objects.create(workspace=member.workspace, dataset=dataset, number=99)
    with pytest.raises(IntegrityError, match="source_is_in_the_split_of_its_task"), transaction.atomic():
        VersionPreference.objects.create(version=other, preference=judged, task=pair.task, split="test", row=0)


def test_held_out_tasks_never_train(dataset: Dataset, member: Membership, queue: Queue) -> None:
    for held_out in (True, True, True, False):
        task = factories.task(of=member.workspace, held_out=held_out)
        factories.preference(2, on=factories.item(of=queue, a=factories.trajectory(of=task)))

    version = freeze(dataset, member, queue, train=100, validation=0, test=0)

    assert version.row_counts == {"train": 1, "validation": 0, "test": 3}
    held_out = factories.task(of=member.workspace, held_out=True)
    with pytest.raises(IntegrityError, match="held-out"), transaction.atomic():
        TaskSplit.objects.create(task=held_out, workspace=member.workspace, split="train")


def test_a_task_that_was_held_out_after_training_is_left_out(
    dataset: Dataset, member: Membership, queue: Queue
) -> None:
    pair = factories.item(of=queue)
    factories.preference(2, on=pair)
    factories.preference(2, on=factories.item(of=queue))
    freeze(dataset, member, queue, train=100, validation=0, test=0)
    pair.task.held_out = True
    pair.task.save()

    version = freeze(dataset, member, queue)

    assert version.row_counts["train"] == 1
    assert version.card["dropped"] == {"held_out": 1}


def test_ties_and_disagreements_are_counted_not_kept(dataset: Dataset, member: Membership, queue: Queue) -> None:
    factories.preference(2, on=factories.item(of=queue))
    factories.preference(0, on=factories.item(of=queue))
    factories.preference(0, on=factories.item(of=queue), both_bad=True)
    disputed = factories.item(of=queue)
    factories.preference(1, on=disputed)
    factories.preference(-1, on=disputed)

    version = freeze(dataset, member, queue)

    assert sum(version.row_counts.values()) == 1
    assert version.card["dropped"] == {"tie": 1, "both_bad": 1, "no_majority": 1}
    assert version.card["strengths"] == {"slightly": 2, "clearly": 1, "much": 0, "tie": 1, "both_bad": 1}


def test_runs_without_steps_and_identical_runs_make_no_row(dataset: Dataset, member: Membership, queue: Queue) -> None:
    factories.preference(2, on=factories.item(of=queue))
    empty = factories.trajectory(steps=[], of=factories.task(of=member.workspace))
    factories.preference(2, on=factories.item(of=queue, a=empty))
    task = factories.task(of=member.workspace)
    same = [([{"role": "user", "content": "x"}], factories.assistant_message("y"))]
    twins = [factories.trajectory(of=task, steps=same) for _ in range(2)]
    factories.preference(2, on=factories.item(of=queue, a=twins[0], b=twins[1]))

    version = freeze(dataset, member, queue)

    assert sum(version.row_counts.values()) == 1
    assert version.card["dropped"] == {"no_steps": 1, "same": 1}


def test_people_are_pseudonyms_and_machines_are_named(dataset: Dataset, member: Membership, queue: Queue) -> None:
    pair = factories.item(of=queue)
    person = factories.annotator(of=member.workspace, name="Ada Lovelace")
    rule = factories.annotator(of=member.workspace, kind=Annotator.Kind.RULE, name="shorter wins")
    factories.preference(2, on=pair, by=person)
    factories.preference(1, on=pair, by=rule)

    version = freeze(dataset, member, queue)

    [row] = rows_of(version)
    assert "rule:shorter wins" in row["annotators"]
    assert sum(name.startswith("person:") for name in row["annotators"]) == 1
    assert "Lovelace" not in json.dumps([row, version.card])
    assert version.card["agreement"]["people"]["raw"]["value"] is None
    assert version.card["agreement"]["all"]["raw"]["value"] == 1.0
    assert "All judgments, with models and rules: on 1 pair judged more than once, two agree 100%" in markdown(version)


def test_users_of_an_agent_are_no_models(dataset: Dataset, member: Membership, queue: Queue) -> None:
    for kind in (Annotator.Kind.PERSON, Annotator.Kind.RULE):
        factories.preference(2, on=factories.item(of=queue), by=factories.annotator(of=member.workspace, kind=kind))
    assert (
        "2 preference rows from 2 judgments on 2 pairs of agent trajectories, by 1 person and 1 model or rule.\n"
        in markdown(freeze(dataset, member, queue))
    )
    users = factories.annotator(of=member.workspace, kind=Annotator.Kind.USER)
    factories.preference(2, on=factories.item(of=queue), by=users)
    version = freeze(dataset, member, queue)
    assert "by 1 person, 1 model or rule, and users of the agents.\n" in markdown(version)


def test_machines_can_be_left_out(dataset: Dataset, member: Membership, queue: Queue) -> None:
    factories.preference(2, on=factories.item(of=queue))
    rule = factories.annotator(of=member.workspace, kind=Annotator.Kind.RULE)
    factories.preference(1, on=factories.item(of=queue), by=rule)
    version = freeze(dataset, member, queue, annotator_kinds=["person"])
    assert sum(version.row_counts.values()) == 1


def test_freezing_twice_is_the_same_as_once(dataset: Dataset, member: Membership, queue: Queue) -> None:
    factories.preference(2, on=factories.item(of=queue))
    version = freeze(dataset, member, queue)
    assert not freezing.freeze(version.pk)


def test_a_version_in_another_workers_hands_is_left_alone(dataset: Dataset, member: Membership, queue: Queue) -> None:
    factories.preference(2, on=factories.item(of=queue))
    recipe = Recipe(queues=(str(queue.pk),))
    version = freezing.request_version(dataset=dataset, recipe=recipe, by=member)
    assert lifecycle.claim(VERSIONS, version.pk)
    assert not freezing.freeze(version.pk)


def test_a_dataset_that_was_deleted_meanwhile_is_no_error(dataset: Dataset, member: Membership, queue: Queue) -> None:
    factories.preference(2, on=factories.item(of=queue))
    Dataset.objects.filter(pk=dataset.pk).delete()
    with pytest.raises(freezing.NothingToFreeze, match="deleted meanwhile"):
        freezing.request_version(dataset=dataset, recipe=Recipe(queues=(str(queue.pk),)), by=member)


def test_a_worker_that_was_presumed_dead_changes_nothing_of_the_version(
    dataset: Dataset, member: Membership, queue: Queue, tmp_path: Path
) -> None:
    factories.preference(2, on=factories.item(of=queue))
    version = freezing.request_version(dataset=dataset, recipe=Recipe(queues=(str(queue.pk),)), by=member)
    attempts = []
    for number in (1, 2):
        attempts.append(lifecycle.claim(VERSIONS, version.pk, worker=f"there:{number}"))
        if number == 1:
            Version.objects.filter(pk=version.pk).update(leased_until=version.created_at)
            lifecycle.recover(VERSIONS)
    first, second = (
        freezing.Builder(attempt, tmp_path / str(attempt.attempt), progress=lambda *_: None)
        for attempt in attempts
        if attempt
    )
    for builder in (first, second):
        builder.folder.mkdir()
    second.build()
    with pytest.raises(lifecycle.Superseded):
        first.build()
    assert VersionPreference.objects.filter(version=version).count() == 1
    VersionPreference.objects.filter(version=version).delete()
    with pytest.raises(lifecycle.Superseded):
        first._record([])
    folder = freezing._fresh_folder(second.version)
    freezing._fresh_folder(first.version)
    assert folder.is_dir()


def test_the_workers_are_told_again_of_a_version_that_nobody_took(
    dataset: Dataset, member: Membership, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueued: list[str] = []
    monkeypatch.setattr(lifecycle, "enqueue", lambda _, version_id: enqueued.append(version_id))
    factories.preference(2, on=factories.item(of=queue))
    version = freezing.request_version(dataset=dataset, recipe=Recipe(queues=(str(queue.pk),)), by=member)
    lifecycle.recover(VERSIONS)
    assert enqueued == [str(version.pk)]  # enqueued by the request alone
    Version.objects.filter(pk=version.pk).update(leased_until=version.created_at)  # as ten minutes later
    lifecycle.recover(VERSIONS)
    lifecycle.recover(VERSIONS)
    assert enqueued == [str(version.pk)] * 2
    assert freezing.freeze(version.pk)
    lifecycle.recover(VERSIONS)
    assert len(enqueued) == 2


def test_a_recipe_without_rows_is_refused(dataset: Dataset, member: Membership, queue: Queue) -> None:
    factories.preference(0, on=factories.item(of=queue))
    with pytest.raises(freezing.NothingToFreeze):
        freeze(dataset, member, queue)


def test_a_disk_that_is_full_is_told_in_words(
    dataset: Dataset, member: Membership, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(freezing, "store", full)
    factories.preference(2, on=factories.item(of=queue))
    version = freeze(dataset, member, queue)
    words = "The server's disk is full, so nothing was saved. Ask your administrator to free some space."
    assert (version.state, version.error) == (Version.State.FAILED, words)


def test_a_disk_that_fails_is_told_without_its_paths(
    dataset: Dataset, member: Membership, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "/srv/files/datasets/1.jsonl")

    monkeypatch.setattr(freezing, "store", read_only)
    factories.preference(2, on=factories.item(of=queue))
    version = freeze(dataset, member, queue)
    assert version.error == "The version's files couldn't be stored: Read-only file system."


def test_a_disk_that_fills_between_two_rows_is_told_in_words(
    dataset: Dataset, member: Membership, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for _ in range(3):
        factories.preference(2, on=factories.item(of=queue))
    monkeypatch.setattr(SplitFiles, "add", full)
    version = freeze(dataset, member, queue)
    assert version.state == Version.State.FAILED
    assert version.error.startswith("The server's disk is full")


def test_rows_that_repeat_more_than_a_version_may_have_are_refused_and_leave_no_file(
    dataset: Dataset, member: Membership, queue: Queue, settings: Any
) -> None:
    settings.VERSION_MAX_BYTES = 300_000
    task = factories.task(of=member.workspace)
    prompt = [{"role": "user", "content": "long " * 20_000}]  # 100,000 characters, once in each row
    for words in ("Bought.", "Paid."):
        better, worse = (
            factories.trajectory(of=task, steps=[(prompt, factories.assistant_message(reply))])
            for reply in (words, "No")
        )
        factories.preference(3, on=factories.item(of=queue, a=better, b=worse))
    assert freeze(dataset, member, queue, judgments="each").state == Version.State.FROZEN

    settings.VERSION_MAX_BYTES = 150_000
    version = freeze(dataset, member, queue, judgments="each")

    assert version.state == Version.State.FAILED
    assert version.error.startswith("The rows take more than 150 kB, the most that a version may have.")
    assert not list((Path(settings.VAR) / "freezing").glob(f"{version.pk}-*"))


def test_another_workspaces_queue_is_refused(dataset: Dataset, member: Membership) -> None:
    foreign = factories.queue()
    factories.preference(2, on=factories.item(of=foreign))
    with pytest.raises(BadRecipe, match="queues"):
        freeze(dataset, member, foreign)


def test_freezing_is_audited(dataset: Dataset, member: Membership, queue: Queue) -> None:
    factories.preference(2, on=factories.item(of=queue))
    version = freeze(dataset, member, queue)
    entry = AuditEntry.objects.get(action="asked for version")
    assert entry.actor == member.user
    assert UUID(entry.subject_id) == version.pk

"""Versions made from judgments of single trajectories: rows, files, sources, pages, and that the trainer can read them."""

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset
from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction
from django.urls import reverse

from apps.accounts.models import Membership
from apps.annotation.desk.actions import record
from apps.annotation.kinds.answers import CorrectedAction, InspectionAnswer, Label, Scores
from apps.annotation.kinds.questions import Question, RatingAsks
from apps.annotation.models import Annotator, Queue
from apps.annotation.review.adjudication import adjudicate
from apps.datasets import freezing
from apps.datasets.card import markdown
from apps.datasets.models import Version, VersionJudgment
from apps.datasets.recipe import BadRecipe, Recipe
from apps.training.queries import lineage_of
from apps.trajectories.models import Trajectory
from tests import factories
from tests.annotation import builders
from tests.annotation.desk.test_assignments import take
from tests.datasets.test_pages import rules
from tests.trainer.policies import save_policy
from trainer.rows import (
    read_demonstrations,
    read_judged_steps,
    read_preferences,
    read_unpaired,
)

pytestmark = pytest.mark.django_db
BETTER = {"role": "assistant", "content": "It is on shelf 2."}


@pytest.fixture
def inspected(member: Membership) -> Queue:
    """Two trajectories of four steps: one without an error, one whose third step is wrong and was corrected."""
    queue = builders.queue_of_trajectories(of=member.workspace, items=2, steps=4)
    somebody = builders.rule(of=member.workspace)
    good = tuple(Label(index, 1) for index in range(4))
    bad = (Label(0, 1), Label(1, 0), Label(2, -1), Label(3, -1, is_filled=True))
    record(assignment=take(queue, somebody), answer=InspectionAnswer("solved", None, good))
    corrected = InspectionAnswer("found_error", 2, bad, (CorrectedAction(2, BETTER),))
    record(assignment=take(queue, somebody), answer=corrected)
    return queue


def freeze(by: Membership, *queues: Queue, **rules: Any) -> Version:
    dataset = freezing.create_dataset(name=str(rules), description="", license="", by=by)
    shares = {"train": 100, "validation": 0, "test": 0}
    recipe = Recipe.from_json({"queues": [str(queue.pk) for queue in queues], **shares, **rules})
    version = freezing.request_version(dataset=dataset, recipe=recipe, by=by)
    assert freezing.freeze(version.pk)
    version.refresh_from_db()
    assert version.state == Version.State.FROZEN, version.error
    return version


def rows_of(version: Version) -> list[dict[str, Any]]:
    with default_storage.open(version.files["jsonl"]["train"]["name"]) as file:
        return [json.loads(line) for line in file]


def train_file(version: Version) -> Path:
    return Path(default_storage.path(version.files["jsonl"]["train"]["name"]))


def test_rows_that_do_not_fit_end_a_version_between_two_of_them(
    member: Membership, inspected: Queue, settings: Any
) -> None:
    settings.VERSION_MAX_BYTES = 10
    with pytest.raises(AssertionError, match="The rows take more than 10 B, the most that a version may have"):
        freeze(member, inspected, row_type="steps")


def test_step_labels_export_with_the_first_error(member: Membership, inspected: Queue) -> None:
    version = freeze(member, inspected, row_type="steps")
    assert version.row_type == "steps"
    rows = {row["first_error"]: row for row in rows_of(version)}
    assert rows[-1]["step_labels"] == [1, 1, 1, 1]
    assert rows[2]["step_labels"] == [1, 0, -1, None]  # values that were filled in aren't labels
    assert [message["role"] for message in rows[2]["messages"]].count("assistant") == 4
    assert version.card["kinds"] == {"good": 5, "bad": 1, "neutral": 1, "with_error": 1, "without_error": 1}
    read = read_judged_steps(train_file(version))
    assert {row.first_error for row in read} == {-1, 2}
    parquet = load_dataset("parquet", data_files=default_storage.path(version.files["parquet"]["train"]["name"]))
    assert {tuple(row["step_labels"]) for row in parquet["train"]} == {(1, 1, 1, 1), (1, 0, -1, None)}


def test_a_correction_is_a_step_preference_against_what_the_policy_did(member: Membership, inspected: Queue) -> None:
    version = freeze(member, inspected, row_type="step_preferences")
    [row] = rows_of(version)
    assert [message["content"] for message in row["chosen"]] == ["It is on shelf 2."]
    assert row["rejected"][0]["tool_calls"][0]["function"]["arguments"] == {"at": "shelf 2", "for": "cup"}
    assert [message["role"] for message in row["prompt"]] == ["user", "assistant", "tool", "assistant", "tool"]
    assert (row["origin"], row["step"], row["chosen_run"]) == ("correction", 2, "")
    assert version.card["dropped"] == {"no_correction": 1}
    [read] = read_preferences(train_file(version))
    assert len(read.chosen) == len(read.rejected) == 1


def test_pairs_part_into_step_preferences_beside_corrections(member: Membership, inspected: Queue) -> None:
    pairs = builders.queue(of=member.workspace, steps=3)
    factories.preference(2, on=pairs.items.get())
    version = freeze(member, inspected, pairs, row_type="step_preferences")
    by_origin = {row["origin"]: row for row in rows_of(version)}
    parted = by_origin["divergence"]
    assert (parted["step"], len(parted["chosen"]), len(parted["rejected"])) == (1, 1, 1)
    assert parted["chosen"][0]["tool_calls"][0]["function"]["arguments"]["for"] == "lamp"
    assert version.card["kinds"] == {"correction": 1, "divergence": 1}


def test_accepted_and_corrected_runs_are_demonstrations(member: Membership, inspected: Queue) -> None:
    version = freeze(member, inspected, row_type="demonstrations")
    accepted, corrected = sorted(rows_of(version), key=lambda row: row["origin"])
    assert accepted["train_turns"] == [True] * 4
    assert corrected["train_turns"] == [True, True, True]
    assert corrected["messages"][-1]["content"] == "It is on shelf 2."
    read = read_demonstrations(train_file(version))
    assert {len(row.train_turns or []) for row in read} == {3, 4}


def test_ratings_make_runs_desirable_or_not(member: Membership) -> None:
    asks = RatingAsks((Question("well", "Done well?", 5),), thumb=True)
    queue = builders.queue_of_trajectories(Queue.Kind.RATING, of=member.workspace, items=3, asks=asks)
    somebody = builders.rule(of=member.workspace)
    for scores in (Scores({"well": 1}, 1), Scores({"well": 2}), Scores({"well": 3})):
        record(assignment=take(queue, somebody), answer=scores)
    version = freeze(member, queue, row_type="unpaired")
    rows = rows_of(version)
    assert sorted(row["label"] for row in rows) == [
        False,
        True,
    ]  # the thumb takes precedence over answers; 3 of 5 is neutral
    assert version.card["dropped"] == {"no_opinion": 1}
    assert [message["role"] for message in rows[0]["prompt"]] == ["user"]
    assert {row.label for row in read_unpaired(train_file(version))} == {True, False}


def test_a_reviewers_decision_on_a_run_holds(member: Membership) -> None:
    queue = builders.queue_of_trajectories(Queue.Kind.RATING, of=member.workspace, overlap=3)
    ratings = [
        record(assignment=take(queue, builders.rule(of=member.workspace)), answer=Scores(thumb=thumb))
        for thumb in (1, 1, -1)
    ]
    adjudicate(item=queue.items.get(), by=member.user, upheld=ratings[2].pk, reason="It deleted the file.")
    [row] = rows_of(freeze(member, queue, row_type="unpaired"))
    assert (row["label"], row["weight"], row["judgments"]) == (False, 1.0, [str(ratings[2].pk)])
    [row] = rows_of(freeze(member, queue, row_type="unpaired", adjudicated="ignore"))
    assert (row["label"], len(row["judgments"])) == (True, 3)


def test_sources_are_recorded_and_frozen_and_a_run_knows_its_annotators(member: Membership, inspected: Queue) -> None:
    version = freeze(member, inspected, row_type="steps")
    assert VersionJudgment.objects.filter(version=version, inspection__isnull=False).count() == 2
    with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
        VersionJudgment.objects.filter(version=version).update(row=7)
    lineage = lineage_of(factories.run(of=member.workspace, version=version))
    assert lineage is not None
    assert [(kind, judgments) for kind, _, judgments in lineage.annotators] == [(Annotator.Kind.RULE, 2)]


def test_queues_of_another_kind_are_refused(member: Membership, inspected: Queue) -> None:
    with pytest.raises(BadRecipe, match="compare two trajectories"):
        freeze(member, inspected)


def test_plain_trl_trains_on_single_runs(member: Membership, inspected: Queue, tmp_path: Path) -> None:
    """KTO on unpaired rows and SFT on demonstrations, from the files as downloaded."""
    from trl import KTOConfig, KTOTrainer, SFTConfig, SFTTrainer

    base = str(save_policy(tmp_path / "base"))
    quick = {"max_steps": 1, "per_device_train_batch_size": 2, "use_cpu": True, "bf16": False, "report_to": "none"}
    usual = {**quick, "max_length": None, "save_strategy": "no", "logging_steps": 1}
    for row_type, trainer, config in (
        ("unpaired", KTOTrainer, KTOConfig(output_dir=str(tmp_path / "kto"), **usual)),
        ("demonstrations", SFTTrainer, SFTConfig(output_dir=str(tmp_path / "sft"), assistant_only_loss=True, **usual)),
    ):
        files = freeze(member, inspected, row_type=row_type).files["parquet"]["train"]
        rows = load_dataset("parquet", data_files=default_storage.path(files["name"]), split="train")
        made = trainer(model=base, args=config, train_dataset=rows)
        made.train()
        assert made.state.log_history[0]["loss"] > 0


@pytest.mark.parametrize("row_type", ["steps", "step_preferences", "demonstrations", "unpaired"])
def test_pages_show_such_a_version(client: Any, member: Membership, inspected: Queue, row_type: str) -> None:
    client.force_login(member.user)
    version = freeze(member, inspected, row_type=row_type)
    for name in ("datasets:version", "datasets:rows"):
        page = client.get(reverse(name, args=[version.dataset_id, version.number])).content.decode()
        assert "shelf" in page
    assert "## What they say" in markdown(version)
    form = rules(inspected, row_type=row_type)
    shown = client.post(reverse("datasets:preview", args=[version.dataset_id]), form).content.decode()
    assert f"Freeze version {version.number + 1}" in shown
    assert "2 trajectories" in shown


def test_answers_in_the_context_are_no_turns_of_a_row(member: Membership, inspected: Queue) -> None:
    """A label or a flag for each step would otherwise not be one for each assistant message."""
    for trajectory in Trajectory.objects.filter(workspace=member.workspace):
        step = trajectory.steps.get(index=0)
        step.context = [{"role": "user", "content": "1 + 1"}, {"role": "assistant", "content": "2"}, *step.context]
        step.save()
    labeled = freeze(member, inspected, row_type="steps")
    assert {len(row.step_labels) for row in read_judged_steps(train_file(labeled))} == {4}
    shown = freeze(member, inspected, row_type="demonstrations")
    rows = read_demonstrations(train_file(shown))
    assert sorted(row.train_turns or [] for row in rows) == [[True] * 3, [True] * 4]
    assert [message["content"] for message in rows[0].completion if message.get("weight") == 0] == ["2"]

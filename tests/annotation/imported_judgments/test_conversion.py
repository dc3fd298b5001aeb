"""Judgments imported with a file, from its upload to a frozen version."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse, reverse_lazy

from apps.accounts.models import Role
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.imported_judgments import conversion
from apps.annotation.imported_judgments import records as reading
from apps.annotation.imported_judgments.adoptable import survey as survey_of
from apps.annotation.imported_judgments.conversion import SaysNothing, StillImporting, adopt, selection_of
from apps.annotation.kinds.answers import Choice
from apps.annotation.kinds.meanings import Column, Meanings, Survey
from apps.annotation.models import Annotator, Assignment, Desk, Inspection, Item, Preference, Queue, Rating
from apps.annotation.quality.reports import gather
from apps.annotation.queues import items
from apps.annotation.queues.overlap import raise_overlap
from apps.annotation.queues.queue_lifecycle import resume_queue
from apps.datasets import freezing
from apps.datasets.card import markdown
from apps.datasets.recipe import Recipe
from apps.datasets.selection.pairs import judged_pairs
from apps.trajectories.imports.import_job import run_import
from apps.trajectories.models import ImportBatch
from tests import factories
from tests.trajectories.views.test_imports import batch_of, bearer

pytestmark = pytest.mark.django_db
CODES = {"0": "0", "1": "2", "2": "-2"}


def compared(idx: int, *grades: int, better: str = "y", worse: str = "n") -> dict[str, Any]:
    verdicts = {f"annotator{n}": value for n, value in enumerate(grades, start=1)}
    return {"idx": idx, "instruction": f"question {idx}", "response1": better, "response2": worse, **verdicts}


def imported(*rows: object, workspace: Any = None) -> ImportBatch:
    batch = batch_of(workspace or factories.workspace(), *rows)
    done = run_import(batch.pk, watch=lambda _: None)
    assert done is not None
    assert (done.state, done.rejected_count) == ("done", 0)
    return done


def three(codes: dict[str, str] = CODES) -> Meanings:
    return Meanings("pairwise", tuple(Column(f"annotator{n}", codes, is_somebody=True) for n in (1, 2, 3)))


def survey(batch: ImportBatch) -> Survey:
    return survey_of(batch.workspace, selection_of(batch))


def adopted(batch: ImportBatch, meanings: Meanings, judged_by: str = "person") -> Queue:
    return adopt(
        workspace=batch.workspace,
        selection=selection_of(batch),
        name="Theirs",
        source=batch.filename,
        meanings=meanings,
        judged_by=judged_by,
        by=None,
    )


def filled(batch: ImportBatch, meanings: Meanings, judged_by: str = "person") -> Queue:
    queue = adopted(batch, meanings, judged_by)
    items.fill(queue.pk)
    queue.refresh_from_db()
    return queue


def grades(queue: Queue) -> dict[str, list[tuple[str, int]]]:
    """By task, each annotator's preference; + is the first answer."""
    grades: dict[str, list[tuple[str, int]]] = {}
    for preference in (
        Preference.objects.filter(queue=queue).select_related("item__task", "annotator").order_by("annotator__name")
    ):
        grades.setdefault(preference.item.task.instruction, []).append((preference.annotator.name, preference.strength))
    return grades


def test_scores_with_fractions_are_verdicts_where_there_are_few_of_them():
    """Rows in WebGPT's format."""
    rows = [
        {
            "question": f"q{n}",
            "answer_0": "y",
            "answer_1": f"n{n}",
            "score_0": score,
            "score_1": -score,
            "length": n / 7,
        }
        for n, score in enumerate([0.5, -0.5, 1.0] * 5)
    ]
    surveyed = survey(imported(*rows))
    # What is good for one side is bad for the other, so these are two columns and not two people.
    assert [(verdict.names, verdict.values) for verdict in surveyed.verdicts] == [
        (("score_0",), (("-0.5", 5), ("0.5", 5), ("1.0", 5))),
        (("score_1",), (("-1.0", 5), ("-0.5", 5), ("0.5", 5))),
    ]
    assert surveyed.names == ()


def test_the_survey_says_what_stands_in_which_column():
    surveyed = survey(imported(compared(1, 1, 2, 0), compared(2, 1, 1, 2)))
    assert surveyed.sides == ("1", "2")
    assert [(verdict.names, verdict.values) for verdict in surveyed.verdicts if "annotator1" in verdict.names] == [
        (("annotator1", "annotator2", "annotator3"), (("0", 1), ("1", 3), ("2", 2)))
    ]


def test_what_retrace_notes_about_a_rollout_is_offered_as_nothing():
    notes = [{"sample": n % 2, "seed": 7} for n in range(4)]
    rows = [{"prompt": f"q{n}", "completion": "y", "liked": "no", **noted} for n, noted in enumerate(notes)]
    surveyed = survey(imported(*rows, {"prompt": "q", "completion": "n", "liked": "yes"}))
    offered = {name for columns in surveyed.verdicts for name in columns.names} | {*surveyed.indexes, *surveyed.names}
    assert "liked" in offered
    assert not offered & {"sample", "seed"}
    own = survey(imported(*({"prompt": f"q{n}", "completion": "z", "sample": "ab"[n % 2]} for n in range(4))))
    assert ("sample",) in [verdict.names for verdict in own.verdicts]  # somebody else's column


def test_what_three_people_said_is_three_judgments_of_each_pair():
    queue = filled(imported(compared(1, 1, 2, 0), compared(2, 1, 1, 2)), three())
    assert (queue.state, queue.item_count, queue.overlap, queue.selection["adopted"]["left_out"]) == (
        "closed",
        2,
        3,
        {},
    )
    assert grades(queue) == {
        "question 1": [("annotator1", 2), ("annotator2", -2), ("annotator3", 0)],
        "question 2": [("annotator1", 2), ("annotator2", 2), ("annotator3", -2)],
    }
    assert {(item.a.external_id[-1], item.judged, item.disputed) for item in Item.objects.filter(queue=queue)} == {
        ("1", 3, True)
    }
    assert set(Annotator.objects.values_list("kind", "source", "user")) == {("person", "chats.jsonl", None)}
    assert set(Desk.objects.filter(queue=queue).values_list("judged", flat=True)) == {2}
    assert set(Preference.objects.values_list("a_was_left", flat=True)) == {None}


def test_they_count_in_agreement_without_a_time_or_a_side():
    gathered = gather(filled(imported(compared(1, 1, 2, 0)), three()))
    assert [answer.value for answer in gathered.measures[0].answers] == [2, -2, 0]
    assert {(work.seconds, work.chose_left) for work in gathered.work} == {(None, None)}


def test_they_go_into_a_version_like_any_others():
    workspace = factories.workspace()
    queue = filled(imported(compared(1, 1, 1, 2), compared(2, 2, 2, 2), workspace=workspace), three())
    pairs = list(judged_pairs(Recipe(queues=(str(queue.pk),)), workspace))
    assert sorted(len(pair.counted) for pair in pairs) == [3, 3]
    assert sum(bool(pair.decision.verdicts) for pair in pairs) == 2


def test_the_card_of_a_version_says_where_they_were_judged():
    member = factories.member(Role.RESEARCHER)
    queue = filled(imported(compared(1, 1, 1, 2), workspace=member.workspace), three())
    dataset = freezing.create_dataset(name="theirs", description="", license="", by=member)
    version = freezing.request_version(dataset=dataset, recipe=Recipe(queues=(str(queue.pk),)), by=member)
    freezing.freeze(version.pk)
    version.refresh_from_db()
    assert (version.state, sum(version.row_counts.values())) == ("frozen", 1)
    assert {(who["kind"], who["source"]) for who in version.card["annotators"]} == {("person", "chats.jsonl")}
    assert version.card["position"]["of"] == 0
    assert "person, judged in chats.jsonl" in markdown(version)


def test_chosen_is_better_by_its_name():
    batch = imported({"prompt": "q", "chosen": "y", "rejected": "n", "source": "forum"})
    (column,) = [verdict for verdict in survey(batch).verdicts if verdict.names == ("chosen",)]
    assert column.values == (('"chosen"', 1),)
    queue = filled(batch, Meanings("pairwise", (Column("chosen", {'"chosen"': "1"}),)), judged_by="model")
    (made,) = Preference.objects.filter(queue=queue).select_related("annotator", "item__a")
    assert (made.strength, made.annotator.kind, made.annotator.name, made.item.a.tags) == (
        1,
        "model",
        "chats.jsonl",
        ["chosen"],
    )


def test_the_same_two_answers_are_one_item_whoever_judged_them_and_whichever_came_first():
    def row(idx: int, judge: str, winner: str, answers: tuple[str, str]) -> dict[str, Any]:
        return {
            "question_id": 7,
            "prompt": "q",
            "idx": idx,
            "judge": judge,
            "winner": winner,
            "response_a": answers[0],
            "response_b": answers[1],
        }

    batch = imported(
        row(1, "x", "model_a", ("y", "n")), row(2, "z", "model_a", ("n", "y")), row(3, "x", "model_b", ("y", "n"))
    )
    assert "judge" in survey(batch).names
    queue = filled(batch, Meanings("pairwise", (Column("winner", {'"model_a"': "2", '"model_b"': "-2"}),), who="judge"))
    (item,) = Item.objects.filter(queue=queue)
    assert (item.judged, item.overlap, item.disputed) == (2, 2, True)
    assert grades(queue) == {"q": [("x", 2), ("z", -2)]}
    assert queue.selection["adopted"]["left_out"] == {"second judgments of a pair by the same annotator": 1}


def test_a_record_without_a_name_is_judged_by_the_source_though_somebody_has_its_name():
    rows = [
        {"instruction": "Who?", "response1": "a", "response2": "b", "winner": "model_a", "judge": judge}
        for judge in ("chats.jsonl", None, "Ada")
    ]
    queue = filled(imported(*rows), Meanings("pairwise", (Column("winner", {'"model_a"': "2"}),), who="judge"))
    assert queue.state == "closed"
    assert sorted(queue.desks.values_list("annotator__name", "judged")) == [("Ada", 1), ("chats.jsonl", 1)]
    assert queue.items.get().judged == 2
    assert queue.selection["adopted"]["left_out"] == {"second judgments of a pair by the same annotator": 1}


def test_where_nothing_names_who_judged_each_record_is_an_item():
    queue = filled(imported(compared(1, 1, 2, 0), {**compared(1, 1, 1, 1), "model": "another"}), three())
    assert (queue.item_count, Preference.objects.filter(queue=queue).count()) == (2, 6)


def test_what_says_nothing_or_lacks_a_side_is_left_out_and_told():
    rows: Sequence[dict[str, Any]] = [
        compared(1, 1, 1, 1),
        compared(2, 9, 9, 9),
        compared(3, 1, 1, 1, better="same", worse="same"),
    ]
    queue = filled(imported(*rows), three())
    assert queue.item_count == 1
    assert queue.selection["adopted"]["left_out"] == {
        "without a value that has a meaning": 1,
        "pairs whose two sides are the same": 1,
    }


def test_hostile_columns_and_names_do_no_harm():
    chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "y"}]
    odd = [
        {"messages": chat, "n": n, "compared": value} for n, value in enumerate(("x", {"pair": 1}, {"side": "a"}, None))
    ]
    assert survey(imported(*odd)).sides is None
    rows = [
        {"prompt": "q", "n": n, "response_a": "y", "response_b": "n", "winner": "a", "w\0": "a", "judge": "<b>\0\ud800"}
        for n in range(3)
    ]
    batch = imported(*rows)
    assert all("\0" not in name for verdict in survey(batch).verdicts for name in verdict.names)
    queue = filled(batch, Meanings("pairwise", (Column("winner", {'"a"': "2"}),), who="judge"))
    assert [preference.annotator.name for preference in Preference.objects.filter(queue=queue)] == ["<b>␀\\ud800"]


def test_nothing_at_all_is_a_failure_with_its_reason():
    queue = filled(imported(compared(1, 9, 9, 9)), three())
    assert (queue.state, queue.error) == (
        "failed",
        "Nothing became a judgment: 1 without a value that has a meaning.",
    )


def test_a_killed_filling_goes_on_and_adds_nothing_twice(monkeypatch):
    monkeypatch.setattr("apps.annotation.imported_judgments.conversion.TASKS_A_BATCH", 1)
    batch = imported(*(compared(n, 1, 2, 0) for n in range(4)))
    queue = adopted(batch, three())
    assert items._fill_batch(queue.pk)
    assert Item.objects.filter(queue=queue).count() == 1
    assert items.fill(queue.pk) == items.fill(queue.pk) == 4
    assert Preference.objects.filter(queue=queue).count() == 12
    assert set(Desk.objects.filter(queue=queue).values_list("judged", flat=True)) == {4}


def test_first_errors_that_people_named_become_inspections():
    history = [
        {"role": "human", "content": "q"},
        *({"name": "Coder", "role": "assistant", "content": f"say {n}"} for n in range(3)),
    ]
    batch = imported(
        {
            "history": history,
            "question": "q",
            "question_ID": "1",
            "mistake_agent": "Coder",
            "mistake_step": "2",
            "mistake_reason": "no",
        }
    )
    assert "first_error" in survey(batch).indexes
    queue = filled(batch, Meanings("steps", (Column("first_error", {}, first=0),)))
    (made,) = Inspection.objects.filter(queue=queue)
    assert (made.ending, made.first_error) == ("found_error", 1)
    assert list(made.labels.values_list("value", "is_filled")) == [(1, True), (-1, False), (-1, True)]


def test_labels_of_steps_become_inspections():
    batch = imported({"prompt": "q", "completions": ["one", "two"], "labels": [True, False]})
    (column,) = survey(batch).labels
    assert column.values == (("false", 1), ("true", 1))
    queue = filled(batch, Meanings("steps", (Column(column.names[0], {"true": "1", "false": "-1"}, of_steps=True),)))
    assert list(Inspection.objects.get(queue=queue).labels.values_list("value", flat=True)) == [1, -1]


def test_many_tasks_cost_the_page_and_the_filling_no_more_statements_than_one(client):
    def statements_for(tasks: int) -> tuple[int, int]:
        rows = [{"prompt": f"q{n}", "completions": ["one", "two"], "labels": [True, False]} for n in range(tasks)]
        member = factories.member()
        batch = imported(*rows, workspace=member.workspace)
        meanings = Meanings("steps", (Column("label", {"true": "1", "false": "-1"}, of_steps=True),))
        client.force_login(member.user)
        form = {"filter": f"batch={batch.pk}", "judged": "steps", "steps-0-0": "-1", "steps-0-1": "1"}
        with CaptureQueriesContext(connection) as of_page:
            page = client.post(PREVIEW, form).content.decode()
        assert "step 2 of 2 is the first wrong one" in page
        assert f">trajector{'y' if tasks == 1 else 'ies'}</span>" in page
        queue = adopted(batch, meanings)
        with CaptureQueriesContext(connection) as of_filling, transaction.atomic():
            conversion.fill_batch(queue)
        assert queue.item_count == tasks
        return len(of_page), len(of_filling)

    assert statements_for(30) == statements_for(1)


def test_steps_are_read_some_at_a_time_and_a_preview_stops_at_its_limit(monkeypatch):
    monkeypatch.setattr(reading, "STEPS_A_READING", 4)
    rows = [{"prompt": f"q{n}", "completions": ["one", "two"], "labels": [True, False]} for n in range(5)]
    batch = imported(*rows)
    (column,) = survey(batch).labels
    meanings = Meanings("steps", (Column(column.names[0], {"true": "1", "false": "-1"}, of_steps=True),))
    whole = reading.preview(batch.workspace, selection_of(batch), meanings, None)
    assert (whole.judgments, whole.is_all) == (5, True)
    assert filled(batch, meanings).item_count == 5
    monkeypatch.setattr(reading, "STEPS_LOOKED_AT", 7)
    part = reading.preview(batch.workspace, selection_of(batch), meanings, None)
    assert (part.runs, part.judgments, part.is_all) == (3, 3, False)


def test_verdicts_on_runs_become_thumbs():
    rows = [
        {"prompt": "q", "completion": verdict, "liked": liked}
        for verdict, liked in (("y", "yes"), ("n", "no"), ("m", "so-so"))
    ]
    queue = filled(imported(*rows), Meanings("rating", (Column("liked", {'"yes"': "1", '"no"': "-1"}),)))
    assert sorted(Rating.objects.filter(queue=queue).values_list("thumb", flat=True)) == [-1, 1]


def test_own_people_can_judge_the_same_pairs_afterwards():
    workspace = factories.workspace()
    queue = filled(imported(compared(1, 1, 1, 1), workspace=workspace), three())
    with transaction.atomic():
        raise_overlap(queue=Queue.objects.select_for_update().get(pk=queue.pk), overlap=4)
    Queue.objects.filter(pk=queue.pk).update(overlap=4)
    resume_queue(queue=queue, by=None)
    held = next_assignment(queue=Queue.objects.get(pk=queue.pk), annotator=factories.annotator(of=workspace))
    assert held is not None
    record(assignment=held, answer=Choice(1))
    assert Item.objects.get(queue=queue).judged == 4


def test_an_item_keeps_more_imported_judgments_than_its_queue_asks_for():
    rows = [{"prompt": "q", "n": n, "judge": n, "response_a": "y", "response_b": "n", "winner": "a"} for n in "xyzx"]
    queue = filled(imported(*rows), Meanings("pairwise", (Column("winner", {'"a"': "2"}),), who="judge"))
    with transaction.atomic():
        raise_overlap(queue=Queue.objects.select_for_update().get(pk=queue.pk), overlap=2)
    assert Item.objects.values_list("overlap", "judged").get(queue=queue) == (3, 3)


def test_without_a_meaning_or_before_its_end_there_is_nothing_to_make():
    batch = imported(compared(1, 1, 1, 1))
    with pytest.raises(SaysNothing):
        adopted(batch, Meanings("pairwise", ()))
    batch.state = "running"
    with pytest.raises(StillImporting):
        selection_of(batch)


PAGE, PREVIEW = reverse_lazy("annotation:new_adopted"), reverse_lazy("annotation:preview_adopted")


def offer_of(batch: ImportBatch, client: Client) -> str:
    return client.get(reverse("annotation:adoptable", args=[batch.pk])).content.decode()


def test_the_page_asks_about_each_value_and_makes_the_queue(client):
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    batch = imported(compared(1, 1, 2, 0), workspace=member.workspace)
    assert f"{PAGE}?filter=batch%3D{batch.pk}&amp;source=chats.jsonl" in offer_of(batch, client)
    page = client.get(PAGE, {"filter": f"batch={batch.pk}", "source": "chats.jsonl"}).content.decode()
    assert "annotator3" in page
    assert "answer 1 clearly better" in page
    place = next(n for n, verdict in enumerate(survey(batch).verdicts) if "annotator1" in verdict.names)
    meanings = {f"pairwise-{place}-{n}": meaning for n, meaning in enumerate(("0", "2", "-2"))}
    form = {
        "name": "Theirs",
        "judged": "pairwise",
        "judged_by": "person",
        "who": "",
        "source": "PandaLM",
        "filter": f"batch={batch.pk}",
        **meanings,
    }
    shown = client.post(PREVIEW, form).content.decode()
    assert "annotator2" in shown
    assert "answer 2 clearly better" in shown
    answer = client.post(PAGE, form)
    queue = Queue.objects.get(name="Theirs")
    assert (answer.status_code, answer.url) == (302, f"/queues/{queue.pk}/")
    items.fill(queue.pk)
    assert [strength for _, strength in grades(queue)["question 1"]] == [2, -2, 0]
    assert "PandaLM" in client.get(f"/queues/{queue.pk}/").content.decode()
    assert "Theirs" in offer_of(batch, client)


def test_a_form_that_says_nothing_is_shown_again(client):
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    batch = imported(compared(1, 1, 2, 0), workspace=member.workspace)
    form = {"name": "x", "source": "x", "judged": "pairwise", "judged_by": "person", "filter": f"batch={batch.pk}"}
    answer = client.post(PAGE, form)
    assert answer.status_code == 422
    assert "No value has a meaning yet" in answer.content.decode()


def test_a_file_that_says_nothing_offers_nothing(client):
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    batch = imported(
        {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "y"}]},
        workspace=member.workspace,
    )
    assert offer_of(batch, client).strip() == ""
    for query in (f"batch={batch.pk}", "batch=nonsense"):
        assert "No judgments found" in client.get(PAGE, {"filter": query}).content.decode()
    assert not Assignment.objects.exists()


def test_an_engineer_says_what_values_mean(client):
    member = factories.member(Role.RESEARCHER)
    headers = bearer(member)
    batch = imported(compared(1, 1, 2, 0), workspace=member.workspace)
    url = f"/api/v1/imports/{batch.pk}/judgments"
    response = client.get(url, **headers).json()
    assert response["sides"] == ["1", "2"]
    names = ["annotator1", "annotator2", "annotator3"]
    assert {"names": names, "values": [{"value": n, "times": 1} for n in (0, 1, 2)]} in response["verdicts"]
    values = [{"value": 0, "means": "0"}, {"value": 1, "means": "1"}, {"value": 2, "means": "-1"}]
    columns = [{"name": name, "values": values, "is_somebody": True} for name in names]
    body = {"name": "Theirs", "kind": "pairwise", "columns": columns}
    made = client.post(url, body, content_type="application/json", **headers)
    assert (made.status_code, made.json()["state"]) == (201, "filling")
    items.fill(made.json()["id"])
    rows = client.get(f"/api/v1/queues/{made.json()['id']}/preferences", **headers).json()["results"]
    assert sorted((row["annotator"], row["strength"], row["annotator_source"]) for row in rows) == [
        ("annotator1", 1, batch.filename),
        ("annotator2", -1, batch.filename),
        ("annotator3", 0, batch.filename),
    ]
    assert {(row["a_was_left"], row["annotator_kind"]) for row in rows} == {(None, "person")}


def test_a_meaning_that_is_none_is_refused_by_name(client):
    member = factories.member(Role.RESEARCHER)
    batch = imported(compared(1, 1, 2, 0), workspace=member.workspace)
    column = {"name": "annotator1", "values": [{"value": 1, "means": "better"}]}
    body = {"name": "Theirs", "kind": "pairwise", "columns": [column]}
    url = f"/api/v1/imports/{batch.pk}/judgments"
    answer = client.post(url, body, content_type="application/json", **bearer(member))
    assert answer.status_code == 400
    assert "“better” isn't a possible meaning" in answer.content.decode()


def test_many_annotators_cost_no_more_statements_than_few():
    def statements_for(people: int) -> int:
        pairs = [{**compared(n), "winner": n % 3, "judge": f"judge {n % people}"} for n in range(40)]
        queue = adopted(imported(*pairs), Meanings("pairwise", (Column("winner", CODES),), who="judge"))
        with CaptureQueriesContext(connection) as captured, transaction.atomic():
            conversion.fill_batch(queue)
        desks = Desk.objects.filter(queue=queue)
        assert (desks.count(), sum(desks.values_list("judged", flat=True))) == (people, 40)
        return len(captured)

    assert statements_for(40) == statements_for(2)


@pytest.mark.parametrize("first_wrong", [1, "1"], ids=["number", "text of a table"])
def test_the_first_wrong_step_of_a_solution_becomes_an_inspection(first_wrong):
    batch = imported({"problem": "q", "steps": ["a", "b", "c"], "label": first_wrong})
    assert "label" in survey(batch).indexes
    queue = filled(batch, Meanings("steps", (Column("label", {}, first=0),)))
    (made,) = Inspection.objects.filter(queue=queue)
    assert (made.first_error, [label.value for label in made.labels.order_by("index")]) == (1, [1, -1, -1])


def test_ratings_of_prm800k_become_an_inspection():
    steps = [
        {"completions": [{"text": text, "rating": rating}], "chosen_completion": 0}
        for text, rating in (("a", 1), ("b", 0), ("c", -1))
    ]
    rows = [{"labeler": f"l{n}", "question": {"problem": f"q{n}"}, "label": {"steps": steps}} for n in range(2)]
    batch = imported(*rows)
    (column,) = survey(batch).labels
    assert (column.names, column.values) == (("rating",), (("-1", 2), ("0", 2), ("1", 2)))
    meanings = {value: value for value in ("1", "0", "-1")}
    queue = filled(batch, Meanings("steps", (Column("rating", meanings, of_steps=True),), who="labeler"))
    made = Inspection.objects.filter(queue=queue).order_by("annotator__name")
    assert [(inspection.annotator.name, inspection.first_error) for inspection in made] == [("l0", 2), ("l1", 2)]

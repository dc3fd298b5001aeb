"""The pages of datasets, for researchers and all others."""

import re
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.template.loader import render_to_string
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.annotation.desk.actions import flag
from apps.annotation.models import Preference, Queue
from apps.annotation.review.adjudication import adjudicate
from apps.datasets import freezing, queries
from apps.datasets.files.verification import verify
from apps.datasets.models import Version
from apps.datasets.recipe import Recipe
from apps.datasets.rows import ROW_TYPES
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def member() -> Membership:
    return factories.member(Role.OWNER)


@pytest.fixture
def queue(member: Membership) -> Queue:
    queue = factories.queue(of=member.workspace, name="Shop tasks")
    for strength in (2, -1, 3, 0):
        task = factories.task(of=member.workspace)
        steps = [
            (
                [{"role": "user", "content": task.instruction}],
                factories.assistant_message("<script>alert(1)</script> \x00 \ud800"),
            )
        ]
        hostile = factories.trajectory(of=task, steps=steps)
        factories.preference(
            strength,
            on=factories.item(of=queue, a=hostile),
            by=factories.annotator(of=member.workspace, name="Ada Lovelace"),
        )
    return queue


@pytest.fixture
def version(member: Membership, queue: Queue) -> Version:
    dataset = freezing.create_dataset(name="Shop pairs", description="Errands.", license="", by=member)
    recipe = Recipe(queues=(str(queue.pk),), surrogates="keep", train=100, validation=0, test=0)
    made = freezing.request_version(dataset=dataset, recipe=recipe, by=member)
    freezing.freeze(made.pk)
    made.refresh_from_db()
    assert made.state == Version.State.FROZEN, made.error
    return made


def signed_in(member: Membership) -> Client:
    client = Client()
    client.force_login(member.user)
    return client


def pages(version: Version) -> list[str]:
    args = [version.dataset_id, version.number]
    return [
        reverse("datasets:dataset", args=args[:1]),
        reverse("datasets:new_version", args=args[:1]),
        *(
            reverse(f"datasets:{name}", args=args)
            for name in ("version", "version_live", "rows", "file", "card_markdown")
        ),
    ]


def test_a_researcher_sees_every_page(version: Version) -> None:
    client = signed_in(factories.member(Role.RESEARCHER, of=version.workspace))
    assert [client.get(page).status_code for page in ["/datasets/", "/datasets/new/", *pages(version)]] == [200] * 9


def test_after_the_last_row_that_pages_show_no_link_goes_on(
    version: Version, member: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The split has three rows, of which only the first may be read."""
    monkeypatch.setattr(queries, "SAMPLE_BYTES", 1)
    address = reverse("datasets:rows", args=[version.dataset_id, version.number])
    first, last = (signed_in(member).get(address, {"from": start}).content.decode() for start in (0, 1))
    assert "from=1" in first
    assert re.search(r"Row 0 of\s+3", first)
    assert "No further rows" in last
    assert 'rel="next"' not in last
    assert not re.search(r"Rows? 1", last)


def test_the_judgments_of_a_queue_lead_to_a_first_dataset_or_to_a_choice_among_those_there_are(
    member: Membership, queue: Queue
) -> None:
    client, address = signed_in(member), f"{reverse('datasets:list')}?queue={queue.pk}"
    first = client.get(address)["Location"]
    assert first == f"{reverse('datasets:new')}?queue={queue.pk}"
    assert client.get(first).context["form"]["name"].value() == "Shop tasks"
    dataset = freezing.create_dataset(name="d", description="", license="", by=member)
    choice = f"{reverse('datasets:new_version', args=[dataset.pk])}?queue={queue.pk}"
    assert f'href="{choice}"' in client.get(address).content.decode()


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER])
def test_lower_roles_find_nothing(version: Version, role: Role) -> None:
    client = signed_in(factories.member(role, of=version.workspace))
    assert [client.get(page).status_code for page in ["/datasets/", "/datasets/new/", *pages(version)]] == [404] * 9


def test_an_outsider_finds_nothing(version: Version) -> None:
    client = signed_in(factories.member(Role.OWNER))
    assert [client.get(page).status_code for page in pages(version)] == [404] * 7
    verify_page = reverse("datasets:verify", args=[version.dataset_id, version.number])
    assert client.post(verify_page).status_code == 404
    assert client.post(reverse("datasets:preview", args=[version.dataset_id])).status_code == 404


def rules(queue: Queue, **changes: object) -> dict[str, object]:
    form = {
        "queues": [str(queue.pk)],
        "judgments": "majority",
        "aggregation": "votes",
        "adjudicated": "win",
        "minimum_confidence": 50,
        "minimum_margin": 1,
        "minimum_strength": 1,
        "ties": "count",
        "both_bad": "count",
        "failed_pairs": "keep",
        "annotator_kinds": ["person", "model", "rule"],
        "train": 100,
        "validation": 0,
        "test": 0,
        "seed": 0,
        "flagged": "keep",
        "surrogates": "replace",
    }
    return form | changes


def test_the_preview_says_what_freezing_then_makes(member: Membership, queue: Queue) -> None:
    client = signed_in(member)
    dataset = freezing.create_dataset(name="d", description="", license="", by=member)
    shown = client.post(reverse("datasets:preview", args=[dataset.pk]), rules(queue)).context["preview"]
    assert (shown.survey.rows, shown.survey.judgments, shown.survey.pairs) == (3, 4, 4)
    assert [(entry.split, entry.rows, entry.new_tasks) for entry in shown.splits] == [
        ("train", 3, 3),
        ("validation", 0, 0),
        ("test", 0, 0),
    ]
    assert shown.dropped == [("Judged a tie", 1)]

    answer = client.post(reverse("datasets:new_version", args=[dataset.pk]), rules(queue))

    made = Version.objects.get(dataset=dataset)
    assert answer["Location"] == reverse("datasets:version", args=[dataset.pk, 1])
    assert freezing.freeze(made.pk)
    made.refresh_from_db()
    assert made.error == ""
    assert made.row_counts == {"train": 3, "validation": 0, "test": 0}


def test_the_preview_tells_of_flagged_items_and_leaves_them_out(member: Membership, queue: Queue) -> None:
    client = signed_in(member)
    dataset = freezing.create_dataset(name="d", description="", license="", by=member)
    address = reverse("datasets:preview", args=[dataset.pk])
    assert "flagged" not in client.post(address, rules(queue)).content.decode()
    flag(assignment=Preference.objects.filter(strength__gt=0).earliest("pk").assignment, reason="odd")
    response = client.post(address, rules(queue))
    assert "Annotators flagged 1 of these items." in response.content.decode()
    assert response.context["preview"].survey.rows == 3
    left = client.post(address, rules(queue, flagged="leave_out"))
    assert "Annotators flagged" not in left.content.decode()
    assert (left.context["preview"].survey.rows, left.context["preview"].survey.judgments) == (2, 3)


def test_a_wrong_form_is_shown_again(member: Membership, queue: Queue) -> None:
    dataset = freezing.create_dataset(name="d", description="", license="", by=member)
    page = reverse("datasets:new_version", args=[dataset.pk])
    answer = signed_in(member).post(page, rules(queue, train=50))
    assert answer.status_code == 422
    assert "add up to 50" in answer.content.decode()
    assert not Version.objects.exists()


def test_another_workspaces_queue_cannot_be_chosen(member: Membership) -> None:
    foreign = factories.queue()
    factories.preference(2, on=factories.item(of=foreign))
    dataset = freezing.create_dataset(name="d", description="", license="", by=member)
    answer = signed_in(member).post(reverse("datasets:new_version", args=[dataset.pk]), rules(foreign))
    assert answer.status_code == 422


def test_hostile_text_is_shown_as_text(version: Version, member: Membership) -> None:
    shown = signed_in(member).get(reverse("datasets:rows", args=[version.dataset_id, 1])).content.decode()
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt; ␀ \\ud800" in shown


def test_only_owners_see_whose_pseudonym_is_whose(version: Version, member: Membership) -> None:
    page = reverse("datasets:version", args=[version.dataset_id, 1])
    assert "Ada Lovelace" in signed_in(member).get(page).content.decode()
    researcher = factories.member(Role.RESEARCHER, of=version.workspace)
    assert "Ada Lovelace" not in signed_in(researcher).get(page).content.decode()


def test_verifying_finds_a_changed_or_lost_file(
    version: Version, member: Membership, capsys: pytest.CaptureFixture[str]
) -> None:
    page = reverse("datasets:verify", args=[version.dataset_id, version.number])
    assert verify(version).holds
    assert (
        "is unchanged since it was frozen"
        in signed_in(member).post(page, headers={"HX-Request": "true"}).content.decode()
    )
    call_command("verify_version", "Shop pairs")
    with pytest.raises(CommandError, match="no such frozen version"):
        call_command("verify_version", "Shop pairs", 0)

    path = Path(default_storage.path(version.files["jsonl"]["train"]["name"]))
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"Do thing", b"Do think"))

    assert [check.name for check in verify(version).checks if not check.holds] == ["train.jsonl", "all rows"]
    assert "differs" in signed_in(member).post(page, headers={"HX-Request": "true"}).content.decode()
    with pytest.raises(CommandError, match="1 of 1"):
        call_command("verify_version")
    path.unlink()
    assert not verify(version).holds
    with pytest.raises(CommandError, match="1 of 1"):
        call_command("verify_version")
    assert re.search(r"missing +DIFFERS  train.jsonl", capsys.readouterr().out)


def test_who_judged_elsewhere_is_shown_as_imported(member: Membership, version: Version) -> None:
    page = signed_in(member).get(reverse("datasets:version", args=[version.dataset_id, 1])).content.decode()
    assert "imported</span>" not in page
    elsewhere = factories.annotator(of=member.workspace, name="Bo", source="survey.csv")
    factories.preference(2, on=factories.item(of=Queue.objects.get()), by=elsewhere)
    made = freezing.request_version(
        dataset=version.dataset, recipe=Recipe.from_json({**version.recipe, "until": None}), by=member
    )
    freezing.freeze(made.pk)
    page = signed_in(member).get(reverse("datasets:version", args=[version.dataset_id, 2])).content.decode()
    assert "Imported with survey.csv" in page


def test_a_row_that_a_reviewer_decided_says_so_and_claims_no_likelihood(member: Membership, queue: Queue) -> None:
    item = queue.items.filter(preferences__strength=2).get()
    adjudicate(item=item, by=member.user, strength=-3, reason="It deleted the file.")
    dataset = freezing.create_dataset(name="Shop pairs", description="", license="", by=member)
    recipe = Recipe(queues=(str(queue.pk),), train=100, validation=0, test=0)
    made = freezing.request_version(dataset=dataset, recipe=recipe, by=member)
    freezing.freeze(made.pk)
    page = signed_in(member).get(reverse("datasets:rows", args=[dataset.pk, made.number])).content.decode()
    assert page.count("decided by a reviewer") == 1
    assert page.count("100 % likely") == 2  # the other rows, each with one vote


def test_who_judged_a_row_leads_to_the_judgment_and_what_learned_from_it(version: Version, member: Membership) -> None:
    client = signed_in(member)
    page = client.get(reverse("datasets:rows", args=[version.dataset_id, version.number])).content.decode()
    for judgment in version.sources.values_list("preference", flat=True):
        address = reverse("training:lineage", args=[judgment])
        assert f'<a class="badge outline" href="{address}"' in page
        followed = client.get(address).content.decode()
        assert re.search(r"In the (train|validation|test) rows of", followed)
        item = Preference.objects.get(pk=judgment).item_id
        assert reverse("annotation:queue_item", args=[version.recipe["queues"][0], item]) in followed


def test_an_export_names_a_trainer_only_where_one_reads_the_rows(version: Version, member: Membership) -> None:
    page = signed_in(member).get(reverse("datasets:version", args=[version.dataset_id, version.number]))
    assert "TRL's DPOTrainer reads these rows as they are." in page.content.decode()
    context = {"dataset": version.dataset, "version": version, "trainer": ROW_TYPES["steps"].trainer}
    assert "TRL" not in render_to_string("datasets/_export.html", context)

"""Sorting, facets and chips of the list of trajectories."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

from apps.accounts.models import Membership, Role
from apps.annotation.desk.actions import record
from apps.annotation.kinds.answers import Choice
from apps.annotation.models import Item
from apps.trajectories import facets, filters, lists
from apps.trajectories.filters import Filters
from apps.trajectories.models import Trajectory
from tests import factories
from tests.annotation import builders
from tests.annotation.desk.test_assignments import take
from tests.trajectories.views.test_lists import bearer, signed_in, step

pytestmark = pytest.mark.django_db


def calling(*tools: str, **fields: object) -> dict[str, object]:
    calls = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in tools]
    return step(**fields) | {"message": {"role": "assistant", "content": None, "tool_calls": calls}}


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def trajectories(researcher: Membership) -> dict[str, Trajectory]:
    home = researcher.workspace
    airline = {"of": home, "environment": "airline", "policy": "alpha"}
    return {
        "short": factories.imported_run([calling("search")], task_key="a", success=True, tags=["kept"], **airline),
        "long": factories.imported_run([calling("search", "book")] * 6, task_key="b", success=False, **airline),
        "other": factories.imported_run([step(error="It broke.")] * 2, task_key="c", environment="shop", of=home),
    }


def facets_at(client: Client, query: str = "") -> dict[str, list[tuple[str, int]]]:
    page = client.get(reverse("trajectories:facets") + query, headers={"HX-Request": "true"})
    facets = page.context["counted"].facets
    return {facet.name: [(value.label, value.trajectories) for value in facet.values] for facet in facets}


def test_a_tag_given_twice_counts_a_trajectory_once(researcher: Membership) -> None:
    factories.imported_run([step()], of=researcher.workspace, tags=["kept", "kept"])
    assert facets_at(signed_in(researcher))["Tag"] == [("kept", 1)]


def test_facets_count_what_the_filters_find(trajectories: dict[str, Trajectory], researcher: Membership) -> None:
    client = signed_in(researcher)
    assert facets_at(client) == {
        "Environment": [("airline", 2), ("shop", 1)],
        "Policy": [("alpha", 2), ("Not known", 1)],
        "Outcome": [("No outcome", 1), ("Failure", 1), ("Success", 1)],
        "Tool": [("search", 2), ("book", 1)],
        "Errors": [("Without errors", 2), ("With errors", 1)],
        "Steps": [("0 to 5", 2), ("6 to 10", 1)],
        "Tag": [("kept", 1)],
    }
    narrowed = facets_at(client, "?tool=book")
    assert (narrowed["Environment"], narrowed["Outcome"]) == ([("airline", 1)], [("Failure", 1)])


@pytest.mark.parametrize("filters", ["", "?min_steps=2", "?max_steps=5", "?min_steps=2&max_steps=8", "?tool=book"])
def test_a_facet_leads_to_the_runs_that_it_counts(
    trajectories: dict[str, Trajectory], researcher: Membership, filters: str
) -> None:
    client = signed_in(researcher)
    page = client.get(reverse("trajectories:facets") + filters, headers={"HX-Request": "true"})
    for facet in page.context["counted"].facets:
        for value in facet.values:
            if not value.query:  # the list can't be filtered by two tools
                assert (facet.name, value.label, filters) == ("Tool", "search", "?tool=book")
                continue
            listed = client.get(f"{reverse('trajectories:list')}?{value.query}")
            assert len(listed.context["page"]) == value.trajectories, (facet.name, value)


def test_facets_keep_the_order_of_the_list(trajectories: dict[str, Trajectory], researcher: Membership) -> None:
    client = signed_in(researcher)
    address = reverse("trajectories:facets")
    assertContains(
        client.get(f"{reverse('trajectories:list')}?tag=kept&sort=longest"), f"{address}?tag=kept&amp;sort=longest"
    )
    page = client.get(f"{address}?sort=longest", headers={"HX-Request": "true"})
    assertContains(page, f"{reverse('trajectories:list')}?environment=airline&amp;sort=longest")


def test_what_is_chosen_stays_chosen_however_many_choices_there_are(
    trajectories: dict[str, Trajectory], researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "CHOICES", 1)
    factories.imported_run([step()], task_key="d", environment="aaa", policy="aaa", of=researcher.workspace)
    policy = trajectories["short"].policy_id
    page = signed_in(researcher).get(f"{reverse('trajectories:list')}?policy={policy}&environment=airline")
    assertContains(page, f'<option value="{policy}" selected>alpha</option>', html=True)
    assertContains(page, "<option selected>airline</option>", html=True)


def test_who_judged_is_a_facet_and_a_filter(researcher: Membership) -> None:
    queue = builders.queue(of=researcher.workspace, items=2, steps=2)
    who = builders.rule(of=researcher.workspace)
    record(assignment=take(queue, who), answer=Choice(1))
    client = signed_in(researcher)
    assert facets_at(client)["Judged by"] == [(who.name, 2)]
    listed = client.get(f"{reverse('trajectories:list')}?annotator={who.pk}")
    assert len(listed.context["page"]) == 2
    assertContains(listed, f"Judged by: {who.name}")
    answer = Client().get(f"/api/v1/trajectories?annotator={who.pk}", headers=bearer(researcher)).json()
    assert len(answer["results"]) == 2
    assert Client().get("/api/v1/trajectories?annotator=me", headers=bearer(researcher)).status_code == 400


def test_a_trajectory_on_both_sides_of_judged_pairs_is_counted_once(researcher: Membership) -> None:
    queue = builders.queue(of=researcher.workspace, items=1, steps=2)
    item = Item.objects.get(queue=queue)
    Item.objects.create(queue=queue, kind=item.kind, position=1, task=item.task, a=item.b, b=item.a, overlap=1)
    who = builders.rule(of=researcher.workspace)
    for strength in (1, -1):
        record(assignment=take(queue, who), answer=Choice(strength))
    assert facets_at(signed_in(researcher))["Judged by"] == [(who.name, 2)]


@pytest.mark.parametrize("query", ["?q=fly", "?environment=airline", "?q=fly&environment=airline&tool=search"])
def test_many_matches_are_walked_from_the_newest(
    researcher: Membership, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(filters, "FEW", 1)
    home = researcher.workspace
    for key in ("fly-1", "fly-2", "fly-3"):
        factories.imported_run([calling("search")], task_key=key, environment="airline", of=home)
    factories.imported_run([calling("search")], task_key="sell-1", environment="shop", of=home)
    client = signed_in(researcher)
    with CaptureQueriesContext(connection) as queries:
        assert facets_at(client, query)["Environment"] == [("airline", 3)]
    [newest] = [query["sql"] for query in queries if "LIMIT 2001" in query["sql"]]
    assert ") IS TRUE" in newest  # not a join, which would read and sort all of them


def test_all_trajectories_with_an_external_id_are_found_however_many(
    researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "FEW", 1)
    for number in range(3):
        factories.trajectory(of=factories.task(of=researcher.workspace), external_id="run-7" if number else "run-8")
    found = Filters(q="run-7").apply(Trajectory.objects.all(), workspace_id=researcher.workspace_id)
    assert {trajectory.external_id for trajectory in found} == {"run-7"}
    assert len(found) == 2


def test_of_many_matches_the_newest_are_counted_and_the_page_says_so(
    trajectories: dict[str, Trajectory], researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facets, "SAMPLE", 2)
    page = signed_in(researcher).get(reverse("trajectories:facets"), headers={"HX-Request": "true"})
    assertContains(page, "Counted over the newest 2 matches.")
    assertContains(page, ">1+</span>")


def test_outsiders_and_annotators_count_nothing(trajectories: dict[str, Trajectory], researcher: Membership) -> None:
    address = reverse("trajectories:facets")
    assertNotContains(signed_in(factories.member(Role.OWNER)).get(address, headers={"HX-Request": "true"}), "airline")
    annotator = signed_in(factories.member(Role.ANNOTATOR, of=researcher.workspace))
    assert annotator.get(address, headers={"HX-Request": "true"}).status_code == 404


def test_every_filter_is_a_chip_that_takes_it_away(trajectories: dict[str, Trajectory], researcher: Membership) -> None:
    short = trajectories["short"]
    query = f"task={short.task_id}&policy={short.policy_id}&source=retrace&min_steps=1&tag=kept&tool=search"
    page = signed_in(researcher).get(f"{reverse('trajectories:list')}?{query}")
    chips = {chip.name: (chip.value, chip.without) for chip in page.context["chips"]}
    assert {name: words for name, (words, _) in chips.items()} == {
        "Task": "a",
        "Policy": "alpha",
        "At least": "1 step",
        "Tool": "search",
        "Tag": "kept",
        "Source": "retrace",
    }
    assert chips["Tag"][1] == Filters.read(query.replace("&tag=kept", "")).query
    assertContains(page, "Remove the filter Task: a")


@pytest.mark.parametrize(
    ("sort", "names"),
    [("", "other long short"), ("oldest", "short long other"), ("longest", "long other short"), ("shortest", "short other long")],
)  # fmt: skip
def test_the_list_is_sorted_and_its_pages_follow_each_other(
    trajectories: dict[str, Trajectory], researcher: Membership, monkeypatch: pytest.MonkeyPatch, sort: str, names: str
) -> None:
    monkeypatch.setattr("apps.trajectories.lists.PAGE", 2)
    client, address = signed_in(researcher), reverse("trajectories:list")
    first = client.get(address, {"sort": sort})
    second = client.get(address, {"sort": sort, "cursor": first.context["page"].next})
    listed = [*first.context["page"], *second.context["page"]]
    assert listed == [trajectories[name] for name in names.split()]


def test_tasks_are_sorted_by_environment_and_key(trajectories: dict[str, Trajectory], researcher: Membership) -> None:
    client, address = signed_in(researcher), reverse("trajectories:tasks")
    keys = [[task.key for task in client.get(address, {"sort": sort}).context["page"]] for sort in ("key", "-key", "?")]
    assert keys == [["a", "b", "c"], ["c", "b", "a"], ["c", "b", "a"]]
    kept = '<input type="hidden" name="sort" value="-key">'
    assertContains(client.get(address, {"sort": "-key"}), kept, html=True)  # a search keeps the order

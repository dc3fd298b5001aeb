"""Datasets over REST, for every kind of caller."""

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import ApiToken, Membership, Role
from apps.datasets import freezing
from apps.datasets.api import RecipeSerializer
from apps.datasets.models import Dataset, Version
from apps.datasets.recipe import Recipe
from tests import factories

pytestmark = pytest.mark.django_db
Call = Callable[..., Any]


@pytest.fixture
def version(member: Membership) -> Version:
    queue = factories.queue(of=member.workspace)
    for strength in (2, -1, 3):
        factories.preference(strength, on=factories.item(of=queue))
    dataset = freezing.create_dataset(name="shop", description="Offers.", license="CC BY 4.0", by=member)
    made = freezing.request_version(dataset=dataset, recipe=Recipe(queues=(str(queue.pk),)), by=member)
    freezing.freeze(made.pk)
    return Version.objects.get(pk=made.pk)


def caller(token: str) -> Call:
    client = Client(headers={"authorization": f"Bearer {token}"})

    def call(path: str, data: object = None, **headers: str) -> Any:
        if data is not None:
            return client.post(path, json.dumps(data), content_type="application/json", headers=headers)
        return client.get(path, headers=headers)

    return call


@pytest.fixture
def api(member: Membership) -> Call:
    return caller(factories.token(member))


def addresses(version: Version) -> list[str]:
    base = f"/api/v1/datasets/{version.dataset_id}"
    of_version = f"{base}/versions/{version.number}"
    return [base, f"{base}/versions", of_version, f"{of_version}/rows", f"{of_version}/card"]


def test_a_researcher_reads_everything(api: Call, version: Version) -> None:
    assert [api(path).status_code for path in ["/api/v1/datasets", *addresses(version)]] == [200] * 6


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER])
def test_lower_roles_find_nothing(version: Version, role: Role) -> None:
    api = caller(factories.token(factories.member(role, of=version.workspace)))
    assert [api(path).status_code for path in ["/api/v1/datasets", *addresses(version)]] == [404] * 6


def test_another_workspaces_token_finds_nothing(version: Version) -> None:
    api = caller(factories.token(factories.member(Role.OWNER)))
    assert [api(path).status_code for path in addresses(version)] == [404] * 5
    assert api("/api/v1/datasets").json()["results"] == []
    assert api(f"/api/v1/datasets/{version.dataset_id}/versions", {"queues": []}).status_code == 404


def test_a_revoked_token_is_refused(member: Membership, version: Version) -> None:
    api = caller(factories.token(member, revoked_at=version.created_at))
    answers = [api(path) for path in ["/api/v1/datasets", *addresses(version)]]
    assert [answer.status_code for answer in answers] == [401] * 6
    assert answers[0]["WWW-Authenticate"] == "Bearer"
    assert "revoked" in answers[0].json()["detail"]


def test_without_a_token_nothing_is_shown(client: Client, version: Version) -> None:
    assert [client.get(path).status_code for path in addresses(version)] == [401] * 5


def test_a_slash_at_the_end_is_taken(api: Call, version: Version) -> None:
    assert [api(f"{path}/").status_code for path in ["/api/v1/datasets", *addresses(version)]] == [200] * 6


def test_a_version_says_what_is_in_its_files(api: Call, version: Version) -> None:
    version_data = api(f"/api/v1/datasets/{version.dataset_id}/versions/1").json()
    assert version_data["state"] == "frozen"
    assert (version_data["id"], version_data["dataset"]) == (
        str(version.pk),
        str(version.dataset_id),
    )  # the id that a run is launched with
    assert version_data["content_hash"] == version.content_hash
    assert version_data["files"]["jsonl"]["train"]["rows"] == version.row_counts["train"]
    assert "name" not in version_data["files"]["jsonl"]["train"]


def test_freezing_answers_at_once(api: Call, version: Version) -> None:
    path = f"/api/v1/datasets/{version.dataset_id}/versions"
    answer = api(path, {"queues": version.recipe["queues"], "judgments": "each"})
    assert answer.status_code == 202
    assert answer.json()["state"] == "freezing"
    assert answer["Location"] == f"{path}/2"
    rows = api(f"{path}/2/rows")
    assert rows.status_code == 409
    assert "still being frozen" in rows.json()["detail"]


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({}, "queues"),
        ({"queues": []}, "queues"),
        ({"queues": ["x"]}, "queues"),
        ({"train": 50}, "train"),
        ({"judgments": "all"}, "judgments"),
        ({"minimum_strength": 4}, "minimum_strength"),
        ({"annotator_kinds": ["robot"]}, "annotator_kinds"),
        ({"minimum_confidence": 40}, "minimum_confidence"),
        ({"minimum_confidense": 60}, "minimum_confidense"),
    ],
)
def test_a_wrong_rule_is_named(api: Call, version: Version, rules: dict[str, Any], field: str) -> None:
    if rules and field != "queues":
        rules = {"queues": version.recipe["queues"], **rules}
    answer = api(f"/api/v1/datasets/{version.dataset_id}/versions", rules)
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == [field]
    assert answer.json()["detail"].startswith(field)


def test_what_is_wrong_inside_a_list_is_told_in_sentences_that_say_where(api: Call, version: Version) -> None:
    rules = {"queues": version.recipe["queues"], "without_annotators": [version.recipe["queues"][0], "nobody"]}
    answer = api(f"/api/v1/datasets/{version.dataset_id}/versions", rules)
    problem = "1: “nobody” isn't an id. Use one from the API's lists."
    assert answer.json()["fields"] == {"without_annotators": [problem]}


def test_every_rule_of_a_recipe_can_be_given(api: Call, version: Version) -> None:
    assert set(RecipeSerializer().fields) == {field.name for field in fields(Recipe)}
    rules = {"aggregation": "dawid_skene", "adjudicated": "ignore", "minimum_confidence": 55}
    answer = api(f"/api/v1/datasets/{version.dataset_id}/versions", {"queues": version.recipe["queues"], **rules})
    assert answer.json()["recipe"] | rules == answer.json()["recipe"]


def test_another_workspaces_queue_is_a_wrong_rule(api: Call, version: Version) -> None:
    answer = api(f"/api/v1/datasets/{version.dataset_id}/versions", {"queues": [str(factories.queue().pk)]})
    assert answer.status_code == 400
    assert "queues" in answer.json()["fields"]


def test_rules_without_rows_conflict(api: Call, version: Version) -> None:
    empty = factories.queue(of=version.workspace)
    answer = api(f"/api/v1/datasets/{version.dataset_id}/versions", {"queues": [str(empty.pk)]})
    assert answer.status_code == 409
    assert "no row" in answer.json()["detail"]


def test_a_dataset_is_made_once(api: Call, version: Version) -> None:
    made = api("/api/v1/datasets", {"name": "mail"})
    assert made.status_code == 201
    again = api("/api/v1/datasets", {"name": "mail"})
    assert again.status_code == 400
    assert "mail" in again.json()["fields"]["name"][0]
    assert Dataset.objects.filter(name="mail").count() == 1


def test_a_dataset_takes_nothing_but_what_can_be_said_of_it(api: Call) -> None:
    refused = api("/api/v1/datasets", {"name": "mail", "workspace": str(factories.workspace().pk), "created_by": 1})
    assert (refused.status_code, [*refused.json()["fields"]]) == (400, ["created_by", "workspace"])
    assert not Dataset.objects.filter(name="mail").exists()


def test_lists_come_in_cursor_pages(api: Call, member: Membership) -> None:
    for number in range(3):
        freezing.create_dataset(name=f"d{number}", description="", license="", by=member)
    first = api("/api/v1/datasets?page_size=2").json()
    assert [entry["name"] for entry in first["results"]] == ["d2", "d1"]
    second = api(first["next"]).json()
    assert [entry["name"] for entry in second["results"]] == ["d0"]
    assert second["next"] is None


def test_the_card_is_json_and_markdown(api: Call, version: Version) -> None:
    path = f"/api/v1/datasets/{version.dataset_id}/versions/1/card"
    card = api(path).json()
    assert card["license"] == "CC BY 4.0"
    assert card["judgments"] == 3
    assert card["content_hash"] == version.content_hash
    assert {who["kind"] for who in card["annotators"]} == {"person"}
    assert all("id" not in who for who in card["annotators"])
    text = api(f"{path}?format=markdown").content.decode()
    assert text.startswith("---\n")
    assert version.content_hash in text
    assert "CC BY 4.0" in text


def test_an_unknown_format_or_split_is_named(api: Call, version: Version) -> None:
    path = f"/api/v1/datasets/{version.dataset_id}/versions/1/rows"
    assert "csv" in api(f"{path}?format=csv").json()["fields"]["format"][0]
    assert "dev" in api(f"{path}?split=dev").json()["fields"]["split"][0]


def test_a_version_that_is_not_there(api: Call, version: Version) -> None:
    answer = api(f"/api/v1/datasets/{version.dataset_id}/versions/9")
    assert answer.status_code == 404
    assert set(answer.json()) == {"detail"}


def test_a_used_token_is_remembered(member: Membership, version: Version) -> None:
    caller(factories.token(member))("/api/v1/datasets")
    assert ApiToken.objects.get().last_used_at

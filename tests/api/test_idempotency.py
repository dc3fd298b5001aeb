"""Requests with an Idempotency-Key are executed once, however often they are sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.utils.timezone import now

from apps.accounts.models import Membership, Role
from apps.common import idempotency
from apps.common.models import AnsweredRequest
from apps.datasets import freezing
from apps.datasets.models import Dataset, Version
from tests import factories
from workers.tasks import clear_idempotency_keys

pytestmark = pytest.mark.django_db
DATASETS = "/api/v1/datasets"
SAME = {"name": "shop"}
OTHER = {"name": "office"}


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


def post(member: Membership, path: str, body: object, key: str = "night-1") -> Any:
    headers = {"authorization": f"Bearer {factories.token(member)}", "idempotency-key": key}
    return Client(headers=headers, raise_request_exception=False).post(
        path, json.dumps(body), content_type="application/json"
    )


def freezable(member: Membership) -> tuple[str, dict[str, Any]]:
    """The URL for creating dataset versions, and a recipe that yields rows."""
    queue = factories.queue(of=member.workspace)
    factories.preference(on=factories.item(of=queue))
    dataset = freezing.create_dataset(name="shop", description="", license="", by=member)
    return f"{DATASETS}/{dataset.pk}/versions", {"queues": [str(queue.pk)]}


def test_the_same_request_is_done_once_and_answered_alike(researcher: Membership) -> None:
    path, recipe = freezable(researcher)
    first, again = post(researcher, path, recipe), post(researcher, path, recipe)
    assert Version.objects.count() == 1
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == first.json()
    assert again.headers["Location"] == first.headers["Location"]
    assert (first.headers.get("Idempotency-Replayed"), again.headers["Idempotency-Replayed"]) == (None, "true")


def test_a_long_answer_is_given_once_and_what_was_asked_is_done_once(
    researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, repeatedly undoing judgments of long trajectories would fill the disk."""
    monkeypatch.setattr(idempotency, "MAX_KEPT", 50)
    first, again = post(researcher, DATASETS, SAME), post(researcher, DATASETS, SAME)
    assert first.json()["name"] == "shop"
    assert (again.status_code, again.json()) == (first.status_code, {"detail": idempotency.NOT_KEPT})
    assert again.headers["Idempotency-Replayed"] == "true"
    assert Dataset.objects.count() == 1


def test_a_key_of_its_own_or_none_makes_another(researcher: Membership) -> None:
    path, recipe = freezable(researcher)
    for key in ("one", "two", "", ""):
        assert post(researcher, path, recipe, key).status_code == 202
    assert sorted(Version.objects.values_list("number", flat=True)) == [1, 2, 3, 4]


@pytest.mark.parametrize("query", ["", "?again=1"])
def test_a_key_that_was_used_for_another_request_is_refused(researcher: Membership, query: str) -> None:
    assert post(researcher, DATASETS, SAME).status_code == 201
    refused = post(researcher, DATASETS + query, SAME if query else OTHER)
    assert (refused.status_code, refused.json()) == (
        422,
        {"detail": "This Idempotency-Key was used for another request. Send each request with a key of its own."},
    )
    assert Dataset.objects.count() == 1


def test_what_was_asked_cant_be_guessed_from_what_is_kept_of_it(researcher: Membership, settings: Any) -> None:
    """It may contain text that is redacted before storage."""
    kept = []
    for key in ("one", "two"):
        settings.SECRET_KEY = key
        post(factories.member(Role.RESEARCHER), DATASETS, SAME, key)
        kept.append(AnsweredRequest.objects.get(key=key).fingerprint)
    assert kept[0] != kept[1]


def test_json_that_is_only_written_otherwise_is_the_same_request(researcher: Membership) -> None:
    post(researcher, DATASETS, {"name": "shop", "description": "Offers"})
    assert post(researcher, DATASETS, {"description": "Offers", "name": "shop"}).status_code == 201


def test_a_key_is_its_senders_own_in_one_workspace(researcher: Membership) -> None:
    colleague = factories.member(of=researcher.workspace)
    elsewhere = Membership.objects.create(user=researcher.user, workspace=factories.workspace(), role=Role.RESEARCHER)
    for member, body in ((researcher, SAME), (colleague, OTHER), (elsewhere, SAME)):
        made = post(member, DATASETS, body)
        assert (made.status_code, made.headers.get("Idempotency-Replayed")) == (201, None)


def test_a_refusal_is_not_kept(researcher: Membership) -> None:
    assert post(researcher, DATASETS, {"name": ""}).status_code == 400
    assert post(researcher, DATASETS, SAME).status_code == 201


def test_what_was_asked_and_its_answer_are_stored_together(
    researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise OperationalError("the server closed the connection unexpectedly")

    with monkeypatch.context() as database:
        database.setattr(AnsweredRequest, "save", killed)
        assert post(researcher, DATASETS, SAME).status_code == 503
    assert not Dataset.objects.exists()
    assert post(researcher, DATASETS, SAME).status_code == 201


def test_who_has_another_role_by_now_is_told_nothing(researcher: Membership) -> None:
    post(researcher, DATASETS, SAME)
    Membership.objects.filter(pk=researcher.pk).update(role=Role.REVIEWER)
    assert post(researcher, DATASETS, SAME).status_code == 404
    outsider = factories.member(Role.ANNOTATOR)
    assert post(outsider, DATASETS, SAME).status_code == 404
    assert AnsweredRequest.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_who_is_removed_meanwhile_is_refused_and_changes_nothing(
    researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove_first(*_: object) -> bool:
        with ThreadPoolExecutor(1) as another:
            another.submit(removed).result()
        return True

    def removed() -> None:
        Membership.objects.filter(pk=researcher.pk).delete()
        connection.close()

    monkeypatch.setattr(idempotency, "_is_first", remove_first)
    assert post(researcher, DATASETS, SAME).status_code == 401
    assert not Dataset.objects.exists()


def test_an_answer_is_repeated_to_the_byte(researcher: Membership) -> None:
    first = post(researcher, DATASETS, {"name": 'é𝄞 {"', "description": "tab\t"})
    assert first.status_code == 201
    assert post(researcher, DATASETS, {"name": 'é𝄞 {"', "description": "tab\t"}).content == first.content


def test_a_key_that_is_too_long_is_refused(researcher: Membership) -> None:
    refused = post(researcher, DATASETS, SAME, "x" * 201)
    assert (refused.status_code, refused.json()["fields"]) == (
        400,
        {"Idempotency-Key": ["It has 201 characters; 200 fit."]},
    )


def test_a_key_that_cannot_be_stored_is_refused(researcher: Membership) -> None:
    refused = post(researcher, DATASETS, SAME, "a\x00b")
    assert (refused.status_code, refused.json()["fields"]) == (
        400,
        {"Idempotency-Key": ["It has a character that can't be stored. Use letters, digits, and hyphens."]},
    )


def test_an_address_that_takes_no_post_says_so(researcher: Membership) -> None:
    assert post(researcher, "/api/v1/endpoints", SAME).status_code == 405


def test_an_answer_is_kept_for_a_day(researcher: Membership) -> None:
    for hours, member in ((23, researcher), (25, factories.member())):
        post(member, DATASETS, SAME)
        AnsweredRequest.objects.filter(membership=member).update(created_at=now() - timedelta(hours=hours))
    assert post(member, DATASETS, OTHER).status_code == 201  # the key is free again
    AnsweredRequest.objects.filter(membership=member).update(created_at=now() - timedelta(hours=25))
    clear_idempotency_keys()
    assert [answered.membership for answered in AnsweredRequest.objects.all()] == [researcher]


@pytest.mark.django_db(transaction=True)
def test_five_at_once_make_one_version_and_hear_of_the_same(researcher: Membership) -> None:
    path, recipe = freezable(researcher)
    start = Barrier(5)

    def freeze(_: int) -> tuple[int, str]:
        start.wait(30)
        answer = post(researcher, path, recipe)
        connection.close()
        return answer.status_code, answer.json()["id"]

    with ThreadPoolExecutor(5) as people:
        answers = set(people.map(freeze, range(5)))
    assert answers == {(202, str(Version.objects.get().pk))}


def in_another_transaction(do: Callable[[], Any]) -> Any:
    def run() -> Any:
        try:
            return do()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        return other.submit(run).result(60)


@pytest.mark.django_db(transaction=True)
def test_a_request_whose_first_takes_long_is_told_to_come_again(
    researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "PATIENCE_SECONDS", 0.0)
    with transaction.atomic():
        assert post(researcher, DATASETS, SAME).status_code == 201  # and hasn't been committed yet
        refused = in_another_transaction(lambda: post(researcher, DATASETS, SAME))
    assert (refused.status_code, refused.json()) == (
        409,
        {"detail": "The first request with this Idempotency-Key is still being answered. Send it again in a moment."},
    )
    assert refused.headers["Retry-After"] == "1"
    assert in_another_transaction(lambda: post(researcher, DATASETS, SAME)).headers["Idempotency-Replayed"] == "true"

"""Pagination cursors that are damaged, or come from another list."""

from base64 import b64encode
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role
from apps.common import pages
from apps.common.pages import page_of
from apps.datasets.models import Dataset
from apps.trajectories.models import Trajectory
from tests import factories

pytestmark = pytest.mark.django_db


def cursor_at(position: str) -> str:
    return b64encode(urlencode({"p": position}).encode()).decode()


AN_ID = "01a1f2d4-7a0e-7000-8000-000000000000"


@pytest.mark.parametrize(
    ("of_ids", "of_numbers", "cursor"),
    [
        (400, 400, "x"),
        (400, 400, cursor_at("\0")),
        (400, 200, cursor_at("7")),
        (400, 200, cursor_at("9" * 400)),
        (200, 400, cursor_at(AN_ID)),
    ],
)
def test_a_cursor_that_no_row_of_the_list_can_have_is_refused(
    client: Client, of_ids: int, of_numbers: int, cursor: str
):
    member = factories.member(Role.REVIEWER)
    queue = factories.queue(of=member.workspace)
    bearer = {"authorization": f"Bearer {factories.token(member)}"}
    lists = (reverse("v1:trajectories"), reverse("v1:queue_disputed", args=[queue.pk]))
    answers = [client.get(address, {"cursor": cursor}, headers=bearer) for address in lists]
    assert [answer.status_code for answer in answers] == [of_ids, of_numbers]
    assert all("cursor" in answer.json()["fields"] for answer in answers if answer.status_code == 400)


def test_a_pages_cursor_of_another_list_is_the_first_page():
    workspace = factories.workspace()
    for number in range(2):
        Dataset.objects.create(workspace=workspace, name=f"d{number}")
    of_names = page_of(Dataset.objects.all(), order=("name",), size=1).next
    assert of_names
    run = factories.trajectory(of=factories.task(of=workspace))
    assert list(page_of(Trajectory.objects.all(), cursor=of_names)) == [run]


def test_a_page_over_rest_ends_where_its_rows_are_large(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    member = factories.member(Role.RESEARCHER)
    for number in range(7):
        Dataset.objects.create(workspace=member.workspace, name=f"{number}" * 100)
    headers = {"Authorization": f"Bearer {factories.token(member)}"}
    monkeypatch.setattr(pages, "AT_ONCE", 2)
    monkeypatch.setattr(pages, "MAX_BYTES", 600)

    def page(address: str) -> tuple[list[str], dict[str, str]]:
        answer = client.get(address, headers=headers).json()
        return [row["name"][0] for row in answer["results"]], answer

    address: str | None = reverse("v1:datasets") + "?page_size=1000"
    keys: list[list[str]] = []
    while address:
        names, answer = page(address)
        keys.append(names)
        address = answer["next"]
    assert [name for names in keys for name in names] == list("6543210")
    assert max(map(len, keys)) < 7
    assert min(map(len, keys)) > 0
    assert page(answer["previous"])[0] == keys[-2]

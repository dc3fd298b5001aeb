"""Every error response of the API is JSON and says what was wrong."""

import pytest
from django.test import Client

from apps.accounts.models import Role
from apps.common.pages import ApiCursorPagination
from apps.datasets import api
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    token = factories.token(factories.member())
    return Client(headers={"authorization": f"Bearer {token}"}, raise_request_exception=False)


def test_json_without_an_end_to_its_depth_is_refused(client: Client) -> None:
    answer = client.post("/api/v1/datasets", b"[" * 100_000, content_type="application/json")
    assert (answer.status_code, answer.json()) == (400, {"detail": "JSON parse error - it is nested too deeply."})


def test_a_fault_of_the_server_is_told_in_json_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(api.DatasetList, "get_queryset")
    answer = client.get("/api/v1/datasets")
    assert (answer.status_code, set(answer.json())) == (500, {"detail"})
    assert "<html" in client.get("/no/such/page").content.decode()


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ("outcome=maybe", "outcome", "expected one of success, failure, none."),
        ("task=%00", "task", "such as NUL"),
        ("outcom=success", "outcom", "There is no such filter; known filters: q, task,"),
        ("page_size=many", "page_size", "“many” isn't a page size; expected a whole number from 1 to 1,000."),
        ("page_size=0", "page_size", "“0” isn't a page size"),
        ("cursor=zzz", "cursor", "It's damaged"),
    ],
)
def test_what_is_wrong_with_a_list_is_told_by_its_field(client: Client, query: str, field: str, words: str) -> None:
    answer = client.get(f"/api/v1/trajectories?{query}")
    assert (answer.status_code, [*answer.json()["fields"]]) == (400, [field])
    assert words in answer.json()["fields"][field][0]


@pytest.mark.parametrize(
    ("address", "known"),
    [
        ("jobs?phas=failed", "known filters: phase, kind."),
        ("traces?trace=1", "known filters: trace_id."),
        ("datasets?name=a", "this list has none."),
        ("runs?page_size=1&stat=done", "this list has none."),
    ],
)
def test_every_list_refuses_filters_that_it_does_not_have(address: str, known: str) -> None:
    token = factories.token(factories.member(Role.OWNER))
    answer = Client(headers={"authorization": f"Bearer {token}"}).get(f"/api/v1/{address}")
    assert answer.status_code == 400
    [[problem]] = answer.json()["fields"].values()
    assert problem == f"There is no such filter; {known}"


def test_a_page_has_as_many_rows_as_are_asked_for_and_no_more_than_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    member = factories.member()
    for _ in range(4):
        factories.trajectory(of=factories.task(of=member.workspace))
    monkeypatch.setattr(ApiCursorPagination, "max_page_size", 3)
    client = Client(headers={"authorization": f"Bearer {factories.token(member)}"})
    rows = [len(client.get(f"/api/v1/trajectories?page_size={size}").json()["results"]) for size in (2, 3, 99_999)]
    assert rows == [2, 3, 3]


def test_who_asks_in_the_wrong_way_is_told_the_right_one(client: Client) -> None:
    answer = client.put("/api/v1/imports", b"x", content_type="application/octet-stream")
    assert (answer.status_code, answer.json()) == (
        405,
        {"detail": "PUT isn't supported at this address; use GET or POST."},
    )
    answer = client.post("/api/v1/datasets", b"x", content_type="text/plain")
    assert answer.status_code == 415
    assert answer.json()["detail"].endswith("Send JSON, with `Content-Type: application/json`.")
    answer = Client().get("/api/v1/datasets")
    assert (answer.status_code, "Authorization: Bearer" in answer.json()["detail"]) == (401, True)

"""The page of traces, and listing them over REST."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Membership, Role
from apps.traces.models import Trace, TracePart
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher(client: Client) -> Membership:
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


def trace(member: Membership, number: int, **fields: object) -> Trace:
    fields = {"name": f"agent {number}", "changed_at": now(), **fields}
    made = Trace.objects.create(workspace=member.workspace, trace_id=f"{number:032x}", **fields)
    run = factories.imported_run(
        [{"context": [], "message": {"role": "assistant", "content": str(number)}}], of=member.workspace
    )
    TracePart.objects.create(trace=made, trajectory=run, span_ids=[], content_hash=b"")
    return made


def test_without_traces_the_page_says_how_to_send_them(client: Client, researcher: Membership) -> None:
    page = client.get(reverse("traces:list")).content.decode()
    assert "No traces yet" in page
    assert "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://testserver/v1/traces" in page


def test_the_page_shows_what_arrived_and_what_became_of_it(client: Client, researcher: Membership) -> None:
    stored = trace(researcher, 1, state="stored")
    trace(researcher, 2, state="refused", problem="The trace's spans form a cycle.")
    trace(factories.member(), 3)
    page = client.get(reverse("traces:list")).content.decode()
    assert "agent 1" in page
    assert reverse("trajectories:detail", args=[stored.parts.get().trajectory_id]) in page
    assert "form a cycle" in page
    assert "agent 3" not in page


def test_the_page_asks_the_database_as_often_for_three_traces_as_for_one(
    client: Client, researcher: Membership
) -> None:
    counts = []
    for numbers in ([1], [2, 3]):
        for number in numbers:
            trace(researcher, number)
        with CaptureQueriesContext(connection) as captured:
            client.get(reverse("traces:list"))
        counts.append(len(captured))
    assert counts[0] == counts[1]


def test_over_rest_each_trace_names_its_trajectories(client: Client, researcher: Membership) -> None:
    stored = trace(researcher, 1, state="stored", model_calls=2)
    trace(researcher, 2)
    other = trace(factories.member(), 3)
    listed = client.get(reverse("v1:traces")).json()["results"]
    assert [entry["name"] for entry in listed] == ["agent 2", "agent 1"]
    [row] = client.get(reverse("v1:traces"), {"trace_id": stored.trace_id.upper()}).json()["results"]
    assert row == client.get(reverse("v1:trace", args=[stored.pk])).json()
    assert row["trajectories"] == [str(stored.parts.get().trajectory_id)]
    assert (row["state"], row["model_calls"]) == ("stored", 2)
    assert client.get(reverse("v1:traces"), {"trace_id": other.trace_id}).json()["results"] == []
    assert client.get(reverse("v1:trace", args=[other.pk])).status_code == 404


def test_rest_asks_the_database_as_often_for_three_traces_as_for_one(client: Client, researcher: Membership) -> None:
    counts = []
    for numbers in ([1], [2, 3]):
        for number in numbers:
            trace(researcher, number)
        with CaptureQueriesContext(connection) as captured:
            client.get(reverse("v1:traces"))
        counts.append(len(captured))
    assert counts[0] == counts[1]

"""The list of sessions, and the page of a session in progress."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.gateway import sessions
from tests import factories

pytestmark = pytest.mark.django_db
LOOK = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "shelf"}'}}
SAID = [{"role": "assistant", "content": None, "tool_calls": [LOOK]}, {"role": "assistant", "content": "There."}]


@pytest.fixture
def researcher(client: Client) -> Membership:
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


def test_without_sessions_the_list_says_how_to_connect_an_agent(client: Client, researcher: Membership) -> None:
    page = client.get(reverse("gateway:list")).content.decode()
    assert "No sessions yet" in page
    assert "curl http://testserver/api/v1/sessions" in page


def test_the_newest_sessions_come_by_themselves(client: Client, researcher: Membership) -> None:
    page = client.get(reverse("gateway:list")).content.decode()
    assert 'hx-get="/sessions/"' in page


def test_the_list_asks_the_database_as_often_for_three_sessions_as_for_one(
    client: Client, researcher: Membership
) -> None:
    counts = []
    for _ in range(2):
        factories.session(of=researcher.workspace, messages=SAID)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            client.get(reverse("gateway:list"))
        counts.append(len(queries))
        factories.session(of=researcher.workspace)
    assert counts[0] == counts[1]


def test_an_open_session_shows_its_steps_so_far(client: Client, researcher: Membership) -> None:
    session = factories.session(of=researcher.workspace, messages=SAID)
    page = client.get(reverse("gateway:session", args=[session.pk])).content.decode()
    assert "2 calls so far" in page
    assert page.count('class="step"') == 2
    later = client.get(reverse("gateway:session_steps", args=[session.pk]), {"from": "1"}).content.decode()
    assert later.count('class="step"') == 1


def test_an_ended_session_leads_to_its_replay(client: Client, researcher: Membership) -> None:
    session = factories.session(of=researcher.workspace, messages=SAID)
    sessions.finish_session(session=session, success=True)
    page = client.get(reverse("gateway:session", args=[session.pk])).content.decode()
    assert reverse("trajectories:detail", args=[session.paths.get().trajectory_id]) in page


def test_the_page_links_to_the_other_chats_of_a_session_but_not_to_hundreds(
    client: Client, researcher: Membership
) -> None:
    session = factories.session(of=researcher.workspace, messages=SAID)
    root = session.calls.earliest("id")
    for number in range(2, 25):
        factories.call(of=session, message=SAID[1], parent=root if number == 2 else None, number=number)
    sessions.finish_session(session=session)
    page = " ".join(client.get(reverse("gateway:session", args=[session.pk])).content.decode().split())
    assert page.count("branch of 2 steps") == 1
    assert page.count("another chat of 1 step<") == 19
    assert "3 more" in page

"""Sessions over REST, as researchers, lower roles and outsiders."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Membership, Role
from apps.gateway import sessions
from apps.gateway.models import Session, SessionEvent
from apps.gateway.queries import session_for_list, sessions_for_list
from apps.policies import registration
from apps.policies.models import Policy
from tests import factories

pytestmark = pytest.mark.django_db
SAID = [{"role": "assistant", "content": "On the shelf."}]


@pytest.fixture
def researcher(client: Client) -> Membership:
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


@pytest.fixture
def clerk(researcher: Membership) -> Policy:
    return registration.register_served(
        workspace=researcher.workspace,
        name="clerk",
        base_url="http://127.0.0.1:9/v1",
        model="served",
        by=researcher.user,
    )


def post(client: Client, name: str, session: Session | None = None, **body: Any) -> Any:
    address = reverse(f"v1:{name}", args=[session.pk] if session else [])
    return client.post(address, body, content_type="application/json")


def test_opening_answers_what_an_agents_library_needs(client: Client, clerk: Policy) -> None:
    answer = post(client, "sessions", policy="clerk", task={"instruction": "Find the lamp."}, group="g", attempt=2)
    assert answer.status_code == 201, answer.json()
    reply = answer.json()
    assert reply["base_url"] == "http://testserver/gateway/v1"
    session = Session.objects.get(key_digest=sessions.digest_of(reply["api_key"]))
    assert (str(session.pk), session.policy, session.served_name) == (reply["id"], clerk, "served")
    assert (session.task["instruction"], session.group, session.attempt) == ("Find the lamp.", "g", 2)
    assert "api_key" not in client.get(reply["url"]).json()


def test_a_session_is_the_same_as_in_the_list(researcher: Membership, clerk: Policy) -> None:
    opened = [sessions.open_session(workspace=clerk.workspace, policy=clerk, by=researcher.user) for _ in range(2)]
    factories.call(of=opened[0].session, message=SAID[0])
    for session in (new.session for new in opened):
        listed = vars(sessions_for_list(researcher).get(pk=session.pk))
        found = vars(session_for_list(researcher, session.pk))
        assert {name: found[name] for name in listed if name != "_state"} == {
            name: value for name, value in listed.items() if name != "_state"
        }
    for other in (factories.member(Role.OWNER), factories.member(Role.ANNOTATOR, of=clerk.workspace)):
        assert session_for_list(other, session.pk) is None


def test_an_installation_says_where_its_gateway_is(client: Client, clerk: Policy, settings: Any) -> None:
    settings.GATEWAY_URL = "https://gateway.example.org/v1"
    assert post(client, "sessions", policy=str(clerk.pk)).json()["base_url"] == "https://gateway.example.org/v1"


def test_a_known_task_is_named_by_its_id(client: Client, clerk: Policy) -> None:
    task = factories.task(of=clerk.workspace, key="lamp", environment="shop")
    post(client, "sessions", policy="clerk", task=str(task.pk))
    session = Session.objects.get()
    sessions.finish_session(session=session)
    assert (session.task["key"], session.task["environment"]) == ("lamp", "shop")


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"policy": "nobody"}, "policy"),
        ({"task": {}}, "task"),
        ({"task": {"key": "a", "color": "red"}}, "task"),
        ({"task": "no-id"}, "task"),
        ({"task": 3}, "task"),
        ({"attempt": -1}, "attempt"),
        ({"max_calls": 0}, "max_calls"),
        ({"idle_seconds": 1}, "idle_seconds"),
        ({"metadata": {"a": "x" * 20_001}}, "metadata"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_named_by_field(client: Client, clerk: Policy, wrong: dict[str, Any], field: str) -> None:
    answer = post(client, "sessions", **{"policy": "clerk", **wrong})
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == [field]
    assert not Session.objects.exists()


def test_a_task_may_be_null_like_what_else_is_left_out(client: Client, clerk: Policy) -> None:
    assert post(client, "sessions", policy="clerk", task=None, max_calls=None).status_code == 201


def test_a_policy_without_a_server_says_what_to_do(client: Client, researcher: Membership) -> None:
    factories.policy(of=researcher.workspace, name="script")
    answer = post(client, "sessions", policy="script")
    assert answer.json()["fields"]["policy"] == [
        "script isn't served anywhere. Publish it on a server first, or name a policy that is a served model."
    ]


def test_another_workspaces_policy_and_task_are_not_there(client: Client, clerk: Policy) -> None:
    theirs = factories.task()
    assert list(post(client, "sessions", policy="clerk", task=str(theirs.pk)).json()["fields"]) == ["task"]
    other = factories.session().policy
    assert list(post(client, "sessions", policy=str(other.pk)).json()["fields"]) == ["policy"]


def test_a_reward_told_twice_is_one_and_adds_up_at_the_end(client: Client, researcher: Membership) -> None:
    session = factories.session(of=researcher.workspace, messages=SAID)
    for _ in range(2):
        assert post(client, "session_events", session, key="1", type="reward", value=0.5).status_code == 201
    assert post(client, "session_events", session, key="2", type="reward", value=0.25).status_code == 201
    assert SessionEvent.objects.count() == 2
    assert post(client, "session_finish", session, success=True).json()["reward"] == 0.75


def test_rewards_of_a_call_are_its_steps(client: Client, researcher: Membership) -> None:
    session = factories.session(of=researcher.workspace, messages=SAID)
    call = session.calls.get()
    for key, value in (("1", 1), ("2", 0.5)):
        event = {"key": key, "type": "reward", "value": value, "call": str(call.pk)}
        assert post(client, "session_events", session, **event).status_code == 201
    post(client, "session_finish", session)
    trajectory = session.paths.get().trajectory
    assert (trajectory.steps.get().reward, trajectory.reward) == (1.5, None)


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"value": "much"}, "value"),
        ({"value": True}, "value"),
        ({"type": "prize"}, "type"),
        ({"call": "00000000-0000-0000-0000-000000000000"}, "call"),
        ({"key": "taken"}, "key"),
    ],
)
def test_an_event_that_cannot_be_is_refused(
    client: Client, researcher: Membership, event: dict[str, Any], field: str
) -> None:
    session = factories.session(of=researcher.workspace)
    sessions.record_event(session=session, key="taken", type="reward", value=9.0)
    answer = post(client, "session_events", session, **{"key": "k", "type": "reward", "value": 1.0, **event})
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == [field]


def test_finishing_twice_is_finishing_once_and_another_outcome_is_refused(
    client: Client, researcher: Membership
) -> None:
    session = factories.session(of=researcher.workspace, messages=SAID)
    first = post(client, "session_finish", session, success=True, reward=1, rewards={"style": 0.5})
    again = post(client, "session_finish", session, success=True, reward=1, rewards={"style": 0.5})
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["trajectory"] == again.json()["trajectory"] is not None
    assert session.paths.count() == 1
    assert post(client, "session_finish", session, success=False).status_code == 409
    assert post(client, "session_events", session, key="late", type="reward", value=1).status_code == 409


def test_infinite_rewards_are_refused(client: Client, researcher: Membership) -> None:
    session = factories.session(of=researcher.workspace)
    assert post(client, "session_finish", session, rewards={"style": "much"}).status_code == 400
    assert Session.objects.get().is_open


def test_rewards_whose_sum_no_number_holds_are_refused_when_they_are_told(
    client: Client, researcher: Membership
) -> None:
    session = factories.session(of=researcher.workspace)
    replies = [post(client, "session_events", session, key=key, type="reward", value=1.7e308) for key in "ab"]
    assert [answer.status_code for answer in replies] == [400, 400]
    assert post(client, "session_finish", session, reward=-1.7e308).status_code == 400
    assert post(client, "session_finish", session).status_code == 200


def test_a_session_that_never_finishes_is_abandoned_without_a_reward(researcher: Membership) -> None:
    session = factories.session(of=researcher.workspace, messages=SAID)
    sessions.abandon_idle()
    assert Session.objects.get().is_open
    Session.objects.update(expires_at=now() - timedelta(seconds=1))
    sessions.abandon_idle()
    sessions.abandon_idle()
    ended = Session.objects.get()
    assert (ended.state, ended.reward, ended.success) == ("abandoned", None, None)
    trajectory = session.paths.get().trajectory
    assert (trajectory.termination, trajectory.reward, trajectory.success) == ("abandoned", None, None)


def test_idle_sessions_of_a_workspace_leave_the_chores_time_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "TURN_SECONDS", 0.0)
    crowded, other = factories.workspace(), factories.workspace()
    for workspace in (crowded, crowded, crowded, other):
        factories.session(of=workspace)
    Session.objects.update(expires_at=now() - timedelta(seconds=1))
    for left in (2, 1, 0):
        sessions.abandon_idle()
        assert Session.objects.open().filter(workspace=crowded).count() == left
        assert not Session.objects.open().filter(workspace=other).exists()


def test_a_trace_is_what_has_happened_so_far(client: Client, researcher: Membership) -> None:
    session = factories.session(of=researcher.workspace, messages=SAID)
    sessions.record_event(session=session, key="1", type="custom", name="note", value={"a": 1})
    trace = client.get(reverse("v1:session_trace", args=[session.pk])).json()
    assert [step["message"]["content"] for step in trace["trajectory"]["steps"]] == ["On the shelf."]
    assert trace["counts"] == {
        "answered": 1, "failed": 0, "retried": 0, "seams": 0, "bridged": 0, "untrainable": 1,
            "redacted": 0, "tokens": 0,
    }  # fmt: skip
    assert [event["value"] for event in trace["events"]] == [{"a": 1}]


def test_a_session_without_calls_can_finish_and_is_no_trajectory(client: Client, researcher: Membership) -> None:
    session = factories.session(of=researcher.workspace)
    assert post(client, "session_finish", session, success=True).json()["trajectory"] is None


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER])
def test_lower_roles_and_outsiders_find_nothing(client: Client, role: Role) -> None:
    session = factories.session()
    for member in (factories.member(role, of=session.workspace), factories.member(Role.OWNER)):
        client.force_login(member.user)
        for name in ("session_events", "session_finish"):
            assert post(client, name, session, key="k", type="reward", value=1).status_code == 404
        for name in ("session", "session_trace"):
            assert client.get(reverse(f"v1:{name}", args=[session.pk])).status_code == 404
        assert client.get(reverse("gateway:session", args=[session.pk])).status_code == 404
    assert Session.objects.get().is_open

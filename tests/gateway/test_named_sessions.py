"""Calls with an API token, grouped into sessions by the headers that the agent sends."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from django.db import OperationalError

from apps.accounts.models import ApiToken, Membership, Role
from apps.gateway import named_sessions, sessions
from apps.gateway.models import Call, Session
from tests import factories
from tests.gateway.upstream import Upstream

ASK = {"role": "user", "content": "Where is the lamp?"}
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def http(
    gateway_url: str, researcher: Membership, open_session: Callable[..., sessions.NewSession]
) -> Iterator[httpx.Client]:
    """A client with a researcher's token; the workspace has the served policy "clerk"."""
    headers = {"Authorization": f"Bearer {factories.token(researcher)}"}
    with httpx.Client(base_url=gateway_url, headers=headers, timeout=30) as client:
        yield client


def ask(http: httpx.Client, *messages: Any, model: Any = "clerk", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps({"model": model, "messages": messages or [ASK]})  # as ASCII, which can encode lone surrogates
    return http.post("chat/completions", content=body, headers=named)


def test_calls_with_one_name_are_one_session(http: httpx.Client) -> None:
    assert ask(http, X_Session_Id="ticket-17").status_code == 200
    message = {"role": "assistant", "content": "Done."}
    assert ask(http, ASK, message, {"role": "user", "content": "Thanks."}, X_Session_Id="ticket-17").status_code == 200
    ask(http, X_Session_Id="ticket-18")
    first, second = Session.objects.order_by("id")
    assert (first.name, first.is_guessed, second.name) == ("ticket-17", False, "ticket-18")
    before, after = Call.objects.filter(session=first).order_by("id")
    assert after.parent_id == before.pk
    assert ApiToken.objects.get().last_used_at is not None


def test_a_trace_is_a_guess_and_marked_as_one(http: httpx.Client) -> None:
    for parent in ("b7ad6b7169203331", "00f067aa0ba902b7"):
        assert ask(http, traceparent=f"00-{TRACE}-{parent}-01").status_code == 200
    session = Session.objects.get()
    assert (session.name, session.is_guessed, session.calls.count()) == (TRACE, True, 2)


def test_a_name_of_the_agents_own_goes_before_its_trace(http: httpx.Client) -> None:
    ask(http, traceparent=f"00-{TRACE}-b7ad6b7169203331-01", X_Session_Id="mine")
    assert (Session.objects.get().name, Session.objects.get().is_guessed) == ("mine", False)


def test_after_its_end_a_name_is_a_new_session(http: httpx.Client) -> None:
    ask(http, X_Session_Id="ticket-17")
    sessions.finish_session(session=Session.objects.get(), success=True)
    assert ask(http, X_Session_Id="ticket-17").status_code == 200
    assert [session.state for session in Session.objects.order_by("id")] == ["finished", "open"]


@pytest.mark.parametrize(
    "headers",
    [{}, {"traceparent": "00-xyz"}, {"traceparent": f"00-{'0' * 32}-{'0' * 16}-00"}, {"X_Session_Id": "x" * 201}],
)
def test_a_call_that_says_nothing_of_its_episode_is_told_how(
    http: httpx.Client, upstream: Upstream, headers: dict[str, str]
) -> None:
    response = ask(http, **headers)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_request")
    assert "X-Session-Id" in response.json()["error"]["message"]
    assert upstream.requests == []


def test_while_the_database_is_away_the_list_of_models_says_so(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(token: str) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(named_sessions, "member_with", fails)
    response = http.get("models")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "recorder_away")
    assert response.headers["retry-after"] == "1"


@pytest.mark.parametrize("model", ["nobody", "", None, 7, "a\0b", "\ud800"])
def test_a_policy_that_isnt_there_is_an_unknown_model(http: httpx.Client, model: Any) -> None:
    response = ask(http, model=model, X_Session_Id="s")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")
    assert not Session.objects.exists()


def test_another_workspaces_policy_is_an_unknown_model(http: httpx.Client) -> None:
    theirs = factories.session().policy
    for named in (theirs.name, str(theirs.pk)):
        assert ask(http, model=named, X_Session_Id="s").status_code == 404
    assert theirs.name not in http.get("models").text
    assert [card["id"] for card in http.get("models").json()["data"]] == ["clerk"]


def test_a_token_that_is_revoked_or_no_researchers_opens_nothing(
    http: httpx.Client, researcher: Membership, gateway_url: str
) -> None:
    reviewer = factories.token(factories.member(Role.REVIEWER, of=researcher.workspace))
    assert ask(http, X_Session_Id="s", Authorization=f"Bearer {reviewer}").status_code == 401
    assert ask(http, X_Session_Id="s").status_code == 200
    ApiToken.objects.all().delete()
    assert ask(http, X_Session_Id="s").status_code == 401
    assert http.get("models").status_code == 401

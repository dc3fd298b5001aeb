"""Text that rules match is stored nowhere, in any form; agent and policy don't notice; calls are joined as usual."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core import serializers
from django.db import OperationalError

from apps.accounts.models import Membership
from apps.gateway import asgi, call_redaction, feedback, recorder, sessions, spool
from apps.gateway.call_redaction import REDACTED, WITHHELD
from apps.gateway.models import Call, Join, Session
from apps.redaction.rules import add_rule
from apps.trajectories.models import Trajectory
from tests.gateway.conftest import Agent
from tests.gateway.upstream import Upstream, calls, says

MAIL, MARK = "ada@example.org", "[redacted: e-mail]"
ASK = {"role": "user", "content": "Where is the lamp?"}
AGAIN = {"x-stainless-retry-count": "1"}


@pytest.fixture(autouse=True)
def rule(researcher: Membership) -> None:
    add_rule(workspace=researcher.workspace, by=researcher.user, detector="email")


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def stored() -> str:
    """Everything that the database has of calls, sessions, and trajectories, with token ids as the text that they encode."""
    calls = list(Call.objects.order_by("id"))
    rows = [*calls, *Session.objects.all(), *Trajectory.objects.all()]
    ids = [bytes(call.prompt_ids or b"")[::4] + bytes(call.sampled_ids or b"")[::4] for call in calls]
    return serializers.serialize("json", rows) + "".join(part.decode("latin-1") for part in ids)


def test_a_call_is_stored_redacted_and_passed_on_as_it_was(agent: Agent, upstream: Upstream) -> None:
    upstream.replies = [calls("send", json.dumps({"to": MAIL, "cc": "ada\\u0040example.org"}))]
    tools = [{"type": "function", "function": {"name": "send", "description": f"As {MAIL}", "parameters": {}}}]
    reply = agent.reply(user(f"Write to {MAIL}."), tools=tools, user=MAIL, metadata={"of": MAIL})
    assert json.loads(reply["tool_calls"][0]["function"]["arguments"])["to"] == MAIL
    assert upstream.requests[0]["messages"] == [user(f"Write to {MAIL}.")]
    assert upstream.requests[0]["metadata"] == {"of": MAIL}
    call = Call.objects.get()
    assert call.messages == [user(f"Write to {MARK}.")]
    assert (call.request["user"], call.request["metadata"]) == (MARK, {"of": MARK})
    assert call.tools[0]["function"]["description"] == f"As {MARK}"
    arguments = json.loads(call.reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
    assert arguments["to"] == MARK
    assert MAIL not in stored()


def test_token_ids_go_with_the_text_that_they_spell(agent: Agent, upstream: Upstream) -> None:
    upstream.replies = [says("Hello."), says(f"It is {MAIL}."), says("You're welcome.")]
    first = agent.reply(ASK)
    second = agent.reply(ASK, first, user("And the address?"), logprobs=True, return_token_ids=True)
    agent.reply(ASK, first, user("And the address?"), second, user("Thanks."))
    clean, redacted, after = Call.objects.order_by("id")
    assert (clean.is_redacted, clean.untrainable, bool(clean.sampled_ids)) == (False, "", True)
    for call, parent in ((redacted, clean), (after, redacted)):
        assert (call.is_redacted, call.untrainable) == (True, REDACTED)
        assert (call.prompt_ids, call.sampled_ids, call.logprobs) == (None, None, None)
        assert (call.parent_id, call.join) == (parent.pk, Join.TOKENS)
        assert not {"token_ids", "logprobs"} & set(call.reply["choices"][0])
        assert "prompt_token_ids" not in call.reply
    assert MAIL not in stored()


def test_a_whole_prompt_is_looked_through_where_its_ids_would_be_stored_whole(agent: Agent, upstream: Upstream) -> None:
    """A system message that changes is stored once, and read by the policy at each turn."""
    first = agent.reply({"role": "system", "content": "It is 12:00."}, ASK)
    agent.reply({"role": "system", "content": f"Answer {MAIL}."}, ASK, first, user("Thanks."))
    clean, call = Call.objects.order_by("id")
    assert (call.parent_id, call.join, call.messages) == (clean.pk, Join.MESSAGES, [user("Thanks.")])
    assert (call.is_redacted, call.prompt_ids) == (True, None)
    assert MAIL not in stored()


def test_a_system_message_after_a_reply_is_redacted_with_its_token_ids(agent: Agent) -> None:
    first, late = agent.reply(ASK), {"role": "system", "content": f"Answer {MAIL}."}
    agent.reply(ASK, first, late, user("Thanks."))
    call = Call.objects.latest("id")
    assert (call.join, call.is_redacted, call.prompt_ids) == (Join.TOKENS, True, None)
    assert MAIL not in stored()


def test_another_process_joins_and_redacts_the_same(agent: Agent, tmp_path: Path, monkeypatch: Any) -> None:
    first = agent.reply(user(f"Write to {MAIL}."))
    monkeypatch.setattr(asgi, "recorder", recorder.Recorder(tmp_path / "spool"))
    agent.reply(user(f"Write to {MAIL}."), first, user("Thanks."))
    before, call = Call.objects.order_by("id")
    assert (call.parent_id, call.join, call.messages) == (before.pk, Join.TOKENS, [user("Thanks.")])
    assert (call.is_redacted, call.untrainable) == (True, REDACTED)


def test_a_digest_cannot_be_checked_against_a_guess_without_the_servers_key(agent: Agent, settings: Any) -> None:
    """The same chat in two sessions has no digest in common in the database."""
    from contract.chat_digests import prefix_digests  # as an attacker would

    agent.reply(user(MAIL))
    call = Call.objects.get()
    guess = prefix_digests([user(MAIL), {"role": "assistant", "content": "Done."}])[-1]
    assert bytes(call.chat_digest) != guess


@pytest.mark.parametrize("stream", [False, True])
def test_a_retry_gets_the_reply_as_it_was_and_later_a_new_one_that_says_so(
    agent: Agent, upstream: Upstream, monkeypatch: Any, stream: bool
) -> None:
    upstream.replies = [says(f"It is {MAIL}."), says("Who?")]
    agent.ask(ASK, stream=stream)
    replayed = agent.ask(ASK, headers=AGAIN, stream=stream)
    assert replayed.headers["x-retrace-replayed"] == "true"
    assert "example" in replayed.text
    assert len(upstream.requests) == 1
    monkeypatch.setattr(recorder, "REPLAY_BYTES", 0)
    again = agent.ask(ASK, headers=AGAIN, stream=stream)
    assert again.headers["x-retrace-sampled-again"] == "true"
    assert len(upstream.requests) == 2
    assert [call.is_retry for call in Call.objects.order_by("id")] == [False, True]


def test_files_of_an_outage_hold_no_more_than_the_database_would(agent: Agent, monkeypatch: Any) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(recorder, "store_in_open_session", away)
    monkeypatch.setattr(spool, "store_spooled", away)
    agent.reply(user(f"Write to {MAIL}."))
    [file] = asgi.recorder.spool.folder.glob("*.json")
    assert MARK in file.read_text()
    assert MAIL not in file.read_text()


def test_where_the_rules_fail_nothing_is_stored_of_a_call(agent: Agent, upstream: Upstream, monkeypatch: Any) -> None:
    def broken(*_: Any) -> bool:
        raise RuntimeError

    monkeypatch.setattr(call_redaction, "_replace", broken)
    assert agent.reply(ASK)["content"] == "Done."
    call = Call.objects.get()
    assert call.messages == [user(WITHHELD)]
    assert call.reply["choices"][0]["message"]["content"] == WITHHELD
    assert (call.untrainable, call.sampled_ids) == (REDACTED, None)


def test_what_is_said_of_a_session_is_redacted_too(open_session: Callable[..., sessions.NewSession]) -> None:
    opened = open_session(task={"key": "mail-1", "instruction": f"Write to {MAIL}."}, metadata={"for": MAIL}).session
    sessions.record_event(session=opened, key="1", type="custom", name="note", value={"to": [MAIL]})
    sessions.record_event(session=opened, key="1", type="custom", name="note", value={"to": [MAIL]})
    feedback.record_feedback(session=opened, comment=f"I'm {MAIL}", edited=MAIL)
    done = sessions.finish_session(session=opened, metadata={"by": MAIL}, rewards={f"by {MAIL}": 1.0})
    sessions.finish_session(session=opened, rewards={f"by {MAIL}": 1.0})  # sent twice
    assert (done.task["key"], done.task["instruction"]) == ("mail-1", f"Write to {MARK}.")
    assert done.metadata == {"for": MARK, "by": MARK}
    assert done.rewards == {f"by {MARK}": 1.0}
    assert done.events.get().value == {"to": [MARK]}
    stored_feedback = done.feedback.get()
    assert (stored_feedback.comment, stored_feedback.edited) == (f"I'm {MARK}", MARK)


def test_a_rule_holds_from_the_next_call_of_an_open_session_on(agent: Agent, researcher: Membership) -> None:
    first = agent.reply(user("Ticket T-17"))
    add_rule(workspace=researcher.workspace, by=researcher.user, name="ticket", pattern=r"T-\d+")
    agent.reply(user("Ticket T-17"), first, user("Not T-18"))
    before, call = Call.objects.order_by("id")
    assert (before.messages, call.messages) == ([user("Ticket T-17")], [user("Not [redacted: ticket]")])
    assert call.parent_id == before.pk


CARD_LIKE = 0.4111111111111111
"""A number whose digits are those of a payment card."""


def test_rewards_and_log_probabilities_are_numbers_whatever_their_digits(
    agent: Agent, upstream: Upstream, researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_rule(workspace=researcher.workspace, by=researcher.user, detector="card")
    monkeypatch.setattr("tests.gateway.upstream.LOGPROB", -CARD_LIKE)
    agent.reply(ASK, logprobs=True)
    call = Call.objects.get()
    assert (call.is_redacted, call.untrainable) == (False, "")
    session = Session.objects.get()
    sessions.record_event(session=session, key="1", type="reward", name=f"of {MAIL}", value=CARD_LIKE)
    sessions.record_event(session=session, key="2", type="reward", value=0.5, call_id=call.pk)
    sessions.record_event(session=session, key="3", type="custom", value=CARD_LIKE)
    assert list(session.events.values_list("name", "value").order_by("key")) == [
        (f"of {MARK}", CARD_LIKE),
        ("", 0.5),
        ("", "0.[redacted: card]"),
    ]
    assert sessions.finish_session(session=session).reward == CARD_LIKE

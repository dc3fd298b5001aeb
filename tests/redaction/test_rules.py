"""A workspace's rules: who may change them, how many there may be, and what is recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership, Role
from apps.redaction import rules
from apps.redaction.models import RedactionRule
from apps.redaction.rules import RuleRefused, add_rule, redacted, remove_rule
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner() -> Membership:
    return factories.member(Role.OWNER)


def test_rules_hold_from_the_next_value_on_and_no_longer_than_they_are_there(owner: Membership) -> None:
    here, text = owner.workspace, "ada@example.org T-17"
    assert redacted(here.pk, text) == text
    add_rule(workspace=here, by=owner.user, detector="email")
    rule = add_rule(workspace=here, by=owner.user, name="ticket", pattern=r"T-\d+")
    assert redacted(here.pk, text) == "[redacted: e-mail] [redacted: ticket]"
    assert redacted(factories.member(Role.OWNER).workspace.pk, text) == text
    remove_rule(rule=rule, by=owner.user)
    assert redacted(here.pk, text) == "[redacted: e-mail] T-17"
    entries = AuditEntry.objects.filter(workspace=here).order_by("pk")
    assert [(entry.actor, entry.action, entry.subject) for entry in entries] == [
        (owner.user, "added redaction rule", "e-mail"),
        (owner.user, "added redaction rule", "ticket"),
        (owner.user, "removed redaction rule", "ticket"),
    ]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "pattern"),
        ({"detector": "email", "pattern": "a"}, "pattern"),
        ({"detector": "mood"}, "detector"),
        ({"pattern": "a"}, "name"),
        ({"name": "a]b", "pattern": "a"}, "name"),
        ({"name": "e-mail", "pattern": "a"}, "name"),
        ({"name": "ticket", "pattern": "(a"}, "pattern"),
        ({"name": "known", "pattern": "b"}, "name"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_field(owner: Membership, fields: dict[str, str], field: str) -> None:
    add_rule(workspace=owner.workspace, by=owner.user, name="known", pattern="a")
    with pytest.raises(RuleRefused) as refusal:
        add_rule(workspace=owner.workspace, by=owner.user, **fields)
    assert refusal.value.field == field
    assert RedactionRule.objects.count() == 1


def test_a_workspace_has_so_many_rules_and_no_more(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_RULES", 1)
    add_rule(workspace=owner.workspace, by=owner.user, name="a", pattern="a")
    with pytest.raises(RuleRefused, match="1 rules at most"):
        add_rule(workspace=owner.workspace, by=owner.user, name="b", pattern="b")


def test_a_rule_that_can_no_longer_be_read_lets_nothing_through(owner: Membership) -> None:
    rule = add_rule(workspace=owner.workspace, by=owner.user, name="ticket", pattern="T")
    RedactionRule.objects.filter(pk=rule.pk).update(pattern="(broken")
    assert redacted(owner.workspace.pk, "hello") == "[redacted: ticket]"


def test_the_page_adds_tests_and_removes(owner: Membership) -> None:
    client, page = as_(owner), reverse("redaction:list")
    client.post(reverse("redaction:new"), {"detector": "email"})
    refused = client.post(reverse("redaction:new"), {"name": "ticket", "pattern": "(T"})
    assert (refused.status_code, "RE2 can't" in refused.text or "RE2 can&#x27;t" in refused.text) == (422, True)
    client.post(reverse("redaction:new"), {"name": "ticket", "pattern": "T-[0-9]+"})
    assert [rule.name for rule in RedactionRule.objects.order_by("pk")] == ["e-mail", "ticket"]
    sample = {"test-sample": "<b>T-1</b> ada@example.org"}
    shown = client.post(reverse("redaction:test"), sample).text
    assert "&lt;b&gt;[redacted: ticket]&lt;/b&gt; [redacted: e-mail]" in shown
    alone = client.post(reverse("redaction:test"), {**sample, "test-pattern": "ada"}).text
    assert "[redacted: match]@example.org" in alone
    for rule in RedactionRule.objects.all():
        client.post(reverse("redaction:remove", args=[rule.pk]))
    assert "No redaction rules" in client.get(page).text


def test_rules_over_rest_are_an_owners(owner: Membership) -> None:
    def send(path: str, body: dict[str, Any] | None = None, who: Membership = owner) -> Any:
        headers = {"authorization": f"Bearer {factories.token(who)}"}
        return Client().post(path, json.dumps(body or {}), content_type="application/json", headers=headers)

    path = reverse("v1:redaction_rules")
    made = send(path, {"detector": "email"})
    assert (made.status_code, made.json()["name"]) == (201, "e-mail")
    assert list(send(path, {"detector": "email"}).json()["fields"]) == ["detector"]
    tried = send(reverse("v1:redaction_test"), {"sample": "To ada@example.org"}).json()
    assert tried == {"text": "To [redacted: e-mail]", "found": {"e-mail": 1}}
    assert send(path, {"detector": "card"}, factories.member(Role.RESEARCHER, of=owner.workspace)).status_code in (
        403,
        404,
    )
    assert send(reverse("v1:redaction_rule_remove", args=[made.json()["id"]])).status_code == 200
    assert not RedactionRule.objects.exists()

"""A workspace's rules: adding, removing, and a cache of compiled rules in each process."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from apps.accounts import audit
from apps.accounts.models import User, Workspace
from apps.redaction.detectors import DETECTORS, whole
from apps.redaction.models import RedactionRule, RuleVersion
from apps.redaction.patterns import EVERYTHING, MAX_STEPS, Pattern, PatternRefused, checked
from apps.redaction.redaction import Redaction, Rule

MAX_RULES = 50
MAX_SAMPLE_LENGTH = 20_000
SAMPLE_CPU_SECONDS = 1.0
NAME = re.compile(r"[\w][\w .-]*")
_ready: dict[UUID, tuple[int, tuple[Rule, ...]]] = {}
"""Compiled rules by workspace, with their version."""


class RuleRefused(ValueError):
    """The rule can't be added: what was given, what to do. `field` is what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@transaction.atomic
def add_rule(
    *, workspace: Workspace, by: User | None, name: str = "", detector: str = "", pattern: str = ""
) -> RedactionRule:
    """Replace what a detector finds, or what a named pattern matches, from now on. Raises RuleRefused."""
    if bool(detector) == bool(pattern):
        raise RuleRefused("pattern", "Give a detector, or a pattern with a name.")
    if detector:
        if detector not in DETECTORS:
            raise RuleRefused("detector", f"There is no detector {detector!r}. There are {', '.join(DETECTORS)}.")
        name = DETECTORS[detector].name
    else:
        refuse_pattern(name, pattern)
    number = next_version(workspace)
    rules = RedactionRule.objects.filter(workspace=workspace)
    if rules.filter(name=name).exists():
        raise RuleRefused("detector" if detector else "name", f"There is a rule {name!r} already.")
    if rules.count() >= MAX_RULES:
        raise RuleRefused("pattern", f"A workspace has {MAX_RULES} rules at most. Join patterns with |.")
    rule = RedactionRule.objects.create(
        workspace=workspace, name=name, detector=detector, pattern=pattern, created_by=by
    )
    _record("added redaction rule", rule, by, number)
    return rule


@transaction.atomic
def remove_rule(*, rule: RedactionRule, by: User) -> None:
    """Stop replacing what the rule matches. Earlier replacements can't be undone, since the text wasn't stored."""
    number = next_version(rule.workspace)
    if RedactionRule.objects.filter(pk=rule.pk).delete()[0]:
        _record("removed redaction rule", rule, by, number)


def rules_of(workspace_id: UUID, version: int | None = None) -> tuple[Rule, ...]:
    """The compiled rules. version: the current one, if the caller knows it."""
    if version is None:
        version = RuleVersion.objects.filter(pk=workspace_id).values_list("number", flat=True).first()
    if not version:
        return ()
    cached_version, rules = _ready.get(workspace_id, (0, ()))
    if cached_version != version:
        rows = RedactionRule.objects.filter(workspace=workspace_id).order_by("pk")
        rules = tuple(_rule(row.name, row.detector, row.pattern) for row in rows)
        _ready[workspace_id] = version, rules
    return rules


def redacted(workspace_id: UUID, value: Any) -> Any:
    """A JSON value, redacted for storage."""
    rules = rules_of(workspace_id)
    return Redaction(rules).value(value) if rules else value


def preview(*, workspace: Workspace, sample: str, pattern: str = "") -> tuple[str, Redaction]:
    """Apply the rules, or only `pattern`, to a sample. Nothing is stored. Raises RuleRefused."""
    if len(sample) > MAX_SAMPLE_LENGTH:
        raise RuleRefused(
            "sample", f"The sample has {len(sample):,} characters; at most {MAX_SAMPLE_LENGTH:,} are allowed."
        )
    rules: Sequence[Rule] = rules_of(workspace.pk)
    if pattern:
        refuse_pattern("match", pattern)
        rules = [_rule("match", "", pattern)]
    run = Redaction(rules, cpu_seconds=SAMPLE_CPU_SECONDS)
    return run.text(sample), run


def refuse_pattern(name: str, pattern: str) -> None:
    """Refuse what can't be a rule. Raises RuleRefused."""
    if not name:
        raise RuleRefused("name", "Give the rule a name, which markers show.")
    if len(name) > 40 or not NAME.fullmatch(name):
        raise RuleRefused("name", "A name has 40 characters at most: letters, digits, spaces, hyphens, and dots.")
    if name in {detector.name for detector in DETECTORS.values()}:
        raise RuleRefused("name", f"{name!r} is the name of a detector.")
    try:
        checked(pattern)
    except PatternRefused as refusal:
        raise RuleRefused("pattern", str(refusal)) from None


def _rule(name: str, detector: str, pattern: str) -> Rule:
    """Compile a rule. One that is no longer valid replaces everything, so that nothing it might have matched is stored."""
    try:
        if detector:
            return Rule(name, Pattern(DETECTORS[detector].pattern), DETECTORS[detector].check)
        return Rule(name, Pattern(pattern, most_steps=MAX_STEPS), whole)
    except (PatternRefused, KeyError):
        return Rule(name, Pattern(EVERYTHING), whole)


def next_version(workspace: Workspace) -> int:
    """Increment before reading the rules: of two concurrent changes, the second waits for the first."""
    RuleVersion.objects.get_or_create(workspace=workspace)
    RuleVersion.objects.filter(pk=workspace.pk).update(number=F("number") + 1)
    return RuleVersion.objects.values_list("number", flat=True).get(pk=workspace.pk)


def _record(action: str, rule: RedactionRule, by: User | None, number: int) -> None:
    audit.record(
        workspace=rule.workspace,
        actor=by,
        action=action,
        subject=rule.name,
        target=rule,
        detector=rule.detector,
        pattern=rule.pattern,
        version=number,
    )

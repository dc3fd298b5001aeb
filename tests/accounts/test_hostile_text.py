"""Every page for every role, with markup in all user-writable text: none of it becomes an element.

Text fields come from the models and pages from the URL conf, so new ones are covered. The test fails for a text field that no row here has, or that
only the product writes, until SPARED says why.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from django.apps import apps
from django.db import DatabaseError, models, transaction
from django.test import Client

from apps.accounts.models import Membership, Role, Workspace
from apps.annotation.kinds.questions import PairwiseAsks, Question, RatingAsks, comparison
from apps.annotation.models import Queue
from tests.accounts.test_access import OWN, SEEN_FROM
from tests.addresses import ASKED, PUBLIC, Address
from tests.annotation import builders
from tests.copies import make_one

pytestmark = pytest.mark.django_db

SHORT = "\"'><i data-injected>"
PAYLOAD = (
    f"{SHORT}<i data-injected hx-post=/x hx-trigger=load></i></script></template></textarea></title><svg data-injected "
    "onload=x()></svg> [a](javascript:x) ![b](javascript:x) <javascript:x> [c](https://example.org '\"><i data-injected>') "
    "\x1b[31m<i data-injected>\x1b]8;;javascript:x\x07y\x1b]8;;\x07 `<i data-injected>` &lt;i data-injected&gt;"
)
STRUCTURE = {"role", "type", "kind", "id", "tool_call_id"}
"""JSON keys whose values determine how the rest is displayed."""

OURS = "written by the product: a state, a digest, a path or a number, which no form and no import sets"
SPARED = {
    **dict.fromkeys(
        (
            *(
                "User.password",
                "User.email",
                "User.preferences",
                "Workspace.slug",
                "Invitation.digest",
                "ApiToken.digest",
            ),
            *("Invitation.email", "ImportBatch.sha256", "ImportBatch.format", "Continuation.action_hash"),
            *("Version.content_hash", "Version.row_type", "Version.row_counts", "Version.files", "Version.recipe"),
            *("RolloutBatch.config", "Queue.selection", "Item.known", "Run.config", "Run.preset", "Run.report"),
            *(
                "QualityReport.figures",
                "QualityReport.basis",
                "Experiment.plan",
                "Experiment.alike",
                "Experiment.verdict",
                "Removal.removed",
            ),
            *("Policy.report", "Metric.values", "RunEvent.kind", "Publication.canary", "Promotion.evidence"),
            "Version.card",
            *("Export.file", "Export.sha256", "Export.counts", "Import.file", "Import.sha256", "Import.counts"),
            *("Session.training_address", "EpisodeBatch.address", "Span.span_id"),
            *(
                "Destination.salt",
                "Destination.earlier_salt",
                "Delivery.page",
                "FeedbackKey.digest",
                "RedactionRule.detector",
            ),
        ),
        OURS,
    ),
    "Queue.asks": "filled by queues_of, for only names and scales of its own shape are read",
    **dict.fromkeys(
        ("Version.failure", "Version.loss", "Version.worker"),
        "of versions not yet frozen, which have no pages of contents",
    ),
    "SavedView.query": "a query string, checked when it is saved",
}


OF_ONE_QUEUE = {
    f"annotation:{name}" for name in ("queue", "settings", "items", "quality", "guidelines", "judges", "desk")
}


AS_HTML = ({"accept": "text/html"}, {"HX-Request": "true"})
AS_JSON: tuple[dict[str, str]] = ({},)


class Injected(HTMLParser):
    """Elements and attributes of a page that can only come from data."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            runs = (value or "").strip().lower().startswith(("javascript:", "vbscript:"))
            if name == "data-injected" or name.startswith("on") or (runs and name != "value"):
                self.found.append(self.get_starttag_text() or tag)


def texts_of(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    kinds = (models.CharField, models.TextField, models.JSONField)
    return [field for field in model._meta.concrete_fields if isinstance(field, kinds) and not field.choices]


def hostile(value: Any) -> Any:
    """JSON of the same shape, with the payload for every text."""
    if isinstance(value, dict):
        shown = {key: inner if key in STRUCTURE else hostile(inner) for key, inner in value.items()}
        return {**shown, SHORT: PAYLOAD}
    if isinstance(value, list):
        return [hostile(inner) for inner in value]
    return PAYLOAD if isinstance(value, str) else value


def fill() -> set[str]:
    """Put the payload into every text field of every row; returns the fields where that was possible."""
    filled = set()
    for model in apps.get_models():
        if not model.__module__.startswith("apps."):
            continue
        make_one(model)
        for field in texts_of(model):
            name = f"{model.__name__}.{field.name}"
            if name in SPARED:
                continue
            for row in model._default_manager.all():
                value = getattr(row, field.name)
                text = PAYLOAD[: field.max_length] if field.max_length else PAYLOAD
                if field.name == "failure":
                    text = dict.fromkeys(("message", "advice", "details"), PAYLOAD)
                elif not field.max_length and isinstance(field, models.JSONField):
                    text = hostile(value)
                try:
                    with transaction.atomic():
                        model._default_manager.filter(pk=row.pk).update(**{field.name: text})
                    filled.add(name)
                except DatabaseError:
                    continue
    return filled


def queues_of(workspace: Workspace) -> list[Queue]:
    """Queues with hostile aspects and questions, which become labels and help texts of forms."""
    question = Question(SHORT, PAYLOAD, low=PAYLOAD[:60], high=PAYLOAD[:60])
    return [
        builders.queue(of=workspace, asks=PairwiseAsks((comparison(SHORT, PAYLOAD[:60]),))),
        builders.queue_of_trajectories(Queue.Kind.RATING, of=workspace, asks=RatingAsks((question,))),
    ]


def test_no_text_becomes_an_element_of_any_page(
    owner: Membership, labeler: Membership, addresses: list[Address]
) -> None:
    (shown,) = Queue.objects.filter(workspace=owner.workspace, kind=Queue.Kind.STEPS)
    for queue in queues_of(owner.workspace):
        also = [address for address in addresses if str(shown.pk) in address.path and address.name in OF_ONE_QUEUE]
        addresses = [
            *addresses,
            *(
                queue_address._replace(path=queue_address.path.replace(str(shown.pk), str(queue.pk)))
                for queue_address in also
            ),
        ]
    filled = fill()
    every = {
        f"{model.__name__}.{field.name}"
        for model in apps.get_models()
        if model.__module__.startswith("apps.")
        for field in texts_of(model)
    }
    assert every - filled == set(SPARED), "fill these fields here, or say in SPARED why not"
    injected: dict[str, list[str]] = {}
    sniffable, shown_in, failed = set(), set(), {}
    for member in (owner, labeler):
        client = Client(raise_request_exception=False)
        client.force_login(member.user)
        for address in addresses:
            if address.name in PUBLIC or (member == labeler and address.name not in OWN | SEEN_FROM[Role.ANNOTATOR]):
                continue
            for headers in AS_JSON if address.path.startswith("/api/") else AS_HTML:
                answer = client.get(address.path, ASKED.get(address.name), headers=headers)
                if answer.status_code > 499:
                    failed[address.name] = answer.status_code
                if answer.get("X-Content-Type-Options") != "nosniff":
                    sniffable.add(address.name)
                if answer.streaming or not answer.get("Content-Type", "").startswith("text/html"):
                    continue
                html = answer.content.decode()
                if "data-injected" in html:
                    shown_in.add(address.name)
                if found := Injected(html).found:
                    injected[address.name] = found
    assert injected == {}
    assert sniffable == set()
    assert failed == {}
    assert len(shown_in) > 40  # the payload was on the page


def test_what_would_be_injected_is_found() -> None:
    assert Injected(f'<input value="{SHORT}">').found == ["<i data-injected>"]
    assert Injected("<a href=' JavaScript:x'>").found == ["<a href=' JavaScript:x'>"]

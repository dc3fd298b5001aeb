"""Text that rules match in spans isn't stored; ids, times, and structural fields are kept."""

import httpx
import zstandard

from apps.accounts.models import Membership
from apps.redaction.rules import add_rule
from apps.traces.models import Source, Span, Trace
from tests.traces.conftest import send, span

MAIL, MARK = "ada@example.org", "[redacted: e-mail]"


def stored() -> str:
    rows = [*Span.objects.all(), *Source.objects.all()]
    return "".join(zstandard.ZstdDecompressor().decompress(bytes(row.body)).decode() for row in rows)


def test_spans_and_their_resources_are_redacted(http: httpx.Client, researcher: Membership) -> None:
    add_rule(workspace=researcher.workspace, by=researcher.user, detector="email")
    add_rule(workspace=researcher.workspace, by=researcher.user, name="number", pattern=r"\d{12,}")
    events = [{"timeUnixNano": "1763000000000000000", "name": MAIL}]
    one = span(1, {"note": f"To {MAIL}", "card": 4111111111111111, "nested": [f'{{"to": "{MAIL}"}}']}, events=events)
    assert send(http, one, **{"service.name": MAIL}).status_code == 200
    kept = stored()
    assert MAIL not in kept
    assert kept.count(MARK) == 4
    assert '{"stringValue":"[redacted: number]"}' in kept
    assert '"timeUnixNano":"1763000000000000000"' in kept
    assert Trace.objects.get().service == MARK

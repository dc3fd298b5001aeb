"""POST /v1/traces as specified by OTLP: statuses, partial success, limits, and hostile requests."""

import asyncio
import gzip
import json
import secrets
import select
import socket
import time
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
import zstandard
from django.db import transaction
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from apps.accounts.models import ApiToken, Membership, Role
from apps.redaction.rules import add_rule
from apps.traces import asgi, export_request, span_store
from apps.traces.asgi import MAX_EACH, TracesEndpoint
from apps.traces.models import Source, Span, Trace
from tests import factories
from tests.traces.conftest import chat_span, send, settle, span

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def request(count: int = 1, *, service: str = "", **fields: Any) -> ExportTraceServiceRequest:
    """A request with this many spans, each of another trace."""
    wire = ExportTraceServiceRequest()
    resource_spans = wire.resource_spans.add()
    if service:
        resource_spans.resource.attributes.add(key="service.name").value.string_value = service
    scope_spans = resource_spans.scope_spans.add()
    for number in range(1, count + 1):
        scope_spans.spans.add(
            **{"trace_id": number.to_bytes(16), "span_id": number.to_bytes(8), "name": "one", **fields}
        )
    return wire


def refused(response: httpx.Response) -> str:
    """The message of a refusal, in protobuf or JSON."""
    if response.headers["content-type"] == "application/x-protobuf":
        status = Status.FromString(response.content)
        assert status.code
        return str(status.message)
    return str(response.json()["message"])


@pytest.mark.parametrize("packed", [False, True])
def test_protobuf_is_answered_in_protobuf(http: httpx.Client, packed: bool) -> None:
    body = request(3).SerializeToString()
    headers = {**PROTOBUF, **({"Content-Encoding": "gzip"} if packed else {})}
    response = http.post("", content=gzip.compress(body) if packed else body, headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/x-protobuf")
    assert not ExportTraceServiceResponse.FromString(response.content).HasField("partial_success")
    assert Span.objects.count() == Trace.objects.count() == 3


def test_a_batch_of_a_collector_holds_several_resources_and_parts_of_many_traces(http: httpx.Client) -> None:
    first, second = request(40, service="web"), request(40, service="agent")
    for exported in second.resource_spans[0].scope_spans[0].spans:
        exported.span_id = b"\xff" + exported.span_id[1:]
        exported.parent_span_id = b"\x01" * 8
    first.MergeFrom(second)
    for _ in range(2):  # the Collector didn't receive the response
        assert http.post("", content=first.SerializeToString(), headers=PROTOBUF).status_code == 200
    assert (Trace.objects.count(), Span.objects.count(), Source.objects.count()) == (40, 80, 80)
    assert set(Trace.objects.values_list("span_count", "service")) == {(2, "web")}


def test_nothing_at_all_is_a_request_too(http: httpx.Client) -> None:
    assert http.post("", content=b"", headers=PROTOBUF).status_code == 200
    assert http.post("", json={}).json() == {}


def test_spans_that_cant_be_kept_are_counted_with_the_reason_and_the_others_stay(http: httpx.Client) -> None:
    good = span(1)
    bad: list[dict[str, Any]] = [
        {**span(2), "traceId": "0" * 32},
        {**span(3), "traceId": "abc"},
        {**span(4), "spanId": ""},
        {**span(5), "parentSpanId": span(5)["spanId"]},
        {**span(6), "endTimeUnixNano": str(2**64 - 1)},
        {**span(7), "startTimeUnixNano": "-1"},
        {**span(8), "endTimeUnixNano": "9" * 5000},
        {**span(9), "endTimeUnixNano": "\ud800"},
        {**span(10), "traceId": "\ud800"},
    ]
    answer = send(http, good, *bad)
    assert answer.status_code == 200
    partial = answer.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "9"
    assert "expected 16 bytes" in partial["errorMessage"]
    assert "its own parent" in partial["errorMessage"]
    assert Span.objects.get().span_id == good["spanId"]
    wire = request(2)
    wire.resource_spans[0].scope_spans[0].spans[0].span_id = b"short"
    response = http.post("", content=wire.SerializeToString(), headers=PROTOBUF)
    assert ExportTraceServiceResponse.FromString(response.content).partial_success.rejected_spans == 1


def test_a_span_that_isnt_utf_8_is_rejected_alone(http: httpx.Client) -> None:
    body = request(2).SerializeToString().replace(b"one", b"\xff\xffe", 1)
    response = http.post("", content=body, headers=PROTOBUF)
    assert ExportTraceServiceResponse.FromString(response.content).partial_success.rejected_spans == 1
    assert Span.objects.count() == 1


@pytest.mark.parametrize(
    ("content", "headers", "status", "words"),
    [
        (b"\x0a\x05ab", PROTOBUF, 400, "5 bytes"),
        (b"\xff" * 30, PROTOBUF, 400, "longer than 64 bits"),
        (b"\x0b", PROTOBUF, 400, "wire type 3"),
        (b"{", {"Content-Type": "application/json"}, 400, "can't be read"),
        (b"[]", {"Content-Type": "application/json"}, 400, "a list"),
        (b'{"resourceSpans": {}}', {"Content-Type": "application/json"}, 400, "resourceSpans"),
        (b"[" * 100_000, {"Content-Type": "application/json"}, 400, "deeper"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "application/json"),
        (b"{}", {"Content-Type": "application/json", "Content-Encoding": "br"}, 415, "gzip"),
        (b"{}", {"Content-Type": "application/json", "Content-Encoding": "gzip"}, 400, "isn't gzip"),
        (gzip.compress(b"{}" * 99, mtime=0)[:-9], {**PROTOBUF, "Content-Encoding": "gzip"}, 400, "ends inside"),
        (gzip.compress(b"", mtime=0) * 100, {**PROTOBUF, "Content-Encoding": "gzip"}, 400, "members"),
    ],
)
def test_what_cant_be_read_is_refused_as_a_whole(
    http: httpx.Client, content: bytes, headers: dict[str, str], status: int, words: str
) -> None:
    response = http.post("", content=content, headers=headers)
    assert response.status_code == status
    assert words in refused(response)
    assert "retry-after" not in response.headers
    assert not Trace.objects.exists()


def test_what_unpacks_to_more_than_a_request_may_have_is_refused(http: httpx.Client, settings: Any) -> None:
    settings.TRACES_MAX_BYTES = 1 << 20
    bomb = gzip.compress(bytes(50 << 20))
    assert len(bomb) < 1 << 20
    response = http.post("", content=bomb, headers={**PROTOBUF, "Content-Encoding": "gzip"})
    assert (response.status_code, "1 MiB" in refused(response)) == (413, True)
    assert http.post("", content=bytes(2 << 20), headers=PROTOBUF).status_code == 413


def test_more_spans_than_a_request_may_have_are_refused(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_request, "MAX_SPANS", 3)
    response = http.post("", content=request(4).SerializeToString(), headers=PROTOBUF)
    assert response.status_code == 400
    assert "more than 3 spans" in refused(response)


@pytest.mark.parametrize("body", [b"\x0a\x00" * 600_000, b"\x0a\x80\x89\x7a" + b"\x4a\x00" * 1_000_000])
def test_more_fields_than_a_request_may_have_are_refused(http: httpx.Client, body: bytes) -> None:
    """20 MiB of empty ones, which gzip compresses to 20 kB, once took half a minute."""
    response = http.post("", content=gzip.compress(body), headers={**PROTOBUF, "Content-Encoding": "gzip"})
    assert response.status_code == 400
    assert "more than 500,000 fields around its spans" in refused(response)


def test_a_huge_span_is_rejected_and_a_trace_takes_only_so_much(
    http: httpx.Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_request, "MAX_SPAN_BYTES", 10_000)
    settings.TRACES_MAX_TRACE_BYTES = 20_000
    answer = send(http, span(1, {"a": "x" * 10_000}), *(span(number, {"a": "x" * 9_000}) for number in (2, 3, 4)))
    partial = answer.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "2"
    assert "10,000 fit" in partial["errorMessage"]
    assert "is full" in partial["errorMessage"]
    assert Span.objects.count() == 2


@pytest.mark.parametrize("limit", ["spans", "bytes"])
def test_spans_sent_again_to_a_full_trace_are_not_reported_as_rejected(
    http: httpx.Client, settings: Any, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    if limit == "spans":
        monkeypatch.setattr(span_store, "MAX_SPANS", 2)
    else:
        settings.TRACES_MAX_TRACE_BYTES = 20_000
    first, second, third = (span(number, {"a": "x" * 9_000}) for number in (1, 2, 3))
    assert send(http, first, second).json() == {}
    assert send(http, first, second).json() == {}
    assert send(http, second, third).json()["partialSuccess"]["rejectedSpans"] == "1"
    assert set(Span.objects.values_list("span_id", flat=True)) == {first["spanId"], second["spanId"]}


def test_spans_sent_again_leave_room_for_the_last_that_fits(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_store, "MAX_SPANS", 2)
    running = span(1, endTimeUnixNano="0")
    send(http, running)
    assert send(http, running, span(2)).json() == {}
    assert send(http, span(1), span(2)).json() == {}  # the first has ended meanwhile
    assert Span.objects.filter(ended__gt=0).count() == Trace.objects.get().span_count == 2


def test_a_full_workspace_asks_exporters_to_wait(http: httpx.Client, settings: Any) -> None:
    settings.TRACES_MAX_STORED_BYTES = 100
    assert send(http, span(1)).status_code == 200
    span_store._stored.clear()
    response = send(http, span(2))
    assert (response.status_code, response.headers["retry-after"]) == (429, "60")


@pytest.mark.parametrize("text", ["\ud800", "\x00", "\x1b[2J", "ﷺ" * 1000, "<script>"])
def test_odd_text_anywhere_in_a_span_is_kept(http: httpx.Client, text: str) -> None:
    odd = {**chat_span(1, text, text, name=text), "attributes": chat_span(1, text, text)["attributes"]}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [odd]}]}]})
    response = http.post("", content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()) == (200, {})
    settle()
    trace = Trace.objects.get()
    assert (trace.state, trace.problem) == ("stored", "")
    assert trace.parts.get().trajectory.steps.get().message["content"] == text


def test_a_clock_that_runs_backwards_costs_the_duration_alone(http: httpx.Client) -> None:
    send(http, {**chat_span(5, "Hi.", "Ho."), "endTimeUnixNano": "1"})
    settle()
    assert Trace.objects.get().parts.get().trajectory.steps.get().seconds is None


def test_deep_attributes_are_kept_or_rejected_never_fatal(http: httpx.Client) -> None:
    def deep(levels: int) -> dict[str, Any]:
        nested: dict[str, Any] = {"stringValue": "x"}
        for _ in range(levels):
            nested = {"arrayValue": {"values": [nested]}}
        return {"attributes": [{"key": "a", "value": nested}]}

    assert send(http, {**span(1), **deep(10)}).json() == {}
    answer = send(http, {**span(2), **deep(150)})
    assert answer.status_code in (200, 400)
    assert Span.objects.count() == 1


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer rt_none", "Basic abc"])
def test_strangers_are_refused_before_their_body_is_read(http: httpx.Client, authorization: str, settings: Any) -> None:
    settings.TRACES_MAX_BYTES = 10
    response = http.post("", content=bytes(1000), headers={**PROTOBUF, "Authorization": authorization})
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
    assert "token" in refused(response)


def test_reviewers_annotators_and_revoked_tokens_are_refused(http: httpx.Client, researcher: Membership) -> None:
    for role in (Role.ANNOTATOR, Role.REVIEWER):
        theirs = factories.token(factories.member(role))
        assert http.post("", json={}, headers={"Authorization": f"Bearer {theirs}"}).status_code == 401
    ApiToken.objects.filter(membership=researcher).delete()
    assert http.post("", json={}).status_code == 401


def test_a_token_that_sends_traces_counts_as_used(http: httpx.Client) -> None:
    assert http.post("", json={}).status_code == 200
    assert ApiToken.objects.get().last_used_at is not None


def test_other_methods_are_refused_and_other_addresses_are_elsewhere(http: httpx.Client, traces_url: str) -> None:
    response = http.get("")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert httpx.get(f"{traces_url}s").text == "elsewhere"


def _elsewhere(member: Membership) -> Membership:
    """The same person in another workspace."""
    return Membership.objects.create(user=member.user, workspace=factories.workspace(), role=Role.RESEARCHER)


def test_whoever_sends_slowly_keeps_nobody_else_out(
    http: httpx.Client, traces_url: str, researcher: Membership
) -> None:
    """However many workspaces they have."""
    place = urlsplit(traces_url)
    also = f"Bearer {factories.token(_elsewhere(researcher))}"
    key, theirs = http.headers["authorization"], f"Bearer {factories.token(factories.member(Role.RESEARCHER))}"
    head = f"POST {place.path} HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nContent-Type: application/json\r\n"
    with ExitStack() as held:
        slow = [held.enter_context(socket.create_connection((place.hostname, place.port))) for _ in range(30)]
        for connection in slow:
            connection.sendall(f"{head}Content-Length: 9\r\n\r\n{{".encode())
        answered, _, _ = select.select(slow, [], [], 30)
        while len(answered) < len(slow) - MAX_EACH:
            answered, _, _ = select.select(slow, [], [], 30)
        assert http.post("", json={}).status_code == 503
        assert http.post("", json={}, headers={"Authorization": also}).status_code == 503
        assert http.post("", json={}, headers={"Authorization": theirs}).status_code == 200
        for connection in set(slow) - set(answered):
            connection.sendall(b"       }")
            assert connection.recv(12) == b"HTTP/1.1 200"
    assert http.post("", json={}).status_code == 200


def test_who_was_removed_while_sending_stores_nothing(
    http: httpx.Client, traces_url: str, researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "RECHECK_SECONDS", 0.0)
    place, body = urlsplit(traces_url), json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span(1)]}]}]}).encode()
    head = f"POST {place.path} HTTP/1.1\r\nHost: x\r\nAuthorization: {http.headers['authorization']}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.sendall(head.encode() + body[:9])
        time.sleep(0.5)  # until the token was checked
        researcher.delete()
        connection.sendall(body[9:])
        assert connection.recv(12) == b"HTTP/1.1 401"
    assert not Trace.objects.exists()


def test_a_resource_that_many_traces_share_takes_only_so_much(
    http: httpx.Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each trace stores its own copy: half a megabyte with one resource and 500 traces once took 140 MB, which no limit counted."""
    monkeypatch.setattr(span_store, "MAX_SOURCE_COPIES", 10_000)
    resource = {"host": secrets.token_hex(3000)}
    spans = [span(1, trace=number) for number in range(1, 9)]
    partial = send(http, *spans, **resource).json()["partialSuccess"]
    kept = [len(source.body) for source in Source.objects.all()]
    assert len(kept) == 8 - int(partial["rejectedSpans"]) == Span.objects.count() > 1
    assert sum(kept) <= 10_000 < sum(kept) + kept[0]
    assert "more than 0 MiB. Send fewer traces at once" in partial["errorMessage"]
    assert all(trace.size > kept[0] for trace in Trace.objects.filter(span_count=1))
    before = list(Trace.objects.values_list("size", flat=True).order_by("pk"))
    send(http, *spans[:2], **resource)  # sent twice, it's stored and counted once
    send(
        http, *spans[:2], host=secrets.token_hex(3000)
    )  # the resource of spans that are stored already doesn't count, either
    assert list(Trace.objects.values_list("size", flat=True).order_by("pk")) == before
    assert Source.objects.count() == len(kept)
    settings.TRACES_MAX_STORED_BYTES = sum(kept)
    span_store._stored.clear()
    assert send(http, span(2, trace=1)).status_code == 429


def test_rules_take_only_so_much_time_of_a_whole_request(
    http: httpx.Client, researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each span once had two seconds of its own, so 50,000 small ones occupied a thread for minutes."""
    add_rule(workspace=researcher.workspace, by=None, detector="email")
    monkeypatch.setattr(export_request, "REDACTION_CPU_SECONDS", -1.0)
    send(http, span(1, text="ada@example.org"), span(2))
    bodies = [zstandard.decompress(bytes(span.body)).decode() for span in Span.objects.order_by("span_id")]
    assert len(bodies) == 2
    assert all("[redacted: unchecked text]" in body for body in bodies)


def test_one_workspace_or_person_reads_one_request_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, most = 0, 0
    senders = {"mine": asgi.Sender(uuid4(), 1), "mine too": asgi.Sender(uuid4(), 1), "theirs": asgi.Sender(uuid4(), 2)}

    async def lookup(function: Any, *args: Any) -> Any:
        nonlocal at_once, most
        if function is not asgi._store:
            return senders[args[0].headers["x-of"]]
        at_once += 1
        most = max(most, at_once)
        for _ in range(5):
            await asyncio.sleep(0)
        at_once -= 1
        return asgi.Answer(0, "")

    async def ask(endpoint: TracesEndpoint, whose: str) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"{}"}

        async def send(message: Any) -> None:
            pass

        headers = [(b"content-type", b"application/json"), (b"x-of", whose.encode())]
        scope = {"type": "http", "method": "POST", "path": asgi.PATH, "query_string": b"", "headers": headers}
        await endpoint(scope, receive, send)

    async def all_at_once(*whose: str) -> int:
        nonlocal most
        most = 0
        endpoint = TracesEndpoint(None)  # type: ignore[arg-type]  # nothing is passed on
        await asyncio.gather(*(ask(endpoint, token) for token in whose))
        return most

    monkeypatch.setattr(asgi, "_in_database", lookup)
    assert asyncio.run(all_at_once("mine", "mine", "mine too")) == 1
    assert asyncio.run(all_at_once("mine", "mine", "theirs")) == 2


def test_a_trace_that_a_worker_is_reading_holds_up_no_thread(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_store, "LOCK_MILLISECONDS", 50)
    send(http, span(1))
    with transaction.atomic():
        Trace.objects.select_for_update().get()
        response = send(http, span(2))
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
    assert "are being read" in refused(response)
    assert send(http, span(2)).json() == {}


@pytest.mark.parametrize(
    "value",
    [{"intValue": "9" * 5000}, {"intValue": "--5"}, {"arrayValue": {"values": 5}}, {"arrayValue": {"values": "abc"}}],
)
def test_values_of_another_type_break_nothing(http: httpx.Client, value: dict[str, Any]) -> None:
    odd = [{"key": "odd", "value": value}]
    assert send(http, span(1, attributes=odd)).json() == {}
    body = {"resourceSpans": [{"resource": {"attributes": odd}, "scopeSpans": [{"spans": [span(2)]}]}]}
    assert http.post("", json=body).json() == {}
    settle()

"""Parses an export request: the acceptable spans, the number of rejected ones, and the reasons."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import zstandard

from apps.ingest.normalization.fields import mapping, text
from apps.ingest.records import BadRow
from apps.ingest.traces.attributes import kind_of, plain
from apps.ingest.traces.span_groups import groups_in
from apps.redaction.redaction import Rule
from apps.traces import protobuf
from apps.traces.protobuf import NotProtobuf
from apps.traces.span_redaction import redacted_source, redacted_span
from contract import jsontext
from contract.values import Json

MAX_SPANS = 50_000
"""Maximum number of spans per request. The Collector's batches have 8,192, those of SDKs 512."""
MAX_JSON_VALUES = 4_000_000
MAX_SPAN_BYTES = 8 << 20
"""Maximum size of one span, as received and as JSON: a chat of a million tokens has about 4 MiB."""
MAX_SOURCE_BYTES = 256 << 10
"""Maximum size of a resource with its scope, as JSON."""
REDACTION_CPU_SECONDS = 10.0
"""CPU time for redacting all spans of one request."""
LATEST = 2**63 - 1
"""Maximum timestamp in Unix nanoseconds: in the year 2262."""
TRACE_ID, SPAN_ID = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{16}")
MAX_REASONS = 5
"""Maximum number of reasons reported per request."""
COMPRESSION = 1

_of_thread = threading.local()


class Unreadable(ValueError):
    """The request can't be parsed; nothing of it is stored."""


class Rejected(ValueError):
    """A span that isn't accepted."""


class Source(NamedTuple):
    """The resource and scope of spans."""

    digest: bytes
    body: bytes
    service: str


class Span(NamedTuple):
    """An accepted span."""

    trace_id: str
    span_id: str
    is_root: bool
    name: str
    ended: int
    """Unix nanoseconds; 0 if missing."""
    calls_model: bool
    source: Source
    body: bytes
    """JSON, zstd-compressed."""
    size: int
    """Size of the JSON in bytes."""


@dataclass
class Batch:
    """The content of one request."""

    spans: list[Span] = field(default_factory=list)
    rejected: int = 0
    reasons: list[str] = field(default_factory=list)
    rules: Sequence[Rule] = ()
    redacted_until: float = field(default_factory=lambda: time.thread_time() + REDACTION_CPU_SECONDS)
    """In CPU time of the reading thread. After that, all texts are withheld."""

    @property
    def cpu_seconds(self) -> float:
        """CPU time left for redaction rules."""
        return self.redacted_until - time.thread_time()

    def reject(self, reason: str, count: int = 1) -> None:
        self.rejected += count
        if reason not in self.reasons and len(self.reasons) < MAX_REASONS:
            self.reasons.append(reason)

    @property
    def message(self) -> str:
        """The message for the exporter; empty if all spans were accepted."""
        return " ".join(self.reasons)


def read_protobuf(body: bytes, rules: Sequence[Rule] = ()) -> Batch:
    """rules: the redaction rules for spans and their sources. Raises Unreadable."""
    batch = Batch(rules=rules)
    try:
        for resource, scope, spans in protobuf.groups(body):
            _parse_spans(batch, _protobuf_source(resource, scope), (protobuf_span(span) for span in spans))
    except NotProtobuf as problem:
        raise Unreadable(f"The body isn't an ExportTraceServiceRequest: {problem}") from None
    return batch


def _protobuf_source(resource: bytes, scope: bytes) -> Callable[[], Json]:
    if len(resource) + len(scope) > MAX_SOURCE_BYTES:
        raise Unreadable(f"A resource with its scope has more than {MAX_SOURCE_BYTES >> 10} KiB.")
    return lambda: {"resource": protobuf.resource_of(resource), "scope": protobuf.scope_of(scope)}


def protobuf_span(body: memoryview) -> Callable[[], dict[str, Json]]:
    """A function that parses a span. It raises Rejected."""

    def read() -> dict[str, Json]:
        if len(body) > MAX_SPAN_BYTES:
            raise Rejected(_too_large(len(body)))
        try:
            return protobuf.span_of(body)
        except NotProtobuf as problem:
            raise Rejected(f"A span can't be read: {problem}") from None

    return read


def read_json(body: bytes, rules: Sequence[Rule] = ()) -> Batch:
    """rules: the redaction rules for spans and their sources. Raises Unreadable."""
    if jsontext.has_more_values(body, MAX_JSON_VALUES):
        raise Unreadable(f"The body has more than {MAX_JSON_VALUES:,} values. Send smaller batches.")
    batch = Batch(rules=rules)
    try:
        record = jsontext.loads(body)
        if type(record) is not dict:
            raise Unreadable(f'The body is {jsontext.describe(record)}; expected {{"resourceSpans": […]}}.')
        for resource, spans in groups_in({"resourceSpans": [], **record}):
            _parse_spans(batch, lambda resource=resource: resource, (lambda span=span: span for span in spans))  # type: ignore[misc]  # bound at once
    except jsontext.UnreadableJSON as problem:
        raise Unreadable(f"The body can't be read: {problem}") from None
    except BadRow as problem:
        raise Unreadable(f"{problem.reason} {problem.expected}") from None
    return batch


def _parse_spans(batch: Batch, resource: Callable[[], Json], spans: Iterator[Callable[[], dict[str, Json]]]) -> None:
    source: Source | None = None
    for span in spans:
        if len(batch.spans) + batch.rejected >= MAX_SPANS:
            raise Unreadable(f"The request has more than {MAX_SPANS:,} spans. Send smaller batches.")
        source = source or _source(resource(), batch)
        try:
            batch.spans.append(_span(span(), source, batch))
        except Rejected as refusal:
            batch.reject(str(refusal))


def _source(resource: Json, batch: Batch) -> Source:
    resource = redacted_source(resource, batch.rules, cpu_seconds=batch.cpu_seconds) if batch.rules else resource
    body = jsontext.dumps(resource)
    if len(body) > MAX_SOURCE_BYTES:
        raise Unreadable(f"A resource with its scope has more than {MAX_SOURCE_BYTES >> 10} KiB.")
    service = text(plain(mapping(mapping(resource).get("resource")).get("attributes")).get("service.name"))
    return Source(hashlib.sha256(body).digest()[:16], compressed(body), service)


def _span(raw: dict[str, Any], source: Source, batch: Batch) -> Span:
    """Validate and redact a span. Raises Rejected."""
    trace_id, span_id = text(raw.get("traceId")).lower(), text(raw.get("spanId")).lower()
    if not TRACE_ID.fullmatch(trace_id) or not trace_id.strip("0"):
        raise Rejected(f"A span's trace id is {trace_id[:40]!r}; expected 16 bytes that aren't all 0.")
    if not SPAN_ID.fullmatch(span_id) or not span_id.strip("0"):
        raise Rejected(f"A span's id is {span_id[:40]!r}; expected 8 bytes that aren't all 0.")
    parent = text(raw.get("parentSpanId")).lower()
    if parent == span_id:
        raise Rejected(f"The span {span_id} is its own parent.")
    raw |= {"traceId": trace_id, "spanId": span_id, "parentSpanId": parent}
    _nanoseconds(raw, "startTimeUnixNano")
    ended = _nanoseconds(raw, "endTimeUnixNano")
    raw = redacted_span(raw, batch.rules, cpu_seconds=batch.cpu_seconds) if batch.rules else raw
    try:
        body = jsontext.dumps(raw)
    except jsontext.UnreadableJSON as problem:
        raise Rejected(f"The span {span_id} can't be kept: {problem}") from None
    if len(body) > MAX_SPAN_BYTES:
        raise Rejected(_too_large(len(body)))
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        is_root=not parent.strip("0"),
        name=text(raw.get("name")),
        ended=ended,
        calls_model=calls_model(raw),
        source=source,
        body=compressed(body),
        size=len(body),
    )


def calls_model(span: Json) -> bool:
    """Whether a span, as received, is a model call."""
    return kind_of(plain(mapping(span).get("attributes"))) == "model"


def _nanoseconds(raw: dict[str, Any], name: str) -> int:
    written = str(raw.get(name) or 0)
    if not written.isdecimal() or len(written) > 20 or int(written) > LATEST:
        raise Rejected(f"A span's {name} is {written[:40]!r}; expected nanoseconds since 1970, until 2262.")
    return int(written)


def _too_large(size: int) -> str:
    return f"A span has {size:,} bytes; {MAX_SPAN_BYTES:,} fit."


def compressed(body: bytes) -> bytes:
    """The storage format of spans and sources."""
    compressor = getattr(_of_thread, "compressor", None)
    if compressor is None:
        compressor = _of_thread.compressor = zstandard.ZstdCompressor(level=COMPRESSION)
    packed: bytes = compressor.compress(body)
    return packed


def unpacked(body: bytes | memoryview) -> bytes:
    """The JSON of a stored span or source."""
    # The size is in the frame's header, written by `compressed`.
    return zstandard.ZstdDecompressor().decompress(bytes(body))

"""Converts OTLP's protobuf messages to and from its JSON form.

Each span is parsed separately: an empty message takes two bytes on the wire and about a hundred in memory, so parsing a whole request of
20 MiB at once could take gigabytes.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from contract.values import Json

RESOURCE_SPANS = 1  # of ExportTraceServiceRequest
RESOURCE, SCOPE_SPANS = 1, 2  # of ResourceSpans
SCOPE, SPANS = 1, 2  # of ScopeSpans
VARINT, EIGHT_BYTES, DELIMITED, FOUR_BYTES = 0, 1, 2, 5
"""Wire types."""
MAX_FIELDS = 500_000
"""Maximum number of fields per request outside its spans: each is scanned, and 20 MiB could have ten million."""


class NotProtobuf(ValueError):
    """The bytes aren't a valid message."""


class Group(NamedTuple):
    """Spans of one scope of one resource, still encoded."""

    resource: bytes
    scope: bytes
    spans: Iterator[memoryview]


def groups(body: bytes) -> Iterator[Group]:
    """The spans of an ExportTraceServiceRequest. Raises NotProtobuf, also during iteration."""
    seen = itertools.count(1)
    for number, resource_spans in _parts(memoryview(body), seen):
        if number != RESOURCE_SPANS:
            continue
        resource = b"".join(part for number, part in _parts(resource_spans, seen) if number == RESOURCE)
        for number, scope_spans in _parts(resource_spans, seen):
            if number != SCOPE_SPANS:
                continue
            scope = b"".join(part for number, part in _parts(scope_spans, seen) if number == SCOPE)
            yield Group(resource, scope, (part for number, part in _parts(scope_spans, seen) if number == SPANS))


def _parts(message: memoryview, seen: Iterator[int]) -> Iterator[tuple[int, memoryview]]:
    """The length-delimited fields of a message, with their numbers. `seen` counts the fields of the whole request."""
    position, end = 0, len(message)
    while position < end:
        if next(seen) > MAX_FIELDS:
            raise NotProtobuf(f"It has more than {MAX_FIELDS:,} fields around its spans.")
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == DELIMITED:
            length, position = _varint(message, position)
            if length > end - position:
                raise NotProtobuf(f"A field says that it has {length:,} bytes; {end - position:,} are left.")
            yield tag >> 3, message[position : position + length]
            position += length
        elif kind == VARINT:
            _, position = _varint(message, position)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            position += 8 if kind == EIGHT_BYTES else 4
        else:
            raise NotProtobuf(f"A field has the wire type {kind}, which OTLP doesn't have.")
    if position > end:
        raise NotProtobuf("It ends inside a field.")


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    for byte in message[position : position + 10]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise NotProtobuf("It ends inside a number, or a number is longer than 64 bits.")


def resource_of(body: bytes) -> dict[str, Json]:
    """A resource in JSON form. Raises NotProtobuf."""
    return {"attributes": _attributes(_parsed(Resource, body).attributes)}


def scope_of(body: bytes) -> dict[str, Json]:
    """An instrumentation scope in JSON form. Raises NotProtobuf."""
    scope = _parsed(InstrumentationScope, body)
    return {"name": scope.name, "version": scope.version, "attributes": _attributes(scope.attributes)}


def span_of(body: memoryview) -> dict[str, Json]:
    """A span in JSON form. Raises NotProtobuf."""
    span = _parsed(Span, bytes(body))
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "attributes": _attributes(span.attributes),
        "events": [
            {
                "name": event.name,
                "timeUnixNano": str(event.time_unix_nano),
                "attributes": _attributes(event.attributes),
            }
            for event in span.events
        ],
        "links": [{"traceId": link.trace_id.hex(), "spanId": link.span_id.hex()} for link in span.links],
        "status": {"code": span.status.code, "message": span.status.message},
    }


def _parsed(kind: Any, body: bytes) -> Any:
    try:
        return kind.FromString(body)
    except DecodeError as problem:
        raise NotProtobuf(str(problem)) from None


def _attributes(pairs: Any) -> list[Json]:
    return [{"key": pair.key, "value": _value(pair.value)} for pair in pairs]


def _value(value: Any) -> dict[str, Json]:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return {"stringValue": value.string_value}
    if kind == "int_value":
        return {"intValue": str(value.int_value)}
    if kind == "double_value":
        number = value.double_value
        return {"doubleValue": number if math.isfinite(number) else str(number)}
    if kind == "bool_value":
        return {"boolValue": value.bool_value}
    if kind == "array_value":
        return {"arrayValue": {"values": [_value(item) for item in value.array_value.values]}}
    if kind == "kvlist_value":
        return {"kvlistValue": {"values": _attributes(value.kvlist_value.values)}}
    if kind == "bytes_value":
        return {"bytesValue": base64.b64encode(value.bytes_value).decode()}
    return {}


def response(rejected: int, message: str) -> bytes:
    """An encoded ExportTraceServiceResponse."""
    partial = ExportTracePartialSuccess(rejected_spans=rejected, error_message=message) if rejected else None
    encoded: bytes = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    return encoded


def status(code: int, message: str) -> bytes:
    """An encoded google.rpc.Status, OTLP's error message."""
    encoded: bytes = Status(code=code, message=message).SerializeToString()
    return encoded

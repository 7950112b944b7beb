"""Spans as OTLP says them, into a file or to a receiver."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from npulens.app import docs_of
from npulens.app.otlp.spans import Span, Value, span_id
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

#: Spans of one message: some MB, which every receiver takes.
_AT_ONCE = 5_000
_PATIENCE = 30  # seconds


def write(spans: Iterable[Span], target: Path) -> int:
    """All spans into one file, which is one message; how many."""
    count, whole = 0, b""
    for message, held in messages(spans):
        whole += message
        count += held
    try:
        target.write_bytes(whole)
    except OSError as error:
        raise IngestError("write", Message("cannot_write", {"error": error}), str(target)) from error
    return count


def send(spans: Iterable[Span], url: str) -> int:
    """All spans to a receiver (OTLP over HTTP, protobuf); how many it took."""
    place = url if url.rstrip("/").endswith("/v1/traces") else f"{url.rstrip('/')}/v1/traces"
    taken = 0
    for message, held in messages(spans):
        headers = {"Content-Type": "application/x-protobuf"}
        try:
            with urllib.request.urlopen(urllib.request.Request(place, message, headers), timeout=_PATIENCE) as answer:
                said = ExportTraceServiceResponse.FromString(answer.read())
        except (OSError, http.client.HTTPException, DecodeError, ValueError) as error:
            told = f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else str(error)
            raise IngestError("not_sent", Message("receiver_took_no_spans", {"error": told}), place) from error
        taken += held - said.partial_success.rejected_spans
    return taken


def messages(spans: Iterable[Span]) -> Iterator[tuple[bytes, int]]:
    """The messages, and how many spans each holds."""
    left = iter(spans)
    while part := tuple(islice(left, _AT_ONCE)):
        request = ExportTraceServiceRequest()
        by_rank: dict[int | None, trace_pb2.ScopeSpans] = {}
        for span in part:
            if span.rank not in by_rank:
                by_rank[span.rank] = _scope(request, span.rank)
            _put(by_rank[span.rank].spans.add(), span)
        yield request.SerializeToString(), len(part)


def _scope(request: ExportTraceServiceRequest, rank: int | None) -> trace_pb2.ScopeSpans:
    """Where the spans of a rank go: a rank is a process, and so a resource of its own."""
    resource = request.resource_spans.add()
    resource.resource.attributes.append(_attribute("service.name", "npulens"))
    if rank is not None:
        resource.resource.attributes.append(_attribute("service.instance.id", f"rank {rank}"))
    scope: trace_pb2.ScopeSpans = resource.scope_spans.add()
    scope.scope.name, scope.scope.version = "npulens", docs_of.version()
    return scope


def _put(out: trace_pb2.Span, span: Span) -> None:
    out.trace_id, out.span_id, out.name = span.trace, span.id, span.name
    out.kind = trace_pb2.Span.SPAN_KIND_INTERNAL
    if span.parent is not None:
        out.parent_span_id = span_id(span.trace, span.parent)
    out.start_time_unix_nano, out.end_time_unix_nano = span.begin_ns, span.end_ns
    out.attributes.extend(_attribute(name, value) for name, value in span.about.items())
    for name, at_ns, about in span.events:
        event = out.events.add()
        event.name, event.time_unix_nano = name, at_ns
        event.attributes.extend(_attribute(key, value) for key, value in about.items())


def _attribute(name: str, value: Value) -> KeyValue:
    if isinstance(value, bool):
        return KeyValue(key=name, value=AnyValue(bool_value=value))
    if isinstance(value, int):
        return KeyValue(key=name, value=AnyValue(int_value=value))
    if isinstance(value, float):
        return KeyValue(key=name, value=AnyValue(double_value=value))
    return KeyValue(key=name, value=AnyValue(string_value=value))

"""Spans that serving engines export by OpenTelemetry: vLLM, SGLang, MindIE. JSON in lines or as a whole, or protobuf.

A span that tells of a request makes one, the spans below it become its events. Attributes with prompts are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import Found, duration, stamp, text, whole
from npulens.ingest.readers.serving.lines import beginning, blocks, document, lines
from npulens.ingest.readers.serving.otlp import Damaged, Span, of_json, of_protobuf
from npulens.ingest.tables.draft import Draft

TITLE = "OpenTelemetry spans"

_JSON = re.compile(rb'^[\[{]\s*(?:\{\s*)?"(?:resourceSpans|resource_spans)"\s*:')
#: Of a request by protobuf: the first field, its length, then a resource or its spans.
_PROTOBUF = re.compile(rb"^(?:\0[\0-\xff]{3})?\x0a[\x80-\xff]{0,4}[\0-\x7f][\x0a\x12]", re.DOTALL)
_NAMED = (b"service.name", b"telemetry.sdk", b"llm_request", b"gen_ai.", b"sglang")
_LARGEST = 1 << 30

#: What vLLM puts around an id, and behind it the number of the answer.
_CALLED = re.compile(r"^(?:cmpl|chatcmpl)-(.+?)(?:-(\d{1,3}))?$")
_SGLANG = re.compile(r"^\s*(?:\w+ )?Req \S")
_ROUTE = re.compile(r"/(?:v1/)?(?:chat/)?(?:completions|generate|infer)\b|^llm_request$")
#: Kinds of what SGLang and MindIE do of a request, by the span's name.
_KINDS = (
    (re.compile(r"transfer|bootstrap|mooncake|kv_(send|recv)|pull", re.IGNORECASE), "transfer"),
    (re.compile(r"waiting|queue", re.IGNORECASE), "queue"),
    (re.compile(r"tokeniz|dispatch|detoken|send_response", re.IGNORECASE), "front_end"),
    (re.compile(r"prefill|decode|forward", re.IGNORECASE), "phase"),
)
_DECODES = re.compile(r"decode|idle", re.IGNORECASE)


def sniff(path: Path) -> Claim | None:
    """JSON or protobuf that begins with the spans of a resource."""
    raw = peek.head(path)
    if _JSON.match(beginning(path)) or (_PROTOBUF.match(raw) and any(name in raw for name in _NAMED)):
        return Claim("otlp", path, (path,))
    return None


def read(claim: Claim, draft: Draft) -> None:
    """Requests, and what their spans say of them."""
    path = claim.files[0]
    requests = _Requests(Found(draft, "otlp", path))
    for span in _spans(path, draft, requests.found):
        requests.take(span)
    requests.close()
    requests.found.done()


def _spans(path: Path, draft: Draft, found: Found) -> Iterator[Span]:
    if not _JSON.match(beginning(path)):
        yield from _packed(path, draft)
        return
    for number, line in enumerate(lines(path, draft)):
        if not line.strip():
            continue
        try:
            said = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            if number == 0:  # no export a line, but one document
                yield from of_json(document(path, draft))
                return
            found.lost(Message("serving_line_cannot_be_read"))
            continue
        yield from of_json(said)


def _packed(path: Path, draft: Draft) -> Iterator[Span]:
    """Messages of protobuf: one that fills the file, or each behind its length in four bytes."""
    held = list[bytes]()
    for block in blocks(path, draft):
        held.append(block)
        if sum(map(len, held)) > _LARGEST:
            raise IngestError("too_large", Message("is_larger_than_mb", {"file": path.name, "n": _LARGEST >> 20}),
                              str(path))  # fmt: skip
    rest = b"".join(held)
    try:
        if rest[:1] == b"\x0a":
            yield from of_protobuf(rest)
            return
        while rest:
            size = int.from_bytes(rest[:4], "big")
            if size > len(rest) - 4:
                raise Damaged
            yield from of_protobuf(rest[4 : 4 + size])
            rest = rest[4 + size :]
    except Damaged:
        draft.partial(None, Message("serving_protobuf_ends_early"))


class _Requests:
    """Puts spans of one trace together: children may come long before the request that they are of."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self._seen = set[str]()
        self._request: dict[str, int] = {}  # trace -> request
        self._below: dict[str, list[Span]] = {}  # spans whose request has not come
        self._batches: dict[tuple[str, int], tuple[int, list[tuple[int, str]]]] = {}
        self._modes: dict[tuple[str, int], tuple[str | None, int | None, int | None]] = {}

    def take(self, span: Span) -> None:
        """One span, in any order, perhaps once more."""
        key = f"{span.trace_id}/{span.span_id}"
        if key in self._seen:
            return self.found.lost(Message("serving_span_twice"))
        if span.span_id:
            self._seen.add(key)
        if _is_request(span):
            return self._one(span)
        if span.trace_id in self._request:
            return self._event(self._request[span.trace_id], span)
        self._below.setdefault(span.trace_id, []).append(span)

    def _one(self, span: Span) -> None:
        begin, end = stamp(span.start_ns), stamp(span.end_ns)
        if begin is None:
            return self.found.lost(Message("serving_request_without_stamp"))
        said, prefix = span.attributes, "gen_ai.latency."
        first = duration(said.get(f"{prefix}time_to_first_token"))
        decode = duration(said.get(f"{prefix}time_in_model_decode"))
        whole_ns = duration(said.get(f"{prefix}e2e"))
        first_at = None if first is None else begin + first
        last_at = None if first_at is None or decode is None else first_at + decode
        ends = [at for at in (end, last_at, None if whole_ns is None else begin + whole_ns) if at is not None]
        output = whole(said.get("gen_ai.usage.completion_tokens"))
        request = self.found.request({
            "request_id": _called(said, span), "engine": _engine(span), "dp_rank": whole(said.get("dp_rank")),
            "ts_ns": begin, "dur_ns": max(0, max(ends) - begin) if ends else None, "arrival_ts_ns": begin,
            "first_token_ts_ns": first_at, "last_token_ts_ns": last_at,
            "end_ts_ns": None if end is None or end < begin else end,
            "queue_ns": duration(said.get(f"{prefix}time_in_queue")),
            "prefill_ns": duration(said.get(f"{prefix}time_in_model_prefill")), "decode_ns": decode,
            "prompt_tokens": whole(said.get("gen_ai.usage.prompt_tokens")),
            "cached_tokens": whole(said.get("gen_ai.usage.cached_tokens")), "output_tokens": output,
            "max_tokens": whole(said.get("gen_ai.request.max_tokens")),
            "finish": text(said.get("gen_ai.response.finish_reasons")), "error": text(span.error),
            "trace_id": text(span.trace_id),
        })  # fmt: skip
        self._request.setdefault(span.trace_id, request)
        for event in self._below.pop(span.trace_id, ()):
            self._event(request, event)
        self._events(request, span)

    def _event(self, request: int, span: Span) -> None:
        begin, end = stamp(span.start_ns), stamp(span.end_ns)
        if begin is None:
            return self.found.lost(Message("serving_span_without_stamp"), table="request_event")
        kind = next((kind for pattern, kind in _KINDS if pattern.search(span.name)), "span")
        self.found.add("request_event", {
            "request": request, "ts_ns": begin, "dur_ns": max(0, (end or begin) - begin), "kind": kind,
            "name": text(span.name),
        })  # fmt: skip
        self._events(request, span)

    def _events(self, request: int, span: Span) -> None:
        """Moments within a span: what SGLang schedules carries the number of its batch."""
        for event in span.events:
            at = stamp(event.ts_ns)
            if at is None:
                continue
            batch = whole(event.attributes.get("bid"))
            named = event.name.lower()
            kind = "schedule" if batch is not None or named == "schedule" else "preempt" if (
                "preempt" in named or "retract" in named) else "state"  # fmt: skip
            self.found.add("request_event", {"request": request, "ts_ns": at, "dur_ns": 0, "kind": kind,
                                             "value": batch, "name": text(event.name)})  # fmt: skip
            if batch is None:
                continue
            key = (str(_engine(span) or ""), batch)
            mode = text(event.attributes.get("forward_mode"))
            first, members = self._batches.get(key, (at, []))
            phase = "decode" if mode and _DECODES.search(mode) else "prefill"
            self._batches[key] = (min(first, at), [*members, (request, phase)])
            self._modes[key] = (mode, whole(event.attributes.get("batch_size")), whole(event.attributes.get("dp_rank")))

    def close(self) -> None:
        """The iterations that batches were, and spans that no request came to."""
        for (engine, batch), (at, members) in sorted(self._batches.items(), key=lambda item: (item[0][0], item[1][0])):
            mode, size, dp_rank = self._modes[engine, batch]
            decodes = sum(phase == "decode" for _, phase in members)
            kind = "decode" if decodes == len(members) else "prefill"
            iteration = self.found.add("iteration", {
                "iteration": self.found.counts["iteration"], "source": "schedule", "engine": engine or None,
                "dp_rank": dp_rank, "number": batch, "ts_ns": at, "ts_error_ns": 0,
                "class": "mixed" if mode and "mixed" in mode.lower() else kind,
                "ctx_requests": 0 if kind == "decode" else size, "gen_requests": size if kind == "decode" else 0,
            })  # fmt: skip
            for request, phase in dict.fromkeys(members):
                self.found.add("member", {"iteration": iteration, "request": request, "phase": phase,
                                          "how": "recorded", "confidence": 1.0})  # fmt: skip
        if left := sum(map(len, self._below.values())):
            self.found.lost(Message("serving_spans_of_no_request"), left, "request_event")


def _is_request(span: Span) -> bool:
    said = span.attributes
    if "gen_ai.latency.e2e" in said or "gen_ai.request.id" in said or _SGLANG.match(span.name):
        return True
    return span.server and not span.parent_id and _ROUTE.search(span.name) is not None


def _called(said: dict[str, str | int | float | bool | None], span: Span) -> str:
    """The id as its client knows it."""
    name = text(said.get("gen_ai.request.id")) or text(said.get("rid")) or text(said.get("request_id"))
    if name is None:
        return span.trace_id or span.span_id
    match = _CALLED.match(name)
    if match is None:
        return name
    return match[1] if match[2] in (None, "0") else f"{match[1]}-{match[2]}"


def _engine(span: Span) -> str | None:
    said = span.resource
    return text(said.get("service.instance.id")) or text(said.get("service.name"))

"""Records of AIPerf (profile_export.jsonl): a line for each request, as its client saw it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import Found, duration, stamp, text, whole
from npulens.ingest.readers.serving.lines import beginning, decoded, lines, several, table
from npulens.ingest.tables.draft import Draft

TITLE = "AIPerf records"

_SIGN = re.compile(rb'^\{(?=.{0,3000}"request_start_ns"\s*:)', re.DOTALL)
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "sec": 10**9}


def sniff(path: Path) -> Claim | None:
    """Lines of JSON with the moment of a request's start."""
    return Claim("aiperf", path, (path,)) if _SIGN.match(beginning(path)) else None


def read(claim: Claim, draft: Draft) -> None:
    """Requests with the time of each chunk."""
    path = claim.files[0]
    found = Found(draft, "aiperf", path)
    for line in lines(path, draft):
        if not line.strip():
            continue
        said = decoded(line) or {}
        about = table(said.get("metadata")) or said
        metrics = table(said.get("metrics")) or said
        sent, end = stamp(about.get("request_start_ns")), stamp(about.get("request_end_ns"))
        if sent is None:
            found.lost(Message("serving_request_without_stamp"))
            continue
        first = _length(metrics.get("time_to_first_token"))
        came = [] if first is None else [sent + first]
        for gap in several(_value(metrics.get("inter_chunk_latency"))) if came else ():
            length = duration(gap, _unit(metrics.get("inter_chunk_latency")))
            came.append(came[-1] + (length or 0))
        error = said.get("error")
        request = found.request({
            "request_id": text(about.get("x_request_id")) or str(found.counts["request"]), "ts_ns": sent,
            "send_ts_ns": sent, "dur_ns": None if end is None else max(0, end - sent),
            "client_first_ts_ns": came[0] if came else None, "client_end_ts_ns": end,
            "prompt_tokens": whole(_value(metrics.get("input_sequence_length"))),
            "output_tokens": whole(_value(metrics.get("output_sequence_length"))),
            "error": text(table(error).get("message")) or text(error) or ("error" if error else None),
        })  # fmt: skip
        found.tokens(request, came)
    found.done()


def _value(said: Any) -> Any:
    return said.get("value") if isinstance(said, dict) else said


def _unit(said: Any) -> int:
    return _UNITS.get(str(table(said).get("unit", "ms")), 10**6)


def _length(said: Any) -> int | None:
    return duration(_value(said), _unit(said))

"""Request metrics that SGLang exports to files (--export-metrics-to-file): a line of JSON for each request.

What a request asked for stands in the same line; of that only its id is read.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import Found, duration, stamp, text, whole
from npulens.ingest.readers.serving.lines import beginning, decoded, lines, table
from npulens.ingest.tables.draft import Draft

TITLE = "SGLang request metrics"

_SIGN = re.compile(rb'^\{\s*"(?:request_parameters|id|rid|timestamp|request_received_ts|e2e_latency)"\s*:', re.DOTALL)
_LOOKED_FOR = (b'"request_parameters"', b'"e2e_latency"', b'"request_received_ts"')
#: A prompt may fill the first bytes: how far a line is looked through.
_FAR = 1 << 20


def sniff(path: Path) -> Claim | None:
    """A line that says how long a request took, or what it asked for."""
    head = beginning(path)
    if not _SIGN.match(head):
        return None
    if sum(sign in head for sign in _LOOKED_FOR) < 2:
        if _LOOKED_FOR[0] not in head:
            return None
        with path.open("rb") as file:
            line = file.readline(_FAR)
        if sum(sign in line for sign in _LOOKED_FOR) < 2:
            return None
    return Claim("sglang_requests", path, (path,))


def read(claim: Claim, draft: Draft) -> None:
    """Requests as the server counted them."""
    path = claim.files[0]
    found = Found(draft, "sglang", path)
    for line in lines(path, draft):
        if not line.strip():
            continue
        said = decoded(line) or {}
        arrival, sent = (stamp(said.get(key), 10**9) for key in ("request_received_ts", "response_sent_to_client_ts"))
        whole_ns = duration(said.get("e2e_latency"))
        if arrival is None:
            found.lost(Message("serving_request_without_stamp"))
            continue
        queue = duration(said.get("queue_time"))
        end = sent if sent is not None else None if whole_ns is None else arrival + whole_ns
        asked = said.get("request_parameters")
        parameters = table(asked) or table(_inner(asked))
        finish = said.get("finish_reason")
        found.request({
            "request_id": next((name for name in (text(said.get("id")), text(said.get("rid")),
                                                  text(parameters.get("rid"))) if name), str(found.counts["request"])),
            "ts_ns": arrival, "arrival_ts_ns": arrival, "end_ts_ns": end,
            "dur_ns": None if end is None else max(0, end - arrival), "queue_ns": queue,
            "first_token_ts_ns": _after(arrival, duration(said.get("ttft") or said.get("time_to_first_token"))),
            "prompt_tokens": whole(said.get("prompt_tokens")), "cached_tokens": whole(said.get("cached_tokens")),
            "output_tokens": whole(said.get("completion_tokens")), "dp_rank": whole(said.get("dp_rank")),
            "finish": text(table(finish).get("type")) or text(finish),
        })  # fmt: skip
    found.done()


def _after(begin: int, length: int | None) -> int | None:
    return None if length is None else begin + length


def _inner(value: object) -> object:
    """JSON within a text of JSON."""
    if not isinstance(value, str):
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None

"""Logs of vllm-ascend with VLLM_ASCEND_TRACE=1: a line for each action of a request, and one for each engine step."""

from __future__ import annotations

import re
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import Found, stamp, text
from npulens.ingest.readers.serving.lines import beginning, lines
from npulens.ingest.tables.draft import Draft

TITLE = "vllm-ascend requests"

_SIGN = b"<<<Action:"
_LINE = re.compile(
    r"<<<Action:\s*([^;]{1,300});\s*Timestamp:\s*(\d{9,11}(?:\.\d{1,9})?);\s*RequestID:\s*([^;\s]{1,300})"
    r"(?:;\s*Role:\s*([^;\s]{1,200}))?"
)
#: What an action says; the first that fits counts.
_KINDS = (("transfer", "transfer"), ("pull", "transfer"), ("kv", "transfer"), ("preempt", "preempt"),
          ("queue", "queue"), ("schedul", "schedule"), ("prefill", "phase"), ("decode", "phase"))  # fmt: skip


def sniff(path: Path) -> Claim | None:
    """A text with an action near its beginning."""
    head = beginning(path)
    return Claim("ascend_trace", path, (path,)) if _SIGN in head and b"\0" not in head else None


def read(claim: Claim, draft: Draft) -> None:
    """A request from its first to its last action; the role tells prefill from decode where they are apart."""
    path = claim.files[0]
    found = Found(draft, "ascend_trace", path)
    told: dict[str, list[tuple[int, str, str | None]]] = {}
    for raw in lines(path, draft):
        line = raw[:8192].decode("utf-8", "replace")
        if "<<<Action" not in line:
            continue
        match = _LINE.search(line)
        at = None if match is None else stamp(match[2], 10**9)
        if match is None or at is None:
            found.lost(Message("serving_line_cannot_be_read"), table="request_event")
            continue
        told.setdefault(match[3], []).append((at, match[1].strip(), text(match[4])))
    for name, actions in told.items():
        actions.sort(key=lambda one: one[0])
        request = found.request({
            "request_id": name, "engine": next((role for _, _, role in actions if role), None),
            "ts_ns": actions[0][0], "dur_ns": actions[-1][0] - actions[0][0],
        })  # fmt: skip
        for at, action, _ in actions:
            low = action.lower()
            found.add("request_event", {
                "request": request, "ts_ns": at, "dur_ns": 0, "name": action,
                "kind": next((kind for part, kind in _KINDS if part in low), "state"),
            })  # fmt: skip
    if not told:
        raise IngestError("empty", Message("serving_file_holds_nothing", {"file": path.name}), str(path))
    found.done()

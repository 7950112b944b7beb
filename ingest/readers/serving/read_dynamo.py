"""Forward passes that Dynamo traces (DYN_FPM_TRACE=1): a line of JSON for each, sampled or all of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import Found, duration, stamp, text, whole
from npulens.ingest.readers.serving.lines import beginning, decoded, lines, table
from npulens.ingest.readers.serving.read_vllm_log import kind
from npulens.ingest.tables.draft import Draft

TITLE = "Dynamo forward-pass trace"

_SIGN = re.compile(rb'^\{.{0,400}"dynamo\.fpm\.trace\.v\d', re.DOTALL)
_STAMPS = (("timestamp_ns", 1), ("ts_ns", 1), ("event_time_unix_ns", 1), ("timestamp_ms", 10**6),
           ("event_time_unix_ms", 10**6), ("timestamp", 10**9), ("ts", 10**9))  # fmt: skip


def sniff(path: Path) -> Claim | None:
    """A first line with the name of the schema."""
    return Claim("dynamo", path, (path,)) if _SIGN.match(beginning(path)) else None


def read(claim: Claim, draft: Draft) -> None:
    """Each pass as an iteration; where stamps are of its end, its start lies its length before."""
    path = claim.files[0]
    found = Found(draft, "fpm", path)
    stamped = False
    for line in lines(path, draft):
        if not line.strip():
            continue
        said = decoded(line)
        passed = None if said is None else _pass(said)
        if said is None or passed is None:
            found.lost(Message("serving_line_cannot_be_read"), table="iteration")
            continue
        scheduled, queued = table(passed.get("scheduled_requests")), table(passed.get("queued_requests"))
        length = duration(passed.get("wall_time"))
        end = next((at for key, unit in _STAMPS for one in (passed, said)
                    if (at := stamp(one.get(key), unit)) is not None), None)  # fmt: skip
        context, generating = (whole(scheduled.get(key)) or 0 for key in ("num_prefill_requests",
                                                                         "num_decode_requests"))  # fmt: skip
        waits = [count for key in ("num_prefill_requests", "num_decode_requests")
                 if (count := whole(queued.get(key))) is not None]  # fmt: skip
        found.iteration({
            "engine": text(passed.get("worker_id")), "dp_rank": whole(passed.get("dp_rank")),
            "number": whole(passed.get("counter_id")), "dur_ns": length,
            "ts_ns": None if end is None else end - (length or 0), "ts_error_ns": None if end is None else 0,
            "class": kind(context, generating), "ctx_requests": context, "gen_requests": generating,
            "ctx_tokens": whole(scheduled.get("sum_prefill_tokens")), "gen_tokens": generating,
            "waiting": sum(waits) if waits else None,
        })  # fmt: skip
        stamped |= end is not None
    if not found.counts["iteration"]:
        raise IngestError("empty", Message("serving_file_holds_nothing", {"file": path.name}), str(path))
    found.done("unix" if stamped else "none")


def _pass(said: dict[str, Any]) -> dict[str, Any] | None:
    """The object that holds what was scheduled, wherever it lies in the line."""
    waiting = [said]
    for one in waiting:
        if "scheduled_requests" in one:
            return one
        waiting += [inner for inner in one.values() if isinstance(inner, dict)]
        if len(waiting) > 200:
            return None
    return None

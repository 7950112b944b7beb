"""What an open-loop client kept of its requests, as a JSON array.

Each has its id, its prompt tokens, and in ns since 1970 when it was sent and when each token came.
"""

from __future__ import annotations

import re
from pathlib import Path

from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import Found, stamp, text, whole
from npulens.ingest.readers.serving.lines import beginning, document, several
from npulens.ingest.tables.draft import Draft

TITLE = "client requests"

_SIGN = re.compile(rb'^\[\s*\{(?=[^}]{0,2000}"send_ns"\s*:)(?=[^}]{0,3000}"(?:tok_ns|error|end_ns)"\s*:)', re.DOTALL)


def sniff(path: Path) -> Claim | None:
    """An array whose first object says when it was sent."""
    return Claim("token_times", path, (path,)) if _SIGN.match(beginning(path)) else None


def read(claim: Claim, draft: Draft) -> None:
    """Requests as their client saw them, and an event for each token that came."""
    path = claim.files[0]
    found = Found(draft, "client", path)
    for said in several(document(path, draft)):
        sent = stamp(said.get("send_ns")) if isinstance(said, dict) else None
        if sent is None:
            found.lost(Message("serving_request_without_stamp"))
            continue
        came = [at for each in several(said.get("tok_ns")) if (at := stamp(each)) is not None and at >= sent]
        came.sort()
        end = stamp(said.get("end_ns")) or (came[-1] if came else None)
        error = text(said.get("error"))
        request = found.request({
            "request_id": text(said.get("id")) or str(found.counts["request"]), "ts_ns": sent, "send_ts_ns": sent,
            "dur_ns": None if end is None else max(end, *came[-1:]) - sent,
            "client_first_ts_ns": came[0] if came else None, "client_end_ts_ns": end,
            "prompt_tokens": whole(said.get("prompt")), "cached_tokens": whole(said.get("cached")),
            "max_tokens": whole(said.get("max_tokens")),
            "output_tokens": whole(said.get("output_tokens")) or len(came) or None,
            "error": error,
        })  # fmt: skip
        found.tokens(request, came)
    found.done()

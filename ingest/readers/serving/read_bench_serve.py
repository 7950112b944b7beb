"""The result of `vllm bench serve --save-result --save-detailed`: lengths and latencies of each request, no ids.

Its start times come from a clock of the client's process whose zero is unknown.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import Found, duration, text, whole
from npulens.ingest.readers.serving.lines import beginning, document, several, table
from npulens.ingest.tables.draft import Draft

TITLE = "vLLM bench result"

_SIGN = re.compile(rb'^\{\s*"(?:date|endpoint_type|backend|label)"\s*:.*"(?:num_prompts|request_rate)"\s*:', re.DOTALL)
_KEYS = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")


def sniff(path: Path) -> Claim | None:
    """A result: what a benchmark was asked, then its figures."""
    return Claim("bench_serve", path, (path,)) if _SIGN.match(beginning(path)) else None


def read(claim: Claim, draft: Draft) -> None:
    """Requests in the order of their sending."""
    path = claim.files[0]
    said = table(document(path, draft))
    lists: dict[str, list[Any]] = {key: several(said.get(key)) for key in _KEYS}
    many = len(lists["ttfts"])
    if not many:
        raise IngestError("not_detailed", Message("bench_serve_not_detailed"), str(path))
    found = Found(draft, "bench", path)
    for at in range(many):
        one = {key: values[at] if at < len(values) else None for key, values in lists.items()}
        sent, first = duration(one["start_times"]), duration(one["ttfts"])
        gaps = [gap for each in several(one["itls"]) if (gap := duration(each)) is not None]
        failed = bool(text(one["errors"]))
        if sent is None:
            found.lost(Message("serving_request_without_stamp"))
            continue
        came = [] if first is None or failed or (not first and not gaps) else [sent + first]
        for gap in gaps if came else ():
            came.append(came[-1] + gap)
        request = found.request({
            "request_id": f"{at}", "ts_ns": sent, "send_ts_ns": sent, "dur_ns": came[-1] - sent if came else None,
            "client_first_ts_ns": came[0] if came else None, "client_end_ts_ns": came[-1] if came else None,
            "prompt_tokens": whole(one["input_lens"]), "output_tokens": whole(one["output_lens"]),
            "error": text(one["errors"]),
        })  # fmt: skip
        found.tokens(request, came)
    found.done("monotonic")

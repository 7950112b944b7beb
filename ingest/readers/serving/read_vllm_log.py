"""The iteration log of vLLM (--enable-logging-iteration-details), alone or among other lines of the server's log.

Its stamps have whole seconds, no year and no zone. So an iteration has no time of its own until others give it one.
"""

from __future__ import annotations

import re
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import Found
from npulens.ingest.readers.serving.lines import beginning, lines
from npulens.ingest.tables.draft import Draft

TITLE = "vLLM iteration log"

_SIGN = b" context requests, "
_LINE = re.compile(
    rb"(?:(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d).{0,200}?)?(?:Engine (\d{1,6}).{0,80}?)?"
    rb"Iteration\((\d{1,15})\): (\d{1,9}) context requests, (\d{1,9}) context tokens, (\d{1,9}) generation requests, "
    rb"(\d{1,9}) generation tokens, iteration elapsed time: (\d{1,12}(?:\.\d{1,9})?) ms"
    rb"(?:, (?:\w+ )?KV cache usage: (\d{1,3}(?:\.\d{1,9})?)%)?"
)
#: How far into a server's log the first iteration is looked for.
_LOOKED_AT = 1 << 18
#: A year with a 29th of February: the log names none.
_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY_S = 86_400


def sniff(path: Path) -> Claim | None:
    """A text with a line of an iteration near its beginning."""
    head = beginning(path)
    if not head or head[:1] in (b"{", b"[") or b"\0" in head:
        return None
    if _SIGN not in head:
        if not (b"INFO" in head and (b"vllm" in head.lower() or b".py:" in head)):
            return None
        with path.open("rb") as file:
            if _SIGN not in file.read(_LOOKED_AT):
                return None
    return Claim("vllm_log", path, (path,)) if peek.at(path).is_file else None


def read(claim: Claim, draft: Draft) -> None:
    """Every iteration with its counts, and the second in which its line was written."""
    path = claim.files[0]
    found = Found(draft, "log", path)
    for line in lines(path, draft):
        if b"Iteration(" not in line:
            continue
        match = _LINE.search(line)
        if match is None:
            found.lost(Message("serving_line_cannot_be_read"), table="iteration")
            continue
        month, day, hour, minute, second, engine, number, *counts, elapsed, kv = match.groups()
        since = None if month is None else _since_new_year(*(int(part) for part in (month, day, hour, minute, second)))
        context, tokens, generating, generated = (int(count) for count in counts)
        found.iteration({
            "engine": None if engine is None else str(int(engine)), "number": int(number), "logged_ts_ns": since,
            "dur_ns": _ns(elapsed.decode()), "class": kind(context, generating),
            "ctx_requests": context, "ctx_tokens": tokens, "gen_requests": generating, "gen_tokens": generated,
            "kv_used": None if kv is None else float(kv) / 100,
        })  # fmt: skip
    if not found.counts["iteration"]:
        raise IngestError("empty", Message("serving_file_holds_nothing", {"file": path.name}), str(path))
    found.done("none")


def kind(context: int, generating: int) -> str:
    """The class of an iteration by its counts."""
    return "mixed" if context and generating else "prefill" if context else "decode" if generating else "dummy"


def _ns(milliseconds: str) -> int:
    head, _, rest = milliseconds.partition(".")
    return int(head) * 10**6 + (int(rest[:6].ljust(6, "0")) if rest else 0)


def _since_new_year(month: int, day: int, hour: int, minute: int, second: int) -> int | None:
    """Nanoseconds since the beginning of a leap year."""
    if not (1 <= month <= 12 and 1 <= day <= _MONTHS[month - 1] and hour < 24 and minute < 60 and second < 61):
        return None
    days = sum(_MONTHS[: month - 1]) + day - 1
    return (days * _DAY_S + hour * 3600 + minute * 60 + second) * 10**9

"""Figures of a serving engine as Prometheus scrapes them: one scrape in a file, or several one after the other."""

from __future__ import annotations

import json
import re
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import Found, real, stamp
from npulens.ingest.readers.serving.lines import beginning, lines
from npulens.ingest.tables.draft import Draft

TITLE = "Prometheus figures"

_SIGN = re.compile(rb"^# (?:HELP|TYPE) [a-zA-Z_:]", re.MULTILINE)
_LINE = re.compile(r"^([a-zA-Z_:][\w:]{0,200})(?:\{(.{0,4000})\})?\s+(\S{1,40})(?:\s+(\d{10,16}))?$")
_LABEL = re.compile(r'([a-zA-Z_]\w{0,100})="((?:[^"\\]|\\.){0,1000})"')
#: When a file was scraped, in a comment of whoever scraped it.
_SCRAPED = re.compile(r"^# scraped(?:_at)?(?:_ns)? (\d{10,20}(?:\.\d{1,9})?)\b")
#: A histogram of a hundred buckets says nothing that its count and sum do not, for what is asked here.
_LEFT_OUT = "_bucket"
_MS = 10**6


def sniff(path: Path) -> Claim | None:
    """Lines that say what a figure is."""
    head = beginning(path)
    first = head.split(b"\n", 1)[0]
    if b"\0" in head or not (first.startswith(b"# ") or b" " in first) or not _SIGN.search(head):
        return None
    return Claim("prometheus", path, (path,))


def read(claim: Claim, draft: Draft) -> None:
    """Every figure with its labels, at the moment of its scrape where one is told."""
    path = claim.files[0]
    found = Found(draft, "prometheus", path)
    at: int | None = None
    for raw in lines(path, draft):
        line = raw[:8192].decode("utf-8", "replace").rstrip()
        if scraped := _SCRAPED.match(line):
            at = _moment(scraped[1])
        if not line or line.startswith("#"):
            continue
        match = _LINE.match(line)
        value = None if match is None else real(match[3])
        if match is None or value is None:
            found.lost(Message("serving_line_cannot_be_read"), table="serving_sample")
            continue
        if not match[1].endswith(_LEFT_OUT):
            labels = dict(_LABEL.findall(match[2] or ""))
            own = stamp(match[4], _MS) if match[4] else at
            found.sample(match[1], value, own, json.dumps(labels, ensure_ascii=False) if labels else None)
    if not found.counts["serving_sample"]:
        raise IngestError("empty", Message("serving_file_holds_nothing", {"file": path.name}), str(path))
    found.done("unix")


def _moment(written: str) -> int | None:
    """Seconds, milliseconds or nanoseconds since 1970."""
    return next((at for unit in (10**9, _MS, 1) if (at := stamp(written, unit)) is not None), None)

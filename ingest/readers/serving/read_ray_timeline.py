"""A timeline of Ray (`ray timeline`): what its workers ran, as Chrome events."""

from __future__ import annotations

import re
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import Found, duration, stamp, text, whole
from npulens.ingest.readers.serving.lines import beginning, document, several, table
from npulens.ingest.readers.serving.read_verl import role
from npulens.ingest.tables.draft import Draft

TITLE = "Ray timeline"

#: Ray calls its tasks task::NAME, and colours them.
_SIGN = re.compile(rb'^\[\s*\{(?=[^}]{0,2000}"cat"\s*:\s*"task(?:::|"))(?=[^}]{0,2000}"(?:cname|task_id)"\s*:)')
_RANK = re.compile(r"rank[ _=:]?(\d{1,6})", re.IGNORECASE)
_US = 10**3


def sniff(path: Path) -> Claim | None:
    """An array that begins with a task."""
    return Claim("ray_timeline", path, (path,)) if _SIGN.match(beginning(path)) else None


def read(claim: Claim, draft: Draft) -> None:
    """Each task that ran, by the name of its function."""
    path = claim.files[0]
    found = Found(draft, "ray", path)
    for said in several(document(path, draft)):
        if not isinstance(said, dict) or said.get("ph") != "X":
            continue
        about = table(said.get("args"))
        kind = str(said.get("cat", ""))
        name = text(about.get("name")) or text(kind.removeprefix("task::")) or text(said.get("name"))
        begin, length = stamp(said.get("ts"), _US), duration(said.get("dur"), _US)
        if begin is None or length is None or name is None:
            found.lost(Message("serving_span_without_stamp"), table="stage")
            continue
        if not kind.startswith("task::") and "name" not in about:
            continue  # a part of a task: its arguments, its outputs
        rank = _RANK.search(str(said.get("tid", "")))
        found.add("stage", {
            "ts_ns": begin, "dur_ns": length, "name": name, "role": role(name), "replica": whole(about.get("replica")),
            "role_rank": None if rank is None else int(rank[1]), "step": None, "source": "ray timeline",
        })  # fmt: skip
    if not found.counts["stage"]:
        raise IngestError("empty", Message("serving_file_holds_nothing", {"file": path.name}), str(path))
    found.done()

"""Derived files of MindSpore's profiler before it wrote ascend_ms directories (1.x, MindInsight's input).

Operators and steps are read span by span where their files are there; what is only an average or a sum goes to
``summary``. Stamps are the device's own counter, whose zero nobody recorded.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim, Facts
from npulens.ingest.readers.ascend import cells
from npulens.ingest.readers.mindspore import files, spans, steps, sums, timeline
from npulens.ingest.tables.draft import Draft

TITLE = "MindSpore derived files"

_RECORD = Message("mindspore_profiler_then_load_its")


def sniff(path: Path) -> Claim | None:
    """Any one of the files stands for all that describe its device."""
    if files.role(path.name) is None or not peek.at(path).is_file:
        return None
    found = files.beside(path)
    if not found:
        return None
    lead = next(iter(found.values()))
    told = files.role(lead.name)
    rank = told[1] if told else None
    facts = Facts(rank, None if rank is None else "file name")
    return Claim("mindspore", lead, tuple(sorted({path, *found.values()})), facts)


def read(claim: Claim, draft: Draft) -> None:
    """Fill a draft from whatever of the files there is."""
    found = {told[0]: path for path in claim.files if (told := files.role(path.name))}
    if set(found) <= {"points", "counter"}:
        raise IngestError(
            "empty", Message("mindspore_s_notes_about_capture"),
            str(claim.root),
        )  # fmt: skip
    try:
        _read(found, draft)
    except duckdb.Error as error:
        raise IngestError("failed", Message("mindspore_s_files_give_no", {"error": error}), str(claim.root)) from error


def _read(found: dict[str, Path], draft: Draft) -> None:
    cells.macros(draft.con)
    draft.fact("backend", "npu")
    draft.fact("clock", "monotonic")
    timeline.read_calls(found.get("calls"), draft)
    timeline.read_display(found.get("timeline"), draft)
    steps.read(found.get("steps"), draft)
    least_ns = sums.least_tick(found.get("counter"), draft)
    spans.make(draft, least_ns)
    kept = steps.whole(draft)
    spans.provide(draft, found.get("framework"), kept)
    steps.provide(draft, kept)
    sums.provide(found, draft)
    sums.settings(found, draft, least_ns)
    _tell(found, draft)


def _tell(found: dict[str, Path], draft: Draft) -> None:
    """What these files cannot hold, and what of them is not there."""
    for table in ("host_op", "stack", "link"):
        draft.absent(table, Message("mindspore_s_derived_files_hold_nothing"), _RECORD)
    draft.absent("transfer", Message("mindspore_s_derived_files_hold"), _RECORD)
    for table in ("sample", "memory_sample", "memory_event"):
        if table not in draft.selects:
            draft.absent(table, Message("not_in_mindspore_s_derived"), _RECORD)
    if not {"timeline", "calls"} & set(found):
        missing = Message("neither_timeline_display_nor_output")
        draft.absent("kernel", missing, _RECORD)
        if "steps" in found:
            draft.partial(None, Message("only_steps_and_their_communication", {"reason": missing}))
        else:
            draft.absent("span", missing, _RECORD)
            draft.absent("comm", Message("neither_timeline_nor_step_trace"), _RECORD)
            draft.partial(None, Message("only_sums_and_averages", {"reason": missing}))
    if "steps" not in found:
        draft.absent("step", Message("step_trace_raw_detail_time"), _RECORD)

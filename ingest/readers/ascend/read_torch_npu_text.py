"""torch_npu and msprof text exports: trace_view.json and the CSV and JSON files beside it.

The trace gives the spans; kernel_details says what the kernels were, communication.json how the profiler
analysed its operators. Any of the files may be missing: each gives what it has.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.readers import Claim
from npulens.ingest.readers.ascend import cells, completeness, device, rankdir, shared
from npulens.ingest.readers.ascend.text import (
    comm,
    comm_json,
    cover,
    csv_tables,
    exports,
    host,
    lanes,
    links,
    strangers,
    trace_parts,
)
from npulens.ingest.readers.ascend.text.kernel_csv import pmu, read_kernels
from npulens.ingest.readers.ascend.text.trace_view import read_trace
from npulens.ingest.tables import checks
from npulens.ingest.tables.draft import Draft, give_back

TITLE = "torch_npu text export"


def sniff(path: Path) -> Claim | None:
    """A rank directory, its output directory, or one of our files on its own."""
    seen = peek.at(path)
    if seen.is_file:
        return _claim(path.parent, [path]) if _is_ours(path.name) and path.suffix != ".gz" else None
    if not seen.is_dir:
        return None
    root = rankdir.rank_root(path) or path
    return _claim(root, [file for directory in rankdir.output_dirs(root) for file in _listed(directory)])


def read(claim: Claim, draft: Draft) -> None:
    """Fill the draft from whatever of the files there is."""
    try:
        _read(claim, draft)
    except duckdb.Error as error:
        raise IngestError("failed", f"the text export gives no tables: {error}", str(claim.root)) from error


def _read(claim: Claim, draft: Draft) -> None:
    if not any(path.stat().st_size for path in claim.files if _is_ours(path.name)):
        raise IngestError("empty", f"its files hold no bytes; {completeness.again(claim.root)}", str(claim.root))
    one = claim.device
    if one is not None and not claim.shared:
        raise IngestError("shared", "the text does not say which lanes belong to which device", str(claim.root))
    chosen = exports.choose(claim.files, one)
    rankdir.describe(claim.root, draft, one)
    known = rankdir.groups_of(claim.root)
    groups = {number: name for number, (name, _) in known.items()}
    groups |= {number: groups.get(number, number) for number in rankdir.facts(claim.root).groups}
    cells.macros(draft.con)
    done = read_trace(chosen.trace, draft)
    trace_parts.settle(draft, len(chosen.trace), one)
    give_back()
    metrics = read_kernels(chosen.kernels, draft, one)
    strangers.kernels(draft, chosen.kernels)
    if one is not None:
        trace_parts.say_shared(draft, one, claim.beside, claim.root)
    lane_rows = lanes.name_lanes(draft, groups)
    comm_json.read_operators(_find(claim, exports.COMMUNICATION[0]), draft)
    device.make(draft)
    comm.provide(draft, groups, dict(known.values()))
    comm_json.read_matrix(_find(claim, exports.COMMUNICATION[1]), draft, groups)
    device.provide(draft)
    links.provide(draft, several=len(chosen.trace) > 1)
    csv_tables.provide(chosen.tables, draft, one)
    host.provide(draft)
    _samples(draft)
    draft.con.execute("CREATE VIEW kernel_span AS SELECT row AS span_id, kd FROM dev WHERE kd IS NOT NULL")
    if metrics:
        draft.provide("pmu", pmu(metrics, "kernel_span"))
    _said(draft)
    cover.facts(claim.root, draft)
    cover.tell(claim, draft, done, lane_rows)
    cover.unread(claim, chosen.unread, draft)


def _is_ours(name: str) -> bool:
    return exports.name(name) is not None


def _listed(directory: Path) -> list[Path]:
    try:
        ours = (directory / name for name in peek.at(directory).names if _is_ours(name))
        return sorted(path for path in ours if path.is_file())
    except OSError:
        return []


def _claim(root: Path, files: list[Path]) -> Claim | None:
    if root.name in (rankdir.OUTPUT, rankdir.MSPROF_OUTPUT):
        root = root.parent
    if not files:
        return None
    every = tuple(sorted({*files, *rankdir.small_files(root)}))
    return Claim("torch_npu_text", root, every, rankdir.facts(root), shared.by_text(root, files))


def _find(claim: Claim, name: str) -> Path | None:
    return next((path for path in claim.files if path.name == name), None)


def _said(draft: Draft) -> None:
    """Sums that follow from whole files and that no table keeps."""
    for source, quantity, table, query in (
        ("kernel_details.csv", checks.KERNELS, "kernel", "SELECT sum(dur) FROM kd WHERE NOT comm AND NOT is_task "
         "AND row NOT IN (SELECT kd FROM dev WHERE kind = 'device_other' AND kd IS NOT NULL)"),
        ("communication.json", checks.OPERATORS, "comm", "SELECT sum(elapsed_ns) FROM op_analysed"),
    ):
        total = draft.con.execute(f"SELECT ({query})::BIGINT").fetchall()[0][0]
        if total is not None:
            draft.said.append(checks.Said(source, table, quantity, None, total))


def _samples(draft: Draft) -> None:
    """Counters. Those of an accelerator are told apart by its number."""
    accelerator = "'Acc PMU ' || c.accelerator || '/' || replace(n.text, 'band_width', 'bandwidth')"
    name = f"CASE WHEN c.accelerator IS NULL THEN n.text ELSE {accelerator} END"
    draft.provide(
        "sample",
        f"SELECT {name} AS counter, c.series, c.ts AS ts_ns, c.value FROM counter c JOIN str n ON n.code = c.name",
    )
    draft.provide(
        "sample",
        """SELECT n.text AS counter, s.key AS series, s.ts AS ts_ns, finite(try_cast(s.value AS DOUBLE)) AS value
        FROM (SELECT name, ts, unnest(json_keys(rest)) AS key, unnest(json_extract_string(rest, '$.*')) AS value
              FROM counter_rest WHERE json_valid(rest)) s JOIN str n ON n.code = s.name
        WHERE finite(try_cast(s.value AS DOUBLE)) IS NOT NULL""",
    )

"""torch_npu and msprof text exports: trace_view.json and the CSV and JSON files beside it.

The trace gives the spans; kernel_details says what the kernels were, communication.json how the profiler
analysed its operators. Any of the files may be missing: each gives what it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message, joined
from npulens.ingest.readers import Claim
from npulens.ingest.readers.ascend import cells, completeness, device, rankdir, shared
from npulens.ingest.readers.ascend.stage import count
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
)
from npulens.ingest.readers.ascend.text.kernel_csv import pmu, read_kernels
from npulens.ingest.readers.ascend.text.trace_view import read_trace
from npulens.ingest.tables import checks
from npulens.ingest.tables.draft import Draft, give_back

_WITH_LANE = ("x_host", "x_hardware", "x_comm", "flow")
_WITH_PID = ("meta", "counter", "counter_rest")


def settle(draft: Draft, files: int, device: int | None) -> None:
    """Replace the views of the raw tables where there are several files or devices; else they are right as they are."""
    if files < 2 and device is None:
        return
    lanes = " UNION ".join(f"SELECT lane FROM {name}" for name in _WITH_LANE)
    draft.con.execute(f"""
        CREATE TEMP TABLE same_lane AS SELECT lane, first FROM (
            SELECT lane, min(lane) OVER (PARTITION BY p.text, t.text) AS first FROM ({lanes})
            LEFT JOIN str p ON p.code = lane >> 32 LEFT JOIN str t ON t.code = lane & 4294967295)
        WHERE lane <> first""")
    draft.con.execute(f"""
        CREATE TEMP TABLE foreign_pid AS
        WITH labelled AS (
            SELECT p.text AS pid, l.text AS label FROM meta m JOIN str p ON p.code = m.pid
            JOIN str w ON w.code = m.name AND w.text = 'process_labels' JOIN str l ON l.code = m.labels)
        SELECT code::BIGINT AS code FROM str WHERE {device is not None} AND text IN (
            SELECT pid FROM labelled WHERE regexp_full_match(label, 'NPU \\d+') AND label <> 'NPU {device}'
            AND pid NOT IN (SELECT pid FROM labelled WHERE label = 'NPU {device}'))""")
    for name in _WITH_LANE:
        draft.con.execute(f"""
            CREATE OR REPLACE VIEW {name} AS SELECT r.* REPLACE (coalesce(s.first, r.lane) AS lane)
            FROM {draft.raw[name]} r LEFT JOIN same_lane s ON s.lane = r.lane
            WHERE (r.lane >> 32) NOT IN (SELECT code FROM foreign_pid)""")
    for name in _WITH_PID:
        ours = "pid NOT IN (SELECT code FROM foreign_pid)"
        draft.con.execute(f"CREATE OR REPLACE VIEW {name} AS FROM {draft.raw[name]} WHERE {ours}")


def say_shared(draft: Draft, device: int, beside: Sequence[int], root: Path) -> None:
    """What a rank that shares its export says of it; a device of which the export has nothing is no rank."""
    if not count(draft, "SELECT (SELECT count(*) FROM x_hardware) + (SELECT count(*) FROM x_comm) + count(*) FROM kd"):
        raise IngestError("empty", Message("export_holds_nothing_device", {"device": device}), str(root))
    listed = ", ".join(map(str, beside))
    draft.note("span", Message("one_process_drove_devices_its", {"devices": listed}))
    draft.fact("device_id", device)


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
        raise IngestError(
            "failed", Message("text_export_gives_no_tables", {"error": error}), str(claim.root)
        ) from error


def _read(claim: Claim, draft: Draft) -> None:
    if not any(path.stat().st_size for path in claim.files if _is_ours(path.name)):
        raise IngestError(
            "empty", joined([Message("its_files_hold_no_bytes"), completeness.again(claim.root)]), str(claim.root)
        )
    one = claim.device
    if one is not None and not claim.shared:
        raise IngestError("shared", Message("text_does_not_say_which"), str(claim.root))
    chosen = exports.choose(claim.files, one)
    rankdir.describe(claim.root, draft, one)
    known = rankdir.groups_of(claim.root)
    groups = {number: name for number, (name, _) in known.items()}
    groups |= {number: groups.get(number, number) for number in rankdir.facts(claim.root).groups}
    cells.macros(draft.con)
    done = read_trace(chosen.trace, draft)
    settle(draft, len(chosen.trace), one)
    give_back()
    metrics = read_kernels(chosen.kernels, draft, one)
    strangers.kernels(draft, chosen.kernels)
    if one is not None:
        say_shared(draft, one, claim.beside, claim.root)
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
        (
            "kernel_details.csv",
            checks.KERNELS,
            "kernel",
            "SELECT sum(dur) FROM kd WHERE NOT comm AND NOT is_task "
            "AND row NOT IN (SELECT kd FROM dev WHERE kind = 'device_other' AND kd IS NOT NULL)",
        ),
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

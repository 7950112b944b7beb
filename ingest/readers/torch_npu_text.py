"""torch_npu and msprof text exports: trace_view.json and the CSV and JSON files beside it.

The trace gives the spans; kernel_details says what the kernels were, communication.json how the profiler
analysed its operators. Any of the files may be missing: each gives what it has.
"""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from ingest.ascend import cells, comm, comm_json, csv_tables, device, host, lanes, links, rankdir, text_cover
from ingest.ascend.kernel_csv import pmu, read_kernels
from ingest.ascend.trace_view import read_trace
from ingest.draft import Draft, give_back
from ingest.errors import IngestError
from ingest.readers import Claim

TITLE = "torch_npu text export"

_TRACE = re.compile(r"^(trace_view|msprof(_slice)?(_\d+)+)\.json$")
_KERNELS = re.compile(r"^(kernel_details|op_summary(_slice)?(_\d+)+)\.csv$")
_TABLES = {re.compile(rf"^{name.removesuffix('.csv')}((_slice)?(_\d+)+)?\.csv$"): name for name in csv_tables.NAMES}
_COMMUNICATION = ("communication.json", "communication_matrix.json")


def sniff(path: Path) -> Claim | None:
    """A rank directory, its output directory, or one of our files on its own."""
    if path.is_file():
        return _claim(path.parent, [path]) if _is_ours(path.name) else None
    if not path.is_dir():
        return None
    root = rankdir.rank_root(path) or path
    return _claim(root, _listed(rankdir.output_dir(root)))


def read(claim: Claim, draft: Draft) -> None:
    """Fill the draft from whatever of the files there is."""
    try:
        _read(claim, draft)
    except duckdb.Error as error:
        raise IngestError("failed", f"the text export gives no tables: {error}", str(claim.root)) from error


def _read(claim: Claim, draft: Draft) -> None:
    by_kind = {name: [path for path in claim.files if pattern.match(path.name)]
               for name, pattern in (("trace", _TRACE), ("kernels", _KERNELS))}  # fmt: skip
    rankdir.describe(claim.root, draft)
    known = rankdir.groups_of(claim.root)
    groups = {number: name for number, (name, _) in known.items()}
    groups |= {number: groups.get(number, number) for number in rankdir.facts(claim.root).groups}
    cells.macros(draft.con)
    done = read_trace(by_kind["trace"], draft)
    give_back()
    lane_rows = lanes.name_lanes(draft, groups)
    metrics = read_kernels(by_kind["kernels"], draft)
    device.make(draft)
    comm_json.read_operators(_find(claim, _COMMUNICATION[0]), draft)
    comm.provide(draft, groups, dict(known.values()))
    comm_json.read_matrix(_find(claim, _COMMUNICATION[1]), draft, groups)
    device.provide(draft)
    links.provide(draft)
    csv_tables.provide(_tables(claim, draft), draft)
    host.provide(draft)
    _samples(draft)
    draft.con.execute("CREATE VIEW kernel_span AS SELECT row AS span_id, kd FROM dev WHERE kd IS NOT NULL")
    if metrics:
        draft.provide("pmu", pmu(metrics, "kernel_span"))
    text_cover.facts(claim.root, draft)
    text_cover.tell(claim, draft, done, lane_rows)


def _is_ours(name: str) -> bool:
    patterns = (_TRACE, _KERNELS, *_TABLES)
    return name in _COMMUNICATION or any(pattern.match(name) for pattern in patterns)


def _listed(directory: Path) -> list[Path]:
    try:
        return [path for path in sorted(directory.iterdir()) if _is_ours(path.name) and path.is_file()]
    except OSError:
        return []


def _claim(root: Path, files: list[Path]) -> Claim | None:
    if root.name in (rankdir.OUTPUT, rankdir.MSPROF_OUTPUT):
        root = root.parent
    if not files:
        return None
    return Claim("torch_npu_text", root, tuple(sorted({*files, *rankdir.small_files(root)})), rankdir.facts(root))


def _find(claim: Claim, name: str) -> Path | None:
    return next((path for path in claim.files if path.name == name), None)


def _tables(claim: Claim, draft: Draft) -> dict[str, Path]:
    """The file of each table; msprof writes one per device and slices long ones, of which the first is read."""
    found: dict[str, Path] = {}
    for path in claim.files:
        for pattern, name in _TABLES.items():
            if pattern.match(path.name) and found.setdefault(name, path) != path:
                draft.partial(csv_tables.table_of(name), f"{path.name} is another slice or device and is not read")
    return found


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

"""A torch_npu text export of one rank rewritten as msprof writes the device's part of it, and reading such ones."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from npulens.ingest.loading import capture
from npulens.ingest.readers.ascend import read_torch_npu_text
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.finish import finish
from tests.text_export import Loaded

PROF = "PROF_000001_20250109034804123_ABCDEFGHIJKLMNOP"
STAMP = "20250109035001"
#: kernel_details -> op_summary.
RENAMED = {
    "Name": "Op Name", "Type": "OP Type", "Accelerator Core": "Task Type", "Start Time(us)": "Task Start Time(us)",
    "Duration(us)": "Task Duration(us)", "Wait Time(us)": "Task Wait Time(us)",
}  # fmt: skip
#: Processes that only the framework's profiler writes.
FRAMEWORK = ("Python", "Python GC")


def device_events(output: Path) -> list[dict[str, Any]]:
    """What msprof alone would have written of a trace: CANN, the device, and the arrows between them."""
    events = json.loads((output / "trace_view.json").read_text())
    framework = {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] in FRAMEWORK}
    return [e for e in events if e["pid"] not in framework and e.get("cat") not in ("async_npu", "async_task_queue")]


def op_summary(output: Path) -> list[dict[str, str]]:
    with (output / "kernel_details.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{RENAMED.get(key, key): cell for key, cell in row.items() if key != "Step Id"} for row in rows]


def text_of(rows: Sequence[dict[str, str]]) -> str:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def cut(items: Sequence[Any], parts: int) -> list[Sequence[Any]]:
    size = -(-len(items) // parts)
    return [items[at : at + size] for at in range(0, len(items), size)]


def write(
    root: Path, events: Sequence[dict[str, Any]], kernels: Sequence[dict[str, str]], slices: int = 1,
    devices: Sequence[int] = (0,), stamp: str = STAMP,
) -> Path:  # fmt: skip
    """A PROF directory; what it holds is cut into slices, as msprof cuts what is long."""
    output = root / "mindstudio_profiler_output"
    output.mkdir(parents=True, exist_ok=True)
    for device in devices:
        (root / f"device_{device}" / "data").mkdir(parents=True, exist_ok=True)
    for at, (some, rows) in enumerate(zip(cut(events, slices), cut(kernels, slices), strict=True)):
        part = f"_slice_{at}" if slices > 1 else ""
        (output / f"msprof{part}_{stamp}.json").write_text(json.dumps(some))
        (output / f"op_summary{part}_{stamp}.csv").write_text(text_of(rows), newline="")
    return root


# --- reading

WHO = "SELECT span_id, concat_ws('|', t.kind, t.name, s.kind, s.name, s.ts_ns + {0}, s.dur_ns) AS key " \
    "FROM span s JOIN track t USING (track) WHERE t.process NOT IN ('Python', 'Python GC')"  # fmt: skip
KERNEL = "op_type, core, stream, task_id, block_num, mix_block_num, input_shapes, input_dtypes, output_formats, wait_ns"
COMM = (
    "collective, plane, task_type, src_local, bytes, dtype, algorithm, transport, stream, task_id, op_span_id IS NULL"
)


def named(run: Loaded) -> Loaded:
    run.con.execute(f"CREATE VIEW named AS {WHO.format(run.origin)}")
    return run


def by_device(root: Path, scratch: Path) -> list[tuple[capture.RankSource, Loaded]]:
    """Every rank of a directory, through the text reader."""
    found = []
    for at, source in enumerate(capture.find([root]).sources):
        (claim,) = (claim for claim in source.claims if claim.format == "torch_npu_text")
        draft = Draft(scratch / f"draft{at}", source.facts.rank or 0)
        read_torch_npu_text.read(claim, draft)
        part = finish(draft, scratch / f"tables{at}")
        con = duckdb.connect()
        for table in part.rows:
            con.execute(f"CREATE VIEW {table} AS FROM '{scratch / f'tables{at}' / table}.parquet'")
        found.append((source, named(Loaded(part, con))))
    return found


def rows(run: Loaded, query: str) -> list[str]:
    return sorted(map(repr, run.all(query)))


def same(got: Loaded, wanted: Loaded, only: str = "true") -> None:
    queries = (
        f"SELECT key FROM named WHERE {only}",
        f"SELECT key, {KERNEL} FROM kernel JOIN named USING (span_id)",
        f"SELECT key, {COMM} FROM comm JOIN named USING (span_id)",
        "SELECT key, metric, value FROM pmu JOIN named USING (span_id)",
    )
    for query in queries:
        ours, theirs = rows(got, query), rows(wanted, query)
        assert ours == theirs and ours, query

"""Raw tables of a trace in several files, or about several devices, made those of one trace and one device.

Each file numbers its texts anew, so a lane that two slices share has two numbers. A device is known by the label of
its processes ("NPU 3"); what has no such label, like the host that drives all devices, stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.tables.draft import Draft

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
        raise IngestError("empty", f"the export holds nothing of device {device}", str(root))
    listed = ", ".join(map(str, beside))
    draft.note("span", f"one process drove the devices {listed}: its host calls are shown with each of them")
    draft.fact("device_id", device)

"""Random spans as a stored and arranged run, for tests that compare the timeline's data with brute force."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pandas as pd
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tablecase import connection

from npulens.analysis.timeline.tiles import Arranged, arranged
from npulens.ingest.store import lod
from npulens.ingest.tables import schema

NAMES = ("matmul", "Add", "aten::linear", "50% off", "_x_", "x" * 300, "数据\u202eevil", "")
TRACKS = 5
HARD = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass(frozen=True)
class Case:
    """A store with one run, and its spans as a frame of this test's own."""

    store: Path
    spans: pd.DataFrame
    con: duckdb.DuckDBPyConnection
    how: Arranged

    @property
    def end(self) -> int:
        return int((self.spans.ts_ns + self.spans.dur_ns).max())

    def seen(self, begin: int, end: int, tracks: list[int]) -> pd.DataFrame:
        """Spans that reach into a window; an instant is there where it lies."""
        s = self.spans
        return s[(s.ts_ns < end) & (s.ts_ns + s.dur_ns.clip(lower=1) > begin) & s.track.isin(tracks)]


def rows(count: int, seed: int) -> pd.DataFrame:
    """Random spans: lanes whose spans follow each other, lengths from instants to a tenth of the run."""
    pick = random.Random(seed)
    found: list[tuple[int, int, int, int, int, str, str]] = []
    for track in range(TRACKS):
        for lane in range(2):
            at = pick.randrange(1000)
            for _ in range(count // (2 * TRACKS)):
                length = pick.choice((0, 1, pick.randrange(5), pick.randrange(300), pick.randrange(30_000)))
                length = 10_000_000 if pick.random() < 2 / count else length
                name = pick.choice(NAMES)
                kind = "kernel" if track else "cpu_op"
                found.append((len(found), track, lane, at, length, name, kind))
                at += length + pick.choice((1, pick.randrange(1, 50), pick.randrange(1, 20_000)))
    return pd.DataFrame(found, columns=["span_id", "track", "depth", "ts_ns", "dur_ns", "name", "kind"])


def case(place: Path, spans: pd.DataFrame) -> Case:
    """The rows as a stored run, arranged."""
    run = place / "run1"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text(f'{{"schema_version": {schema.version()}}}')
    con = connection({})
    con.execute("DELETE FROM span")
    names = "span_id, 0, track, kind, name, ts_ns, dur_ns, NULL, parent_id, depth"
    con.register(
        "given", spans if "parent_id" in spans else spans.assign(parent_id=pd.array([None] * len(spans), "Int64"))
    )
    con.execute(f"INSERT INTO span SELECT {names} FROM given ORDER BY track, ts_ns, dur_ns DESC")
    con.execute("INSERT INTO track SELECT DISTINCT track, 0, CASE track WHEN 0 THEN 'host_thread' ELSE 'stream' END, "
                "'t' || track, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM span")  # fmt: skip
    con.execute("INSERT INTO sample SELECT 0, 'freq', 'MHz', range * 10, range % 7 FROM range(1000)")
    con.execute("INSERT INTO sample VALUES (0, 'freq', 'MHz', 5, 'nan'), (0, 'other', 'x', 50, 1)")
    for table in schema.tables():
        con.execute(f"COPY {table} TO '{run / table}.parquet' (FORMAT parquet)")
    con.close()
    opened = lod.open_lod(place, "run1")
    return Case(place, spans, opened, arranged(opened))


windows = st.tuples(st.floats(0, 1), st.integers(0, 30), st.integers(1, 4000), st.integers(1, 2**TRACKS - 1))


def asked(of: Case, drawn: tuple[float, int, int, int]) -> tuple[int, int, int, list[int]]:
    """Window, pixels and tracks."""
    place, halved, pixels, bits = drawn
    length = max(1, (of.end + 10) >> halved)
    begin = int(place * of.end) - length // 3
    return begin, begin + length, pixels, [track for track in range(TRACKS) if bits >> track & 1]

"""Runs that were loaded once for real and are then put into any store in some milliseconds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq

from npulens.ingest.loading import worker
from npulens.ingest.store import runs
from npulens.ingest.tables import schema
from tests.test_store import kineto


class Templates:
    """Runs loaded once for real, and what they hold."""

    def __init__(self, directory: Path) -> None:
        self.store = directory / "templates"
        self.captures = {
            "zero": kineto(directory / "zero.json", rank=0, spans=3),
            "one": kineto(directory / "one.json", rank=1, spans=4),
            "other": kineto(directory / "other.json", rank=0, spans=5, begin=1_763_700_000_000_000),
        }
        self.ids = {name: self.load(path, None) for name, path in self.captures.items()}
        self.ids["both"] = self.load(self.captures["one"], self.ids["zero"])
        self.rows = {run_id: self.counted(self.store / run_id) for run_id in self.ids.values()}

    def load(self, capture: Path, join: str | None) -> str:
        (entry,) = worker.load(worker.Request((capture,), self.store, None, join), lambda message: None).runs
        return str(entry["run_id"])

    @staticmethod
    def counted(run: Path) -> dict[str, int]:
        """Rows of every table by the footers of its files."""
        return {name: pq.ParquetFile(run / f"{name}.parquet").metadata.num_rows for name in schema.tables()}

    def copy(self, where: Path, name: str) -> str:
        """What a load does to a store once the files are parsed; 'new' or 'exists'."""
        run_id = self.ids[name]
        runs.open_store(where)
        runs.collect(where)
        with runs.upload_lock(where, run_id):
            known = runs.recall_upload(where, run_id)
            if known is not None:
                return "exists"
            with runs.staging(where) as scratch:
                shutil.copytree(self.store / run_id, scratch / run_id)
                stored = runs.commit(where, scratch / run_id, run_id)
            runs.remember_upload(where, run_id, [{"run_id": run_id}])
        return stored

"""A run that an earlier release stored, in the tables of today.

Schema version 3 is that of 0.1 and 0.2. Since then columns were added for what is said in two languages, and the tables
of serving. Nothing of a trace changed its meaning. So columns and tables that are new are empty, and coverage says
so. Where the raw capture is kept, the run is made anew from it instead.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, loaded, stored
from npulens.ingest.store import seal
from npulens.ingest.tables import schema
from npulens.ingest.tables.concatenate import arrow

#: The oldest version that a release has written.
OLDEST = 3
_WHY = Message("stored_before_it_was_read")
#: Written anew whatever they hold: they name the version, or what is covered.
_OWN = ("run", "coverage")


def manifest_of(directory: Path) -> dict[str, Any]:
    """The manifest of an older run; messages that are no longer known stay the text that they were."""
    content = (directory / seal.MANIFEST).read_text("utf-8")
    try:
        found = loaded(content)
    except ValueError:
        found = json.loads(content)
    return dict(found)


def migrate(source: Path, staged: Path) -> None:
    """Write an older run to ``staged`` as this version stores it; IngestError where that cannot be."""
    manifest = manifest_of(source)
    version = manifest["schema_version"]
    if not OLDEST <= version < schema.version():
        known = {"found": version, "known": schema.version()}
        raise IngestError("old_run", Message("run_cannot_be_migrated", known), str(source))
    staged.mkdir(parents=True)
    new = [name for name in schema.tables() if not (source / f"{name}.parquet").is_file()]
    try:
        for name in schema.tables():
            _table(name, source / f"{name}.parquet", staged / f"{name}.parquet")
        ranks = [int(piece["rank"]) for piece in manifest["pieces"]]
        _cover(staged / "coverage.parquet", ranks, new)
    except (pa.ArrowException, OSError) as error:
        raise IngestError(
            "damaged_run", Message("files_of_run_cannot_be_read", {"error": error}), str(source)
        ) from error
    manifest["schema_version"] = schema.version()
    manifest["coverage"] = _covered(manifest["coverage"], ranks, new)
    for piece in manifest["pieces"]:
        piece["part"]["coverage"] = [*piece["part"]["coverage"], *(_row(name) for name in new)]
    manifest["migrated_from"] = version
    (staged / seal.MANIFEST).write_text(seal.sealed(manifest), "utf-8")


def _table(name: str, source: Path, target: Path) -> None:
    wanted = arrow(name)
    if not source.is_file():
        pq.write_table(wanted.empty_table(), target, compression="zstd")
        return
    with pq.ParquetFile(source) as file:
        known = file.schema_arrow
        if name not in _OWN and known.names == wanted.names and known.types == wanted.types:
            for group in range(file.num_row_groups):  # all is read once: what is stored from now on is proved
                file.read_row_group(group)
            shutil.copyfile(source, target)
            return
        with pq.ParquetWriter(target, wanted, compression="zstd") as out:
            for batch in file.iter_batches(65_536):
                out.write_batch(_fitted(name, batch, wanted))


def _fitted(name: str, batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    columns = [
        batch.column(field.name).cast(field.type) if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]  # fmt: skip
    if name == "run":
        at = wanted.get_field_index("schema_version")
        columns[at] = pa.array([schema.version()] * batch.num_rows, wanted.field(at).type)
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _row(name: str) -> dict[str, Any]:
    return {
        "table": name, "status": "absent", "rows": 0, "expected": None, "dropped": 0, "reason": _WHY,
        "collect_with": None,
    }  # fmt: skip


def _covered(rows: Iterable[dict[str, Any]], ranks: Iterable[int], new: Iterable[str]) -> list[dict[str, Any]]:
    return [*rows, *(dict(_row(name), rank=rank) for rank in ranks for name in new)]


def _cover(path: Path, ranks: Iterable[int], new: Iterable[str]) -> None:
    wanted = arrow("coverage")
    rows = [dict(row, table_name=row["table"], said=stored(row["reason"])) for row in _covered([], ranks, new)]
    added = pa.Table.from_pylist(rows, schema=wanted)
    pq.write_table(pa.concat_tables([pq.read_table(path, schema=wanted), added]), path, compression="zstd")

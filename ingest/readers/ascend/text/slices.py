"""The slices of a table as one table, and of a table of several devices the rows of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from npulens.ingest.readers.ascend.cells import Csv, read_csv
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.sqltext import quoted

#: No file has as many rows.
_ROWS = 1 << 36
_DEVICE = "Device_id"


def read_slices(paths: Sequence[Path], draft: Draft, name: str, device: int | None = None) -> Csv | None:
    """Read the slices of a table into the view ``name``; None if none of them even holds a header."""
    single = len(paths) == 1 and device is None
    files, damage = [], []
    for at, path in enumerate(paths):
        if file := read_csv(path, draft, name if single else f"{name}_{at}"):
            files.append(file)
            damage += [file.damage] if file.damage else []
        else:
            damage.append(f"{path.name} is empty")
    if single or not files:
        return files[0] if files else None
    columns = tuple(dict.fromkeys(column for file in files for column in file.columns))
    selects = (
        f"SELECT * REPLACE (row + {at * _ROWS} AS row) FROM {quoted(file.name)}{_of(file, device)}"
        for at, file in enumerate(files)
    )
    draft.con.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {' UNION ALL BY NAME '.join(selects)}")
    whole = Csv(files[0].path, name, columns, sum(file.rows for file in files), sum(file.padded for file in files))
    return replace(whole, damage="; ".join(damage) or None)


def _of(file: Csv, device: int | None) -> str:
    """The rows of a device, and those of none: the host's."""
    if device is None or not file.has(_DEVICE):
        return ""
    return f" WHERE coalesce({file.whole(_DEVICE)}, {device}) = {device}"

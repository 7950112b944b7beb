"""Texts that a database keeps once and refers to by number: STRING_IDS and the tables of names."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.readers.ascend.db.tables import API_TYPES
from npulens.ingest.readers.sqlite import Database, Scan, wanted

#: A longer text is cut: no name, list of shapes or frame is as long.
LONGEST = 1 << 16
#: A text is repeated wherever its number stands. Where the texts of a batch are more than this, 2 KB each, they are
#: cut to the shorter length: one text of a file must not become its length times the rows of the file.
_BATCH_BYTES, _SHORT = 4 << 20, 1 << 10
#: Texts held at most; real databases have a few MB of them.
_MAX_BYTES = 128 << 20


class Texts:
    """Looks numbers up. ``damage`` holds sentences on what of the texts could not be had."""

    def __init__(self, database: Database) -> None:
        self._database, self.damage = database, dict[str, None]()
        self._known: dict[str, tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pa.Array]] = {}

    def of(self, table: str, numbers: pa.Array) -> pa.Array:
        """The texts of numbers; NULL where there is none."""
        if table not in self._known:
            self._known[table] = self._read(table)
        ids, texts = self._known[table]
        if not len(ids):
            return pa.nulls(len(numbers), pa.string())
        asked = pc.fill_null(numbers, -1).to_numpy(zero_copy_only=False)
        at = np.minimum(np.searchsorted(ids, asked), len(ids) - 1)
        found = texts.take(pa.array(at, mask=ids[at] != asked))
        if found.nbytes <= _BATCH_BYTES:
            return found
        self.damage[f"long texts of {table} that are used often are cut after {_SHORT} letters"] = None
        return pc.utf8_slice_codeunits(found, 0, _SHORT)

    def _read(self, table: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pa.Array]:
        """All of a table, sorted by number; of a repeated number the first."""
        result, size, cut = Scan(), 0, 0
        ids, texts = [np.empty(0, np.int64)], [pa.array([], pa.string())]
        if table in self._database.tables:
            column = "value" if table == "STRING_IDS" else "name"
            for batch in self._database.scan(table, wanted(f"id:i {column}:s"), result):
                batch = batch.filter(pc.and_kleene(pc.greater_equal(batch["id"], 0), pc.is_valid(batch[column])))
                cut += pc.sum(pc.greater(pc.utf8_length(batch[column]), LONGEST)).as_py() or 0
                ids.append(batch["id"].to_numpy(zero_copy_only=False))
                texts.append(pc.utf8_slice_codeunits(batch[column], 0, LONGEST))
                size += texts[-1].nbytes
                if size > _MAX_BYTES:
                    self.damage[f"{table} holds more than {_MAX_BYTES >> 20} MB of texts"] = None
                    break
        if cut:
            self.damage[f"{cut} texts of {table} are cut after {LONGEST} letters"] = None
        if result.damage:
            self.damage[result.damage] = None
        if table == "ENUM_API_TYPE":
            ids.append(np.array(list(API_TYPES), np.int64))
            texts.append(pa.array(API_TYPES.values(), pa.string()))
        numbers, first = np.unique(np.concatenate(ids), return_index=True)
        return numbers, pa.concat_arrays(texts).take(pa.array(first))

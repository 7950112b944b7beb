"""A stored or staged run without the people, machines and places in it.

Two passes over the text of every table. The first asks which names are hosts and users (DuckDB, distinct answers). The
second rewrites what may hold something. Columns are looked at as a whole; only distinct texts that a cheap pattern
suspects are taken apart, each once. A table with nothing to change stays as it is.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from blake3 import blake3

from npulens.ingest.messages import Message, dumped, loaded
from npulens.ingest.store import notes, seal
from npulens.ingest.store.connection import open_run
from npulens.ingest.store.redact import Redactor
from npulens.ingest.store.redact_rules import SUSPECT
from npulens.ingest.store.runs import RunInfo, staging
from npulens.ingest.tables import schema
from npulens.ingest.tables.assemble import Assembled
from npulens.ingest.tables.draft import AMPLE_MEMORY, ROW_GROUP, connect
from npulens.ingest.tables.sqltext import literal

#: Patterns of names, one group each, as both RE2 and Python read them.
_HOSTS = (
    r"(?i)[\"'](?:host(?:_?name|_?uid)?|master_addr|node_?name)[\"']\s*:\s*[\"']([^\"'\\/\s]{1,255})[\"']",
    r"(?:^|\W)(?:HOSTNAME|MASTER_ADDR|NODE_NAME)=([A-Za-z0-9][\w.-]*)",
    r"(?:^|[^\w.-])([A-Za-z0-9][\w.-]*?)_\d+_\d{14,20}_ascend_(?:pt|ms)",
    r"(?:^|[^\w.-])([A-Za-z0-9][\w.-]*?)_\d+(?:\.\d+)?\.(?:pt\.)?trace\.json",
)
_USERS = (
    r'(?:/|\\/|\\\\|\\)(?:home|Users|users)(?:/|\\/|\\\\|\\)([^/\\\s"\'():,;<>]{1,64})',
    r"(?i)[\"'](?:user|user_?name|logname|login)[\"']\s*:\s*[\"']([^\"'\\/\s]{1,64})[\"']",
    r"(?:^|\W)(?:USER|LOGNAME|USERNAME)=([A-Za-z_][\w.-]*)",
    r"(?:^|[^\w.+-])([\w.+-]+)@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}",
)
#: More names than a cluster has; a hostile file does not get a pattern of a million of them.
_MOST_NAMES = 5_000
#: Distinct texts whose answer is remembered, per column.
_MOST_KEPT = 200_000
#: Columns that the profiler fills from closed lists or with numbers.
_PLAIN = frozenset(
    """
    run_id kind status route address stream_ptr table_name rank_source clock input_shapes input_dtypes input_formats
    output_shapes output_dtypes output_formats grid block dtype core op_state hf32 backend formats table
    """.split()  # noqa: SIM905
)
#: Spans that a library names and no person.
_WORK = ("kernel", "memset", "memcpy", "comm_op", "comm_task", "unknown", "runtime")
#: Four numbers with dots are a version here.
_VERSIONS = "versions"
#: Messages as data.
_MESSAGES = ("said", "collect_said")


def marker(wanted: bool) -> dict[str, str]:
    """What a redacted run's id is made from besides its files: it is another run than the one that says everything."""
    return {"//redacted": "1"} if wanted else {}


def redacted(staged: Assembled, directory: Path, seen: Iterable[str] = ()) -> Assembled:
    """A staged run, redacted where it lies. ``seen``: further texts to look for names in, as its source."""
    manifest, _ = _write(directory, directory, seen)
    return replace(staged, manifest=manifest, coverage=manifest["coverage"])


@contextmanager
def outgoing(store: Path, runs: Iterable[RunInfo], wanted: bool) -> Iterator[Path]:
    """The store that leaves: the same, or one of its own that holds only these runs and labels, redacted."""
    if not wanted:
        yield store
        return
    with staging(store) as scratch:
        for run in {run.run_id: run for run in runs}.values():
            open_run(store, run.run_id).close()  # refuses an old run by name
            label = run.label or ""
            manifest, redactor = _write(store / run.run_id, scratch / run.run_id, [label])
            seal.close(scratch / run.run_id, manifest)
            if label:
                notes.set_label(scratch, run.run_id, redactor.text(label))
        yield scratch


def _write(source: Path, target: Path, seen: Iterable[str]) -> tuple[dict[str, Any], Redactor]:
    target.mkdir(parents=True, exist_ok=True)
    manifest: dict[str, Any] = loaded((source / "manifest.json").read_text("utf-8"))
    if isinstance(manifest.get("collected"), dict):
        manifest["collected"].pop("sources", None)  # lines of somebody's code
    with connect(target, 2, AMPLE_MEMORY) as con:
        redactor = Redactor(*_names(con, source, [*seen, json.dumps(manifest, ensure_ascii=False)]))
    shutil.rmtree(target / "spill", ignore_errors=True)
    for table in schema.tables():
        _table(source / f"{table}.parquet", target / f"{table}.parquet", redactor)
    said = _manifest(manifest, redactor)
    (target / "manifest.json").write_text(dumped(said, indent=1), "utf-8")
    return said, redactor


def _manifest(manifest: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    said: dict[str, Any] = _said(manifest, redactor) | {"redacted": True}
    # Who guesses a small file could make sure of it by its hash. A key that nobody keeps ends that.
    key = secrets.token_bytes(32)
    for piece in said["pieces"]:
        piece["files"] = {name: blake3(digest.encode(), key=key).hexdigest() for name, digest in piece["files"].items()}
        host = piece["part"]["facts"].get("host")
        if isinstance(host, str):
            piece["part"]["facts"]["host"] = redactor.host(host)
    return said


def _said(value: Any, redactor: Redactor) -> Any:
    """The manifest's own structure with what is inside its texts redacted."""
    if isinstance(value, list):
        return [_said(inner, redactor) for inner in value]
    if isinstance(value, Message):
        return Message(value.key, {name: _said(inner, redactor) for name, inner in value.values.items()})
    if isinstance(value, tuple):
        return tuple(_said(inner, redactor) for inner in value)
    if not isinstance(value, dict):
        return redactor.value(value)
    return {
        (redactor.text(name) if "/" in name or "." in name else name):
            inner if name in _PLAIN else redactor.value(inner) if name == "facts" else _said(inner, redactor)
        for name, inner in value.items()
    }  # fmt: skip


def _names(con: duckdb.DuckDBPyConnection, run: Path, texts: list[str]) -> tuple[list[str], list[str], set[str]]:
    """Hosts and users that a run names, hosts of lower ranks first, and the words that its operators are called by."""
    rank = literal(str(run / "rank.parquet"))
    told = con.execute(f"SELECT host FROM read_parquet({rank}) WHERE host IS NOT NULL ORDER BY rank").fetchall()
    hosts, users = [str(row[0]) for row in told], list[str]()
    for names, patterns in ((hosts, _HOSTS), (users, _USERS)):
        for pattern in patterns:
            for text in texts:
                names += re.findall(pattern, text)
        for table, columns in _texts().items():
            path = literal(str(run / f"{table}.parquet"))
            for column in columns:
                asked = " || ".join(f"regexp_extract_all({column}, {literal(p)}, 1)" for p in patterns)
                once = "" if table == "arg" else "DISTINCT"  # of arguments hardly two are alike
                rows = con.execute(
                    f"SELECT DISTINCT unnest({asked}) AS name FROM (SELECT {once} {column} FROM read_parquet({path}) "
                    f"WHERE regexp_matches({column}, {literal(SUSPECT)})) ORDER BY name LIMIT {_MOST_NAMES}"
                ).fetchall()
                names += [str(row[0]) for row in rows]
    hosts, users = (list(dict.fromkeys(map(_unescaped, names)))[:_MOST_NAMES] for names in (hosts, users))
    span = literal(str(run / "span.parquet"))
    called = con.execute(
        f"SELECT DISTINCT name FROM read_parquet({span}) WHERE kind IN {_WORK} OR name LIKE '%::%'"
    ).fetchall()
    return hosts, users, {word for (name,) in called for word in re.findall(r"[A-Za-z]+", name)}


def _texts() -> dict[str, list[str]]:
    """Tables and those of their columns that may hold anybody's text."""
    every = {
        name: [c.name for c in table.columns if c.type == "VARCHAR" and c.name not in _PLAIN]
        for name, table in schema.tables().items()
    }
    return {name: columns for name, columns in every.items() if columns}


def _unescaped(name: str) -> str:
    r"""A name out of JSON may be written with \u escapes."""
    try:
        return str(json.loads(f'"{name}"')) if "\\" in name else name
    except ValueError:
        return name


def _table(source: Path, target: Path, redactor: Redactor) -> None:
    """One table, batch by batch; the old file if nothing in it changes."""
    aside = target.with_suffix(".redacted")
    columns = _Columns(redactor, _texts().get(source.stem, []))
    with pq.ParquetFile(source) as file:
        shape = file.schema_arrow
        whole = {f.name: "DELTA_BINARY_PACKED" for f in shape if pa.types.is_integer(f.type)}
        with pq.ParquetWriter(
            aside, shape, compression="lz4", use_dictionary=[f.name for f in shape if pa.types.is_string(f.type)],
            column_encoding=whole, write_statistics=list(whole),
        ) as writer:  # fmt: skip
            for batch in file.iter_batches(ROW_GROUP):
                writer.write_batch(columns.redacted(batch))
    if columns.changed:
        os.replace(aside, target)
    else:
        aside.unlink()
        if source != target:
            shutil.copyfile(source, target)


class _Columns:
    """The text columns of one table on their way through."""

    def __init__(self, redactor: Redactor, columns: list[str]) -> None:
        self._redactor, self._columns = redactor, columns
        self._suspect = "|".join([SUSPECT, *(f"(?i:{name})" for name in redactor.names)])
        self._kept: dict[str, dict[str, str]] = {name: {} for name in columns}
        self.changed = False

    def redacted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            self._column(name, batch.column(i)) if name in self._kept else batch.column(i)
            for i, name in enumerate(batch.schema.names)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)

    def _column(self, name: str, column: pa.Array) -> pa.Array:
        held = column.dictionary_encode()
        if name == "host":
            suspects = pc.is_valid(held.dictionary)
        else:
            suspects = pc.match_substring_regex(held.dictionary, self._suspect)
        if not pc.any(suspects).as_py():
            return column
        texts = held.dictionary.filter(suspects).to_pylist()
        said = [self._said(name, text) for text in texts]
        if said == texts:
            return column
        self.changed = True
        return pc.replace_with_mask(held.dictionary, suspects, pa.array(said, column.type)).take(held.indices)

    def _said(self, name: str, text: str) -> str:
        kept = self._kept[name]
        if text not in kept:
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            kept[text] = self._asked(name, text)
        return kept[text]

    def _asked(self, name: str, text: str) -> str:
        if name == "host":
            return self._redactor.host(text)
        if name in _MESSAGES:
            return dumped(_said(loaded(text), self._redactor))
        if name == _VERSIONS:
            return self._redactor.text(re.sub(r"\b(?:\d{1,3}\.){3}\d{1,3}\b", _held, text)).replace("\x00", ".")
        return self._redactor.text(text)


def _held(found: re.Match[str]) -> str:
    """A version with its dots put by."""
    return found[0].replace(".", "\x00")

"""What was computed once of a run and is kept: STORE/.kept/<run_id>.<name>.<version>.parquet, one table each.

A run never changes, so neither does what follows from it. The version is a hash of what makes it, and of DuckDB's
release: with others it is made anew. A file is written aside, renamed once, and can be deleted at any time. Its hash
lies beside it; a file that is not what was written counts as not there.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from npulens.ingest import objects
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import seal
from npulens.ingest.store.connection import LOCKED, proved
from npulens.ingest.store.lod import alone, home
from npulens.ingest.tables import schema
from npulens.ingest.tables.sqltext import literal, quoted

FOLDER = ".kept"  # below the store


@dataclass(frozen=True)
class Answer:
    """A table that follows from a run: of a SELECT, or a data frame that a function makes."""

    name: str
    made_by: str  # all that it depends on, as text
    asked: str | Callable[[duckdb.DuckDBPyConnection], object]


def places(store: Path, run_id: str, answers: Iterable[Answer]) -> dict[str, Path]:
    """Where the answers of a run lie, once they are made."""
    return {answer.name: _place(store, run_id, answer) for answer in answers}


def there(store: Path, run_id: str, answers: Iterable[Answer]) -> dict[str, Path]:
    """Those of them that are made by now."""
    return {name: path for name, path in places(store, run_id, answers).items() if seal.holds(path)}


def make(store: Path, run_id: str, answers: Iterable[Answer], statements: Iterable[str]) -> dict[str, Path]:
    """Compute what is not there yet. `statements` make the views that the answers need.

    Several processes may ask at once: one computes, the others find it done.
    """
    objects.fetch(store, run_id)
    run = (store / run_id).resolve()
    if run != store.resolve() / run_id or not (run / "manifest.json").is_file():
        raise IngestError("unknown_run", Message("there_is_no_such_run"), str(run))
    every = list(answers)
    found = places(store, run_id, every)
    folder = home(store) / FOLDER
    try:
        with alone(folder / f"{run_id}.lock"):
            missing = [answer for answer in every if not seal.holds(found[answer.name])]
            if missing:
                proved(store, run_id)
                _sweep(folder, store, {path.name for path in found.values()})
                _write(run, {found[answer.name]: answer for answer in missing}, statements)
    except (OSError, duckdb.Error) as error:
        raise IngestError("write", Message("cannot_keep_what_was_computed", {"error": error}), str(folder)) from error
    return found


@contextmanager
def opened(places: Mapping[str, Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Answers alone, each as a view, without the run that they follow from."""
    with duckdb.connect(":memory:", config={"threads": 2, "memory_limit": "2GB", **LOCKED}) as con:
        for name, path in places.items():
            con.execute(f"CREATE VIEW {quoted(name)} AS FROM read_parquet({literal(str(path))})")
        yield con


def _place(store: Path, run_id: str, answer: Answer) -> Path:
    version = hashlib.blake2s(f"{duckdb.__version__}\0{answer.made_by}".encode(), digest_size=6).hexdigest()
    return home(store) / FOLDER / f"{run_id}.{answer.name}.{version}.parquet"


def _sweep(folder: Path, store: Path, wanted: set[str]) -> None:
    """Remove what belongs to runs that are gone, older answers to the same, and what a killed process left of this."""
    heads = {name.rpartition(".parquet")[0].rpartition(".")[0] for name in wanted}
    run_ids = {name.partition(".")[0] for name in wanted}
    for entry in folder.iterdir():
        run_id, _, rest = entry.name.partition(".")
        gone = not (store / run_id / "manifest.json").is_file() and rest != "lock"
        older = (
            entry.name.removesuffix(".sum") not in wanted
            and entry.name.rpartition(".parquet")[0].rpartition(".")[0] in heads
        )
        left = run_id in run_ids and entry.suffix in (".part", ".spill")
        if gone or older or left:
            with suppress(FileNotFoundError):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _write(run: Path, answers: Mapping[Path, Answer], statements: Iterable[str]) -> None:
    folder = next(iter(answers)).parent
    aside = folder / f"{run.name}.{secrets.token_hex(4)}.part"
    spill = aside.with_suffix(".spill")
    try:
        with duckdb.connect(
            ":memory:", config={"threads": 2, "memory_limit": "2GB", "temp_directory": str(spill), **LOCKED}
        ) as con:
            con.execute("SET enable_progress_bar = false")
            for table in schema.tables():
                file = literal(str(run / f"{table}.parquet"))
                con.execute(f"CREATE VIEW {quoted(table)} AS FROM read_parquet({file})")
            for statement in statements:
                con.execute(statement)
            for path, answer in answers.items():
                asked = answer.asked
                if not isinstance(asked, str):
                    con.register("answer", asked(con))
                    asked = "SELECT * FROM answer"
                con.execute(f"COPY ({asked}) TO {literal(str(aside))} (FORMAT parquet, COMPRESSION lz4_raw)")
                seal.sign(aside, path)
                aside.rename(path)
    finally:
        aside.unlink(missing_ok=True)
        shutil.rmtree(spill, ignore_errors=True)

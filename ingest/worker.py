"""One load, from files to committed runs, in a process of its own.

`python -m ingest.worker` reads a request (JSON) from standard input and answers with JSON lines:
progress while it works, the result at last. It looks, hashes, lets children parse the ranks,
groups them into runs and commits each. Whoever asked never touches a byte of the files.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import duckdb

from ingest import capture, sandbox, schema, store
from ingest.assemble import Assembled, Piece, Source, assemble
from ingest.capture import RankSource
from ingest.draft import AMPLE_MEMORY, MEMORY_LIMIT, Draft
from ingest.errors import IngestError
from ingest.fill import fill
from ingest.finish import Part, finish
from ingest.readers import readers
from ingest.sessions import Member, sessions

Say = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Request:
    """What to load and where to put it."""

    paths: tuple[Path, ...]
    store: Path
    label: str | None = None
    join: str | None = None


@dataclass(frozen=True)
class _Parsed:
    """A rank whose tables lie in staging."""

    source: RankSource
    part: Part
    files: dict[str, str]


def load(request: Request, say: Say) -> list[dict[str, Any]]:
    """Load every capture of a request; one entry for each run and each refusal."""
    where = store.open_store(request.store)
    store.collect(where)
    joined = store.resolve(where, request.join) if request.join else None
    say({"stage": "find", "text": "looking for captures"})
    found = capture.find(list(request.paths))
    files = sorted({path for source in found.sources for path in source.files})
    total = sum(source.size for source in found.sources)
    say({"stage": "hash", "total_bytes": total, "text": f"{len(found.sources)} ranks found"})
    hashes = capture.hash_files(files)
    refused = [_refusal(error) for error in found.refused]
    upload = capture.content_id({f"{schema.version()}/{request.join}/{path}": hashes[path] for path in files})
    with store.upload_lock(where, upload):
        known = store.recall_upload(where, upload) if files else None
        if known is not None:
            entries = [dict(entry, stored="exists") if entry["run_id"] else entry for entry in known]
        else:
            with store.staging(where) as scratch:
                parsed, failed = _parse(found.sources, hashes, scratch, total, say)
                entries = [_commit(group, where, scratch, joined) for group in _groups(parsed)] + failed
            if not failed:  # what failed is tried again next time
                store.remember_upload(where, upload, entries)
    for entry in entries:
        if entry["run_id"] and request.label:
            store.set_label(where, entry["run_id"], request.label)
        if entry["run_id"]:
            entry["label"] = store.resolve(where, entry["run_id"]).label
    return entries + refused


def _parse(
    sources: tuple[RankSource, ...], hashes: dict[Path, str], scratch: Path, total: int, say: Say
) -> tuple[list[_Parsed], list[dict[str, Any]]]:
    """Every rank in a child of its own, as many side by side as there are processors."""
    at_once = max(1, min(os.cpu_count() or 1, len(sources)))
    tasks = [
        (_task(source, scratch / f"part{i}"), sandbox.Limits.for_input(source.size)) for i, source in enumerate(sources)
    ]
    parsed: list[_Parsed] = []
    failed: list[dict[str, Any]] = []
    done = rows = 0
    for message in sandbox.run(tasks, at_once):
        source = sources[message.task]
        if message.error is not None:
            error = message.error
            failed.append(
                _refusal(IngestError(error.kind, error.message, error.path or str(source.root), error.offset))
            )
        elif message.result is not None:
            names = {
                str(p.relative_to(source.root)) if source.root.is_dir() else p.name: hashes[p] for p in source.files
            }
            part = Part(**message.result)
            rows += sum(part.rows.values())
            parsed.append(_Parsed(source, part, names))
        else:
            done += message.progress
        read = {"done_bytes": min(done, total), "total_bytes": total, "rows": rows}
        say({"stage": "read", **read, "text": source.root.name})
    return sorted(parsed, key=lambda p: sources.index(p.source)), failed


def _task(source: RankSource, scratch: Path) -> sandbox.Task:
    def read(progress: Callable[[int], None]) -> dict[str, Any]:
        begun = time.monotonic()
        try:
            part = attempt(progress, scratch / "first", MEMORY_LIMIT)
        except (IngestError, duckdb.Error) as error:
            if not _short_of_memory(error):
                raise
            # Not every operator of DuckDB can spill all it holds; being right matters more than being small.
            shutil.rmtree(scratch / "first", ignore_errors=True)
            part = attempt(progress, scratch / "second", AMPLE_MEMORY)
        return part.as_dict() | {"seconds": time.monotonic() - begun}

    def attempt(progress: Callable[[int], None], scratch: Path, memory: str) -> Part:
        drafts: list[Draft] = []
        failures: list[IngestError] = []
        for claim in source.claims:
            rank = source.facts.rank or 0
            draft = Draft(scratch / claim.format, rank, memory_limit=memory, progress=progress)
            try:
                readers()[claim.format].read(claim, draft)
                drafts.append(draft)
            except IngestError as error:
                if _short_of_memory(error):
                    raise
                failures.append(error)
        if not drafts:
            raise failures[0]
        draft = fill(drafts)
        for failure in failures:
            draft.partial(None, f"one of its formats could not be read: {failure}")
        part = finish(draft, scratch / "tables")
        for each in drafts:
            each.close()
        return part

    return read


def _short_of_memory(error: BaseException | None) -> bool:
    """Whether DuckDB's limit is behind an error."""
    return error is not None and (isinstance(error, duckdb.OutOfMemoryException) or _short_of_memory(error.__cause__))


def _groups(parsed: list[_Parsed]) -> list[list[_Parsed]]:
    """Ranks that belong to one session."""
    members = [
        Member(
            i, p.source.facts.rank, frozenset(p.source.facts.groups), p.part.origin_ns, p.part.end_ns,
            str(p.part.facts.get("clock", "unix")),
        )
        for i, p in enumerate(parsed)
    ]  # fmt: skip
    return [[parsed[member.key] for member in session] for session in sessions(members)]


def _commit(group: list[_Parsed], where: Path, scratch: Path, joined: store.RunInfo | None) -> dict[str, Any]:
    """Put ranks together and make the run visible."""
    begun = time.monotonic()
    pieces = [_piece(p, _common_root(group)) for p in group]
    sources = [Source(Path(p.part.directory), p.part.origin_ns) for p in group]
    if joined is not None:
        old = store.manifest(where, joined.run_id)
        taken = {piece["rank"] for piece in old["pieces"]} & {piece.part.rank for piece in pieces}
        if taken:
            return _refusal(
                IngestError(
                    "repeated_rank", f"run {joined.run_id} already holds rank {min(taken)}", str(group[0].source.root)
                )
            )
        pieces = sorted([*(_stored_piece(row) for row in old["pieces"]), *pieces], key=lambda piece: piece.part.rank)
        sources = [Source(where / joined.run_id, old["origin_ns"], movable=False), *sources]
    entries = {f"{piece.path}/{name}": digest for piece in pieces for name, digest in piece.files.items()}
    run_id = capture.content_id(entries)
    staged = assemble(pieces, sources, run_id, scratch / run_id, scratch)
    stored = store.commit(where, scratch / run_id, run_id)
    return _entry(staged, stored, sum(p.part.seconds for p in group) + time.monotonic() - begun)


def _common_root(group: list[_Parsed]) -> Path | None:
    """Where paths within a run begin: nowhere for one rank, so that its name does not matter."""
    if len(group) == 1:
        return None
    return Path(os.path.commonpath([str(p.source.root.parent.resolve()) for p in group]))


def _piece(parsed: _Parsed, root: Path | None) -> Piece:
    facts = parsed.source.facts
    within = "" if root is None else str(parsed.source.root.resolve().relative_to(root))
    return Piece(
        parsed.part, facts.rank_source or "assumed", within, tuple(c.format for c in parsed.source.claims),
        parsed.files, parsed.source.size,
    )  # fmt: skip


def _stored_piece(row: dict[str, Any]) -> Piece:
    part = Part(**row["part"])
    path = row["path"] or f"rank{row['rank']}"
    return Piece(part, row["rank_source"], path, tuple(row["formats"]), row["files"], row["bytes"])


def _entry(staged: Assembled, stored: str, seconds: float) -> dict[str, Any]:
    manifest = staged.manifest
    return {
        "run_id": staged.run_id, "stored": stored, "label": None, "formats": manifest["formats"],
        "ranks": manifest["ranks"], "status": manifest["status"], "reason": manifest["reason"],
        "events": manifest["events"], "seconds": round(seconds, 3), "coverage": staged.coverage,
    }  # fmt: skip


def _refusal(error: IngestError) -> dict[str, Any]:
    return {
        "run_id": None, "stored": None, "label": None, "formats": [], "ranks": [], "status": "refused",
        "reason": str(error), "events": 0, "seconds": 0.0, "coverage": [], "error": error.as_dict(),
    }  # fmt: skip


class _WithoutPandas(MetaPathFinder):
    """pyarrow imports pandas at the first list it meets; nothing here uses it, and it costs as 20 MB of trace do."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ImportError("not needed here")


def main() -> None:
    """Answer one request on standard input and output."""
    sys.meta_path.insert(0, _WithoutPandas())
    answer = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to standard error

    def say(message: dict[str, Any]) -> None:
        answer.write(json.dumps(message) + "\n")

    asked = json.load(sys.stdin)
    request = Request(
        tuple(Path(p) for p in asked["paths"]), Path(asked["store"]), asked.get("label"), asked.get("join")
    )
    try:
        say({"result": load(request, say)})
    except IngestError as error:
        say({"error": {"kind": error.kind, "message": error.message, "path": error.path, "offset": error.offset}})
    except OSError as error:
        say(
            {
                "error": {
                    "kind": "system",
                    "message": f"the system refused: {error.strerror or error}",
                    "path": str(error.filename or ""),
                }
            }
        )


if __name__ == "__main__":
    main()

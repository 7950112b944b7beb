"""One load, from files to committed runs, in a process of its own.

`python -m npulens.ingest.loading.worker` reads a request (JSON) from standard input and answers with JSON lines:
progress while it works, the result at last. It looks, hashes, lets children parse the ranks,
groups them into runs and commits each. Whoever asked never touches a byte of the files.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from pathlib import Path, PurePath
from typing import Any

import duckdb

from npulens.ingest import engines, objects
from npulens.ingest.archive.opener import Opener
from npulens.ingest.engines.engine import Engine
from npulens.ingest.errors import IngestError, no_room
from npulens.ingest.loading import capture, earlier, ledger, naming, roles, roofs, served
from npulens.ingest.loading.capture import Found, RankSource
from npulens.ingest.loading.earlier import Earlier
from npulens.ingest.loading.ledger import Fate
from npulens.ingest.loading.parsing import Parsed, Say, worked
from npulens.ingest.loading.quota import Quota, UsageWatch, amount
from npulens.ingest.loading.roles import Folder
from npulens.ingest.messages import Message, dumped
from npulens.ingest.store import history_run, raw
from npulens.ingest.store import runs as store
from npulens.ingest.store.connection import proved
from npulens.ingest.store.redact_run import marker, redacted
from npulens.ingest.tables import schema
from npulens.ingest.tables.assemble import Assembled, Piece, Source, assemble
from npulens.ingest.tables.finish import Part

NAME = "manifest.json"
#: Ours have a few kilobytes.
_LARGEST = 1 << 20
_KEPT = (
    "what", "workload", "variant", "dtype", "batch", "shape", "shapes", "configuration", "settings", "command",
    "evidence", "environment", "made_at", "status", "reason", "notices", "sources",
)  # fmt: skip


def described(roots: Iterable[Path], within: Iterable[Path]) -> dict[str, Any]:
    """The description nearest to the ranks of a run, not above what was asked to be loaded; {} without one."""
    return next((said for said in _beside(roots, within) if "environment" in said), {})


def evidence(roots: Iterable[Path], within: Iterable[Path]) -> str | None:
    """What the description of a recording or of a simulation says that it is: 'simulated', 'cpu', 'npu' ..."""
    found = (said.get("evidence") for said in _beside(roots, within))
    return next((said for said in found if isinstance(said, str)), None)


def _beside(roots: Iterable[Path], within: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """The descriptions beside and above the ranks, the nearest first."""
    tops = tuple(within)
    for root in roots:
        for place in (root, *root.parents):
            if not any(top in (place, *place.parents) for top in tops):
                break
            if said := _read(place / NAME):
                yield said


def cut_short(said: dict[str, Any], names: Container[str]) -> Message | None:
    """What a recording lacks of the steps that were wanted of it, told by the trace of one of these names."""
    settings, traces = said.get("settings"), said.get("traces")
    wanted = settings.get("active") if isinstance(settings, dict) else None
    for trace in traces if isinstance(traces, list) else ():
        if isinstance(trace, dict) and PurePath(str(trace.get("path", ""))).name in names:
            steps = trace.get("steps")
            if isinstance(steps, int) and isinstance(wanted, int) and 0 <= steps < wanted:
                return Message("recording_holds_fewer_steps", {"steps": steps, "wanted": wanted})
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
            return {}
        said = json.loads(path.read_text("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) and "what" in said else {}


#: Stands among the files of a run for what its archive had lost.
_LOST = "(lost in the archive)"


@dataclass(frozen=True)
class Request:
    """What to load and where to put it."""

    paths: tuple[Path, ...]
    store: Path
    label: str | None = None
    join: str | None = None
    quota: Quota = Quota()
    redact: bool = False
    engine: str = "local"
    named: bool = False  # whether runs without a label are named after what they came from
    called: str | None = None  # what the path is called there
    raw: int = 0  # bytes that the captures kept in the store may take; 0: this one is not kept


@dataclass(frozen=True)
class _Job:
    """One load under way."""

    request: Request
    where: Path
    scratch: Path
    opener: Opener
    watch: UsageWatch
    joined: store.RunInfo | None
    say: Say
    engine: Engine
    earlier: Earlier | None = None  # captures of the run to join that are read again

    @property
    def paths(self) -> tuple[Path, ...]:
        """Everything that is read."""
        return (*(self.earlier.tops if self.earlier else ()), *self.request.paths)

    def called(self, root: Path) -> str:
        """What the root of a rank is called outside, links resolved; archives count as directories."""
        return ledger.plain(PurePath(os.path.realpath(self.opener.origin(root))))

    def key(self, root: Path) -> str:
        """The same as what may be kept of a redacted load: it tells ranks apart and names nothing."""
        return capture.content_id({self.called(root): ""})

    def refusal(self, error: IngestError) -> dict[str, Any]:
        """The entry of what was not loaded, with the path that whoever asked knows."""
        path = error.path and str(self.opener.origin(Path(error.path)))
        return _refusal(IngestError(error.kind, error.message, path, error.offset))


@dataclass(frozen=True)
class Done:
    """What came of a request: an entry for each run and each refusal, and the fate of every file."""

    runs: list[dict[str, Any]]
    files: list[dict[str, Any]]


def load(request: Request, say: Say) -> Done:
    """Load every capture of a request."""
    where = store.open_store(request.store)
    store.collect(where)
    joined = store.resolve(where, request.join) if request.join else None
    with store.staging(where) as scratch, engines.opened(request.engine) as engine:
        watch = UsageWatch(request.quota, scratch)
        opener = Opener(scratch / "unpacked", request.quota, watch)
        job = _Job(request, where, scratch, opener, watch, joined, say, engine)
        say({"stage": "find", "text": "looking for captures"})
        found = capture.find(list(request.paths), opener)
        if joined is not None and earlier.is_wanted(joined, found.sources):
            again = earlier.laid_out(where, joined.run_id, request.paths, scratch / "earlier")
            opener = Opener(scratch / "together", request.quota, watch, again.laid)
            job = replace(job, opener=opener, joined=None, earlier=again)
            found = capture.find(list(job.paths), opener)
        return _load(job, found)


def _load(job: _Job, found: Found) -> Done:
    where, request = job.where, job.request
    job.watch.measure()
    files = sorted({path for source in found.sources for path in source.files})
    total = sum(source.size for source in found.sources)
    if total > request.quota.disk_bytes:  # perhaps one hole of a terabyte: hashing it alone would take hours
        raise IngestError("too_large", Message("captures_load_part_it_or", {"size": amount(total)}))
    job.say({"stage": "hash", "total_bytes": total, "text": f"{len(found.sources)} ranks found"})
    hashes = capture.hash_files(files)
    upload = _upload_id(job, found.sources, hashes)
    failed: list[tuple[RankSource, IngestError]] = []
    with store.upload_lock(where, upload):
        known = store.recall_upload(where, upload) if files else None
        if known is not None:
            entries = [dict(entry, stored="exists") if entry["run_id"] else entry for entry in known]
        else:
            parsed, failed = job.engine.parse(found.sources, job.scratch, job.watch, job.say)
            job.watch.measure()
            placed = roles.folders(parsed, job.opener)
            jobs, untold = roles.jobs(parsed, placed, job.opener, job.scratch)
            failed += untold
            groups = _groups(parsed, placed, jobs, job.earlier is not None)
            entries = [_commit(group, hashes, found.files, job) for group in groups]
            _call(entries, job)
            entries += [job.refusal(error) for _, error in failed]
            if not failed:  # what failed is tried again next time
                store.remember_upload(where, upload, entries)
    runs = {root: entry["run_id"] for entry in entries for root in entry.get("roots", ()) if entry["run_id"]}
    errors = {job.key(source.root): error.message for source, error in failed}
    fates = ledger.rows(found.files, job.key, runs, errors)
    given = _numbered(request.label, entries)
    for entry in entries:
        entry.pop("roots", None)
        if entry["run_id"] in given:
            store.set_label(where, entry["run_id"], given[entry["run_id"]])
        elif entry["run_id"] and entry.get("called"):
            store.name_new(where, entry["run_id"], entry["called"])
        entry.pop("called", None)
        if entry["run_id"]:
            entry["label"] = store.resolve(where, entry["run_id"]).label
    history_run.after_load(where, entries)
    return Done(entries + [job.refusal(error) for error in found.refused], fates)


def _numbered(label: str | None, entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The name that was asked for, of each run: name, name (2), name (3)."""
    runs = dict.fromkeys(entry["run_id"] for entry in entries if entry["run_id"]) if label else {}
    return {run: f"{label} ({place})" if place > 1 else str(label) for place, run in enumerate(runs, 1)}


def _call(entries: list[dict[str, Any]], job: _Job) -> None:
    """Names for the runs; a redacted one gets none, because names of files tell of people."""
    files = [entry.pop("files", []) for entry in entries]
    if job.request.named and not job.request.redact:
        told = naming.names(files, job.request.paths, job.request.called)
        if job.earlier is not None and (label := store.resolve(job.where, job.earlier.run_id).label):
            told = [label] * len(told)
        for entry, name in zip(entries, told, strict=True):
            entry["called"] = name


def _upload_id(job: _Job, sources: tuple[RankSource, ...], hashes: dict[Path, str]) -> str:
    """Id of what was found: the same files in the same places, and the same lost."""
    head = f"{schema.version()}/{job.request.join}"
    names = {f"{head}/{job.opener.origin(path)}": digest for path, digest in hashes.items()}
    lost = {f"{head}/{job.opener.origin(source.root)}/{_LOST}": "; ".join(source.damage) for source in sources}
    said = {name: text for name, text in lost.items() if text}
    return capture.content_id(names | said | marker(job.request.redact))


def _groups(
    parsed: list[Parsed], placed: Mapping[int, Folder], jobs: list[Parsed], together: bool
) -> list[list[Parsed]]:
    """Ranks that belong to one session, and the serving files that do. ``together``: all of them, as was asked."""
    members = [_member(i, each, placed.get(i)) for i, each in enumerate(parsed) if not served.is_serving(each)]
    found = [[parsed[member.key] for member in session] for session in sessions(members)]
    return served.attached(found, [*(each for each in parsed if served.is_serving(each)), *jobs], together)


def _member(key: int, parsed: Parsed, folder: Folder | None) -> Member:
    """A rank as grouping sees it; one without stamps lies where its profiler says that it collected."""
    facts, part = parsed.source.facts, parsed.part
    window = (part.origin_ns, part.end_ns) if part.stamped else (facts.begin_ns, facts.end_ns)
    begin, end = window if None not in window else (None, None)
    steps, groups = part.facts.get("steps"), frozenset([*facts.groups, *part.facts.get("groups", ())])
    return Member(
        key,
        facts.rank,
        groups,
        begin,
        end,
        str(part.facts.get("clock", "unix")),
        facts.world_size,
        (steps[0], steps[1]) if steps else None,
        folder,
    )


def _commit(group: list[Parsed], hashes: dict[Path, str], files: Sequence[Fate], job: _Job) -> dict[str, Any]:
    """Put ranks together and make the run visible."""
    begun = time.monotonic()
    where, scratch, joined = job.where, job.scratch, job.joined
    root = _common_root(group, job)
    real = {job.opener.stand_ins.real(p.source.root) for p in group}
    tops = [*job.request.paths, scratch]
    said, kind = described(sorted(real), tops), evidence(sorted(real), tops)
    told = [_piece(p, root, hashes, job, said) for p in group]
    pieces, sources = served.folded(group, told, scratch / f"served{group[0].part.rank}_{id(group)}")
    if joined is not None:
        objects.fetch(where, joined.run_id)
        try:
            old = proved(where, joined.run_id)
        except IngestError as error:
            return _refusal(error)
        taken = {piece["rank"] for piece in old["pieces"]} & {piece.part.rank for piece in pieces}
        if taken:
            why = Message("run_already_holds_rank", {"run": joined.run_id, "rank": min(taken)})
            return job.refusal(IngestError("repeated_rank", why, str(group[0].source.root)))
        pieces = sorted([*(_stored_piece(row) for row in old["pieces"]), *pieces], key=lambda piece: piece.part.rank)
        sources = [Source(where / joined.run_id, _origin(old), movable=False), *sources]
    entries = {f"{piece.path}/{name}": digest for piece in pieces for name, digest in piece.files.items()}
    run_id = capture.content_id(entries | marker(job.request.redact))
    staged = assemble(pieces, sources, run_id, scratch / run_id, job.engine.write)
    if not job.request.redact:  # names of files tell of people
        kept = {"collected": {name: said[name] for name in _KEPT if name in said}} if said else {}
        facts = {"evidence": kind, "job": naming.job(said)}
        more = {name: fact for name, fact in facts.items() if fact}
        _keep(staged, scratch / run_id, ledger.passed_over(files, real) | kept | more)
    else:
        staged = redacted(staged, scratch / run_id, [job.called(p.source.root) for p in group])
    before = raw.captures(where, joined.run_id) if joined else []
    if job.earlier is not None:
        before = job.earlier.captures
    lost = job.request.redact or objects.of(where) is not None or (joined is not None and not before)
    limit = 0 if lost else job.request.raw
    at, brought = str(staged.manifest["loaded_at"]), _brought(group, real, tops, hashes, job)
    with raw.keeping(where, run_id, at, job.request.paths, brought, before, limit):
        stored = store.commit(where, scratch / run_id, run_id)
    roots = [job.key(p.source.root) for p in group]
    outside = [Path(job.opener.origin(path)) for p in group for path in p.source.files]
    return _entry(staged, stored, worked(group) + time.monotonic() - begun) | {"roots": roots, "files": outside}


def _brought(
    group: list[Parsed], real: Iterable[Path], tops: Sequence[Path], hashes: Mapping[Path, str], job: _Job
) -> dict[Path, str | None]:
    """The files outside that a run was made from, archives whole, and the descriptions beside them.

    Each with its BLAKE3, if it is known.
    """
    found = dict[Path, str | None]()
    for root in real:
        near = (place for place in (root, *root.parents) if any(top in (place, *place.parents) for top in tops))
        found |= dict.fromkeys(place / NAME for place in near if _read(place / NAME))
    for path in (path for parsed in group for path in parsed.source.files):
        origin = Path(job.opener.place(path))
        place = next(place for place in (*reversed(origin.parents), origin) if place.is_file())
        found[place] = hashes[path] if place.samefile(path) else None
    return {path: known for path, known in found.items() if job.scratch not in path.parents}


def _keep(staged: Assembled, directory: Path, more: dict[str, Any]) -> None:
    """Add to the manifest of a run that is not yet visible."""
    staged.manifest.update(more)
    (directory / "manifest.json").write_text(dumped(staged.manifest, indent=1), "utf-8")


def _common_root(group: list[Parsed], job: _Job) -> str | None:
    """Where paths within a run begin: nowhere for one rank, so that its name does not matter."""
    if len(group) == 1:
        return None
    return os.path.commonpath([os.path.dirname(job.called(p.source.root)) for p in group])


def _piece(parsed: Parsed, root: str | None, hashes: dict[Path, str], job: _Job, said: dict[str, Any]) -> Piece:
    """A rank with its files under the names they had, whatever they are called here."""
    source = parsed.source
    facts, mine = source.facts, job.called(source.root)
    # One file may hold several ranks, and then their roots are no directories.
    base = job.opener.origin(next(place for place in (source.root, *source.root.parents) if place.is_dir()))
    files = {ledger.plain(job.opener.origin(path).relative_to(base)): hashes[path] for path in source.files}
    if source.device is not None:  # others are made of the same files
        files[f"device {source.device}"] = ""
    if source.damage:
        files[_LOST] = "; ".join(source.damage)  # or the whole archive would find itself here already, and partial
    within = "" if root is None else os.path.relpath(mine, root)
    part = roofs.beside(_with_host(parsed.part, source.root.name, os.path.basename(mine)), said)
    if short := cut_short(said, {os.path.basename(mine), *(PurePath(name).name for name in files)}):
        part = replace(part, reasons=[*part.reasons, short])
    return Piece(
        part, facts.rank_source or "assumed", within, tuple(c.format for c in source.claims), files, source.size
    )


def _with_host(part: Part, own: str, called: str) -> Part:
    """The host as the directory's real name tells it; the one here may be ours."""
    host = part.facts.get("host")
    if own == called or not isinstance(host, str) or not own.startswith(host):
        return part
    real = called[: len(host)] if len(own) == len(called) else None
    return replace(part, facts=part.facts | {"host": real})


def _origin(manifest: dict[str, Any]) -> int | None:
    """Where the times of a stored run begin; None if none of its ranks has any."""
    return manifest["origin_ns"] if any(Part(**row["part"]).stamped for row in manifest["pieces"]) else None


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
        "redacted": bool(manifest.get("redacted")), "warnings": manifest["warnings"],
    }  # fmt: skip


def _refusal(error: IngestError) -> dict[str, Any]:
    return {
        "run_id": None, "stored": None, "label": None, "formats": [], "ranks": [], "status": "refused",
        "reason": error.said(), "events": 0, "seconds": 0.0, "coverage": [], "redacted": False, "warnings": [],
        "error": error.as_dict(),
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
        answer.write(dumped(message) + "\n")

    asked = json.load(sys.stdin)
    request = Request(
        tuple(Path(p) for p in asked["paths"]), Path(asked["store"]), asked.get("label"), asked.get("join"),
        redact=bool(asked.get("redact")), engine=asked.get("engine") or "local",
        named=True, called=asked.get("called"),
    )  # fmt: skip
    try:
        request = replace(request, quota=Quota.of(asked), raw=raw.most(asked.get("raw")))
        done = load(request, say)
        say({"result": done.runs, "files": done.files})
    except (IngestError, OSError, MemoryError, duckdb.Error) as error:
        say({"error": vars(_whole_refusal(error, request.store))})


def _whole_refusal(error: Exception, where: Path) -> IngestError:
    """Why nothing of a request could be done; ranks that were read are read again next time."""
    if full := no_room(error):
        return replace(full, path=str(where))
    if isinstance(error, IngestError):
        return error
    if isinstance(error, OSError):
        return IngestError(
            "system", Message("system_refused", {"error": error.strerror or error}), str(error.filename or "")
        )
    if isinstance(error, MemoryError | duckdb.OutOfMemoryException):
        return IngestError("memory", Message("there_is_not_enough_memory_to"), str(where))
    return IngestError("failed", Message("run_cannot_be_put_together", {"error": error}), str(where))


# What a run is: which ranks of an upload belong to one session of the job.
#
# Different ranks that share communication groups are one run, also by way of others. Stages of a pipeline share groups
# with their neighbours only. What is left comes together where it overlaps in time, or lies near and has no groups that
# could disagree. A repeated rank or an unrelated time starts another run. Clocks of hosts can be minutes apart, so
# windows need only be near; among several candidates the nearest session wins. Ranks without a single stamp come to the
# one session that has their groups, their steps and their world. Where several do, or none, they stay by themselves.
# What metadata says must agree: the size of the world always, the numbers of the steps where times do not overlap.
#: Ranks without a common group: how far their windows may lie apart (host clocks differ by minutes).
NEAR_NS = 5 * 60 * 10**9
#: Ranks that share a group: a group id can come back in the next session of the same job.
SAME_GROUP_NS = 60 * 60 * 10**9


@dataclass(frozen=True)
class Member:
    """A parsed rank, as grouping sees it."""

    key: int
    rank: int | None
    groups: frozenset[str]
    begin_ns: int | None  # None: it has no stamps
    end_ns: int | None
    clock: str = "unix"
    world_size: int | None = None
    steps: tuple[int, int] | None = None  # the first and the last number
    folder: Folder | None = None  # of a role of an RL job, whose ranks are there again for every role


@dataclass
class Session:
    members: list[Member]

    @property
    def groups(self) -> frozenset[str]:
        return frozenset[str]().union(*(m.groups for m in self.members))

    @property
    def windows(self) -> list[tuple[int, int]]:
        """Begin and end of each member that has stamps."""
        return [(m.begin_ns, m.end_ns) for m in self.members if m.begin_ns is not None and m.end_ns is not None]

    def apart_ns(self, other: Session) -> int:
        """How far the windows of two sessions lie apart; 0 where they overlap, or where neither has stamps."""
        pairs = [(a, b) for a in self.windows for b in other.windows]
        return min((max(0, a[0] - b[1], b[0] - a[1]) for a, b in pairs), default=0)

    def fits(self, other: Session) -> bool:
        """Whether nothing speaks against their being one: no rank twice or unknown, one clock, one world, steps."""
        ours, theirs = [{m.rank for m in session.members} for session in (self, other)]
        both = [*self.members, *other.members]
        clocks = {m.clock for m in both if m.begin_ns is not None}
        worlds = {m.world_size for m in both if m.world_size is not None}
        folders = {m.folder for m in both}
        if None in ours | theirs or ours & theirs or len(clocks) > 1 or len(worlds) > 1 or len(folders) > 1:
            return False
        return self.same_steps(other) is not False or self.apart_ns(other) == 0

    def same_steps(self, other: Session) -> bool | None:
        """Whether both recorded a step of the same number; None: one of them numbers none."""
        ours, theirs = ([m.steps for m in session.members if m.steps is not None] for session in (self, other))
        return any(a[0] <= b[1] and b[0] <= a[1] for a in ours for b in theirs) if ours and theirs else None

    def related_ns(self, other: Session) -> int | None:
        """How far apart two sessions lie that share a group; None: they are not of one session of the job."""
        apart = self.apart_ns(other)
        return apart if self.groups & other.groups and self.fits(other) and apart <= SAME_GROUP_NS else None

    def near_ns(self, other: Session) -> int | None:
        """The same of two sessions without a common group: near, or overlapping where both have groups."""
        apart, most = self.apart_ns(other), 0 if self.groups and other.groups else NEAR_NS
        return apart if self.fits(other) and apart <= most else None

    def explains(self, other: Session) -> bool:
        """Whether a session without stamps may belong here: its groups and its steps say so."""
        return bool(self.groups & other.groups) and self.fits(other) and bool(self.same_steps(other))


def sessions(members: list[Member]) -> list[list[Member]]:
    """Group ranks into runs. In order of time, so that the answer does not depend on names."""
    order = sorted(members, key=lambda m: (m.begin_ns or 0, m.end_ns or 0, m.key))
    stamped, others = ([Session([m]) for m in order if (m.begin_ns is None) == without] for without in (False, True))
    found, apart = (_joined(_joined(part, Session.related_ns), Session.near_ns) for part in (stamped, others))
    for session in [Session([m]) for part in apart for m in part.members]:
        if len(near := [one for one in found if one.explains(session)]) == 1:
            near[0].members += session.members
    placed = {m.key for session in found for m in session.members}
    left = (Session([m for m in part.members if m.key not in placed]) for part in apart)
    every = [*found, *(session for session in left if session.members)]
    return [sorted(session.members, key=lambda m: (m.rank or 0, m.key)) for session in every]


def _joined(parts: list[Session], distance: Callable[[Session, Session], int | None]) -> list[Session]:
    """Each part put to the nearest of those before it that it belongs to, and with it whatever that brings together."""
    found: list[Session] = []
    for part in parts:
        while True:
            near = [(apart, i) for i, session in enumerate(found) if (apart := distance(session, part)) is not None]
            if not near:
                break
            part = Session([*found.pop(min(near)[1]).members, *part.members])
        found.append(part)
        found.sort(key=lambda session: min((begin for begin, _ in session.windows), default=0))
    return found


if __name__ == "__main__":
    main()

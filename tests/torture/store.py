"""A store under torture: bits that flip, files cut short, processes that are killed, many that work at once.

`python -m tests.torture.store flips [--times 1000] [--cuts 200] [--heal 20]` damages one file of a store at a time and
asks for every answer it gives. An answer is the old one or a refusal in a sentence; `store check` finds each damage;
every 20th is healed, and the store then answers as before. Labels and history are counted apart: much of such a file
holds nothing, and a bit there changes no answer. Each that changes one is found.
`... kills [--times 1000]` kills so many loads, migrations, repairs and deletions at random moments. Many end before.
`... many [--seconds 600] [--processes 16]` lets processes load, delete, restore, check, compare, report and migrate.
Each prints one JSON line, and ends with 1 if something was silent, lost or unexpected.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import duckdb
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis.kept import KEPT
from npulens.app import run_open
from npulens.app.cli import main as npulens
from npulens.ingest.errors import IngestError
from npulens.ingest.loading import mend, worker
from npulens.ingest.store import history, kept, lod, notes, proof, raw, runs, seal
from npulens.ingest.store.account import account
from npulens.ingest.tables import schema
from tests.crashing import in_a_child
from tests.test_store import kineto

WORKLOAD = "train"
SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
#: What a reader may be told of a run that others delete, restore and replace meanwhile.
_SIGNS = ("no run is called", "not in the store any more", "no deleted run", "there is no such run", "is missing",
          "was collected meanwhile")  # fmt: skip


def say(store: Path) -> dict[str, object]:
    """Every answer of a store, each by itself: what it says, or how it is refused."""
    seal._LOOKED_AT.clear()
    proof.forget()
    runs._seen.clear()
    found: dict[str, object] = {}

    def asked(name: str, answer: Callable[[], object]) -> None:
        try:
            found[name] = answer()
        except IngestError as error:
            found[name] = f"refused: {error.kind}"

    asked("runs", lambda: [run for run in runs.runs(store)])
    known = sorted(entry.name for entry in store.iterdir() if runs.is_id(entry.name))
    for run_id in known:
        asked(f"{run_id} tables", lambda run_id=run_id: _tables(runs.open_run(store, run_id)))  # type: ignore[misc]
        asked(f"{run_id} kept", lambda run_id=run_id: _kept(store, run_id))  # type: ignore[misc]
        asked(f"{run_id} manifest", lambda run_id=run_id: _account(store, run_id))  # type: ignore[misc]
        asked(f"{run_id} timeline", lambda run_id=run_id: _timeline(store, run_id))  # type: ignore[misc]
        asked(f"{run_id} raw", lambda run_id=run_id: _raw(store, run_id))  # type: ignore[misc]
    for path in sorted((store / ".uploads").glob("*.json")):
        asked(path.name, lambda path=path: runs.recall_upload(store, path.stem, proof=False))  # type: ignore[misc]
    asked("labels", lambda: notes.labels(store))
    asked("notes", lambda: [notes.about(store), notes.remarks(store, WORKLOAD)])
    asked("history", lambda: [history.identities(store), history.followed(store), history.everything(store)])
    return found


def _tables(con: duckdb.DuckDBPyConnection) -> list[object]:
    with con:
        return [con.execute(f"SELECT count(*), sum(hash(t)) FROM {name} t").fetchall() for name in schema.tables()]


def _account(store: Path, run_id: str) -> str:
    """What was read, but for how long it took: that is another time after a heal."""
    said = account(store, run_id)
    return str(replace(said, ranks=tuple(replace(rank, seconds=0.0) for rank in said.ranks)))


def _kept(store: Path, run_id: str) -> list[object]:
    """What was computed and is not what was written counts as not there: [] is no answer."""
    places = kept.there(store, run_id, run_open._answers(KEPT))
    if len(places) < len(KEPT):
        return []
    with kept.opened(places) as con:
        return [con.execute(f"SELECT count(*), sum(hash(t)) FROM {name} t").fetchall() for name in places]


def _timeline(store: Path, run_id: str) -> list[object]:
    with lod.open_lod(store, run_id) as con:
        return con.execute("SELECT count(*), sum(hash(t)) FROM span t").fetchall()


def _raw(store: Path, run_id: str) -> object:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for number, capture in enumerate(raw.captures(store, run_id)):
            raw.unpack(store, capture, place / str(number))
        return sorted((str(path.relative_to(place)), seal.hash_of(path)) for path in place.rglob("*") if path.is_file())


def is_same(before: dict[str, object], now: dict[str, object]) -> bool:
    """Whether every answer is the old one or a refusal; a run that is listed as damaged is one, too."""
    for name, said in now.items():
        if name == "runs" and isinstance(said, list):
            whole = {run.run_id: run for run in before["runs"]}  # type: ignore[attr-defined]
            if any(run.status != "damaged" and run != whole[run.run_id] for run in said):
                return False
        elif said != before.get(name) and not str(said).startswith("refused") and said not in (None, []):
            return False
    return True


def made(place: Path) -> Path:
    """A store with runs of several kinds, and all that is computed of them."""
    store = place / "store"
    ingest.load(SAMPLES / "cpu_train_step", store, label="step")
    ingest.load(kineto(place / "one.json"), store, label="one")
    for run in runs.runs(store):
        notes.set_tags(store, run.run_id, ["keep", "night"])
        notes.set_note(store, run.run_id, "as it was before the driver")
        point = history.Point("", "step_ns", "ns", "lower", 1e6, 10**18, "2026-01-01", run.run_id)
        history.replace_run(store, run.run_id, history.Identity(WORKLOAD), [point])
    notes.set_remark(store, WORKLOAD, "late_rank", notes.Remark("done", "ann", "mended"))
    for run in runs.runs(store):
        run_open.keep(store, run.run_id, least=0)
        lod.build(store, run.run_id)
    return store


def files_of(store: Path) -> list[Path]:
    return sorted(
        path for path in store.rglob("*")
        if path.is_file() and path.stat().st_size and not path.name.endswith((".lock", "-wal", "-shm"))
    )  # fmt: skip


def _damage(path: Path, draw: Random, cut: bool) -> None:
    """One bit turned around, or the end cut off."""
    content = bytearray(path.read_bytes())
    if cut:
        del content[draw.randrange(len(content)) :]
    else:
        bit = draw.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def flips(place: Path, times: int, cuts: int, heal: int) -> dict[str, object]:
    store, draw = made(place), Random(23)
    before, every = say(store), files_of(store)
    seen: Counter[str] = Counter()
    for turn in range(times + cuts):
        path = draw.choice(every)
        is_database, whole, at = path.suffix == ".sqlite", path.read_bytes(), path.stat()
        kind = "of labels or history" if is_database else "of runs"
        _damage(path, draw, cut=turn >= times)
        os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))  # as a disk does it: without a word
        seen[f"damages {kind}"] += 1
        healed: list[mend.Found] = []
        found = [each for each in mend.look(store) if each.state != "whole"]
        seen[f"found {kind}"] += bool(found)
        said = say(store)
        seen[f"silent {kind}"] += not is_same(before, said)
        seen[f"without a change {kind}"] += said == before
        seen[f"not told {kind}"] += not found and said != before
        if not is_database and found and turn % heal == 0:
            healed = [mend.heal(store, each) for each in found]
            seen["heals tried"] += 1
            seen["healed"] += all(each.healed for each in healed) and is_same(before, say(store))
        if not any(each.what == "run" for each in healed):  # a healed run has new files
            path.write_bytes(whole)
            os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
        if healed:
            before, every = say(store), files_of(store)
            seen["refused after a heal"] += any(str(said).startswith("refused") for said in before.values())
    found_all = seen["found of runs"] == seen["damages of runs"] and seen["healed"] == seen["heals tried"]
    bad = sum(seen[f"{what} {kind}"] for what in ("silent", "not told") for kind in ("of runs", "of labels or history"))
    bad += seen["refused after a heal"]
    return {**seen, "good": bool(found_all and not bad)}


def _prepared(store: Path, what: str, run_id: str, capture: Path, draw: Random) -> Callable[[], None]:
    """Bring a store to where there is something to do; what does it."""
    run = store / run_id

    def load() -> None:
        worker.load(worker.Request((capture,), store, raw=10**9), lambda message: None)

    def migrate() -> None:
        mend.migrate(store, lambda found: None)

    def repair() -> None:
        for each in mend.look(store):
            if each.state == "damaged":
                mend.heal(store, each)

    def delete() -> None:
        runs.remove(store, run_id)
        runs.restore(store, run_id)
        runs.collect(store)

    if what == "load":
        shutil.rmtree(run)
        shutil.rmtree(store / ".uploads")
        return load
    if what == "migrate":
        seal.close(run, runs.manifest(store, run_id) | {"schema_version": 4})
        if draw.random() < 0.5:
            (store / raw.FOLDER / f"{run_id}.json").unlink(missing_ok=True)
        return migrate
    if what == "repair":
        if not raw.captures(store, run_id):
            shutil.rmtree(run)
            ingest.load(capture, store)
        path = run / "span.parquet"
        path.write_bytes(path.read_bytes()[:-9])
        return repair
    return delete


def kills(place: Path, times: int) -> dict[str, object]:
    captures = [kineto(place / f"{number}.json", spans=20 + number) for number in range(3)]
    store, draw, seen = place / "store", Random(29), Counter[str]()
    ids = [str(ingest.load(path, store).runs[0].run_id) for path in captures]
    loads = {run_id: path for run_id, path in zip(ids, captures, strict=True)}
    takes = dict.fromkeys(("load", "migrate", "repair", "delete"), 0.6)
    killed, turn = 0, -1
    while killed < times:
        turn += 1
        what, run_id = list(takes)[turn % 4], draw.choice(ids)
        work = _prepared(store, what, run_id, loads[run_id], draw)
        begun = time.monotonic()
        status = in_a_child(work, dies_after=draw.random() * takes[what])
        seen[f"{what} killed"] += os.WIFSIGNALED(status)
        killed += os.WIFSIGNALED(status)
        if not os.WIFSIGNALED(status):
            takes[what] = max(0.02, 0.5 * takes[what] + 0.5 * (time.monotonic() - begun))
        _judged(store, what, run_id, ids, seen)
        if os.WIFSIGNALED(status) and killed % 50 == 0:
            print(killed, json.dumps(seen), file=sys.stderr, flush=True)
        in_a_child(work)
        with suppress(IngestError):
            runs.restore(store, run_id)
        states = {each.name: each.state for each in mend.look(store) if each.what == "run"}
        seen["not healed"] += any(states.get(each) != "whole" for each in ids)
        if any(states.get(each) != "whole" for each in ids):
            print(turn, what, run_id, states, file=sys.stderr)
            for each in ids:
                shutil.rmtree(store / each, ignore_errors=True)
                ingest.load(loads[each], store)
    runs.collect(store)
    seen["left in staging"] = len(list((store / ".staging").iterdir()))
    good = not (seen["half visible"] or seen["lost"] or seen["not healed"] or seen["left in staging"])
    return {**seen, "killed": killed, "good": good}


def _judged(store: Path, what: str, run_id: str, ids: list[str], seen: Counter[str]) -> None:
    """What a killed process left: every run as it was before or as it is after."""
    held = {each.name: each.state for each in mend.look(store) if each.what in ("run", "deleted run")}
    allowed = {"load": ("whole", None), "migrate": ("whole", "older"), "repair": ("whole", "damaged")}
    for each in ids:
        state = held.get(each)
        if each != run_id or what == "delete":
            seen["lost"] += state is None
            seen["half visible"] += state not in ("whole", None)
        else:
            seen["lost"] += state is None and what != "load"
            seen["half visible"] += state is not None and state not in allowed[what]


def many(place: Path, seconds: float, processes: int) -> dict[str, object]:
    captures = [kineto(place / f"{number}.json", rank=0, spans=20 + number) for number in range(4)]
    store = place / "store"
    ids = [str(ingest.load(path, store).runs[0].run_id) for path in captures]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        told = pool.starmap(_worker, [(store, captures, ids, seconds, seed) for seed in range(processes)])
    done: Counter[str] = sum((counts for counts, _ in told), Counter())
    for text in (text for _, texts in told for text in texts):
        print(text, file=sys.stderr)
    for path in captures:
        ingest.load(path, store)
    whole = all(each.state == "whole" for each in mend.look(store))
    return {**done, "whole afterwards": whole, "good": whole and not done["unexpected"]}


def _worker(
    store: Path, captures: list[Path], ids: list[str], seconds: float, seed: int
) -> tuple[Counter[str], list[str]]:
    draw, end, done, texts = Random(seed), time.monotonic() + seconds, Counter[str](), []
    for words in _asks(store, captures, ids, draw):
        if time.monotonic() > end:
            return done, texts
        result = CliRunner().invoke(npulens, [*words, "--store", str(store)])
        done[" ".join(word for word in words[:2] if word.isalpha())] += 1
        sentence = result.stderr.strip().splitlines()[-1:] or [""]
        refused = result.exit_code == 2 and any(sign in sentence[0] for sign in _SIGNS)
        if result.exit_code not in (0, 1) and not refused or not isinstance(result.exception, SystemExit | None):
            done["unexpected"] += 1
            texts.append(f"{words} {result.exit_code} {result.output[-500:]} {_trace(result.exception)}")
        done["refused because a run had gone"] += refused
    return done, texts


def _trace(error: BaseException | None) -> str:
    return "" if error is None else "".join(traceback.format_exception(error))[-1500:]


def _asks(store: Path, captures: list[Path], ids: list[str], draw: Random) -> Iterator[list[str]]:
    number = 0
    while True:
        number += 1
        run_id, other = draw.sample(ids, 2)
        yield draw.choice((
            ["load", str(draw.choice(captures))], ["load", str(draw.choice(captures))], ["rm", run_id],
            ["rm", "--undo", run_id], ["rm", "--undo", run_id], ["check", run_id], ["breakdown", run_id], ["runs"],
            ["compare", run_id, other], ["store", "check"], ["store", "migrate"], ["history"],
            ["report", run_id, "-o", str(store.parent / f"{os.getpid()}_{number}.html")],
        ))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["flips", "kills", "many"])
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--heal", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--processes", type=int, default=16)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="npulens-torture-") as folder:
        place = Path(folder)
        if asked.what == "flips":
            said = flips(place, asked.times, asked.cuts, asked.heal)
        elif asked.what == "kills":
            said = kills(place, asked.times)
        else:
            said = many(place, asked.seconds, asked.processes)
    print(json.dumps(said))
    sys.exit(0 if said["good"] else 1)


if __name__ == "__main__":
    main()

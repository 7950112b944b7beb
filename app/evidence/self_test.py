"""The second half of a self-test: the profiles loaded and split by us."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npulens import ingest
from npulens.analysis.split import Row, breakdown
from npulens.app.evidence.halves import halves
from npulens.ingest.errors import IngestError
from npulens.ingest.store import runs as stores

#: A kernel's time by the device's own clock, and by the profiler.
ALIKE = 0.10


def judged(answer: Mapping[str, Any], store: Path) -> Iterator[dict[str, Any]]:
    """One check for every profile: it loads, its steps are the recorded ones, and their parts add up."""
    for name, capture in answer["captures"].items():
        try:
            yield from _judged(name, capture, answer["backend"], store)
        except IngestError as error:
            yield _check(f"loaded_{name}", "FAIL", "broke", {"reason": str(error)})
    for name, capture in answer["captures"].items():
        yield _exports(name, Path(capture["path"]), store)


def _judged(name: str, capture: Mapping[str, Any], backend: str, store: Path) -> Iterator[dict[str, Any]]:
    run = ingest.load(capture["path"], store, label=name).runs[0]
    seen: dict[str, Any] = {"name": name, "status": run.status, "reason": run.reason, "formats": list(run.formats)}
    if run.run_id is None:
        yield _check(f"loaded_{name}", "FAIL", "refused", seen)
        return
    rows = breakdown(stores.open_run(store, run.run_id))
    steps = [row for row in rows if row.step is not None]
    seen |= {"events": run.events, "steps": len(steps), "wanted": capture["steps"]}
    whole = len(steps) == capture["steps"] and run.events
    yield _check(f"loaded_{name}", "PASS" if whole else "FAIL", "steps", seen)
    yield _split(name, rows)
    if capture["step_ns"] is not None and name != "train_step":
        yield _clocks(name, steps, capture["step_ns"], backend)


def _split(name: str, rows: list[Row]) -> dict[str, Any]:
    """The parts of every step add up to it, to the nanosecond, and no step computes longer than it lasts."""
    measured = [row for row in rows if row.dur_ns is not None and row.computing_ns is not None]
    if not measured:
        return _check(f"split_{name}", "SKIP", "host_only", {"rows": len(rows)})
    residual = max(abs(row.residual_ns or 0) for row in measured)
    longer = sum((row.computing_ns or 0) > (row.dur_ns or 0) for row in measured)
    seen = {"rows": len(measured), "residual_ns": residual, "longer": longer}
    return _check(f"split_{name}", "FAIL" if residual or longer else "PASS", "adds_up", seen)


def _clocks(name: str, steps: list[Row], step_ns: int, backend: str) -> dict[str, Any]:
    """The profiler's kernels last as long as the device's events say."""
    computing = sorted(row.computing_ns for row in steps if row.computing_ns is not None)
    if backend == "cpu" or not computing:
        return _check(f"clocks_{name}", "SKIP", "host_only", {"backend": backend})
    profiled = computing[len(computing) // 2]
    seen = {"profiled_ns": profiled, "event_ns": step_ns, "ratio": round(profiled / step_ns, 4), "allowed": ALIKE}
    return _check(f"clocks_{name}", "PASS" if abs(profiled / step_ns - 1) <= ALIKE else "FAIL", "ratio", seen)


def _exports(name: str, place: Path, store: Path) -> dict[str, Any]:
    """torch_npu's text and its database tell the same kernels."""
    for kinds in halves(place, store.parent / "halves" / name):
        sums = {}
        for kind, alone in kinds.items():
            run = ingest.load(alone, store).runs[0]
            rows = breakdown(stores.open_run(store, run.run_id)) if run.run_id else []
            sums[kind] = [row.computing_ns for row in rows if row.step is not None]
        same = bool(sums["text"]) and sums["text"] == sums["db"]
        return _check(f"text_and_db_{name}", "PASS" if same else "FAIL", "sums", sums)
    return _check(f"text_and_db_{name}", "SKIP", "one_export")


def _check(name: str, status: str, said: str, seen: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "status": status, "said": said, "seen": dict(seen or {}), "do": []}

"""What the Learn page asks: on what kind of device a run was recorded, and profiler configurations for any job."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from npulens.analysis.collect import STEPS, Recipe, for_any, for_npu

#: How the simulated job names its hosts, and so its files.
SIMULATED = "sim-node-"
_BACKENDS = ("npu", "cuda", "rocm", "cpu")


@dataclass(frozen=True)
class Level:
    """How far figures of a run can be believed to be those of a device."""

    level: str  # 'simulated', 'npu', 'cuda', 'rocm', 'cpu', or 'unknown' where it was not recorded
    device: str | None  # as the profiler names it


def level(con: duckdb.DuckDBPyConnection, files: tuple[str, ...]) -> Level:
    """What the capture itself says; ``files``: what it was read from. Only our own simulated job is known for one."""
    rows = con.execute("SELECT backend, device_name, host, path FROM rank ORDER BY rank").fetchall()
    device = next((row[1] for row in rows if row[1]), None)
    told = [*files, *(text or "" for row in rows for text in row[2:])]
    if any(SIMULATED in text for text in told):
        return Level("simulated", device)
    backends = {row[0] for row in rows}
    only = backends.pop() if len(backends) == 1 else None
    return Level(only if only in _BACKENDS else "unknown", device)


def general(npu: bool) -> Recipe:
    """A configuration that records what most detectors need, for a job nobody has captured yet."""
    settings = for_npu(None, ()) if npu else for_any(())
    every = ("every rank", "所有 rank")
    return Recipe("torch_npu" if npu else "torch", "NPU" if npu else "CUDA", None, every, STEPS, tuple(settings))

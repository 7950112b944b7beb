"""Refuses to time anything while a profiler runs, because it adds an unknown time to every call."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

#: Set by whoever profiles this process from outside -> who that is.
FOREIGN = {
    "NPULENS_RECORDING": "npulens collect",
    "NSYS_PROFILING_SESSION_ID": "Nsight Systems",
    "PROFILING_MODE": "CANN (PROFILING_MODE)",
}


class Profiled(Exception):
    """A profiler is at work, and so nothing is timed."""


def refuse_profiled(environment: Mapping[str, str] = os.environ) -> None:
    """Raises if anything watches this process closely enough to change its times."""
    found = profiler(environment)
    if found is not None:
        raise Profiled(f"{found} is at work in this process: its times are not latencies. Measure without it")


def profiler(environment: Mapping[str, str] = os.environ) -> str | None:
    """Who profiles this process; None for nobody."""
    for name, who in FOREIGN.items():
        if environment.get(name, "").lower() not in ("", "0", "false"):
            return who
    if sys.getprofile() is not None or sys.gettrace() is not None:
        return "a profiler or debugger of Python"
    torch = sys.modules.get("torch")
    if torch is not None and torch.autograd._profiler_enabled():
        return "torch's profiler"
    return None

"""``python -m npulens.collectors bench``: the options, and the way from them to a result."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from npulens.collectors.backends.backend import Backend, open_backend
from npulens.collectors.backends.probe import BACKENDS, choose
from npulens.collectors.bench import checks, on_request, pairs, text, times
from npulens.collectors.bench.options import Options
from npulens.collectors.bench.result import Reason, Result
from npulens.collectors.bench.session import Session
from npulens.collectors.bench.subject import asked_for, subject
from npulens.collectors.doctor.roofs import kept
from npulens.collectors.harness.cpu_time import has_cpu_time
from npulens.collectors.harness.unprofiled import Profiled, refuse_profiled
from npulens.collectors.harness.watch import DeviceWatch
from npulens.collectors.workloads.workload import names

_PLAIN = ("workload", "shape", "backend", "seed", "pairs", "time_budget", "cold", "throughput", "in_flight",
          "batch_curve", "slo_ms", "concurrency", "sweep")  # fmt: skip


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb and its options."""
    bench, default = verbs.add_parser("bench", help="measure a workload"), Options("")
    bench.set_defaults(run=_bench)
    bench.add_argument("workload", help=", ".join(names()))
    bench.add_argument("-o", "--output", type=Path, required=True)
    bench.add_argument("--variant", action="append", default=[])
    bench.add_argument("--dtype", action="append", default=[])
    bench.add_argument("--shape")
    bench.add_argument("--backend", choices=BACKENDS)
    bench.add_argument("--seed", type=int, default=default.seed)
    bench.add_argument("--pairs", type=int, default=default.pairs)
    bench.add_argument("--time-budget", type=float, default=default.time_budget)
    bench.add_argument("--in-flight", type=int, default=default.in_flight)
    bench.add_argument("--slo-ms", type=float)
    bench.add_argument("--concurrency", type=int)
    for name in ("cold", "throughput", "batch-curve", "sweep", "quick"):
        bench.add_argument(f"--{name}", action="store_true")


def options(arguments: argparse.Namespace) -> Options:
    """What was asked for; numbers that make no sense are refused."""
    told = {name: getattr(arguments, name) for name in _PLAIN}
    asked = Options(**told, variants=tuple(arguments.variant), dtypes=tuple(arguments.dtype))
    wrong = [name for name, least in (("pairs", 2), ("in_flight", 1), ("seed", 0)) if getattr(asked, name) < least]
    wrong += [name for name in ("time_budget", "slo_ms") if not 0 < (getattr(asked, name) or 1) < 1e6]
    wrong += ["concurrency"] if asked.concurrency is not None and not 2 <= asked.concurrency <= 256 else []
    if wrong:
        raise ValueError(f"{wrong[0].replace('_', '-')}: {getattr(asked, wrong[0])} is not possible")
    return asked.quick() if arguments.quick else asked


def _repeatable(words: list[str]) -> list[str]:
    """The command without the place of its result, which is another one every night."""
    return [word for place, word in enumerate(words) if word != "-o" and words[place - 1 : place] != ["-o"]]


def _threads(backend: Backend) -> int | None:
    """On how many threads torch computes here; CPU time is of one of them."""
    import torch

    return int(torch.get_num_threads()) if has_cpu_time(backend) else None


def _bench(arguments: argparse.Namespace) -> int:
    asked = options(arguments)
    try:
        refuse_profiled()
    except Profiled as error:
        raise ValueError(str(error)) from error
    asked_for(asked)
    choice = choose(asked.backend)
    if choice.reason:
        print(f"npulens: measuring on {choice.actual} ({choice.reason})", file=sys.stderr, flush=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if hasattr(os, "getloadavg") and (warning := text.busy(os.getloadavg()[0], cores)):
        print(warning, file=sys.stderr, flush=True)
    backend = open_backend(choice.actual)
    under = subject(asked, backend)
    properties = dict(backend.properties())
    about = {
        "workload": under.name, "shape": under.shape_name, "sizes": dict(under.shape), "seed": asked.seed,
        "shows": list(under.work.SHOWS), "device": properties,
        "method": {"pairs": asked.pairs, "time_budget_s": asked.time_budget, "calls": asked.calls,
                   "warm_up_calls": asked.warm_up_calls, "in_flight": asked.in_flight, "quick": arguments.quick,
                   "threads": _threads(backend)},
    }  # fmt: skip
    command = ["npulens", "bench", *_repeatable(sys.argv[2:])]
    result = Result(arguments.output, command, choice, about)
    device = properties.get("name") or choice.capability.device or backend.device
    print(text.head({**about, "backend": choice.actual, "device": device}), flush=True)
    status, reason = run(Session(asked, under, backend, result, DeviceWatch(backend), kept(choice)))
    answer = {
        "directory": str(arguments.output), "backend": choice.actual, "status": status,
        "reason": None if reason is None else str(reason), "workload": under.name,
        "shape": under.shape_name, "figures": result.figures,
    }  # fmt: skip
    print("\n" + json.dumps(answer), flush=True)
    return 1 if status == "failed" else 0


# One benchmark from beginning to end: what is right, how long it takes, what is faster, and what else was asked.
#
# Each part adds its figures to the result, which is saved before the next one begins. Whatever ends it early, an
# interrupt or a failure, the result says so and holds what was measured until then.
def run(session: Session) -> tuple[str, Reason | None]:
    """Every part in its order; how it ended, and why where it did not end well."""
    begun = time.monotonic()
    before = signal.signal(signal.SIGTERM, _interrupt)
    status: str = "complete"
    reason: Reason | None = None
    try:
        checks.run(session)
        if not any(session.ran.values()):
            status, reason = "failed", Reason("runs_nothing")
        else:
            for part in (times.run, pairs.run, on_request.run):
                part(session)
    except KeyboardInterrupt:
        status, reason = "partial", Reason("interrupted", {
            "what": session.doing, "n": f"{time.monotonic() - begun:.0f}",
        })  # fmt: skip
    except (RuntimeError, MemoryError) as error:
        status, reason = "partial", Reason("failed", {"what": session.doing, "error": text.first_line(error)})
    finally:
        signal.signal(signal.SIGTERM, before)
    session.result.save(status, reason, session.watch.told())
    return status, reason


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt

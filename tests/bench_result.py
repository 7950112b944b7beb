"""A benchmark as the collectors write it, of made-up samples whose truth is known: no torch, no device, no waiting."""

from __future__ import annotations

import random
from dataclasses import asdict
from pathlib import Path

from npulens.collectors.backends.probe import Capability, Choice
from npulens.collectors.bench import times
from npulens.collectors.bench.result import Reason, Result
from npulens.collectors.harness import batch_curve
from npulens.collectors.harness.batch_curve import Point
from npulens.collectors.harness.interference import Together
from npulens.collectors.harness.latency import Series
from npulens.collectors.harness.versus import judge

BEGAN_NS = 1_795_000_000_000_000_000
LEVELS_NS = {"unfused": 100_000, "folded": 80_000, "fused": 60_000}
CPU = Choice(None, "cpu", (Capability("cpu", True, device="x86_64", count=1, versions={"torch": "2.13.0"}),))
ABOUT = {
    "workload": "conv_bn_relu", "shape": "small", "sizes": {"batch": 2, "channels": 8}, "seed": 0, "shows": ["unfused"],
    "device": {"name": "made-up processor", "cores": 4},
    "method": {"pairs": 10, "time_budget_s": 120.0, "calls": 1000, "quick": False},
}  # fmt: skip


def series(level: int, calls: int, seed: int, slow: float = 0.02) -> Series:
    """Calls with 3 % noise, of which a share takes ten times as long; a garbage collection fell into the slow ones."""
    dice = random.Random(seed)
    ns = [round(level * (1 + dice.gauss(0, 0.03)) * (10 if dice.random() < slow else 1)) for _ in range(calls)]
    events = {place: ["garbage collection"] for place, each in enumerate(ns) if each > 5 * level}
    return Series("host", ns, [BEGAN_NS + sum(ns[:place]) for place in range(calls)], events)


def write(directory: Path, calls: int = 1000, status: str = "complete", reason: Reason | None = None) -> Path:
    """The whole of a result: three variants, one wrong one, a control, a batch curve, several at once, shapes."""
    result = Result(directory, ["npulens", "bench", "conv_bn_relu"], CPU, ABOUT)
    for place, (variant, level) in enumerate(LEVELS_NS.items()):
        where = {"variant": variant, "dtype": "float32", "shape": "small"}
        result.add("numerics", {**where, "ok": True, "why": None, "relative_error": 1.7e-7, "tolerance": 1e-5,
                                "max_ulp": 12.0, "cosine": 1.0, "nan": 0, "inf": 0})  # fmt: skip
        _latency(result, where, series(level, calls, place))
    result.add("numerics", {"variant": "hasty", "dtype": "float32", "shape": "small", "ok": False,
                            "why": "the error is 0.1 of the result, 1e-05 is allowed", "relative_error": 0.1,
                            "tolerance": 1e-5, "max_ulp": 1e6, "cosine": 0.99, "nan": 0, "inf": 0})  # fmt: skip
    result.add("numerics", {"variant": "triton", "dtype": "float32", "shape": "small", "ok": None,
                            "why": "triton is not installed"})  # fmt: skip
    _versus(result)
    _besides(result)
    result.save(status, reason, [{"at_ns": BEGAN_NS, "clock_mhz": 2400.0, "busy_share": 0.9, "power_w": None}])
    return directory


def _latency(result: Result, where: dict[str, str], made: Series) -> None:
    name = f"{where['variant']} float32 hot host"
    result.keep(name, made)
    warm = result.keep(f"{name} warm-up", Series("host", [1_000_000, *made.ns[:49]], []))
    result.add("latency", {
        **where, "cache": "hot", "series": name, "numerics": True, **times.figures_of(made, 1000),
        "warm_up": {"series": warm, "samples": 50, "settled": True, "first_ns": 1_000_000}, "throttled": None,
        "model": {"flops": 10**6, "bytes": 10**5, "flops_per_byte": 10.0, "flops_per_s": 1e10, "bytes_per_s": 1e9},
    })  # fmt: skip


def _versus(result: Result) -> None:
    dice = random.Random(7)
    for variant, level in LEVELS_NS.items():
        verdict = judge([level / LEVELS_NS["unfused"] * (1 + dice.gauss(0, 0.004)) for _ in range(10)])
        noisy = {"clock": "host", "said": "cannot_tell", "ratio": 0.9, "low": 0.3, "high": 2.7}
        by = {"clock": "cpu", "other_clock": noisy} if variant == "folded" else {"clock": "host", "other_clock": None}
        result.add("versus", {"variant": variant, "dtype": "float32", "shape": "small", "base": "unfused",
                              "control": variant == "unfused", **asdict(verdict), "withheld": None, **by})  # fmt: skip


def _besides(result: Result) -> None:
    where = {"variant": "fused", "dtype": "float32", "shape": "small"}
    points = [Point(2**k, 2**k / (50e-6 + 2e-6 * 2**k), 50_000 + 2_000 * 2**k, 55_000 + 2_500 * 2**k, 300, None, 10**5)
              for k in range(10)]  # fmt: skip
    chosen = {"sweet_spot": batch_curve.sweet_spot(points), "knee": batch_curve.knee(points),
              "within": batch_curve.within(points, 300_000)}  # fmt: skip
    result.add("batch", {**where, "batch_name": "batch", "points": [point.as_dict() for point in points],
                         "stopped": "memory", "slo_ns": 300_000,
                         **{name: point and point.batch for name, point in chosen.items()}})  # fmt: skip
    for kind, rate in (("threads", 12_000.0), ("processes", 17_000.0)):
        found = Together(kind, 2, 1.0, 10_000.0, rate, (120_000, 125_000), (300_000, 310_000), 60_000)
        result.add("together", {**where, **found.as_dict()})
    result.add("throughput", {**where, "completed": 20_000, "seconds": 1.25, "in_flight": 8, "per_second": 16_000.0})
    result.add("sweep", {**where, "shape": "ones", "sizes": {"batch": 1, "channels": 1}, "refused": None, "ok": True,
                         "why": None, "p50": 12_000, "samples": 400})  # fmt: skip
    result.add("sweep", {**where, "shape": "empty", "sizes": {"batch": 0, "channels": 8},
                         "refused": "batch 0: nothing to compute"})  # fmt: skip

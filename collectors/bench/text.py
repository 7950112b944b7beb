"""What a benchmark prints while it goes: one line a figure, in columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npulens.collectors.harness.batch_curve import Point
from npulens.collectors.harness.quantiles import needed
from npulens.collectors.harness.versus import MOST_PAIRS

Figure = Mapping[str, Any]
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
#: Runnable processes a core before the measurement begins, beyond which it is not alone.
BUSY_LOAD = 0.5
_CLOCKS = {"host": "the wall clock", "cpu": "CPU time"}
_LEVELS = {0.5: "P50", 0.9: "P90", 0.99: "P99", 0.999: "P99.9"}

_COLUMNS = f"{'variant':<14} {'type':<9} {'error':>9} {'allowed':>9} {'max ulp':>9}"
NUMERICS = f"\nNumerics against float64\n{_COLUMNS}  verdict"
LATENCY = "\nLatency: percentiles of all samples with their 95 % intervals; nothing is left out for being slow"
THROUGHPUT = "\nThroughput with a bounded queue; only completed steps count"
TOGETHER = "\nSeveral at once; efficiency = together / (number x alone)"
SWEEP = f"\nShapes\n{'shape':<10} {'variant':<14} {'P50':>10}  verdict"


def head(about: Figure) -> str:
    """What is measured, on what."""
    sizes = ", ".join(f"{name} {size}" for name, size in about["sizes"].items())
    return f"{about['workload']} on {about['device']} ({about['backend']}), shape {about['shape']}: {sizes}"


def busy(load: float, cores: int) -> str | None:
    """A warning where others are at work on the same cores."""
    if load <= BUSY_LOAD * cores:
        return None
    return f"npulens: the load is {load:.1f} on {cores} cores: others are at work here, and intervals will be wide"


def ns(value: float | None) -> str:
    """A time to four digits."""
    if value is None:
        return "-"
    scale, unit = next(((scale, unit) for scale, unit in _UNITS if abs(value) >= scale), _UNITS[-1])
    return f"{value / scale:.4g} {unit}"


def first_line(error: BaseException) -> str:
    """An error in one line of readable length."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def numerics(figure: Figure) -> str:
    left = f"{figure['variant']:<14} {figure['dtype']:<9}"
    if figure["ok"] is None:
        return f"{left} not here: {figure['why']}"
    error, ulp = (f"{figure[key]:.1e}" if figure[key] is not None else "-" for key in ("relative_error", "max_ulp"))
    verdict = "ok" if figure["ok"] else f"WRONG, so it gets no speed-up: {figure['why']}"
    return f"{left} {error:>9} {figure['tolerance']:>9.1e} {ulp:>9}  {verdict}"


def latency(figure: Figure) -> str:
    """Two or three lines: who, the percentiles, and what to think of them."""
    lines = [f"{figure['variant']} {figure['dtype']}, {figure['cache']}, {figure['clock']} clock: "
             f"{figure['samples']:,} calls after {figure['warm_up']['samples']:,} of warm-up"
             f" (the first took {ns(figure['warm_up']['first_ns'])}){_state(figure)}"]  # fmt: skip
    lines += ["  " + "   ".join(_quantile(each) for each in figure["quantiles"])]
    out = figure["outliers"]
    lines += [f"  max {ns(figure['max'])}, mean {ns(figure['mean'])}; {out['count']} outliers "
              f"({100 * out['share']:.1f} %) above {ns(out['high_fence'])}, kept{_events(out)}"]  # fmt: skip
    if figure.get("roof"):
        lines.append("  " + _roof(figure["roof"]))
    return "\n".join(lines)


def roofs(found: Figure | None) -> str:
    """Whether times are put beside roofs, and of when."""
    if found is None:
        return "Roofs of this machine are not measured, so no share of them is told: `npulens doctor --roofs`"
    return f"Shares are of the roofs of products and memory that were measured here at {found['measured_at']}"


def _roof(roof: Figure) -> str:
    if roof["share"] > 1:
        return f"P50 is {roof['share']:.2f} times as fast as the {roof['bound']} roof allows: data stays in the cache"
    return f"P50 reaches {100 * roof['share']:.1f} % of its roof, which is that of {roof['bound']}"


def _state(figure: Figure) -> str:
    state = figure["steadiness"]
    said = {
        "steady": "", "cold_start": f"; a cold start of {state['kept_from']} calls is set aside",
        "too_few": "; too few to say whether it was steady",
        "throttled": f"; SLOWER FROM CALL {state['changed_at']} ON: no headline number",
    }.get(state["state"], f"; {state['state'].upper()}: no headline number")  # fmt: skip
    unsettled = "" if figure["warm_up"]["settled"] else "; the warm-up did not settle"
    return said + unsettled + (f"; {figure['throttled']}" if figure["throttled"] else "")


def _quantile(each: Figure) -> str:
    name = _LEVELS.get(each["level"], f"P{100 * each['level']:g}")
    if each["high"] is None:
        return f"{name} >= {ns(each['low'])} ({name} needs n >= {needed(each['level']):,})"
    return f"{name} {ns(each['value'])} [{ns(each['low'])}, {ns(each['high'])}]"


def _events(out: Figure) -> str:
    found: dict[str, int] = {}
    for each in out["listed"]:
        for event in each["events"]:
            found[event] = found.get(event, 0) + 1
    return f" ({', '.join(f'{event}: {count}' for event, count in sorted(found.items()))})" if found else ""


def versus_head(base: str, dtype: str, pairs: int) -> str:
    return f"\nAgainst {base} in {dtype}: {pairs} interleaved pairs, time as a multiple of {base}'s, 99 % interval"


def versus(figure: Figure) -> str:
    """One line: who, the ratio with its interval, what it means, and by which clock."""
    return f"{_versus(figure)}{_clocks(figure)}"


def _versus(figure: Figure) -> str:
    who = f"{figure['base']} again (A/A)" if figure["control"] else figure["variant"]
    left = f"{who:<24} {_interval(figure)}  "
    if figure["withheld"]:
        return left + f"withheld: {figure['withheld']}"
    if figure["said"] == "cannot_tell":
        needed = figure["pairs_needed"]
        if needed > MOST_PAIRS:
            return left + f"cannot tell: too noisy here, {needed:,} pairs would not be taken by anyone"
        return left + f"cannot tell; about {needed:,} pairs would"
    if figure["said"] == "same":
        return left + "same within 1 %"
    if figure["control"]:
        return left + "DIFFERENT from itself: this machine is not quiet enough"
    ratio = figure["ratio"]
    return left + (f"faster: {1 / ratio:.2f} x" if ratio < 1 else f"slower: takes {ratio:.2f} x the time")


def _clocks(figure: Figure) -> str:
    """Where there are two clocks: which one it is by, and what the other says."""
    other = figure.get("other_clock")
    if other is None:
        return ""
    return f"; by {_CLOCKS[figure['clock']]} ({_CLOCKS[other['clock']]}: {_interval(other)})"


def _interval(figure: Figure) -> str:
    return f"{figure['ratio']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]"


def throughput(figure: Figure) -> str:
    left = f"{figure['variant']:<14} {figure['dtype']:<9} {figure['per_second']:>12,.1f} steps/s"
    return f"{left}  ({figure['completed']:,} in {figure['seconds']:.1f} s, at most {figure['in_flight']} under way)"


def batch_head(variant: str, dtype: str) -> str:
    return f"\nBatch curve of {variant} in {dtype}\n{'batch':>7} {'items/s':>14} {'P50':>10} {'P99':>10}"


def batch(point: Point) -> str:
    return f"{point.batch:>7,} {point.per_second:>14,.1f} {ns(point.p50_ns):>10} {ns(point.p99_ns):>10}"


def batch_said(figure: Figure) -> str:
    why = {"time": "the time budget", "memory": "memory", "largest": "the largest batch tried"}[figure["stopped"]]
    said = f"ended by {why}; sweet spot {figure['sweet_spot']}, knee {figure['knee']}"
    if figure["slo_ns"] is None:
        return said
    best = figure["within"]
    within = f"best batch {best}" if best is not None else "no batch"
    return f"{said}; within {ns(figure['slo_ns'])} at P99: {within}"


def together(figure: Figure) -> str:
    slower = sorted(figure["p50_ns"])[len(figure["p50_ns"]) // 2] / max(figure["solo_p50_ns"], 1)
    left = f"{figure['workers']} {figure['kind']:<10} {figure['per_second']:>10,.1f} steps/s"
    alone = f"alone {figure['solo_per_second']:,.1f}"
    return f"{left}, {alone}: efficiency {figure['efficiency']:.2f}, a call takes {slower:.2f} x"


def sweep(figure: Figure) -> str:
    verdict = "ok" if figure["ok"] else f"WRONG: {figure['why']}"
    verdict = f"refused: {figure['refused']}" if figure["refused"] else verdict
    return f"{figure['shape']:<10} {figure['variant']:<14} {ns(figure['p50']):>10}  {verdict}"

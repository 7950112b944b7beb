"""What a replay script runs: the call once against float64, then again and again, then beside the times of the capture.

Hot calls find their data in the cache, cold ones do not. A job lies between the two. The times of the capture are those
of its device alone, so they stand beside the device's own clock; on a processor beside the wall.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from npulens.collectors.backends.backend import Backend, open_backend
from npulens.collectors.backends.probe import Unavailable, choose
from npulens.collectors.harness.batch_curve import free_bytes, out_of_memory
from npulens.collectors.harness.cache import cold
from npulens.collectors.harness.latency import Load, Series, measure, one
from npulens.collectors.harness.quantiles import Quantile, quantiles
from npulens.collectors.harness.steady import steadiness
from npulens.collectors.harness.unprofiled import Profiled, refuse_profiled
from npulens.collectors.harness.warmup import warm_up
from npulens.collectors.harness.watch import DeviceWatch, throttled
from npulens.collectors.replay.filled import Filled, filled, result_bytes, sizes
from npulens.collectors.replay.instead import elsewhere, instead
from npulens.collectors.replay.right import FAILURES, first_line, numerics
from npulens.collectors.replay.schema import CannotReplay, Chosen
from npulens.collectors.replay.schema import choose as chosen_of
from npulens.collectors.workloads.workload import Case

#: Within this share of each other the operator alone and the operator in the job take the same.
SAME = 0.1
#: Another process took the core from more than this part of the calls: they say nothing of the operator.
DISTURBED = 0.5
#: From so many bytes on, or sides so long, results are asked for before anything is drawn.
_LARGE, _WIDE = 64 << 20, 1 << 14
SECONDS, WARM_UP_S, CALLS, WARM_UP_CALLS = 5.0, 20.0, 2000, 30


def main(operator: str, inputs: Sequence[Sequence[Any]], trace: Mapping[str, Any], argv: Any = None) -> int:
    """0: it ran, right as far as that could be told; 1: wrong results; 2: it cannot run here."""
    asked = _parser().parse_args(argv)
    try:
        refuse_profiled()
        found = run(operator, inputs, trace, asked)
    except (CannotReplay, Unavailable, Profiled) as error:
        return _refused(str(error), asked.json)
    except ImportError as error:
        return _refused(f"torch cannot be imported: {first_line(error)}", asked.json)
    except FAILURES as error:
        if out_of_memory(error):
            return _refused(f"{operator} needs more memory than is free here: {first_line(error)}", asked.json)
        return _refused(f"{operator} failed: {first_line(error)}", asked.json)
    if asked.json:
        print(json.dumps(found))
    else:
        print("\n".join(_lines(found)))
    return 1 if found["numerics"]["ok"] is False else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Runs one recorded operator alone: right or not, and how long.")
    parser.add_argument("--device", choices=("npu", "cuda", "cpu"), help="default: the best that is there")
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, help="time for each series (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--once", action="store_true", help="call it once and check it, without timing")
    parser.add_argument("--reference", action="store_true", help="compute the reference however long it takes")
    parser.add_argument("--json", action="store_true")
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError("more than 0 and at most 3600 seconds")
    return value


def _refused(why: str, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"error": why}))
    print(f"replay: {why}", file=sys.stderr)
    return 2


def prepared(operator: str, inputs: Sequence[Sequence[Any]], device: str, seed: int = 0) -> Filled:
    """The call on a device, in the form that this device has. What cannot fit is refused before anything is drawn."""
    chosen = instead(chosen_of(*elsewhere(operator, inputs)), device.partition(":")[0])
    _room(operator, inputs, chosen, device)
    return filled(chosen, seed, device)


def _room(operator: str, inputs: Sequence[Sequence[Any]], chosen: Chosen, device: str) -> None:
    needed, free = sizes(inputs), free_bytes()
    if free is None:
        return
    if needed > free:
        raise CannotReplay(
            f"the inputs of {operator} are drawn on the host and need {_gb(needed)}; {_gb(free)} are free"
        )
    if device != "cpu":
        return
    if needed > _LARGE or any(_wide(one) for one in inputs):
        needed += result_bytes(chosen)
    if 2 * needed > free:
        raise CannotReplay(
            f"{operator} needs {_gb(needed)} for its inputs and results and as much again to check them; "
            f"{_gb(free)} are free here"
        )


def _wide(one: Sequence[Any]) -> bool:
    """Whether a few small inputs may give a large result."""
    shapes = [one[2]] if one[0] == "tensor" else [each[1] for each in one[1]] if one[0] == "tensors" else []
    if one[0] == "value":
        shapes = [one[1] if isinstance(one[1], (list, tuple)) else [one[1]]]
    return any(isinstance(side, (int, float)) and side > _WIDE for shape in shapes for side in shape)


def _gb(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"


def run(operator: str, inputs: Sequence[Sequence[Any]], trace: Mapping[str, Any], asked: Any) -> dict[str, Any]:
    """Everything that is told, as data."""
    backend = _backend(asked.device)
    chosen = chosen_of(*elsewhere(operator, inputs))
    call = prepared(operator, inputs, backend.device, asked.seed)
    properties = backend.properties()
    told: dict[str, Any] = {
        "operator": operator, "overload": chosen.overload or "default", "runs": call.chosen.name,
        "device": backend.name, "device_name": properties.get("name"), "seed": asked.seed,
        "defaults": list(chosen.defaults), "trace": dict(trace), "series": {}, "warm_up_settled": None,
    }  # fmt: skip
    told["numerics"] = numerics(call, backend, properties, trace.get("flops"), asked.reference)
    if not asked.once:
        told["series"], told["warm_up_settled"], told["throttled"] = _times(call, backend, asked)
        told["cold_how"] = told["series"].pop("how", None)
    told["verdict"] = _verdict(told)
    return told


def _backend(device: str | None) -> Backend:
    """The device that was asked for, else the best that is there. A processor is always there: nobody is asked."""
    if device != "cpu":
        return open_backend(choose(device).actual)
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # a driver that fails would spoil this process
    return open_backend("cpu")


# ---- How long it takes


def _times(call: Filled, backend: Backend, asked: Any) -> tuple[dict[str, Any], bool, str | None]:
    """Hot and cold calls, by the clock that the capture had."""
    clock = "host" if backend.name == "cpu" else "device"
    watch = DeviceWatch(backend)
    call.keep()
    again = call.restore if call.written() else None
    hot = Load((call.call(),), again)
    warm = warm_up(lambda: one(backend, hot), WARM_UP_CALLS, min(WARM_UP_S, 4 * asked.seconds))
    series = {"hot": _told(measure(backend, hot, clock, watch, CALLS, asked.seconds))}
    try:
        load, how = _cold(call, backend, asked.seed)
        one(backend, load)
        series["cold"] = _told(measure(backend, load, clock, watch, CALLS, asked.seconds))
        series["how"] = how
    except FAILURES as error:
        if not out_of_memory(error):
            raise
        series["how"] = {"why": "the copies that take turns do not fit into memory"}
    return series, warm.settled, throttled([telemetry for _, telemetry in watch.seen])


def _cold(call: Filled, backend: Backend, seed: int) -> tuple[Load, dict[str, Any]]:
    """Copies that take turns, each restored before its turn, and the cache written over in between."""
    copies: list[Filled] = []
    size = sum(slot.base.numel() * slot.base.element_size() for slot in call.slots())
    free = free_bytes() if backend.name == "cpu" else None

    def make(number: int) -> Case:
        if free is not None and (number + 2) * 2 * size > free:
            raise MemoryError("not enough memory for another copy")
        mine = call if number == 0 else filled(call.chosen, seed + number, call.device)
        mine.keep()
        copies.append(mine)
        return Case(mine.call(), None, size)

    load, how = cold(backend, make)
    flush = load.before

    def before() -> None:
        copies[(turns.calls + 1) % len(copies)].restore()
        flush()

    turns = Load(load.steps, before)
    return turns, how


def _told(series: Series) -> dict[str, Any]:
    middle: Quantile = quantiles(series.ns, (0.5,))[0]
    ordered = sorted(series.ns)
    return {
        "clock": series.clock, "calls": len(ordered), "min_ns": ordered[0], "median_ns": middle.value,
        "low_ns": middle.low, "high_ns": middle.high, "max_ns": ordered[-1], "state": steadiness(series.ns).state,
        "disturbed": len(series.events),
    }  # fmt: skip


# ---- Alone and in the job


def _verdict(told: Mapping[str, Any]) -> dict[str, Any]:
    """Whether it is as slow alone as in the capture."""
    series, trace = told["series"], told["trace"]
    median = trace.get("median_ns")
    if not series or not median:
        return {"said": "not_measured", "why": "it was not timed" if not series else "the capture holds no times"}
    if not _same_kind(told):
        return {"said": "other_device", "why": f"the capture is of {_device_of(trace)}: the times are not compared"}
    hot, cold_ = series["hot"], series.get("cold")
    if _disturbed(hot):
        taken = f"other processes took the core from {hot['disturbed']} of {hot['calls']} calls"
        return {"said": "not_measured", "why": taken}
    cold_ = None if cold_ is None or _disturbed(cold_) else cold_
    low, high = median * (1 - SAME), median * (1 + SAME)
    ratio = median / hot["median_ns"] if hot["median_ns"] else None
    why = None
    if hot["low_ns"] > high:
        said = "slower_alone"
    elif (hot["high_ns"] or hot["median_ns"]) >= low:
        said = "as_slow_alone"
    elif cold_ is not None and (cold_["high_ns"] or cold_["median_ns"]) >= low:
        said = "cold_cache"
    else:
        said = "slower_in_the_job"
    if said in ("as_slow_alone", "slower_in_the_job") and told.get("throttled"):
        why = told["throttled"]
    return {"said": said, "times": ratio, "cold": cold_ is not None, "why": why}


def _disturbed(series: Mapping[str, Any]) -> bool:
    return bool(series["disturbed"] > DISTURBED * series["calls"])


def _same_kind(told: Mapping[str, Any]) -> bool:
    """Whether the capture is of this kind of device; of two kinds of NPU or GPU the names tell."""
    trace = told["trace"]
    backend = {"rocm": "cuda"}.get(trace.get("backend"), trace.get("backend"))
    if backend != told["device"]:
        return False
    ours, theirs = told.get("device_name"), trace.get("device")
    if backend == "cpu" or not ours or not theirs:
        return True
    return str(ours).startswith(str(theirs)) or str(theirs).startswith(str(ours))  # Ascend910B, and Ascend910B3


def _device_of(trace: Mapping[str, Any]) -> str:
    if trace.get("backend") == "cpu" and not trace.get("device"):
        return "a processor that it does not name"
    return ascii(trace.get("device") or trace.get("backend") or "an unknown device").strip("'\"")


# ---- In words

_SAID = {
    "as_slow_alone": "As slow alone as in the job: the time is the operator's own.",
    "cold_cache": "As slow alone as in the job where its data is in no cache: what came before left other data there.",
    "slower_in_the_job": "Faster alone than in the job: there something else slows it.",
    "slower_alone": "Slower alone than in the job: here the device, its clock or its software is another.",
}


def _lines(told: Mapping[str, Any]) -> list[str]:
    device, trace = told["device_name"] or told["device"], told["trace"]
    lines = [f"{told['operator']} ({told['overload']}) on {told['device']}: {device}"]
    if told["runs"] != told["operator"]:
        lines.append(f"  this device has no {told['operator']}: {told['runs']} does the same work")
    if told["defaults"]:
        lines.append(f"  left to their defaults, unknown to the capture's torch: {', '.join(told['defaults'])}")
    lines += [f"  {_plain(note)}" for note in trace.get("notes", ())]
    lines += [f"  {_numerics_said(told['numerics'])}"]
    for name in ("hot", "cold"):
        if name in told["series"]:
            lines.append(f"  alone, {name:4}  {_series_said(told['series'][name])}")
    how = told.get("cold_how") or {}
    if "why" in how:
        lines.append(f"  alone, cold  not measured: {how['why']}")
    if trace.get("median_ns"):
        lines.append(
            f"  in the job   median {_time(trace['median_ns'])}, {_time(trace['min_ns'])} to {_time(trace['max_ns'])}, "
            f"{trace['calls']} calls on {_device_of(trace)}"
        )
    verdict = told["verdict"]
    if verdict["said"] in _SAID:
        cold_ = "" if verdict["cold"] else "; what a cold cache costs could not be told"
        lines.append(f"{_SAID[verdict['said']]} (in the job {verdict['times']:.2f} times as long as hot{cold_})")
    else:
        lines.append(f"Not compared: {verdict['why']}.")
    if told.get("throttled"):
        lines.append(f"  the clock was not at its rating: {told['throttled']}")
    if verdict["said"] in ("slower_in_the_job", "cold_cache") and trace.get("reasons"):
        lines.append("What the capture shows beside it:")
        lines += [f"  {_plain(reason)}" for reason in trace["reasons"]]
    return lines


def _plain(text: Any) -> str:
    return str(text).encode("ascii", "backslashreplace").decode()


def _numerics_said(found: Mapping[str, Any]) -> str:
    if found["ok"] is None:
        return f"results not compared: {found['why']}"
    error = f"relative error {found['relative_error']:.1e}, {found['tolerance']:.1e} allowed"
    return f"results right: {error}, against {found['reference']}" if found["ok"] else f"RESULTS WRONG: {found['why']}"


def _series_said(one: Mapping[str, Any]) -> str:
    high = "?" if one["high_ns"] is None else _time(one["high_ns"])
    state = "" if one["state"] in ("steady", "cold_start") else f", {one['state'].replace('_', ' ')}"
    state += f", {one['disturbed']} disturbed" if one["disturbed"] else ""
    return (
        f"median {_time(one['median_ns'])} [{_time(one['low_ns'])}, {high}], {_time(one['min_ns'])} to "
        f"{_time(one['max_ns'])}, {one['calls']} calls by the {one['clock']}'s clock{state}"
    )


def _time(ns: int) -> str:
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns} ns"

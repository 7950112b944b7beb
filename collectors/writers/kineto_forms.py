"""Other forms of the same Kineto events: several ranks in one file, and the bare list of 2020."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_PID = re.compile(r'"pid": (?:"([^"]*)"|(\d+))')
#: What a category is called in 2020; what is not here did not exist.
_CATEGORIES = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
    "Trace": "Trace",
}


def of_rank(text: str, rank: int) -> str:
    """An event as a file of several ranks holds it: the process says whose it is."""
    return _PID.sub(lambda found: f'"pid": "[TP{rank:02d}] {found[1] or found[2] or ""}"', text, count=1)


def of_2020(texts: Iterator[str], zero: int) -> Iterator[str]:
    """Events in whole microseconds since 1970, with threads named by strings and the ids of old."""
    for text in texts:
        event: dict[str, Any] = json.loads(text)
        if event["ph"] == "M" or (event["ph"] == "i" and "Start" in event["name"]):
            yield json.dumps(_placed(event, zero))
        elif event["ph"] == "X" and event["cat"] in _CATEGORIES:
            yield json.dumps(_placed(event | {"cat": _CATEGORIES[event["cat"]], "args": _args(event)}, zero))
        elif event["ph"] in "sf" and event["cat"] == "ac2g":
            yield json.dumps(_placed(event | {"cat": "async", "name": "launch"}, zero))


def _placed(event: dict[str, Any], zero: int) -> dict[str, Any]:
    placed = event | {"ts": zero // 1_000 + int(event["ts"])}
    if "dur" in event:
        placed["dur"] = int(event["dur"])
    on_device = "stream" in event.get("args", {})
    if isinstance(event["tid"], int) and event["tid"]:
        placed["tid"] = f"stream {event['tid']}" if on_device or event["pid"] < 1_000 else str(event["tid"])
    return placed


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = dict(event["args"])
    if event["cat"] in ("cpu_op", "user_annotation"):
        none: list[Any] = []
        old = {"Input dims": args.get("Input Dims", none), "Input type": args.get("Input type", none)}
        old |= {"Input names": none, "Output dims": none, "Output type": none, "Output names": none, "Device": 0}
        old |= {"External id": args["External id"], "Extra arguments": none, "Trace name": "PyTorch Profiler"}
        return old | {"Trace iteration": 0}
    if "External id" in args:
        args["external id"] = args.pop("External id")
    return args

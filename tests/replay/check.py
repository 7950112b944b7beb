"""Scripts of a capture's longest operators, and whether torch records of them what the capture holds.

What the capture holds is read from its own file here: JSON of Kineto, or the CSV of an Ascend profiler.
"""

from __future__ import annotations

import ast
import csv
import gzip
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.look.replay import Replay, of_run
from npulens.analysis.run import Run
from npulens.analysis.work.operators import operators
from npulens.app import run_replay
from npulens.ingest.store import runs as stores

#: What a test machine computes in a moment, the reference in float64 included.
MOST_FLOPS, MOST_BYTES = 2 * 10**9, 64 * 10**6
_TYPES = {"long": "long int", "short": "short int", "unsigned char": "uint8", "c10::Half": "Half"}
_OURS = {
    "DT_BF16": "c10::BFloat16", "BF16": "c10::BFloat16", "FLOAT": "float", "FLOAT16": "Half", "INT32": "int",
    "INT64": "long int", "BOOL": "bool", "DOUBLE": "double", "UINT8": "uint8",
}  # fmt: skip


@dataclass(frozen=True)
class Written:
    """A script, and the operator of the capture that it is of."""

    path: Path
    found: Replay


def scripts(capture: Path, store: Path, folder: Path, most: int) -> list[Written]:
    """Scripts of the longest operators that are small enough, at most so many of one name."""
    written: list[Written] = []
    report = ingest.load(capture, store)
    for one in report.runs:
        if one.run_id is None:
            continue
        con = stores.open_run(store, one.run_id)
        try:
            views.install(con)
            written += _of_run(Run(con), folder, most - len(written))
        finally:
            con.close()
    return written


def _of_run(run: Run, folder: Path, most: int) -> Iterator[Written]:
    seen, names = Counter[str](), Counter[str]()
    for one in sorted(run.get(operators).every, key=lambda one: -one.ns):
        if most <= 0:
            return
        seen[one.name] += 1
        small = (one.work.flops or 0) <= MOST_FLOPS and (one.work.bytes or 0) <= MOST_BYTES
        found = of_run(run, f"{one.name}#{seen[one.name]}").replay
        if not small or found is None or found.call is None or "library" in found.call.notes or names[one.name] >= 3:
            continue
        names[one.name] += 1
        path = folder / f"{run.run_id[:6]}_{one.name.rpartition(':')[2]}_{seen[one.name]}.py"
        run_replay.write(found, path)
        most -= 1
        yield Written(path, found)


def recorded(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """What torch's profiler says of each script, from one process."""
    command = [sys.executable, "-m", "tests.replay.shapes", *map(str, paths)]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    yield from (json.loads(line) for line in child.stdout.splitlines() if line.startswith("{"))


def ran(path: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """What a script answers."""
    child = subprocess.run([sys.executable, str(path), "--json", *arguments], capture_output=True, text=True)
    told = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
    return {"status": child.returncode, **(told[-1] if told else {"error": child.stderr[-300:]})}


# ---- The capture's own file

Call = tuple[Any, ...]


def calls_of(capture: Path) -> dict[str, set[Call]]:
    """Every distinct call of every operator in the files of a capture, as `of_event` puts it."""
    found: dict[str, set[Call]] = {}
    files = [capture] if capture.is_file() else sorted(one for one in capture.rglob("*") if one.is_file())
    for path in files:
        if path.name == "kernel_details.csv":
            with path.open(encoding="utf-8") as lines:
                for row in (row for row in csv.DictReader(lines) if row["Input Shapes"] not in ("N/A", "")):
                    found.setdefault(row["Type"], set()).add(_of_row(row))
        elif path.name.endswith((".json", ".json.gz")):
            text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            events = json.loads(text, strict=False)
            for one in events.get("traceEvents", ()) if isinstance(events, dict) else ():
                if isinstance(one, dict) and "Input Dims" in (one.get("args") or {}):
                    found.setdefault(one["name"], set()).add(of_event(one["args"]))
    return found


def of_event(args: Mapping[str, Any]) -> Call:
    """(tensors and lists of them with strides where there are some, plain values) without what was left out."""
    dims, types = args["Input Dims"], args.get("Input type") or args.get("Input Types") or []
    strides = args.get("Input Strides") or [None] * len(dims)
    values = args.get("Concrete Inputs") or []
    places = []
    for at, (sides, kind) in enumerate(zip(dims, types, strict=False)):
        value = values[at] if at < len(values) else ""
        if kind in ("", "Scalar", "ScalarList", "GenericList", "None", "Device"):
            places.append(("value", _literal(value)) if value else ("nothing",))
        elif kind == "TensorList":
            places.append(("list", json.dumps(sides), json.dumps(strides[at])))
        else:
            lies = None if strides[at] is None else tuple(strides[at])
            places.append(("tensor", _TYPES.get(kind, kind), tuple(sides), lies))
    while places and places[-1] == ("nothing",):
        places.pop()
    return tuple(places)


def _literal(text: str) -> str:
    try:
        return repr(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text


def _of_row(row: Mapping[str, str]) -> Call:
    """Tensors of a kernel of Ascend, without an order: which operator of torch stands for it is ours to say."""
    sides = row["Input Shapes"].strip('"').split(";")
    kinds = row["Input Data Types"].split(";")
    return tuple(sorted(
        (_OURS.get(kind, kind), tuple(sorted(int(side) for side in one.split(",") if side)))
        for one, kind in zip(sides, kinds, strict=False)
    ))  # fmt: skip


def unordered(call: Call) -> Call:
    """The same of a call of torch: types and sides of its tensors."""
    return tuple(sorted((one[1], tuple(sorted(one[2]))) for one in call if one[0] == "tensor"))


def same(told: Mapping[str, Any], known: Mapping[str, set[Call]], of_kernel: str | None) -> str:
    """'equal', 'without strides', 'other form', or 'different'."""
    mine = of_event(told)
    if of_kernel is not None:
        tensors = unordered(mine)
        fits = bool(tensors) and any(set(tensors) <= set(one) for one in known.get(of_kernel, set()))
        return "kernel" if fits else "different"
    theirs = known.get(told["asked"], set())
    if told["runs"] != told["asked"]:
        return "other form" if any(set(unordered(mine)) <= set(unordered(one)) for one in theirs) else "different"
    if any(_alike(mine, one) for one in theirs):
        return "equal"
    return "without strides" if any(_alike(_bare(mine), _bare(one)) for one in theirs) else "different"


def _bare(call: Call) -> Call:
    return tuple((*one[:3], None) if one[0] == "tensor" else one[:2] if one[0] == "list" else one for one in call)


def _alike(mine: Call, theirs: Call) -> bool:
    """Equal, but for arguments that the older torch of the capture did not have."""
    return mine == theirs or (len(mine) > len(theirs) and mine[: len(theirs)] == theirs and not any(
        one[0] in ("tensor", "list") for one in mine[len(theirs) :]
    ))  # fmt: skip

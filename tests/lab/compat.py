"""`python -m tests.lab.compat [NAME ...]`: the twenty architectures of tests/lab/zoo.py against releases of torch_npu.

Each is heard as somebody's job, its operators are listed by ``lab-compat`` and judged. The table of
docs/compatibility.md is written anew. What was heard and listed is kept in a work directory, so a run that was cut off
goes on where it was.
Needs torchvision, timm and transformers; nothing runs on an NPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npulens.analysis.compat.answers import FINE, Compatibility, Seen, compatibility
from tests.lab.zoo import ROOT, ZOO

PAGE = ROOT / "docs/compatibility.md"
BEGIN, END = "<!-- zoo -->\n", "<!-- / -->"
HEADS = ("One call:", "One call and its gradients:")
RELEASES = ("2.1.0.post13", "2.7.1", "2.13.0")


def listed(name: str, work: Path, gradients: bool) -> dict[str, Any]:
    """The operators of an architecture, from the work directory or from its job."""
    kept = work / f"{name}{'.gradients' if gradients else ''}.json"
    if not kept.exists():
        place = work / name
        if not place.is_dir():
            _answer(["lab-hear", "-o", str(place), "--", sys.executable, "-m", "tests.lab.zoo", "--run", name])
        told = _answer(["lab-compat", *(["--gradients"] if gradients else []), str(place)])
        half = kept.with_suffix(".half")
        half.write_text(json.dumps(told), encoding="utf-8")
        half.replace(kept)
    found: dict[str, Any] = json.loads(kept.read_text("utf-8"))
    return found


def _answer(words: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "npulens.collectors", *words], cwd=ROOT, capture_output=True, text=True, timeout=1800
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{' '.join(words)}: {done.stderr[-1500:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def judged(told: dict[str, Any], release: str) -> Compatibility:
    """One architecture and release."""
    seen = [
        Seen(each["name"], each["outermost"], tuple(each["dtypes"]), tuple(each["parts"]), each["where"])
        for each in told["operators"]
    ]  # fmt: skip
    return compatibility(seen, release, True)


def cell(found: Compatibility) -> str:
    """Kernels and composites, then whatever else there is by its name."""
    said = [f"{found.count('kernel')} + {found.count('composite')}"]
    for status, name in (
        ("sometimes", "at times the host"), ("unknown", "not told"), ("absent", "not there"),
        ("part_on_host", "partly on the host"), ("host", "on the host"),
    ):  # fmt: skip
        named = [f"`{answer.name.removeprefix('aten::')}`" for answer in found.answers if answer.status == status]
        if named:
            said.append(f"{name}: {', '.join(named)}")
    return "; ".join(said)


def table(rows: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """The table, and what is in it of everything."""
    lines = [
        "| model | operators | calls | " + " | ".join(f"torch_npu {release}" for release in RELEASES) + " |",
        "|---|---|---|" + "---|" * len(RELEASES),
    ]
    fine = dict.fromkeys(RELEASES, 0)
    for name, told in rows:
        if "operators" not in told:
            lines.append(f"| {name} | not captured: {told.get('error', {}).get('message', 'see the zoo')} | | | | |")
            continue
        found = [judged(told, release) for release in RELEASES]
        for each in found:
            fine[each.release.torch_npu] += all(answer.status in FINE for answer in each.answers)
        calls = sum(answer.calls for answer in found[0].answers)
        lines.append(f"| {name} | {len(found[0].answers)} | {calls} | {' | '.join(map(cell, found))} |")
    torches = sorted({told["torch"] for _, told in rows if "torch" in told})
    lines += ["", f"Seen with torch {', '.join(torches)} on a CPU. Every operator ends in kernels: " + ", ".join(
        f"{count} of {len(rows)} with {release}" for release, count in fine.items()
    ) + "."]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "npulens-compat")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    tables = []
    for gradients in (False, True):
        rows = []
        for name in arguments.names or ZOO:
            if not (arguments.work / name).exists() and importlib.util.find_spec(ZOO[name][0]) is None:
                print(f"{name}: {ZOO[name][0]} is not installed", flush=True)
                continue
            rows.append((name, listed(name, arguments.work, gradients)))
            print(name, *(cell(judged(rows[-1][1], each)) for each in RELEASES), sep=" | ", flush=True)
        tables.append(rows)
    if all(len(rows) == len(ZOO) for rows in tables):
        said = "\n".join(f"{head}\n\n{table(rows)}" for head, rows in zip(HEADS, tables, strict=True))
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(before + BEGIN + said + END + rest.partition(END)[2], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

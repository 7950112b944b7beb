"""What the profiler of every release in the doctor's table takes, read in its wheel without running it.

    python -m tests.npu.profilers torch_npu-*.whl > tests/npu/profilers.json

Names and arguments come from the syntax (tests/npu/facts.py). A wheel is fetched with `pip download --no-deps`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.npu.facts import Wheel

_FILE, _NAME = "torch_npu/profiler/__init__.py", "torch_npu.profiler"
#: What our call names: functions with their arguments, and places with their members.
FUNCTIONS = ("_ExperimentalConfig", "profile", "schedule", "tensorboard_trace_handler")
SCOPES = ("ProfilerLevel", "AiCMetrics", "ExportType", "HostSystem")
_ONE_KIND = re.compile(r"export_type: str = ")


def told(wheel: Wheel) -> dict[str, list[str]]:
    """Arguments of functions in their order, and members of places; a place that is not there has none."""
    facts = sorted(wheel._module(_FILE, _NAME))
    return {name: list(_within(facts, f"{_NAME}.{name}(", ")")) for name in FUNCTIONS} | {
        name: [each for each in _within(facts, f"{_NAME}.{name}.", "") if "(" not in each] for name in SCOPES
    }


def _within(facts: list[str], head: str, tail: str) -> Iterator[str]:
    for fact in facts:
        if fact.startswith(head):
            yield fact[len(head) :].removesuffix(tail).split(" ")[-1]


def takes_one_kind(wheel: Wheel) -> bool:
    """Whether what is exported is one word: a list would quietly become text."""
    return bool(_ONE_KIND.search(wheel._text("torch_npu/profiler/experimental_config.py")))


def main(paths: list[str]) -> None:
    """Releases that take the same share an entry."""
    wheels = sorted(map(Wheel, map(Path, paths)), key=lambda each: [int(n) for n in re.findall(r"\d+", each.version)])
    kinds: dict[str, dict[str, object]] = {}
    for wheel in wheels:
        found = {**told(wheel), "one_kind_of_export": takes_one_kind(wheel)}
        kind = kinds.setdefault(json.dumps(found), {"releases": [], **found})
        releases = kind["releases"]
        assert isinstance(releases, list)
        releases.append(wheel.version)
    source = "the x86_64 wheels of torch-npu on PyPI, read by tests/npu/profilers.py"
    text = json.dumps({"source": source, "kinds": list(kinds.values())}, indent=1)
    print(re.sub(r"\[\s+([^\[\]{}]+?)\s+\]", lambda inner: "[" + re.sub(r"\s+", " ", inner[1]) + "]", text))


if __name__ == "__main__":
    main(sys.argv[1:])

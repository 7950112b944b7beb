"""What the profiler of every release of torch_npu takes, read in its wheel without running it; and our call of each.

    python -m tests.npu.profilers                        # how many releases would refuse our call
    python -m tests.npu.profilers torch_npu-*.whl > new  # the facts, with those of these wheels: profilers.json anew

Names and arguments come from the syntax (tests/npu/facts.py). A wheel is fetched with `pip download --no-deps`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from npulens.collectors.profilers.asked import asked
from npulens.collectors.profilers.torch_npu_profiler import experimental
from npulens.collectors.settings import Settings
from tests.npu.facts import Wheel

_FILE, _NAME = "torch_npu/profiler/__init__.py", "torch_npu.profiler"
#: What our call names: functions with their arguments, and places with their members.
FUNCTIONS = ("_ExperimentalConfig", "profile", "schedule", "tensorboard_trace_handler")
SCOPES = ("ProfilerLevel", "AiCMetrics", "ExportType", "HostSystem")
FACTS = Path(__file__).with_name("profilers.json")
KINDS: list[dict[str, Any]] = json.loads(FACTS.read_text("utf-8"))["kinds"]
RELEASES = {release: kind for kind in KINDS for release in kind["releases"]}
#: Everything that a recording can be asked for.
ALL = Settings(
    level="Level2", metrics="MemoryAccess", l2_cache=True, mstx=True, mstx_only=("nets",), op_attr=True,
    gc_threshold_ms=1.5, host_system=("CPU", "NUMA"), system_io=True, interconnection=True, export=("text", "db"),
    asynchronous=True,
)  # fmt: skip
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


def function(name: str, arguments: Sequence[str], defaults: Mapping[str, object]) -> Any:
    """A function that takes what the release's takes, and no more; it returns what it was given."""
    made: dict[str, Any] = {}
    taken = ", ".join(f"{each}={defaults.get(each)!r}" for each in arguments)
    exec(f"def {name}({taken}): return locals()", made)  # noqa: S102  the names are those of the facts
    return made[name]


def profiler(kind: Mapping[str, Any]) -> SimpleNamespace:
    """What `torch_npu.profiler` holds in a release, as far as our call sees it."""
    scopes = {
        scope: SimpleNamespace(**{member: f"{scope}.{member}" for member in kind[scope]})
        for scope in ("ProfilerLevel", "AiCMetrics", "ExportType", "HostSystem")
        if kind[scope]
    }
    one: dict[str, object] = {"export_type": "text"} if kind["one_kind_of_export"] else {}
    functions = {name: function(name, kind[name], one) for name in ("_ExperimentalConfig", "tensorboard_trace_handler")}
    return SimpleNamespace(**scopes, **functions)


def called(release: str, settings: Settings) -> tuple[dict[str, Any], list[str]]:
    """What the constructor and the handler got, and what was left out."""
    there, left_out = profiler(RELEASES[release]), []  # type: ignore[var-annotated]
    given = experimental(there, settings, left_out)
    handler = {"dir_name": "out", "analyse_flag": True, "async_mode": settings.asynchronous or None}
    asked(there.tensorboard_trace_handler, handler, left_out, without=("analyse_flag",))
    return given, left_out


def refused() -> list[str]:
    """The calls that a release would not take: with our defaults, and with everything that there is to ask for."""
    found = []
    for release in RELEASES:
        for name, settings in (("defaults", Settings()), ("everything", ALL)):
            try:
                called(release, settings)
            except TypeError as error:
                found.append(f"{release}, {name}: {error}")
    return found


def with_wheels(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The facts, with those of some wheels; releases that take the same share an entry."""
    facts = {json.dumps({name: kind[name] for name in kind if name != "releases"}): set(kind["releases"])
             for kind in KINDS}  # fmt: skip
    for wheel in map(Wheel, paths):
        for releases in facts.values():
            releases.discard(wheel.version)
        found = {**told(wheel), "one_kind_of_export": takes_one_kind(wheel)}
        facts.setdefault(json.dumps(found), set()).add(wheel.version)
    kinds = [{"releases": sorted(facts[kind], key=_age), **json.loads(kind)} for kind in facts if facts[kind]]
    return sorted(kinds, key=lambda kind: _age(kind["releases"][0]))


def _age(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def main(paths: Sequence[str]) -> int:
    if not paths:
        wrong = refused()
        print(f"{len(RELEASES)} releases of torch_npu, {len(KINDS)} kinds of profiler: {2 * len(RELEASES)} calls, "
              f"{len(wrong)} refused")  # fmt: skip
        print("\n".join(wrong), end="\n" if wrong else "")
        return len(wrong)
    source = "the x86_64 wheels of torch-npu on PyPI, read by tests/npu/profilers.py"
    text = json.dumps({"source": source, "kinds": with_wheels([Path(path) for path in paths])}, indent=1)
    print(re.sub(r"\[\s+([^\[\]{}]+?)\s+\]", lambda inner: "[" + re.sub(r"\s+", " ", inner[1]) + "]", text))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

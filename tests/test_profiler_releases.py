"""Our call of torch_npu's profiler, made to the signatures of every release in the doctor's table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from npulens.collectors.doctor import compatibility
from npulens.collectors.profilers.asked import asked
from npulens.collectors.profilers.torch_npu_profiler import experimental
from npulens.collectors.settings import Settings

KINDS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "npu" / "profilers.json").read_text())["kinds"]
RELEASES = {release: kind for kind in KINDS for release in kind["releases"]}
#: Everything that a recording can be asked for.
ALL = Settings(
    level="Level2", metrics="MemoryAccess", l2_cache=True, mstx=True, mstx_only=("nets",), op_attr=True,
    gc_threshold_ms=1.5, host_system=("CPU", "NUMA"), system_io=True, interconnection=True, export=("text", "db"),
    asynchronous=True,
)  # fmt: skip
#: The same, setting by setting, as the doctor's table calls them: what our call then leaves out.
ARGUMENTS = {
    "mstx": {"mstx"}, "op_attr": {"op_attr"}, "gc_threshold_ms": {"gc_detect_threshold"},
    "asynchronous": {"async_mode"}, "metrics MemoryAccess": {"AiCMetrics.MemoryAccess"},
    "export db": {"ExportType.Db"}, "export text and db": {"ExportType.Db"},
    "host_system": {"HostSystem.CPU"}, "host_system NUMA": {"HostSystem.NUMA"},
    "mstx_only": {"mstx_domain_include"}, "mstx_without": set(), "system_io": {"sys_io"},
    "interconnection": {"sys_interconnection"},
}  # fmt: skip


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


def test_the_facts_are_of_every_release_of_the_doctors_table() -> None:
    assert set(compatibility.CANN) - set(RELEASES) == {"2.1.0.post4"}  # there is no wheel of it
    assert {"2.13.0", "2.14.0", "2.12.0.post3"} < set(RELEASES) and compatibility.OLDEST == "2.1.0"
    assert set(compatibility.CANN.values()) == set(compatibility.ORDER)


@pytest.mark.parametrize("release", RELEASES)
def test_no_release_refuses_a_recording_with_our_defaults(release: str) -> None:
    given, left_out = called(release, Settings())
    assert left_out == []
    assert given["profiler_level"] == "ProfilerLevel.Level1" and given["aic_metrics"] == "AiCMetrics.PipeUtilization"
    assert given.get("export_type", "ExportType.Text") == "ExportType.Text"  # a word: old releases drop a list


@pytest.mark.parametrize("release", RELEASES)
def test_no_release_refuses_a_recording_of_everything(release: str) -> None:
    given, left_out = called(release, ALL)
    kind = RELEASES[release]
    assert given["l2_cache"] is True
    assert ("mstx" in left_out) == (not {"mstx", "msprof_tx"} & set(kind["_ExperimentalConfig"]))
    assert given.get("mstx") or given.get("msprof_tx") or "mstx" in left_out
    if release in compatibility.CANN:
        expected = set().union(*(ARGUMENTS[each] for each in compatibility.lacking(release) or ()))
        if "HostSystem.CPU" in expected:
            expected.add("HostSystem.NUMA")
        assert set(left_out) == expected
    elif release == "2.14.0":
        assert left_out == ["HostSystem.NUMA"] or left_out == []


def test_no_counters_below_level_one_in_any_release() -> None:
    for release in RELEASES:
        given, left_out = called(release, Settings(level="Level0"))
        assert left_out == [] and given["aic_metrics"] in ("AiCMetrics.AiCoreNone", None)


def test_a_call_with_a_name_that_a_release_does_not_have_would_be_refused() -> None:
    """The stand-ins refuse as the releases do: this is the call that failed before CANN 8.3."""
    refusing = profiler(RELEASES["2.5.1"])._ExperimentalConfig
    with pytest.raises(TypeError, match="mstx"):
        refusing(mstx=False)

"""Our call of torch_npu's profiler, made to the signatures of every release in the doctor's table."""

from __future__ import annotations

import pytest

from npulens.collectors.doctor import compatibility
from npulens.collectors.settings import Settings
from tests.npu.profilers import ALL, RELEASES, called, main, profiler

#: The same, setting by setting, as the doctor's table calls them: what our call then leaves out.
ARGUMENTS = {
    "mstx": {"mstx"}, "op_attr": {"op_attr"}, "gc_threshold_ms": {"gc_detect_threshold"},
    "asynchronous": {"async_mode"}, "metrics MemoryAccess": {"AiCMetrics.MemoryAccess"},
    "export db": {"ExportType.Db"}, "export text and db": {"ExportType.Db"},
    "host_system": {"HostSystem.CPU"}, "host_system NUMA": {"HostSystem.NUMA"},
    "mstx_only": {"mstx_domain_include"}, "mstx_without": set(), "system_io": {"sys_io"},
    "interconnection": {"sys_interconnection"},
}  # fmt: skip


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


def test_one_command_prints_the_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    calls = 2 * len(RELEASES)
    assert f"{len(RELEASES)} releases" in (said := capsys.readouterr().out) and f"{calls} calls, 0 refused" in said

"""Our calls of torch_npu against what its releases 2.1.0 to 2.14.0 have, without any of them installed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from npulens.collectors.backends import probe
from npulens.collectors.settings import EXPORTS, HOST_SYSTEM, LEVELS, METRICS
from tests.npu.contract import facts, lacking, members, problems

ROOT = Path(__file__).resolve().parent.parent
PROFILER = (ROOT / "collectors/profilers/torch_npu_profiler.py").read_text()


def speaks_of_npu() -> Iterator[str]:
    """The files of the collectors whose code, not only their text, names the NPU."""
    for path in sorted((ROOT / "collectors").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        imports = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        imports |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        if "npu" in names or any(name.split(".")[0] == "torch_npu" for name in imports):
            yield path.relative_to(ROOT).as_posix()


def test_the_facts_are_of_all_supported_releases() -> None:
    releases = facts()["releases"]
    assert (releases[0], releases[-1], len(releases)) == ("2.1.0.post17", "2.14.0", 8)
    assert "collectors/profilers/torch_npu_profiler.py" in set(speaks_of_npu())


@pytest.mark.parametrize("name", sorted(speaks_of_npu()))
def test_every_release_has_what_we_ask_for(name: str) -> None:
    assert problems((ROOT / name).read_text()) == []


@pytest.mark.parametrize("name", ["npu", "_queued"])
def test_what_the_backend_is_handed_is_in_every_release(name: str) -> None:
    """The NPU's backend is handed torch.npu, and shares a class with CUDA's."""
    source = (ROOT / f"collectors/backends/{name}.py").read_text()
    assert "self.module." in source and problems(source, {"self.module": "torch.npu"}) == []
    wrong = source.replace("self.module.current", "self.module.present")
    assert any("has no present" in problem for problem in problems(wrong, {"self.module": "torch.npu"}))


def test_so_has_what_the_probe_asks_for() -> None:
    """It runs in a child, as text."""
    assert problems(probe._HEAD + probe._NPU) == []


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [("wait=settings.wait", "waiting=settings.wait", "torch_npu.profiler.schedule takes no waiting in any release"),
     ("skip_first=0", "skip_first_wait=0", "takes no skip_first_wait in 2.1.0.post17, 2.7.1"),
     ("wait=settings.wait", "settings.wait", "argument 1 is not the same in every release, or must be named"),
     ("record_shapes=settings.shapes", "shapes=settings.shapes", "profile takes no shapes in any release"),
     ("with_flops=settings.flops", "custom_trace_id_callback=None", "takes no custom_trace_id_callback in 2.1.0"),
     ("profiler.AiCMetrics", "profiler.AicMetrics", "torch_npu.profiler has no AicMetrics in any release"),
     ('"AiCoreNone"', '"None"', "torch_npu.profiler.AiCMetrics has no None in any release"),
     ('"text": "Text"', '"text": "Json"', "torch_npu.profiler.ExportType has no Json in any release"),
     ("record_shapes=settings.shapes", "**told", "what ** passes cannot be checked"),
     ("from torch_npu import profiler", "from torch_npu import profilers", "torch_npu has no profilers")],
)  # fmt: skip
def test_a_wrong_name_is_found(right: str, wrong: str, says: str) -> None:
    assert right in PROFILER
    assert any(says in problem for problem in problems(PROFILER.replace(right, wrong))), problems(
        PROFILER.replace(right, wrong)
    )


@pytest.mark.parametrize(
    ("source", "says"),
    [("import torch\nwith torch.npu.range('x'): pass", "torch.npu has no range in any release"),
     ("import torch\ntorch.npu.Event(timing=True)", "torch.npu.Event takes no timing in any release"),
     ("import torch\nnpu = torch.npu\nnpu.set_task_queue_enable(2)", "missing in 2.1.0.post17, 2.7.1, 2.12.0"),
     ("import torch\nclass A:\n def f(self):\n  self.m = torch.npu\n  self.m.nothing()", "torch.npu has no nothing"),
     ("import torch\ntorch.npu.mstx.annotate('x')", "torch.npu.mstx has no annotate"),
     ("import torch_npu\ntorch_npu.npu_fusion_attention(q, k, v, 16, 'BNSD', scales=1)", "takes no scales"),
     ("import torch\ntorch.ops.npu.npu_mla_prolog_v3(x)", "torch_npu.npu_mla_prolog_v3 is missing in 2.1.0.post17"),
     ("from torch.profiler import ProfilerActivity\nProfilerActivity.NPU", "missing in 2.1.0.post17, 2.7.1"),
     ("import torch_npu\ntorch_npu.contrib.fusion", "torch_npu has no contrib")],
)  # fmt: skip
def test_what_examples_on_the_web_ask_for_is_found(source: str, says: str) -> None:
    assert any(says in problem for problem in problems(source)), problems(source)


@pytest.mark.parametrize(
    "source",
    ["import torch\nif hasattr(torch.npu, 'set_task_queue_enable'): torch.npu.set_task_queue_enable(2)",
     "import torch\ngetattr(torch.npu, 'set_task_queue_enable', None)",
     "import torch\ntorch.npu.Event(enable_timing=True)\ntorch.cuda.Event(anything=1)",
     "import torch_npu\ntorch_npu.npu_fusion_attention(q, k, v, 16, 'BNSD', scale=1)"],
)  # fmt: skip
def test_what_is_right_passes(source: str) -> None:
    assert problems(source) == []


def test_what_a_user_may_set_is_in_every_release() -> None:
    def everywhere(scope: str) -> set[str]:
        return {name for name, fact in (members(scope) or {}).items() if not lacking(fact)}

    assert set(LEVELS) == everywhere("torch_npu.profiler.ProfilerLevel")
    assert {name.capitalize() for name in EXPORTS} == everywhere("torch_npu.profiler.ExportType")
    assert set(METRICS) == everywhere("torch_npu.profiler.AiCMetrics")
    assert set(HOST_SYSTEM) - {"NUMA"} == everywhere("torch_npu.profiler.HostSystem")  # settings.py says since when

"""What is advised where graphs launch most of the work, and where the late frame is the model's own or was compiled."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.engine import check
from npulens.analysis.finding import Finding
from npulens.app.text.snippets import snippet
from tests.tablecase import connection
from tests.test_idle import STEP, span

LESS_OFTEN, WHOLE = "do it less often", "put what is launched beside the graphs into one whole graph"


def late(frame: str, *inside: dict[str, Any], nodes: int, frames: tuple[str, ...] = ()) -> Finding:
    """The device is done at 130, the host in the frame from 150 to 390; it launches at 400. `nodes`: tasks of the graph
    launched then. Two more were launched one by one. `frames`: what is around the frame."""
    length = 570 / nodes
    spans = [
        STEP, span(2, "runtime", "cudaLaunchKernel", 2, 5), span(3, "kernel", "matmul", 22, 98, by=2),
        span(4, "runtime", "cudaLaunchKernel", 10, 5), span(5, "kernel", "matmul", 120, 10, by=4),
        *(span(40 + number, "python", name, 140 + number, 255 - 2 * number) for number, name in enumerate(frames)),
        span(6, "python", frame, 150, 240), *inside, span(7, "runtime", "cudaGraphLaunch", 400, 5),
        *(span(100 + node, "kernel", "node", 420 + length * node, length, by=7) for node in range(nodes)),
    ]  # fmt: skip
    (one,) = check(
        connection({"spans": spans, "rank": {0: {"backend": "cuda", "formats": ["kineto"]}}}), ["host_late"]
    ).findings  # fmt: skip
    return one


@pytest.mark.parametrize(("nodes", "graphed"), [(2, False), (3, True)])
def test_a_job_of_graphs_is_not_told_to_use_graphs(nodes: int, graphed: bool) -> None:
    """Two tasks of four are not most of them, three of five are."""
    one = late("serve.py(12): sample", nodes=nodes)
    english, chinese = (one.words[lang].advice for lang in ("en", "zh"))
    assert LESS_OFTEN in english
    assert (WHOLE in english, "capture the step as a graph" in english) == (graphed, not graphed)
    assert english.startswith("Graphs launch most of the device's work already.") == graphed
    assert ("并入一张整图" in chinese, "整图下发" in chinese) == (graphed, not graphed)
    shown = snippet(one)
    assert shown is not None and ("whole.replay()" in shown.after) == graphed


@pytest.mark.parametrize("nodes", [2, 3])
def test_a_modules_forward_cannot_be_done_less_often(nodes: int) -> None:
    one = late("app/model.py(88): forward", nodes=nodes, frames=("nn.Module: Block_0",))
    english, chinese = (one.words[lang].advice for lang in ("en", "zh"))
    assert "is part of the model and cannot be left out" in english and LESS_OFTEN not in english
    assert "是模型的一部分" in chinese and "另一线程" not in chinese
    assert (WHOLE in english) == (nodes == 3)


@pytest.mark.parametrize(("nodes", "begin", "length", "frames", "said"), [
    (3, 300, 80, ("nn.Module: Model_0",), "guards of the compiled code"),  # 160 of 240 before it
    (2, 300, 80, ("nn.Module: Model_0",), "guards of the compiled code"),
    (3, 160, 200, ("nn.Module: Model_0",), "launches graphs, and other work between them"),
    (3, 160, 200, (), "launches graphs, and other work between them"),
    (3, 300, 80, (), LESS_OFTEN),  # a program's own line may do anything before it calls what was compiled
])  # fmt: skip
def test_around_compiled_code_it_is_its_entry(
    nodes: int, begin: float, length: float, frames: tuple[str, ...], said: str
) -> None:
    below = span(20, "python", "nn.Module: OptimizedModule_0", begin, length)
    one = late("app/model.py(88): forward", below, nodes=nodes, frames=frames)
    advice = one.words["en"].advice
    assert said in advice and (LESS_OFTEN in advice) == (said == LESS_OFTEN)
    assert ("guard" in one.words["zh"].advice) == ("guards" in said)

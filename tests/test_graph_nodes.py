"""Kernels of a replayed graph have no launch of their own, and nobody judges them as short launches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.analysis.idle.issue import tasks
from npulens.analysis.idle.launch_costs import launch_costs
from npulens.analysis.idle.pieces import idle
from npulens.analysis.run import Run
from npulens.analysis.views import install
from npulens.ingest.store import runs
from tests.kineto_files import Event, task, x

Made = Callable[[list[Event]], Run]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    def load(events: list[Event]) -> Run:
        (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
        (run,) = ingest.load(tmp_path / "t.json", tmp_path / "store").runs
        assert run.run_id, run.reason
        con = runs.open_run(tmp_path / "store", run.run_id)
        install(con)
        return Run(con)

    return load


def call(name: str, ts: float, dur: float, number: int) -> Event:
    return x("cuda_runtime", name, ts, dur, {"correlation": number})


def replays(name: str, times: int, nodes: int) -> list[Event]:
    """Graphs of kernels of 2 us, 1 us apart; each is launched while the one before runs."""
    period = 3 * nodes
    return [
        event for n in range(times) for event in (
            call(name, period * n, 5, n + 1),
            *(task(f"k{i}", period * n + 20 + 3 * i, 2, {"correlation": n + 1}) for i in range(nodes)),
        )
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch", "aclmdlRIExecuteAsync"])
def test_all_but_the_first_task_of_a_replay_are_nodes(name: str, made: Made) -> None:
    did = made(replays(name, 3, 10)).get(tasks)[0]
    assert did.linked.all() and did.node.tolist() == ([False] + [True] * 9) * 3


def test_one_call_of_several_tasks_is_no_graph(made: Made) -> None:
    events = [call("cudaLaunchKernel", 0, 5, 1), *(task(f"k{i}", 10 + 3 * i, 2, {"correlation": 1}) for i in range(3))]
    assert not made(events).get(tasks)[0].node.any()


def test_nodes_are_no_short_launches(made: Made) -> None:
    """100 nodes of 2 us each; the same kernels launched one by one are a run."""
    graph = made(replays("cudaGraphLaunch", 6, 100))
    assert not graph.get(launch_costs).short_run(graph.get(tasks)[0]).any()
    found = graph.get(idle)
    length, within = found.end - found.start, found.pick("dependency")
    assert length[within].sum() == 1000 * 6 * 99  # between the nodes
    assert length[~within].sum() == 1000 * 5  # between replays


def test_short_launches_stay_short_launches(made: Made) -> None:
    events: list[Any] = []
    for n in range(100):
        events += [call("cudaLaunchKernel", 20 * n, 10, n + 1), task("k", 20 * n + 15, 2, {"correlation": n + 1})]
    run = made(events)
    did = run.get(tasks)[0]
    assert not did.node.any() and run.get(launch_costs).short_run(did).sum() == 99

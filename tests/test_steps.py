"""What a step of a job is: the order of its events, then real jobs in the way of the frameworks people use."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_collect import collect, traces

from npulens.app.commands.collect import said
from npulens.collectors.collected import collected, notices
from npulens.collectors.steps.period import PATIENCE, By, Mark, Rhythm, optimizer_mark

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.mark.parametrize(
    ("order", "decided", "owner", "every"),
    [("aa", 2, "a", 1), ("aba", 3, "b", 1), ("cccccgc", 7, "g", 1), ("gcccccg", 7, "g", 1), ("ccggc", 5, "g", 2)],
)  # fmt: skip
def test_a_step_is_one_period_of_the_optimisers(order: str, decided: int, owner: str, every: int) -> None:
    known = set(map(ord, order))
    found = [optimizer_mark([ord(each) for each in order[:n]], known) for n in range(1, len(order) + 1)]
    assert found == [None] * (decided - 1) + [Mark("optimizer", ord(owner), every)]


def test_an_optimiser_that_never_steps_is_not_waited_for_for_ever() -> None:
    assert optimizer_mark([1] * PATIENCE, {1, 2}) is None
    assert optimizer_mark([1] * (PATIENCE + 1), {1, 2}) == Mark("optimizer", 1)
    assert optimizer_mark([1] * 30 + [2] + [1] * 20, {1, 2}) == Mark("optimizer", 2)


def decided(events: str, by: str = "auto", training: bool = True) -> tuple[int, Mark] | None:
    """When it is decided, and what. N: a forward without gradients, F: one with them, O: the optimiser steps, B, G: a
    backward and torch.autograd.grad, S: a scheduler steps.
    """
    rhythm = Rhythm(By.parse(by))
    for place, event in enumerate(events, 1):
        begun = rhythm.inference_begins() if event == "N" else None
        if event == "O":
            found = rhythm.optimizer_stepped(7, {7})
        elif event in "BG":
            found = rhythm.backward_ended("backward" if event == "B" else "grad", lambda: training)
        elif event == "S":
            found = rhythm.scheduler_stepped()
        else:
            found = begun or rhythm.forward_ended(1, event == "F", lambda: training)
        if found is not None:
            return place, found
    return None


@pytest.mark.parametrize(
    ("events", "place", "mark"),
    [("FOFO", 4, Mark("optimizer", 7)),
     ("NN" + "FFFFO" * 3, 12, Mark("optimizer", 7)),  # a sanity check, then four micro-batches a step
     ("FOFONNNN", 4, Mark("optimizer", 7)),  # an evaluation now and then
     ("N" * 8 + "FOFOFO" + "N" * 8, 15, Mark("rollout", 1)),
     ("NFO" * 3, 6, Mark("optimizer", 7)),  # one look before each update
     ("N" * 8 + "FO" * 8, 24, Mark("optimizer", 7))],
)  # fmt: skip
def test_the_rhythm_of_a_training(events: str, place: int, mark: Mark) -> None:
    assert decided(events) == (place, mark)


def test_where_nothing_is_trained_a_forward_is_a_step() -> None:
    assert decided("NN", training=False) == (2, Mark("forward", 1))
    assert decided("FFFF", training=False) == (4, Mark("forward", 1))  # somebody forgot no_grad
    assert decided("FFBFFB", training=False) == (6, Mark("backward", 0))
    assert decided("NN" * 100) is None and decided("FF" * 100) is None  # an optimiser exists and may step yet
    assert decided("N" * 1000) == (1000, Mark("forward", 1))
    assert decided("FFFF", "forward") == (2, Mark("forward", 1))
    assert decided("NNFFFFOFFFFO", "optimizer") == (12, Mark("optimizer", 7))
    assert decided("FO", "6") == (2, Mark("optimizer", None, 6))
    assert decided("N", "6", training=False) == (1, Mark("forward", None, 6))


@pytest.mark.parametrize(
    ("events", "training", "place", "mark"),
    [("BB", False, 2, Mark("backward", 0)),
     ("FBFB", False, 4, Mark("backward", 0)),
     ("GG", False, 2, Mark("backward", 1)),
     ("GBGB", False, 3, Mark("backward", 1)),  # a penalty on the gradient: one of each in a step
     ("SBBBBSBBBBS", True, 11, Mark("scheduler", None)),  # it steps when it is made, then once in four backwards
     ("B" * 1000, True, 1000, Mark("backward", 0)),  # an optimiser exists, and nobody hears of its steps
     (("B" * 300 + "S") * 4, True, 1003, Mark("backward", 0)),  # an epoch is no step
     ("BFOBFO", True, 6, Mark("optimizer", 7))],
)  # fmt: skip
def test_where_no_optimiser_steps_a_backward_or_a_scheduler_tells(
    events: str, training: bool, place: int, mark: Mark
) -> None:
    assert decided(events, training=training) == (place, mark)
    assert decided(events[: place - 1], training=training) is None


def test_what_a_step_may_be_said_to_be() -> None:
    assert By.parse("time:200ms") == By("time", 1, 200_000_000) and By.parse("time:2s").slice_ns == 2_000_000_000
    assert By.parse("12") == By("count", 12)
    for wrong in ("", "0", "-3", "time", "time:0ms", "time:5", "²", "backward", "1000001"):
        with pytest.raises(ValueError, match="says no step"):
            By.parse(wrong)


HEAD = """
import torch
from torch import nn
torch.manual_seed(1)
torch.set_num_threads(1)
def net(): return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
x = torch.randn(16, 32)
"""
LIGHTNING = HEAD + """
model = net(); optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
with torch.no_grad():
    for _ in range(2): model(x)
for i in range(32):
    with torch.autocast("cpu", torch.bfloat16): loss = model(x).square().mean() / 4
    loss.backward()
    if i % 4 == 3: optimizer.step(); scheduler.step(); optimizer.zero_grad()
"""
GAN = HEAD + """
critic, generator = net(), net()
c, g = torch.optim.Adam(critic.parameters()), torch.optim.SGD(generator.parameters(), 0.1)
for i in range(9):
    for _ in range(5):
        c.zero_grad(); critic(generator(x).detach()).mean().backward(); c.step()
    g.zero_grad(); critic(generator(x)).mean().backward(); g.step()
"""
MEGATRON = HEAD + """
stages = [net(), net()]
optimizer = torch.optim.SGD([p for s in stages for p in s.parameters()], 0.1)
for step in range(8):
    held = []
    for micro in range(4): held.append(stages[1](stages[0](x)))
    for each in held: each.mean().backward()
    optimizer.step(); optimizer.zero_grad()
"""
REINFORCED = HEAD + """
policy, value = net(), net()
optimizer = torch.optim.SGD([*policy.parameters(), *value.parameters()], 0.1)
for iteration in range(9):
    with torch.no_grad():
        for _ in range(10): policy(x); value(x)
    for epoch in range(4):
        (policy(x).mean() + value(x).mean()).backward(); optimizer.step(); optimizer.zero_grad()
"""
GENERATE = HEAD + """
prompt, decoder = net(), net()
with torch.inference_mode():
    for request in range(2):
        h = prompt(x)
        for token in range(9): h = decoder(h)
"""
HAND_MADE = HEAD + """
model = net()
for i in range(9):
    model(x).mean().backward()
    with torch.no_grad():
        for p in model.parameters(): p -= 0.1 * p.grad; p.grad = None
"""
TWICE = HEAD + """
model = net()
for i in range(9):
    (model(x) - model(-x)).square().mean().backward()
    with torch.no_grad():
        for p in model.parameters(): p -= 0.1 * p.grad; p.grad = None
"""
GRADIENTS = HEAD + """
w = torch.randn(32, 32, requires_grad=True)
for i in range(9):
    (g,) = torch.autograd.grad((x @ w).relu().mean(), [w])
    with torch.no_grad(): w -= 0.1 * g
"""
SCHEDULED = HEAD + """
import warnings
warnings.simplefilter("ignore")
model = net(); optimizer = torch.optim.SGD(model.parameters(), 0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
for i in range(9):
    for micro in range(4): model(x).mean().backward()
    with torch.no_grad():
        for p in model.parameters(): p -= optimizer.param_groups[0]["lr"] * p.grad; p.grad = None
    scheduler.step()
"""
REQUESTS = HEAD + """
import threading
model = net().eval()
def serve():
    with torch.inference_mode(): model(x)
for i in range(14):
    thread = threading.Thread(target=serve); thread.start(); thread.join()
assert threading.enumerate() == [threading.main_thread()]
"""
AT_ONCE = HEAD + """
import threading
class Meets(nn.Module):
    def __init__(self):
        super().__init__(); self.inner, self.all = net(), threading.Barrier(2)
    def forward(self, x):
        self.all.wait(); y = self.inner(x); self.all.wait(); return y
model = Meets().eval()
def serve():
    with torch.inference_mode():
        for i in range(16): model(x)
threads = [threading.Thread(target=serve) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
NO_MODULE = HEAD + """
import sys, time
from pathlib import Path
def traces(): return [path.name for path in Path(sys.argv[1]).glob("[!.]*.gz")]
end = time.monotonic() + 60  # until it has been recorded
while len(sys.argv) > 1 and time.monotonic() < end and not traces(): torch.mm(x, x.T)
"""


LATER = NO_MODULE + """
(slices,) = traces()
model = net(); optimizer = torch.optim.SGD(model.parameters(), 0.1)
end = time.monotonic() + 20
for i in range(2000):
    model(x).mean().backward(); optimizer.step(); optimizer.zero_grad(); time.sleep(0.01)
    if time.monotonic() > end or set(traces()) - {slices}: break
"""


def names(events: list[dict[str, Any]]) -> dict[str, list[str]]:
    """What begins within each recorded step, by the time stamps of the trace."""
    steps = [each for each in events if each.get("cat") == "user_annotation" and "ProfilerStep#" in each["name"]]
    marks = sorted((each["ts"], each["ts"] + each["dur"]) for each in steps)
    return {str(place): [each["name"] for each in events if each.get("ph") == "X" and begin <= each["ts"] < end]
            for place, (begin, end) in enumerate(marks)}  # fmt: skip


def steps_of(tmp_path: Path, source: str, *own: str) -> tuple[dict[str, Any], list[list[str]]]:
    answer = collect(tmp_path, source, str(tmp_path / "out"), own=own)
    assert answer["status"] == "complete", answer
    (events,) = traces(tmp_path / "out")
    return answer, list(names(events).values())


def count(step: list[str], name: str) -> int:
    return sum(bool(re.fullmatch(name, each)) for each in step)


@needs_torch
@pytest.mark.torch
@pytest.mark.parametrize(
    ("source", "kind", "wanted"),
    [(LIGHTNING, "optimizer", {r"Optimizer.step#AdamW.step": 1, "aten::relu": 4}),
     (GAN, "optimizer", {r"Optimizer.step#Adam.step": 5, r"Optimizer.step#SGD.step": 1}),
     (MEGATRON, "optimizer", {r"Optimizer.step#SGD.step": 1, "aten::relu": 8}),
     (REINFORCED, "rollout", {r"Optimizer.step#SGD.step": 4, "aten::relu": 28}),
     (GENERATE, "forward", {"aten::relu": 1}),
     (HAND_MADE, "backward", {"aten::relu": 1}),
     (TWICE, "backward", {"aten::relu": 2}),
     (GRADIENTS, "backward", {"aten::relu": 1}),
     (SCHEDULED, "scheduler", {"aten::relu": 4}),
     (REQUESTS, "forward", {"aten::relu": 1})],
    ids=["lightning", "gan", "megatron", "reinforced", "generate", "hand made", "twice", "gradients", "scheduled",
         "a thread for each request"],
)  # fmt: skip
def test_every_step_of_a_job_holds_one_period(
    tmp_path: Path, source: str, kind: str, wanted: dict[str, int]
) -> None:
    _, steps = steps_of(tmp_path, source)
    assert len(steps) == 3
    assert [{name: count(step, name) for name in wanted} for step in steps] == [wanted] * 3
    (process,) = json.loads((tmp_path / "out" / "manifest.json").read_text())["processes"]
    assert process["steps_by"] == kind and len(process["steps_ns"]) == 5 and min(process["steps_ns"]) > 0


@needs_torch
@pytest.mark.torch
def test_a_number_of_optimiser_steps_is_a_step_if_one_says_so(tmp_path: Path) -> None:
    _, steps = steps_of(tmp_path, GAN, "--steps-by", "3")
    assert [count(step, "Optimizer.step#.*") for step in steps] == [3] * 3


@needs_torch
@pytest.mark.torch
def test_a_forward_is_a_step_if_one_says_so(tmp_path: Path) -> None:
    _, steps = steps_of(tmp_path, LIGHTNING, "--steps-by", "forward")
    assert [count(step, "aten::relu") for step in steps] == [1] * 3


@needs_torch
@pytest.mark.torch
def test_slices_of_time_are_steps_where_there_are_no_others(tmp_path: Path) -> None:
    answer = collect(tmp_path, NO_MODULE)
    assert answer["status"] == "failed" and "--steps-by time:200ms" in answer["reason"]
    _, steps = steps_of(tmp_path, NO_MODULE, "--steps-by", "time:100ms")
    (process,) = json.loads((tmp_path / "out" / "manifest.json").read_text())["processes"]
    assert len(steps) == 3 and all(count(step, "aten::mm") > 1 for step in steps)
    assert process["steps_by"] == "time" and min(process["steps_ns"]) >= 100_000_000


@needs_torch
@pytest.mark.torch
def test_forwards_that_run_at_once_are_one_step(tmp_path: Path) -> None:
    """Two threads meet in each forward: who leaves first ends no step."""
    _, steps = steps_of(tmp_path, AT_ONCE)
    assert len(steps) == 3 and sum(count(step, "aten::relu") for step in steps) == 6


@needs_torch
@pytest.mark.torch
def test_slices_begin_by_themselves_where_nothing_tells_a_step(tmp_path: Path) -> None:
    answer = collect(tmp_path, NO_MODULE, str(tmp_path / "out"))
    assert answer["status"] == "complete", answer
    (events,) = traces(tmp_path / "out")
    steps = list(names(events).values())
    assert len(steps) == 3 and all(count(step, "aten::mm") > 1 for step in steps)
    (process,) = json.loads((tmp_path / "out" / "manifest.json").read_text())["processes"]
    assert process["steps_by"] == "time" and process["automatic"] and min(process["steps_ns"]) >= 200_000_000
    (notice,) = [each for each in answer["notices"] if each["name"] == "automatic_slices"]
    assert "slices of 200" in said(notice, "en") and "1 of the job's processes" in said(notice, "en")
    assert "时间片" in said(notice, "zh")


@needs_torch
@pytest.mark.torch
def test_steps_that_show_up_later_are_recorded_in_place_of_slices(tmp_path: Path) -> None:
    answer = collect(tmp_path, LATER, str(tmp_path / "out"))
    assert answer["status"] == "complete", answer
    (events,) = traces(tmp_path / "out")
    assert [count(step, "Optimizer.step#SGD.step") for step in names(events).values()] == [1] * 3
    (process,) = json.loads((tmp_path / "out" / "manifest.json").read_text())["processes"]
    assert process["steps_by"] == "optimizer" and "automatic" not in process
    assert [each for each in answer["notices"] if each["name"] == "automatic_slices"] == []


@needs_torch
@pytest.mark.torch
def test_what_computes_without_torch_leaves_no_slices(tmp_path: Path) -> None:
    source = HEAD + "import time; end = time.monotonic() + 7\nwhile time.monotonic() < end: sum(range(1000))\n"
    answer = collect(tmp_path, source)
    assert answer["status"] == "failed" and "until slices of time would have begun" in answer["reason"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["manifest.json"]


def unlike(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in told["notices"] if each["name"] == "unlike_steps"]


@needs_torch
@pytest.mark.torch
def test_a_window_of_unlike_steps_warns_and_one_of_like_steps_does_not(tmp_path: Path) -> None:
    """Every second step sleeps ten times as long."""
    uneven = HEAD + """
import time
model = net(); optimizer = torch.optim.SGD(model.parameters(), 0.1)
for i in range(9):
    model(x).mean().backward(); optimizer.step(); time.sleep(0.05 if i % 2 else LENGTH)
"""
    answer, _ = steps_of(tmp_path, uneven.replace("LENGTH", "0.5"))
    (warning,) = unlike(answer)
    assert re.search(r"steps \(optimiser steps\) take \d+\.\d+ ms to 5\d\d(\.\d+)? ms, so", said(warning, "en"))
    assert re.search(r"采集的 step（优化器 step）耗时 \d+\.\d+ ms 到 5\d\d(\.\d+)? ms，", said(warning, "zh"))
    assert unlike(json.loads((tmp_path / "out" / "manifest.json").read_text())) == [warning]
    even = tmp_path / "even"
    even.mkdir()
    like = uneven.replace("time.sleep(0.05 if i % 2 else LENGTH)", "time.sleep(0.1)")
    assert unlike(steps_of(even, like)[0]) == []


def test_steps_before_the_recorded_ones_may_be_of_any_length(tmp_path: Path) -> None:
    place = tmp_path / ".recordings"
    noted = {"pid": 4, "rank": None, "state": "written", "reason": None, "steps": 5, "wanted": 5, "backend": "cpu",
            "begun_ns": 1, "steps_by": "optimizer", "every": 1}  # fmt: skip
    events = [{"name": f"ProfilerStep#{i}"} for i in range(3)] + [{"cat": "cpu_op"}]
    (tmp_path / "a.pt.trace.json").write_text(json.dumps({"traceEvents": events}))
    for spans, warned in (([9_000_000_000, 1, 50, 60, 99], 0), ([50, 50, 50, 60, 100], 1), ([], 0)):
        place.mkdir()
        (place / "4.json").write_text(json.dumps({**noted, "steps_ns": spans}))
        assert len(unlike({"notices": notices(collected(tmp_path, "cpu", 3), 3)})) == warned

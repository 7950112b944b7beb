"""Real jobs on a CPU, recorded with `collect --modules` and with Python frames: the modules are those of the model."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.analysis.modules.measure import Modules, modules
from npulens.ingest.store import runs as stores
from tests.test_collect import COMPILED, ROOT, collect, needs_torch

pytestmark = pytest.mark.torch

MODEL = """
import sys, torch
from torch.utils.checkpoint import checkpoint

class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)
    def forward(self, x):
        return self.down(self.act(self.up(x)))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Mlp() for _ in range(3)])
        self.head = torch.nn.Linear(64, 8)
    def forward(self, x):
        x = checkpoint(self.layers[0], x, use_reentrant=False)
        x = checkpoint(self.layers[1], x, use_reentrant=True)
        return self.head(self.layers[2](x))

def made():
    torch.manual_seed(3)
    net = Net()
    return net, torch.optim.SGD(net.parameters(), lr=0.1)

def step(net, optimizer):
    loss = net(torch.randn(32, 64)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
"""
JOB = MODEL + """
net, optimizer = made()
for i in range(7):
    loss = step(net, optimizer)
print("loss %.9f" % loss.item())
"""
#: The same steps three times: alone, with our spans, and with frames; what is left of the hooks, and what they met.
IN_ONE = MODEL + """
import json, torch.nn.modules.module as module
from npulens.collectors.recorder import recording
from npulens.collectors.settings import Settings

def trained(after):
    net, optimizer = made()
    for i in range(4):
        loss = step(net, optimizer)
        after()
    return loss.item(), len(module._global_forward_hooks) + len(module._global_forward_pre_hooks)

said = {"alone": trained(lambda: None)}
for name, settings in (("hooks", Settings(active=2, modules=True)), ("frames", Settings(active=2, stacks=True))):
    with recording(sys.argv[1] + "/" + name, settings, "cpu") as after:
        said[name] = trained(after)
print(json.dumps(said))
"""
#: Calls that end in an error, a module that its root does not hold, two roots of a class, and one named by two places.
ODD = """
import json, torch
from npulens.collectors.module_ranges import ModuleRanges
names = []
torch.autograd._record_function_with_args_enter = lambda name: names.append("+" + name) or name
torch.autograd._record_function_with_args_exit = lambda name: names.append("-" + name)
class Fails(torch.nn.Module):
    def forward(self, x): raise ValueError
class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Identity()
        self.again = self.a
        self.fails = Fails()
        self.hidden = [torch.nn.ReLU()]
    def forward(self, x):
        try:
            self.fails(x)
        except ValueError:
            pass
        return self.again(self.hidden[0](x))
ranges = ModuleRanges()
ranges.start()
first, second = Outer(), Outer()
for net in (first, second, first):
    net(torch.ones(1))
try:
    Fails()(1)
except ValueError:
    pass
ranges.stop()
first(torch.ones(1))
print(json.dumps(names))
"""


def printed(source: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", source, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def measured(capture: Path, store: Path) -> Modules:
    run = str(ingest.load(capture, store).runs[0].run_id)
    con = stores.open_run(store, run)
    try:
        return modules(con)
    finally:
        con.close()


def calls(found: Modules) -> dict[str, tuple[int, int]]:
    return {row.path: (row.calls, row.recomputed) for row in found.rows if row.place == "module"}


def expected(steps: int) -> dict[str, tuple[int, int]]:
    """Written down from the model: two layers run again in each backward pass."""
    wanted = {"Net": (steps, 0), "head": (steps, 0)}
    for layer in range(3):
        for name in ("", ".up", ".act", ".down"):
            wanted[f"layers.{layer}{name}"] = (steps, steps if layer < 2 else 0)
    return wanted


@needs_torch
def test_collect_modules_records_every_module_by_its_path(tmp_path: Path) -> None:
    plain = subprocess.run([sys.executable, "-c", JOB], capture_output=True, text=True, check=True, timeout=300)
    answer = collect(tmp_path, JOB, own=("--modules",))
    assert answer["status"] == "complete" and plain.stdout.strip() in answer["printed"]  # the very same loss
    found = measured(tmp_path / "out", tmp_path / "store")
    assert found.source == "hooks" and calls(found) == expected(3)
    for row in found.rows:
        if row.type == "Linear":
            assert row.own.forward_ns > 0 and row.own.backward_ns > 0
            assert (row.own.recompute_ns > 0) == (row.recomputed > 0)
    up = next(row for row in found.rows if row.path == "layers.2.up")
    # Forward 32 x 64 by 64 x 128; backward twice that for the input, and twice for the weights.
    assert up.own.flops >= 3 * 3 * 2 * 32 * 64 * 128


@needs_torch
def test_our_spans_and_frames_tell_the_same_tree(tmp_path: Path) -> None:
    said = printed(IN_ONE, str(tmp_path))
    assert said["alone"] == said["hooks"] == said["frames"][:1] + said["alone"][1:]
    hooks, frames = (measured(tmp_path / name, tmp_path / "store") for name in ("hooks", "frames"))
    assert (hooks.source, frames.source) == ("hooks", "frames") and calls(hooks) == expected(2)
    shapes = [[(row.depth, row.type, row.calls, row.recomputed) for row in found.rows if row.place == "module"]
              for found in (hooks, frames)]  # fmt: skip
    assert shapes[0] == shapes[1]
    # A walk through the trace of the frames: calls one by one, each with those that it contains taken off.
    (path,) = (tmp_path / "frames").glob("*.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    spans = sorted(
        (Decimal(event["ts"]), -event["dur"], event["name"].removeprefix("nn.Module: ")) for event in events
        if str(event.get("name", "")).startswith(("nn.Module: ", "autograd::engine::evaluate_function"))
    )  # fmt: skip
    own: Counter[str] = Counter()
    open_: list[tuple[Decimal, str]] = []
    for begin, negative, name in spans:
        while open_ and open_[-1][0] <= begin:
            open_.pop()
        engine = [place for place, (_, other) in enumerate(open_) if other.startswith("autograd")]
        if not name.startswith("autograd") and not engine:
            own[name] += int(-negative * 1000)
            if open_:
                own[open_[-1][1]] -= int(-negative * 1000)
        open_.append((begin - negative, name))
    assert {row.name: row.own.host_forward_ns for row in frames.rows if row.place == "module"} == own


@needs_torch
def test_errors_second_roots_and_unknown_modules() -> None:
    names = printed(ODD)
    call = ["+Fails (fails)", "-Fails (fails)", "+ReLU (.?)", "-ReLU (.?)", "+Identity (a)", "-Identity (a)"]
    assert [name.replace("nn.Module: ", "") for name in names] == [
        "+Outer (.)", *call, "-Outer (.)", "+Outer (.2)", *call, "-Outer (.2)", "+Outer (.)", *call, "-Outer (.)",
        "+Fails (.)", "-Fails (.)",
    ]  # fmt: skip


@needs_torch
def test_a_compiled_module_is_one_call(tmp_path: Path) -> None:
    """Compiled without guards, so that whatever was read of a hook would stay."""
    answer = collect(tmp_path, COMPILED, own=("--modules",))
    assert answer["rc"] == 0 and answer["status"] == "complete", answer["complained"]
    found = measured(tmp_path / "out", tmp_path / "store")
    assert [(row.path, row.calls) for row in found.rows if row.place == "module"] == [("Outer", 3)]

"""The laboratory: a job is heard unchanged, safe places are rewritten, others left, and nothing wrong is believed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npulens.app.commands import lab as verb
from npulens.collectors.backends.backend import open_backend
from npulens.collectors.harness.controlled import Controlled
from npulens.collectors.harness.versus import judge
from npulens.collectors.lab import graph, isolating, judging, measuring, subject
from npulens.collectors.lab.trial import Laboratory, Options

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.torch
if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch  # noqa: E402
from torch import nn  # noqa: E402

from tests.lab import wrong  # noqa: E402
from tests.lab.programs import applied  # noqa: E402

JOB = """
import sys, torch
from torch import nn
torch.manual_seed(3)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)
    def forward(self, x, *, double=False):
        print("seen", tuple(x.shape))
        y = torch.relu_(self.norm(self.one(x))).mean((2, 3))
        return {"logits": self.two(y) * (2 if double else 1), "name": "net"}
model = Net().eval()
with torch.no_grad():
    for i in range(5):
        found = model(torch.randn(1 if i == 4 else 3, 3, 8, 8), double=True)
print(found["logits"].tolist(), torch.rand(1).item())
sys.exit(7)
"""


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, str, int]:
    place = tmp_path_factory.mktemp("lab")
    script = place / "job.py"
    script.write_text(JOB)
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    done = subprocess.run(
        [sys.executable, "-m", "npulens.collectors", "lab-hear", "-o", str(place / "out"), "--", sys.executable,
         str(script)], cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1]), plain.stdout, done.stdout, done.returncode


def test_a_job_is_heard_and_stays_what_it_is(heard: tuple[dict[str, Any], str, str, int]) -> None:
    answer, plain, said, status = heard
    assert said.startswith(plain) and said[len(plain) :].strip().startswith('{"exit_status"')
    assert status == answer["exit_status"] == 7
    assert plain.count("seen") == 5  # what the module prints when it is captured is nobody's


def test_what_was_heard_gives_what_the_job_got(heard: tuple[dict[str, Any], str, str, int]) -> None:
    (told,) = heard[0]["subjects"]
    assert heard[0]["refused"] == [] and told["engine"] == "torch.export" and told["calls"] == 5
    found = subject.read(Path(told["place"]))
    assert [(shape.shapes, shape.calls) for shape in found.about.shapes] == [
        (((3, 3, 8, 8),), 4), (((1, 3, 8, 8),), 1)
    ]  # fmt: skip
    assert not found.about.training and not found.about.gradients and found.about.left_out == ("str",)
    for batch, output in zip(found.batches, found.outputs, strict=True):
        assert torch.equal(found.program(batch)[0], output[0])
    (last,) = [out[0] for batch, out in zip(found.batches, found.outputs, strict=True) if batch[0].shape[0] == 1]
    assert str(last.tolist()) in heard[1]  # the very numbers that the job printed


def test_a_result_without_a_subject_and_a_job_without_a_module_are_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "npulens.app.cli", "lab", str(tmp_path)], cwd=ROOT, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 2 and "holds no subject" in done.stderr and "Traceback" not in done.stderr
    job = [sys.executable, "-c", "import torch; print(torch.ones(1).item())"]
    done = subprocess.run(
        [sys.executable, "-m", "npulens.app.cli", "lab", "-o", str(tmp_path / "out"), "--", *job], cwd=ROOT,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "1.0\n") and "No module was heard" in done.stderr
    assert not (tmp_path / "out").exists()


# What is right.


@pytest.mark.parametrize("name", ["gated", "recurrent"])
def test_no_mistake_passes_and_what_is_right_does(name: str, tmp_path: Path) -> None:
    """`python -m tests.lab.wrong` makes every mistake at every place of four models."""
    module, batch = wrong.models()[name]
    found = wrong.captured(module, batch, tmp_path)
    mistakes = [(kind, at) for kind, at, passed, _ in wrong.tried(found, wrong.MISTAKES, 1) if passed]
    assert mistakes == []
    right = [(kind, why) for kind, _, passed, why in wrong.tried(found, wrong.RIGHT, 1) if not passed]
    assert right == []


def test_the_truth_is_the_module_in_float64(tmp_path: Path) -> None:
    module, batch = wrong.models()["attention"]
    found = wrong.captured(module, batch, tmp_path)
    exact = module.double()(batch[0].double(), batch[1])
    (truth,) = [one for one in judging.truths(found) if one.where == "captured"]
    torch.testing.assert_close(truth.exact.results[0], exact, rtol=1e-12, atol=1e-13)
    assert truth.own.results[0].dtype == torch.float32


def test_gradients_are_compared_where_the_job_takes_them(tmp_path: Path) -> None:
    """A rewrite that is right forwards and forgets a gradient."""
    module, batch = wrong.models()["gated"]
    found = wrong.captured(module, batch, tmp_path, gradients=True)
    truths = judging.truths(found)
    assert len(truths[0].own.gradients) == len(list(module.parameters())) == 4

    def detached(program: Any) -> Any:
        copy = graph.copied(program)
        node = next(node for _, node in graph.every(copy) if graph.operator(node) == "linear")
        with copy.graph.inserting_after(node):
            cut = copy.graph.call_function(torch.ops.aten.detach.default, (node,))
        node.replace_all_uses_with(cut)
        cut.args = (node,)
        return graph.recompiled(copy)

    assert judging.judged(graph.copied, truths, True, None).ok
    assert judging.judged(detached, truths, False, None).why == "0 gradients instead of 4"
    assert not judging.judged(detached, truths, True, None).ok


def test_a_short_type_may_err_as_far_as_its_rounding_and_no_farther(tmp_path: Path) -> None:
    module, batch = wrong.models()["convolutions"]
    truths = judging.truths(wrong.captured(module, batch, tmp_path))

    def short(program: Any) -> Any:
        return applied("bf16", program).model

    found = judging.judged(short, truths, False, "bfloat16")
    assert found.ok and found.of_rewrite is not None and 1e-4 < found.of_rewrite < found.allowed <= 1.6e-2
    assert not judging.judged(short, truths, False, None).ok
    assert not judging.judged(short, truths, False, "bfloat16", allow=1e-6).ok


# What a rewrite may do to its process.

WORKER = """
import argparse, os, sys, time
from npulens.collectors.lab.isolating import Worker
parser = argparse.ArgumentParser()
parser.add_argument("--try", dest="names", action="append")
parser.add_argument("--answer-to", type=int)
told = parser.parse_args()
worker = Worker(told.answer_to)
worker.say("told", {"by": "a worker"})
for name in told.names:
    worker.say("begin", name)
    if name == "segfault":
        os.kill(os.getpid(), 11)
    if name == "out of memory":
        os.kill(os.getpid(), 9)
    if name == "leaves":
        os._exit(0)
    if name == "raises":
        raise BaseException("anything")
    if name == "endless":
        time.sleep(600)
    worker.say("trial", {"rewrite": name})
    if name == "gives up":
        sys.exit(1)
"""


def test_whatever_a_worker_does_every_rewrite_gets_its_answer() -> None:
    names = ["one", "segfault", "two", "out of memory", "leaves", "gives up", "raises", "endless", "three"]
    heard: list[int] = []
    answer = isolating.supervised(
        [sys.executable, "-c", WORKER], names, 5.0, lambda told, trials: heard.append(len(trials))
    )
    assert (answer["by"], answer["status"], heard) == ("a worker", "complete", list(range(1, len(names) + 1)))
    told = {each["rewrite"]: each.get("why") for each in answer["trials"]}
    assert list(told) == names and told["one"] is told["two"] is told["gives up"] is told["three"] is None
    assert told["segfault"] == {"name": "crashes", "values": {"ended": "ended by SIGSEGV"}}
    assert told["out of memory"]["values"] == {"ended": "ended by SIGKILL, as when memory runs out"}
    assert told["leaves"]["values"] == {"ended": "ended with status 0"}
    assert told["raises"]["values"] == {"ended": "ended with status 1"}
    assert told["endless"] == {"name": "endless", "values": {"limit": "5"}}


def test_a_worker_that_ends_before_any_rewrite_is_told() -> None:
    with pytest.raises(isolating.Broken, match="ended with status 4 before any rewrite was tried"):
        isolating.supervised([sys.executable, "-c", "raise SystemExit(4)"], ["one"], 60.0, lambda told, trials: None)


def test_a_rewrite_that_ends_its_process_takes_none_of_the_others_with_it(tmp_path: Path) -> None:
    module, batch = wrong.models()["recurrent"]
    place = wrong.captured(module, batch, tmp_path / "subject").place
    command = [sys.executable, "-m", "npulens.collectors", "lab-try", str(place), "--no-times"]
    bodies = {"segfault": "import ctypes\n    ctypes.string_at(0)", "good": (
        "from npulens.collectors.lab.rewrites.rewrite import Rewritten\n    return Rewritten(program, 1)"
    )}  # fmt: skip
    for name, body in bodies.items():
        (tmp_path / f"{name}.py").write_text(f"def apply(program, asked):\n    {body}\n")
        command += ["--own", str(tmp_path / f"{name}.py"), "--try", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, answer["status"]) == (0, "complete")
    assert [each["verdict"] for each in answer["trials"]] == ["refused", "cannot_tell"]
    assert json.loads((place / "result.json").read_text()) == answer
    assert "it brings its process down, which ended by SIGSEGV" in "\n".join(verb.lines(answer, "en"))


# How fast.


def controlled(ratios: list[float], again: list[float]) -> Controlled:
    withheld = "noisy" if judge(again).said == "different" else None
    return Controlled({"cpu": judge(ratios)}, {"cpu": judge(again)}, "cpu", withheld)


STEADY = [1.0, 1.001, 0.999, 1.0005, 0.9995, 1.0, 1.0008, 0.9992, 1.0003, 0.9997]


@pytest.mark.parametrize(
    ("ratio", "again", "said"),
    [(0.8, STEADY, ("faster", None)), (1.25, STEADY, ("slower", None)), (1.0, STEADY, ("same", None)),
     (0.995, STEADY, ("cannot_tell", "small")), (0.8, [0.9 * each for each in STEADY], ("cannot_tell", "noisy"))],
)  # fmt: skip
def test_a_verdict_needs_more_than_one_percent_and_a_quiet_control(
    ratio: float, again: list[float], said: tuple[str, str | None]
) -> None:
    assert measuring.said(controlled([ratio * each for each in STEADY], again)) == said


def test_batches_are_timed_in_the_proportions_of_the_job() -> None:
    batches = tuple((torch.ones(size),) for size in (1, 2, 3))
    shapes = tuple(subject.Shape(((size,),), calls) for size, calls in ((1, 80), (2, 20), (3, 1)))
    about = subject.About("M", "torch.export", False, False, "cpu", 1, (), shapes, 101, 0, 0, True, None)
    found = subject.Subject(Path(), about, None, batches, ())
    sizes = [len(batch[0]) for batch in measuring.mix(found)]
    assert [sizes.count(size) for size in (1, 2, 3)] == [10, 2, 1]
    assert measuring.unlike(found) and len(measuring.steps(found, tuple)) == 13


def test_what_counts_of_unlike_shapes_is_the_whole_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten short calls and a long one: the middle of single calls would be that of the short ones."""
    now = [0]

    def takes(ns: int) -> Callable[[], None]:
        return lambda: now.__setitem__(0, now[0] + ns)

    monkeypatch.setattr(measuring.time, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(measuring.time, "thread_time_ns", lambda: now[0])
    made = [takes(1000), *[takes(10)] * 10]
    for clock in ("host", "cpu"):
        assert measuring.passes(open_backend("cpu"), made)(clock) == [1100]


# The three ways to a program.

PARTS = """
import torch
from torch import nn
class Seen(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = nn.Linear(6, 6), None
    def forward(self, x):
        self.seen = x.detach().numpy()  # torch.export has no numbers here
        return torch.relu(self.layer(x))
class Halving(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.layer = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)
    def forward(self, x):
        y = torch.relu(self.conv(x)).mean((2, 3))
        while float(y.norm()) > 0.5:  # as often as the numbers want it
            y = y * 0.5
        return self.layer(y)
"""


@pytest.mark.filterwarnings("ignore")  # torch warns of its own parts
def test_what_export_refuses_comes_by_fx_or_as_the_module_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_parts.py").write_text(PARTS)
    monkeypatch.syspath_prepend(tmp_path)
    parts = importlib.import_module("own_parts")
    torch.manual_seed(1)
    module, batch = parts.Seen().eval(), (torch.randn(4, 6),)
    with torch.no_grad():
        module(*batch)
        before = dict(vars(module))
        found = wrong.captured(module, batch, tmp_path / "seen")
    assert found.about.engine == "torch.fx" and dict(vars(module)) == before  # what it keeps is as the job left it
    torch.testing.assert_close(found.program(batch)[0], module(*batch))
    given = (torch.randn(4, 3, 8, 8),)
    with torch.no_grad():
        place = wrong.captured(parts.Halving(), given, tmp_path / "halving").place
    monkeypatch.delitem(sys.modules, "own_parts")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    found = subject.read(place)  # another process finds the class where it was
    laboratory = Laboratory(found, open_backend("cpu"), Options(times=False))
    trials = {name: laboratory.tried(name) for name in ("compile", "bf16", "channels_last", "fold")}
    assert found.about.engine == "module"
    assert [trial.verdict for trial in trials.values()] == ["cannot_tell"] * 3 + ["does_not_apply"]
    assert trials["fold"].why == {"name": "no_graph", "values": {}}


def test_a_module_that_draws_random_numbers_is_compared_with_nothing(tmp_path: Path) -> None:
    found = wrong.captured(nn.Linear(3, 3), (torch.randn(2, 3),), tmp_path)
    noisy = subject.Subject(found.place, found.about, Noisy(), found.batches, found.outputs)
    with pytest.raises(judging.CannotRun, match="two runs of it give other numbers"):
        judging.truths(noisy)


class Noisy(nn.Module):
    """Noise that no layer tells of."""

    def forward(self, tensors: Any) -> Any:
        return (tensors[0] + torch.rand(()),)


# What a result does besides its numbers.


@pytest.mark.parametrize(
    ("rewritten", "why"),
    [(lambda program: lambda given: (given[0] * 2, given[1]), "result 1 is the memory of input 1"),
     (lambda program: lambda given: (given[0].mul_(2), given[1].clone()), "result 0 is the memory of input 0"),
     (lambda program: lambda given: (given[0].mul_(2).clone(), given[1].clone()), "input 0 is written to"),
     (lambda program: lambda given: (given[0] * 2, torch.ones(3, 2) * given[1][:1]),
      "result 1 has the shape [3, 2] instead of [4, 2]"),
     (lambda program: program, None)],
)  # fmt: skip
def test_memory_and_other_sizes_are_judged(rewritten: Any, why: str | None) -> None:
    """Of two batches with two and three rows; the numbers are right each time."""
    program = lambda given: (given[0] * 2, given[1].clone())  # noqa: E731
    batches = tuple((torch.randn(rows, 2), torch.ones(rows, 2)) for rows in (3, 2))
    assert [[tuple(each.shape) for each in batch] for batch in judging.reshaped(batches, 0)] == [[(4, 2), (4, 2)]]
    found = [judging.Truth("reshaped", program, batch, judging.watched(program, batch, False),
                           judging.watched(program, batch, False))
             for batch in (batches[0], *judging.reshaped(batches, 0))]  # fmt: skip
    told = judging.judged(rewritten, found, False, None)
    assert (told.why, told.ok) == (why, why is None)

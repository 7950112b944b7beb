"""The laboratory: a job is heard unchanged, safe places are rewritten, others left, and nothing wrong is believed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npulens.analysis import rules
from npulens.app.commands import lab as verb
from npulens.app.text.i18n import known
from npulens.collectors.backends.backend import open_backend
from npulens.collectors.harness.controlled import Controlled
from npulens.collectors.harness.versus import judge
from npulens.collectors.lab import graph, isolating, judging, measuring, optimizing, subject
from npulens.collectors.lab.rewrites import rewrite
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply
from npulens.collectors.lab.trial import Laboratory, Options

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.torch
if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch  # noqa: E402
from torch import nn  # noqa: E402

from tests.lab import wrong  # noqa: E402

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
EVAL = Asked(False, False, False, "cpu", True)


def made(module: nn.Module, *batch: Any) -> Any:
    """The module as a captured program."""
    return graph.clean(torch.export.export(module.eval(), batch).module())


def applied(name: str, program: Any, asked: Asked = EVAL) -> Any:
    return rewrite.rewrite(name).apply(graph.copied(program), asked)


def refused(name: str, program: Any, asked: Asked = EVAL) -> str:
    with pytest.raises(DoesNotApply) as reason:
        applied(name, program, asked)
    return reason.value.name


def statistics(module: nn.Module) -> nn.Module:
    """BatchNorm with statistics that do something."""
    numbers = torch.Generator().manual_seed(1)
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d) and norm.running_var is not None:
            norm.running_mean.copy_(torch.randn(norm.num_features, generator=numbers))
            norm.running_var.copy_(torch.rand(norm.num_features, generator=numbers) + 0.5)
            norm.weight.data.copy_(torch.rand(norm.num_features, generator=numbers) + 0.5)
    return module.eval()


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


# Convolution and BatchNorm.


class Shared(nn.Module):
    """One convolution before two normalisations."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.one, self.two = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.BatchNorm2d(3)

    def forward(self, x: Any) -> Any:
        return self.two(self.conv(torch.relu(self.one(self.conv(x)))))


class Tied(Shared):
    """Two convolutions with the same weight."""

    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Conv2d(3, 3, 1)
        self.other.weight = self.conv.weight

    def forward(self, x: Any) -> Any:
        return self.one(self.conv(x)) + self.two(self.other(x))


class Read(Shared):
    """Somebody else reads what the convolution gives."""

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        return self.one(y) + y


class Written(Shared):
    """What the convolution gives is written to in between."""

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        y.add_(1.0)
        return self.one(y)


class Computed(Shared):
    """The weight is computed in the program."""

    def forward(self, x: Any) -> Any:
        return self.one(nn.functional.conv2d(x, self.conv.weight * 2.0, self.conv.bias))


PICTURE = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4, eps=1e-3)),
        nn.Sequential(nn.Conv2d(3, 6, 3, padding=1, groups=3), nn.BatchNorm2d(6, affine=True), nn.ReLU(inplace=True)),
        nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.BatchNorm1d(5)),
    ],
    ids=["without bias", "groups", "linear"],
)  # fmt: skip
def test_batchnorm_is_folded_into_what_stands_before_it(module: nn.Module) -> None:
    program = made(statistics(module), PICTURE)
    found = applied("fold", program)
    assert found.changed == 1 and not any(graph.operator(node) == "batch_norm" for _, node in graph.every(found.model))
    with torch.no_grad():
        torch.testing.assert_close(found.model(PICTURE), module(PICTURE), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(program(PICTURE), module(PICTURE), rtol=0, atol=0)  # the program is as it was


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3, track_running_stats=False)), "fold_batch_statistics"),
        (nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 3, 1)), "fold_nothing_before"),
        (nn.Sequential(nn.ConvTranspose2d(3, 3, 1), nn.BatchNorm2d(3)), "fold_transposed"),
        (nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU(), nn.BatchNorm2d(3)), "fold_nothing_before"),
        (Shared(), "fold_shared_weights"), (Tied(), "fold_shared_weights"), (Read(), "fold_read_elsewhere"),
        (Computed(), "fold_computed_weights"), (nn.Sequential(nn.Conv2d(3, 3, 1)), "fold_nothing"),
    ],
)  # fmt: skip
def test_batchnorm_stays_where_folding_would_be_wrong(module: nn.Module, reason: str) -> None:
    assert refused("fold", made(module, PICTURE)) == reason


def test_nothing_is_folded_in_training_or_over_what_is_written_in_place() -> None:
    program = made(nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)), PICTURE)
    assert refused("fold", program, Asked(True, False, False, "cpu", True)) == "fold_training"
    assert refused("fold", program, Asked(False, True, False, "cpu", True)) == "gradients"
    assert refused("fold", program, Asked(False, False, False, "cpu", False)) == "no_graph"
    assert refused("fold", made(Written(), PICTURE)) in ("fold_read_elsewhere", "fold_nothing_before")


# Attention.


class Attention(nn.Module):
    """softmax(q kT * scale + mask) v in the ways in which people write it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        way = self.way
        if way == "query scaled":
            return torch.softmax((q * 0.25) @ k.mT, -1) @ v
        if way == "einsum":
            weights = torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k) * 0.3, -1)
            return torch.einsum("bhij,bhjd->bhid", weights, v)
        if way in ("baddbmm", "baddbmm with a mask"):
            q, k, v = (each.flatten(0, 1) for each in (q, k, v))
            share = 0 if way == "baddbmm" else 1
            scores = torch.baddbmm(mask.to(q.dtype)[None] * -3.0, q, k.mT, beta=share, alpha=0.3)
            return torch.bmm(torch.softmax(scores, -1), v)
        scores = q @ k.transpose(-2, -1) / 4.0
        if way == "added mask":
            scores = scores + torch.zeros(5, 5).masked_fill(mask, -1e9)
        if way in ("filled mask", "large number"):
            scores = scores.masked_fill(mask, float("-inf") if way == "filled mask" else -1e9)
        if way == "mask scaled":
            scores = scores.masked_fill(mask, -1e4) * 0.5
        if way in ("kept or not", "kept or large"):
            least = torch.full([], torch.finfo(scores.dtype).min) if way == "kept or large" else float("-inf")
            scores = torch.where(~mask, scores, least)
        weights = torch.softmax(scores, -2 if way == "other dimension" else -1)
        if way == "dropout":
            weights = nn.functional.dropout(weights, 0.1, training=True)
        found = weights @ v
        return (found, weights) if way == "weights returned" else found


def attention(way: str) -> tuple[Any, tuple[Any, ...]]:
    numbers = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(2, 3, 5, 16, generator=numbers) for _ in range(3))
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    return made(Attention(way), q, k, v, mask), (q, k, v, mask)


@pytest.mark.parametrize(
    "way", ["plain", "added mask", "filled mask", "large number", "query scaled", "kept or not", "kept or large",
            "einsum", "baddbmm", "baddbmm with a mask"],
)  # fmt: skip
def test_attention_that_is_written_out_becomes_one_operator(way: str) -> None:
    program, given = attention(way)
    found = applied("sdpa", program)
    left = {graph.operator(node) for _, node in graph.every(found.model)}
    assert found.changed == 1 and "softmax" not in left and "scaled_dot_product_attention" in left
    torch.testing.assert_close(found.model(*given), program(*given), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("way", "reason"),
    [("other dimension", "sdpa_other_dimension"), ("dropout", "sdpa_dropout"), ("mask scaled", "sdpa_scaled_mask"),
     ("weights returned", "sdpa_read_elsewhere")],
)  # fmt: skip
def test_attention_stays_where_one_operator_would_be_another(way: str, reason: str) -> None:
    assert refused("sdpa", attention(way)[0]) == reason


class Three(nn.Module):
    """Query, key and value of one activation, and a layer of another."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 6), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.q(x), self.k(x), self.v(x), self.o(torch.tanh(x))


def test_linear_layers_of_one_activation_are_merged() -> None:
    program, x = made(Three(), torch.randn(2, 5, 8)), torch.randn(2, 5, 8)
    found = applied("merge_linears", program)
    assert found.changed == 1 and sum(graph.operator(node) == "linear" for _, node in graph.every(found.model)) == 2
    torch.testing.assert_close(found.model(x), program(x))


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
    asked = EVAL

    def short(program: Any) -> Any:
        return rewrite.rewrite("bf16").apply(graph.copied(program), asked).model

    found = judging.judged(short, truths, False, "bfloat16")
    assert found.ok and found.of_rewrite is not None and 1e-4 < found.of_rewrite < found.allowed <= 1.6e-2
    assert not judging.judged(short, truths, False, None).ok
    assert not judging.judged(short, truths, False, "bfloat16", allow=1e-6).ok


def test_the_rewrite_that_the_documentation_shows_is_tried(tmp_path: Path) -> None:
    """It is right as it is shown, and refused with one mistake in it."""
    text = (ROOT / "docs/lab.md").read_text().partition("## A rewrite of your own")[2]
    source = text.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "inverse.py").write_text(source)
    (tmp_path / "mistaken.py").write_text(source.replace("1.0 / node.args[1]", "1.001 / node.args[1]"))
    module, batch = wrong.models()["attention"]
    found = wrong.captured(module, batch, tmp_path / "subject")
    laboratory = Laboratory(found, open_backend("cpu"), Options(times=False))
    right, mistaken = (laboratory.tried(name, [tmp_path / f"{name}.py"]) for name in ("inverse", "mistaken"))
    plain = wrong.captured(nn.Linear(3, 3), (torch.randn(2, 3),), tmp_path / "plain")
    nothing = Laboratory(plain, open_backend("cpu"), Options(times=False)).tried("inverse", [tmp_path / "inverse.py"])
    assert (right.verdict, right.changed) == ("cannot_tell", 1) and right.errors is not None and right.errors["ok"]
    assert mistaken.verdict == "refused" and nothing.verdict == "does_not_apply"
    assert nothing.why == {"name": "verbatim", "values": {"text": "nothing is divided by a number"}}


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
    sizes = [len(batch[0]) for batch in measuring.mix(subject.Subject(Path(), about, None, batches, ()))]
    assert [sizes.count(size) for size in (1, 2, 3)] == [10, 2, 1]


# What is said.


def test_every_finding_that_a_rule_names_and_every_rewrite_it_names_is_there() -> None:
    detectors = {path.stem for path in (ROOT / "analysis/detectors").glob("[!_]*.py")}
    assert {name for rule in rules.rules() for name in rule.detectors} <= detectors
    assert {name for rule in rules.rules() for name in rule.rewrites} == set(rewrite.names())
    assert rules.rewrites_of("layout_conversion") == ["transposes", "channels_last"] and rules.rewrites_of("gc") == []
    assert rules.rewrites_of("unfused", {"rule": "rms_norm"})[0] == "norms"
    assert rules.rewrites_of("unfused", {"rule": None})[0] == "compile"


class ByHand(nn.Module):
    """What the rules of kernels are about, as people write it."""

    def __init__(self, rule: str) -> None:
        super().__init__()
        self.rule, self.gate, self.up = rule, nn.Linear(8, 8), nn.Linear(8, 8)
        self.weight, self.bias, self.mask = (nn.Parameter(torch.rand(size)) for size in (8, 8, 3))

    def forward(self, x: Any) -> Any:
        if self.rule == "attention":
            return torch.softmax((x @ x.mT) * 0.3 + self.mask, -1) @ x
        if self.rule == "layer_norm":
            far = x - x.mean(-1, keepdim=True)
            return far * torch.rsqrt(far.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight + self.bias
        if self.rule == "rms_norm":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight
        if self.rule == "gelu":
            return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x.pow(3))))
        if self.rule == "gated":
            up, gate = self.up(x), self.gate(x)
            return torch.sigmoid(gate) * gate * up
        first, second = x[..., :4], x[..., 4:]
        return x * self.weight + torch.cat((-second, first), -1) * self.bias


@pytest.mark.parametrize("name", ["attention", "layer_norm", "rms_norm", "gelu", "gated", "rotary"])
def test_a_rule_knows_the_kernels_of_the_model_that_its_rewrite_changes(name: str) -> None:
    """The kernels of a run, found by the rule's steps, and the pattern in the model are one and the same thing."""
    program = made(ByHand(name), torch.randn(2, 3, 8))
    ran = [graph.operator(node) for _, node in graph.every(program) if graph.operator(node) not in ("mT", "")]
    seen = "".join(f" {'mm' if each in ('linear', 'matmul') else re.sub('[^a-z]', '', each)}" for each in ran)
    steps = [(each["steps"], each.get("optional", ())) for each in rules.chained()[1]
             if each["rule"] == name and not each.get("after")]  # fmt: skip
    texts = ["".join(f"(?: (?:{step}))" + "?" * (place in may) for place, step in enumerate(every))
             for every, may in steps]  # fmt: skip
    assert any(re.search(text + "(?= |$)", seen) for text in texts), seen
    assert applied(rules.rule(name).rewrites[0], program).changed == 1


@pytest.mark.parametrize("name", rewrite.names())
def test_a_rewrite_says_what_why_and_when_it_is_wrong_and_its_reasons_have_words(name: str) -> None:
    found = rewrite.rewrite(name)
    for part in ("What it does:", "Why:", "When it would be wrong:"):
        assert part in found.__doc__
    source = (ROOT / f"collectors/lab/rewrites/{name}.py").read_text()
    reasons = re.findall(r'(?:DoesNotApply|_?Stays)\("(\w+)"', source) + re.findall(r'return "(\w+)"', source)
    reasons += re.findall(r'if left else "(\w+)"\)', source) + re.findall(r'left\["(\w+)"\]', source)
    assert [reason for reason in reasons if not known(f"lab.why_{reason}")] == []


def test_a_rewrite_of_ones_own_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def apply(program, asked):\n    return program\n")
    assert rewrite.rewrite("mine", [path]).apply(1, EVAL) == 1  # type: ignore[comparison-overlap]
    path.write_text("def apply(")
    with pytest.raises(ValueError, match="cannot be read"):
        rewrite.rewrite("mine", [path])
    with pytest.raises(ValueError, match="there is no rewrite 'other'; there are: bf16"):
        rewrite.rewrite("other", [path])


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


# What a job that trains has besides.

TRAINING = """
import torch
from torch import nn
torch.manual_seed(3)
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(40, 8), nn.Linear(8, 3)
    def forward(self, words):
        return self.out(self.table(words).mean(1))
model = Words()
groups = [{"params": model.table.parameters(), "lr": 0.5}, {"params": model.out.parameters()}]
optimizer = torch.optim.SGD(groups, lr=0.1)
for i in range(5):
    optimizer.param_groups[1]["lr"] = 0.1 * (i + 1)
    loss = model(torch.randint(0, 40, (4, 6))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""


def test_the_optimiser_of_a_job_is_heard_and_tried_on_what_the_job_has(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(TRAINING)
    command = [sys.executable, "-m", "npulens.collectors", "lab-hear", "-o", str(tmp_path / "out"), "--"]
    done = subprocess.run([*command, sys.executable, str(tmp_path / "job.py")], cwd=ROOT, capture_output=True,
                          text=True, timeout=600)  # fmt: skip
    (told,) = json.loads(done.stdout.splitlines()[-1])["subjects"]
    found = subject.read(Path(told["place"]))
    heard = found.about.optimizer
    assert heard is not None and (heard["kind"], heard["steps"]) == ("SGD", 5)
    assert [[each["shape"] for each in group["parameters"]] for group in heard["groups"]] == [[[40, 8]], [[3, 8], [3]]]
    assert [group["settings"]["lr"] for group in heard["groups"]] == [0.5, 0.4]  # told after one, two and four steps
    laboratory = Laboratory(found, open_backend("cpu"), Options(times=False))
    trials = {name: laboratory.tried(name) for name in ("fused_optimizer", "foreach_optimizer", "sparse_embedding")}
    assert [(trial.verdict, trial.changed) for trial in trials.values()] == [
        ("cannot_tell", 3), ("cannot_tell", 3), ("cannot_tell", 1),
    ]  # fmt: skip
    assert all(trial.errors is not None and trial.errors["ok"] for trial in trials.values())


def stepping(kind: str = "AdamW", **settings: Any) -> dict[str, Any]:
    """An optimiser as it is heard."""
    parameters = [nn.Parameter(torch.randn(shape)) for shape in ((6, 4), (5,))]
    for each in parameters:
        each.grad = torch.randn_like(each)
    return optimizing.heard(getattr(torch.optim, kind)(parameters, **settings))


@pytest.mark.parametrize(
    ("kind", "settings", "wrong"),
    [
        ("AdamW", {"lr": 1e-3}, {"lr": 1.01e-3}), ("AdamW", {}, {"weight_decay": 0.0}), ("AdamW", {}, {"eps": 1e-7}),
        ("AdamW", {}, {"betas": (0.999, 0.9)}), ("AdamW", {}, {"betas": (0.9, 0.998)}),
        ("AdamW", {}, {"maximize": True}),
        ("AdamW", {"amsgrad": True}, {"amsgrad": False}), ("Adam", {"weight_decay": 0.1}, {"weight_decay": 0.0}),
        ("SGD", {"momentum": 0.9}, {"momentum": 0.0}), ("SGD", {"momentum": 0.9}, {"nesterov": True}),
        ("SGD", {"momentum": 0.9}, {"dampening": 0.1}), ("SGD", {"weight_decay": 0.1}, {"weight_decay": 0.09}),
        ("Adagrad", {}, {"eps": 1e-8}),
    ],
)  # fmt: skip
def test_an_optimiser_that_steps_otherwise_is_refused(kind: str, settings: Any, wrong: Any) -> None:
    told = stepping(kind, **settings)
    right = optimizing.Made(optimizing.with_way(told, "foreach"), "cpu").changes()
    assert optimizing.judged(told, right, "cpu").ok
    group = told["groups"][0]
    other = {**told, "groups": [{**group, "settings": {**group["settings"], **wrong}}]}
    assert not optimizing.judged(told, optimizing.Made(other, "cpu").changes(), "cpu").ok


def test_an_optimiser_that_cannot_step_otherwise_is_left_alone() -> None:
    def why(told: Any, way: str = "fused") -> str:
        with pytest.raises(DoesNotApply) as reason:
            optimizing.with_way(told, way)
        return reason.value.name

    assert why(None) == "optimizer_none" and why(stepping(fused=True)) == "optimizer_already"
    assert why(stepping("LBFGS")) == "optimizer_way" and why({**stepping(), "module": "mine"}) == "optimizer_own"
    assert why(stepping(lr=torch.tensor(1e-3), capturable=False), "foreach") == "optimizer_settings"


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [("AdamW", {}, "sparse_optimizer"), ("SGD", {"momentum": 0.9}, "sparse_optimizer"), ("Adagrad", {}, None),
     ("SGD", {"weight_decay": 0.1}, "sparse_optimizer")],
)  # fmt: skip
def test_sparse_gradients_only_where_the_optimiser_touches_nothing_else(
    kind: str, settings: Any, reason: str | None
) -> None:
    program = made(nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2)), torch.tensor([1, 2]))
    asked = Asked(True, True, False, "cpu", True, stepping(kind, **settings))
    assert (applied("sparse_embedding", program, asked).changed if reason is None else
            refused("sparse_embedding", program, asked)) == (1 if reason is None else reason)  # fmt: skip

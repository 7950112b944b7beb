"""Rewrites of the laboratory: safe places are changed, others left with their reason; rules, and optimisers."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npulens.analysis import rules
from npulens.app.text.i18n import known
from npulens.collectors.backends.backend import open_backend
from npulens.collectors.harness.numerics import compare
from npulens.collectors.lab import graph, judging, optimizing, subject
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
from tests.lab.programs import EVAL, applied, made, refused  # noqa: E402


def statistics(module: nn.Module) -> nn.Module:
    """BatchNorm with statistics that do something."""
    numbers = torch.Generator().manual_seed(1)
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d) and norm.running_var is not None:
            norm.running_mean.copy_(torch.randn(norm.num_features, generator=numbers))
            norm.running_var.copy_(torch.rand(norm.num_features, generator=numbers) + 0.5)
            norm.weight.data.copy_(torch.rand(norm.num_features, generator=numbers) + 0.5)
    return module.eval()


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


# Formulas.

NUMBERS = torch.Generator().manual_seed(6)
X, COS, SIN = (torch.randn(size, generator=NUMBERS) for size in ((2, 6, 16), (6, 16), (6, 16)))
WEIGHT, OFFSET = torch.rand(16, generator=NUMBERS) + 0.5, torch.rand(16, generator=NUMBERS)


class Formula(nn.Module):
    """A function of its inputs, with a weight and an offset."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function, self.weight, self.offset = function, nn.Parameter(WEIGHT), nn.Parameter(OFFSET)
        self.layer, self.conv = nn.Linear(16, 16), nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, *given: Any) -> Any:
        return self.function(self, *given)


def mean(x: Any) -> Any:
    return x.mean(-1, keepdim=True)


def variance(x: Any, correction: int = 0) -> Any:
    return x.var(-1, correction=correction, keepdim=True)


def tanh_of(x: Any, root: float = math.sqrt(2 / math.pi)) -> Any:
    return 1 + torch.tanh(root * x * (1 + 0.044715 * x * x))


REPLACED: list[tuple[str, Callable[..., Any], str]] = [
    ("gelu", lambda of, x: 0.5 * x * (1 + torch.tanh(0.7978846 * (x + 0.044715 * torch.pow(x, 3.0)))), "gelu"),
    ("gelu", lambda of, x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2))), "gelu"),
    ("gelu", lambda of, x: (x * tanh_of(x)) / 2, "gelu"),
    ("gelu", lambda of, x: torch.sigmoid(x) * x, "silu"),
    ("norms", lambda of, x: of.weight * (x * torch.rsqrt(mean(x.pow(2)) + 1e-6)), "rms_norm"),
    ("norms", lambda of, x: (lambda h: of.weight * (h * torch.rsqrt(mean(h.pow(2)) + 1e-6)) + h)(x.to(torch.float32)),
     "rms_norm"),
    ("norms", lambda of, x: x / torch.sqrt(mean(x * x) + 1e-6), "rms_norm"),
    ("norms", lambda of, x: x * (mean(x.square()) + 1e-6).pow(-0.5) * of.weight, "rms_norm"),
    ("norms", lambda of, x: (x - mean(x)) / torch.sqrt(variance(x) + 1e-5) * of.weight + of.offset, "layer_norm"),
    ("norms", lambda of, x: (lambda far: far * torch.rsqrt(mean(far**2) + 1e-5))(x - mean(x)), "layer_norm"),
    ("rotary", lambda of, x: x * COS + torch.cat((-x[..., 8:], x[..., :8]), -1) * SIN, "addcmul"),
    ("rotary", lambda of, x: torch.cat((-x.chunk(2, -1)[1], x.chunk(2, -1)[0]), -1) * SIN + x * COS, "addcmul"),
    ("casts", lambda of, x: x.double().float() * 2, "mul"),
    ("transposes", lambda of, x: x.permute(0, 2, 1).contiguous().transpose(1, 2).relu(), "relu"),
    ("transposes", lambda of, x: x.permute(2, 0, 1).permute(2, 0, 1).relu(), "permute"),
    ("activation", lambda of, x: torch.tanh(of.layer(x)) + 1, "add"),
    ("activation", lambda of, x: torch.relu_(of.conv(x[None, :, :3].expand(3, -1, -1, -1).transpose(0, 1))), ""),
    ("gated", lambda of, x: torch.sigmoid(of.layer(x)) * nn.functional.linear(x, of.up), "split_with_sizes"),
]  # fmt: skip
LEFT: list[tuple[str, Callable[..., Any], str]] = [
    ("gelu", lambda of, x: x * torch.sigmoid(1.702 * x), "gelu_nothing"),
    ("gelu", lambda of, x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.1))), "gelu_other"),
    ("gelu", lambda of, x: (x * tanh_of(x, 0.79)) / 2, "gelu_nothing"),
    ("norms", lambda of, x: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6), "norms_dimensions"),
    ("norms", lambda of, x: (x - mean(x)) * torch.rsqrt(variance(x, 1) + 1e-5), "norms_unbiased"),
    ("norms", lambda of, x: (x - mean(x)) / (variance(x).sqrt() + 1e-5), "norms_nothing"),
    ("norms", lambda of, x: x * torch.rsqrt(mean((2 * x).pow(2)) + 1e-6), "norms_nothing"),
    ("rotary", lambda of, x: torch.cat((x[..., 8:], -x[..., :8]), -1) * SIN + x * COS, "rotary_nothing"),
    ("rotary", lambda of, x: torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * SIN + x * COS,
     "rotary_nothing"),
    ("casts", lambda of, x: x.bfloat16().float() + 1, "casts_round"),
    ("casts", lambda of, x: (x.double().float() + 1).mul_(2), "casts_copies"),
    ("transposes", lambda of, x: x.permute(0, 2, 1).contiguous().transpose(1, 2), "transposes_returned"),
    ("transposes", lambda of, x: x.permute(2, 0, 1).contiguous().permute(1, 2, 0).mul(2).relu_(), "written_in_place"),
    ("activation", lambda of, x: (lambda y: torch.relu(y) + y)(of.layer(x)), "read_elsewhere"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "operator"), REPLACED)
def test_a_formula_becomes_what_it_computes(name: str, function: Callable[..., Any], operator: str) -> None:
    module = Formula(function)
    module.up = nn.Parameter(torch.randn(16, 16, generator=NUMBERS))
    module.layer.bias = None
    program = made(module, X)
    found = applied(name, program)
    assert found.changed == 1 and operator in {graph.operator(node) for _, node in graph.every(found.model)}
    with torch.no_grad():
        torch.testing.assert_close(found.model(X), module(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "function", "reason"), LEFT)
def test_what_is_nearly_a_formula_stays(name: str, function: Callable[..., Any], reason: str) -> None:
    assert refused(name, made(Formula(function), X)) == reason


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
    with pytest.raises(ValueError, match="there is no rewrite 'other'; there are: activation"):
        rewrite.rewrite("other", [path])


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


def test_an_original_with_sparse_gradients_is_judged_as_one_with_dense_ones() -> None:
    rows, where = torch.tensor([1, 1, 7]), torch.tensor([0, 2])
    sparse = nn.EmbeddingBag(9, 4, mode="sum", sparse=True)
    dense = nn.EmbeddingBag(9, 4, mode="sum", _weight=sparse.weight.detach().clone())
    (mine,), (its,) = (
        judging.run(lambda batch, table=table: (table(*batch),), (rows, where), True, table).gradients
        for table in (sparse, dense)
    )
    assert mine.layout == torch.strided and torch.equal(mine, its) and bool(its[1].any())
    assert compare(mine, its.double(), "float32", 1e-6).ok

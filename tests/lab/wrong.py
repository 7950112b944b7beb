"""`python -m tests.lab.wrong`: wrong rewrites on small models; none may pass.

Every one makes one mistake that a person or a pattern could make, in the graph of a model, at one place. What they are
tried on has weights whose defaults hide mistakes: biases that are zero, scales that are one, a mask that hides nothing.
The right rewrites beside them have to pass: a judge that refuses everything would be no judge.
"""

from __future__ import annotations

import argparse
import math
import operator
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from npulens.collectors.lab import engines, graph, subject
from npulens.collectors.lab.flat import Flat, taken_apart
from npulens.collectors.lab.judging import FAILURES, judged, truths
from npulens.collectors.lab.rewrites import rewrite
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply

aten = torch.ops.aten
Change = Callable[[Any, Any], bool]  # graph module, node -> whether it was changed


class Convolutions(nn.Module):
    """Convolution, BatchNorm and a head, as a picture model has them; the statistics are those of a fresh one."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.c2, self.n2 = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8, eps=1e-3)
        self.head = nn.Linear(8, 5)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.n1(self.c1(x)))
        x = nn.functional.silu(self.n2(self.c2(x))) + x
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """A block of a transformer, written out, with a mask that may hide nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.after = nn.LayerNorm(16), nn.LayerNorm(16, eps=1e-6)
        # A bias of the keys adds the same to a whole row of scores: to drop it would be no mistake.
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16, bias) for bias in (True, False, True, True))
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        for layer in (self.q, self.v, self.o, self.up, self.down):
            nn.init.zeros_(layer.bias)

    def forward(self, x: Any, mask: Any) -> Any:
        y = self.norm(x)
        q, k, v = (part(y).unflatten(-1, (2, 8)).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(8)
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        x = x + self.o((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


class Gated(nn.Module):
    """RMSNorm and a gated layer, as a decoder has them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))
        self.gate, self.up, self.down = nn.Linear(16, 32, False), nn.Linear(16, 32, False), nn.Linear(32, 16, False)

    def forward(self, x: Any) -> Any:
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        return x - self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Recurrent(nn.Module):
    """Sums, differences, quotients and an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.a, self.b = nn.Embedding(12, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, words: Any) -> Any:
        x = self.words(words)
        state = torch.tanh(self.a(x[:, 0]))
        for place in range(1, 3):
            gate = torch.sigmoid(self.b(x[:, place]))
            state = gate * state + (1.0 - gate) * torch.tanh(self.a(x[:, place]))
        return torch.log_softmax(state / (1.0 + state.abs().amax(-1, keepdim=True)), -1)


class Formulas(nn.Module):
    """LayerNorm, both formulas of GELU, SiLU, conversions and transpositions, all written out."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.offset = nn.Parameter(torch.ones(16)), nn.Parameter(torch.zeros(16))
        self.up, self.down, self.out = nn.Linear(16, 24), nn.Linear(24, 16), nn.Linear(16, 6)
        nn.init.normal_(self.down.weight)  # what is added to the input has to count beside it

    def forward(self, x: Any) -> Any:
        centred = x - x.mean(-1, keepdim=True)
        y = centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5) * self.scale + self.offset
        y = self.up(y)
        y = 0.5 * y * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y.pow(3))))
        y = self.down(y.double().float())
        y = y * 0.5 * (1.0 + torch.erf(y / math.sqrt(2.0)))
        y = y.transpose(1, 2).contiguous().permute(0, 2, 1) + x
        return torch.tanh(self.out(y * torch.sigmoid(y)))


class Crossed(nn.Module):
    """A decoder's attention with rotary positions, then one that looks at pictures, and a gated layer."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16, False) for _ in range(3))
        self.seen_q, self.seen_k, self.seen_v = nn.Linear(16, 16), nn.Linear(12, 16, False), nn.Linear(12, 16)
        self.gate, self.up, self.down = nn.Linear(16, 20), nn.Linear(16, 20), nn.Linear(20, 16)

    def forward(self, x: Any, picture: Any, cos: Any, sin: Any) -> Any:
        q, k, v = (part(x).unflatten(-1, (2, 8)).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = (y * cos + torch.cat((-y[..., 4:], y[..., :4]), -1) * sin for y in (q, k))
        later = torch.full((6, 6), float("-inf")).triu(1)
        x = x + (torch.softmax(q @ k.mT * 8**-0.5 + later, -1) @ v).transpose(1, 2).flatten(-2)
        q, k, v = (
            y.unflatten(-1, (2, 8)).transpose(1, 2).flatten(0, 1)
            for y in (self.seen_q(x), self.seen_k(picture), self.seen_v(picture))
        )
        scores = torch.baddbmm(torch.zeros(1, 1, 1), q, k.mT, beta=0, alpha=0.3)
        x = x + torch.bmm(scores.softmax(-1), v).unflatten(0, (-1, 2)).transpose(1, 2).flatten(-2)
        gate = self.gate(x)
        return x + self.down(gate * torch.sigmoid(gate) * self.up(x))


def models() -> dict[str, tuple[nn.Module, Sequence[Any]]]:
    torch.manual_seed(5)
    return {
        "convolutions": (Convolutions(), (torch.randn(2, 3, 8, 8),)),
        "attention": (Attention(), (torch.randn(2, 6, 16), torch.ones(2, 6, dtype=torch.bool))),
        "gated": (Gated(), (torch.randn(2, 6, 16),)),
        "recurrent": (Recurrent(), (torch.randint(0, 12, (4, 3)),)),
        "formulas": (Formulas(), (torch.randn(2, 6, 16),)),
        "crossed": (Crossed(), (torch.randn(2, 6, 16), torch.randn(2, 5, 12), torch.randn(6, 8), torch.randn(6, 8))),
    }


def captured(module: nn.Module, batch: Sequence[Any], place: Path, gradients: bool = False) -> subject.Subject:
    """A subject as the laboratory writes and reads it."""
    module.eval()
    flat = Flat(module, taken_apart(batch, {}))
    program = engines.capture(flat, [tuple(batch)])
    about = subject.About(
        type(module).__name__, program.engine, False, gradients, "cpu", 1, (), (), 1, 0, 0, program.dynamic, None
    )
    subject.write(place, about, program.save, [tuple(batch)], [None])
    return subject.read(place)


def _arg(operators: Sequence[str], place: int, change: Callable[[Any], Any]) -> Change:
    """Another value at one place of an operator's arguments."""

    def apply(_: Any, node: Any) -> bool:
        if graph.operator(node) not in operators or len(node.args) <= place or node.args[place] is None:
            return False
        now = change(node.args[place])
        if now is NotImplemented or now == node.args[place]:
            return False
        node.args = (*node.args[:place], now, *node.args[place + 1 :])
        return True

    return apply


def _swap(operators: Sequence[str]) -> Change:
    def apply(_: Any, node: Any) -> bool:
        if graph.operator(node) not in operators or not all(isinstance(each, torch.fx.Node) for each in node.args[:2]):
            return False
        one, two, *rest = node.args
        if one is two or one.meta["val"].shape != two.meta["val"].shape:
            return False
        node.args = (two, one, *rest)
        return True

    return apply


def _gone(operators: Sequence[str]) -> Change:
    """An operator that is left out: its input goes on."""

    def apply(_: Any, node: Any) -> bool:
        if graph.operator(node) not in operators or node.args[0].meta["val"].shape != node.meta["val"].shape:
            return False
        node.replace_all_uses_with(node.args[0])
        return True

    return apply


def _other(operators: Sequence[str], target: Any) -> Change:
    """Another operator with the same arguments."""

    def apply(_: Any, node: Any) -> bool:
        if graph.operator(node) not in operators or node.target is target:
            return False
        node.target = target
        return True

    return apply


def _weights(suffix: str, change: Callable[[Any], Any]) -> Change:
    """Another constant in place of a weight."""

    def apply(module: Any, node: Any) -> bool:
        tensor = graph.constant(module, node)
        if tensor is None or not str(node.target).endswith(suffix) or not tensor.is_floating_point():
            return False
        with torch.no_grad():
            now = change(tensor.detach().clone())
        if now.shape != tensor.shape or (now == tensor).all():
            return False
        replacement = graph.added(module, node, "other", now)
        node.replace_all_uses_with(replacement)
        return True

    return apply


def _short(dtype: Any) -> Change:
    """A value that goes through a shorter type without saying so."""

    def apply(module: Any, node: Any) -> bool:
        if graph.operator(node) not in ("linear", "conv2d", "matmul", "layer_norm", "embedding"):
            return False
        with module.graph.inserting_after(node):
            down = module.graph.call_function(aten.to.dtype, (node, dtype))
        with module.graph.inserting_after(down):
            up = module.graph.call_function(aten.to.dtype, (down, torch.float32))
        node.replace_all_uses_with(up)
        down.args = (node, dtype)
        return True

    return apply


def _key(operators: Sequence[str], name: str, change: Callable[[Any], Any]) -> Change:
    """Another value of one of an operator's named arguments."""

    def apply(_: Any, node: Any) -> bool:
        now = node.kwargs.get(name)
        if graph.operator(node) not in operators or change(now) == now:
            return False
        node.kwargs = {**node.kwargs, name: change(now)}
        return True

    return apply


def _part(_: Any, node: Any) -> bool:
    """The other part of a product that was cut in two."""
    cut = node.args[0] if node.target is operator.getitem else None
    if cut is None or graph.operator(cut) != "split_with_sizes" or len(set(cut.args[1])) > 1:
        return False
    node.args = (cut, len(cut.args[1]) - 1 - node.args[1])
    return node.args[1] * 2 != len(cut.args[1]) - 1


def _onednn(_: Any, node: Any) -> bool:
    """oneDNN's layer with another activation."""
    if "pointwise" not in str(node.target):
        return False
    given = node.args
    node.args = tuple("relu" if each in ("sigmoid", "gelu", "swish", "tanh") else each for each in given)
    return bool(node.args != given)


_PRODUCTS, _SUMS = ("matmul", "bmm"), ("add", "sub")
_ACTIVATIONS = ("relu", "silu", "gelu", "tanh", "sigmoid")
#: Mistake -> how it is made at a node. Each is tried at every node where it can be made.
MISTAKES: dict[str, Change] = {
    "BatchNorm with an epsilon of 1e-3 / 1e-5": _arg(["batch_norm"], 7, lambda eps: 1e-3 if eps < 1e-4 else 1e-5),
    "LayerNorm with another epsilon": _arg(["layer_norm"], 4, lambda eps: eps * 1e3),
    "BatchNorm with statistics of the batch": _arg(["batch_norm"], 5, lambda _: True),
    "BatchNorm left out": _gone(["batch_norm"]),
    "LayerNorm left out": _gone(["layer_norm"]),
    "BatchNorm of a fresh module: mean": _weights("running_mean", torch.zeros_like),
    "BatchNorm of a fresh module: variance": _weights("running_var", torch.ones_like),
    "scale of a normalisation forgotten": _arg(["batch_norm", "layer_norm"], 1, lambda _: None),
    "offset of a normalisation forgotten": _arg(["batch_norm", "layer_norm"], 2, lambda _: None),
    "variance instead of its root": _weights("running_var", torch.square),
    "bias dropped": _arg(["linear", "conv2d"], 2, lambda _: None),
    "bias added with the wrong sign": _weights("bias", torch.neg),
    "bias doubled": _weights("bias", lambda bias: 2 * bias),
    "bias by the neighbour's place": _weights("bias", lambda bias: bias.roll(1)),
    "weights by the neighbour's place": _weights("weight", lambda weight: weight.roll(1, 0)),
    "weight rounded to bfloat16": _weights("weight", lambda weight: weight.bfloat16().float()),
    "weight rounded to float16": _weights("weight", lambda weight: weight.half().float()),
    "one element of a weight lost": _weights("weight", lambda weight: weight.flatten().index_fill(
        0, torch.tensor([1]), 0.0).reshape(weight.shape)),
    "operands swapped": _swap(("sub", "div", *_PRODUCTS)),
    "sum instead of difference": _other(["sub"], aten.add.Tensor),
    "difference instead of sum": _other(["add"], aten.sub.Tensor),
    "sum instead of product": _other(["mul"], aten.add.Tensor),
    "activation left out": _gone(_ACTIVATIONS),
    "silu instead of gelu": _other(["gelu"], aten.silu.default),
    "gelu instead of silu": _other(["silu"], aten.gelu.default),
    "relu instead of silu": _other(["silu", "gelu"], aten.relu.default),
    "sigmoid instead of tanh": _other(["tanh"], aten.sigmoid.default),
    "softmax over another dimension": _arg(["softmax", "log_softmax"], 1, lambda dim: -2 if dim in (-1, 3) else -1),
    "softmax left out": _gone(["softmax", "log_softmax"]),
    "log_softmax instead of softmax": _other(["softmax"], aten.log_softmax.int),
    "softmax instead of log_softmax": _other(["log_softmax"], aten.softmax.int),
    "mask forgotten": _gone(["masked_fill"]),
    "mask the wrong way round": _gone(["bitwise_not", "logical_not"]),
    "mask with too small a number": _arg(["masked_fill"], 2, lambda _: -1.0),
    "scale forgotten": _gone(["div"]),
    "scale twice": _arg(["div"], 1, lambda scale: scale * scale if isinstance(scale, float) else NotImplemented),
    "scale of another head": _arg(["div"], 1, lambda scale: 4.0 if isinstance(scale, float) else NotImplemented),
    "mean instead of root mean square": _arg(["pow"], 1, lambda power: 1 if power == 2 else NotImplemented),
    "sum instead of mean": _other(["mean"], aten.sum.dim_IntList),
    "mean over one dimension only": _arg(["mean"], 1, lambda dims: dims[:1] if len(dims) > 1 else NotImplemented),
    "epsilon forgotten": _gone(["add"]),
    "epsilon thousandfold": _arg(["add"], 1, lambda eps: eps * 1e3 if isinstance(eps, float) else NotImplemented),
    "root instead of its inverse": _other(["rsqrt"], aten.sqrt.default),
    "a constant off by 1e-4": _arg(["rsub", "add", "mul", "div"], 1, lambda value: value + 1e-4
                                   if isinstance(value, float) else NotImplemented),
    "padding with another number": _arg(["conv2d"], 4, lambda _: [0, 0]),
    "groups forgotten in the weights": _weights("c2.weight", lambda weight: weight.flip(0)),
    "residual forgotten": _gone(["add"]),
    "heads not put back": _arg(["transpose"], 1, lambda dim: 1 if dim == 1 else NotImplemented),
    "another row of an embedding": _weights("words.weight", lambda weight: weight.roll(1, 0)),
    "a conversion that rounds": _arg(["to"], 1, lambda dtype: torch.bfloat16 if dtype == torch.float64
                                     else NotImplemented),
    "float16 in between": _short(torch.float16),
    "bfloat16 in between": _short(torch.bfloat16),
}  # fmt: skip
#: Mistakes that a rewrite of this project could make: each is tried at what the rewrites have put in.
IN_REWRITES: dict[str, Change] = {
    "RMSNorm with another epsilon": _arg(["rms_norm"], 3, lambda eps: eps * 1e3),
    "RMSNorm without an epsilon": _arg(["rms_norm"], 3, lambda _: 0.0),
    "RMSNorm without its weight": _arg(["rms_norm"], 2, lambda _: None),
    "LayerNorm without its offset": _arg(["layer_norm"], 3, lambda _: None),
    "LayerNorm with another epsilon": _arg(["layer_norm"], 4, lambda eps: eps * 1e3),
    "the other formula of GELU": _key(["gelu"], "approximate", lambda now: "none" if now == "tanh" else "tanh"),
    "attention with the usual scale": _key(
        ["scaled_dot_product_attention"], "scale", lambda now: 0.25 if math.isclose(now, 8**-0.5) else None),
    "attention without its mask": _key(["scaled_dot_product_attention"], "attn_mask", lambda _: None),
    "attention that looks back only": lambda module, node: node.kwargs.get("attn_mask") is None and _key(
        ["scaled_dot_product_attention"], "is_causal", lambda _: True)(module, node),
    "rotary turned the other way": _key(["addcmul"], "value", lambda now: -1 if now in (None, 1) else 1),
    "rotary with one half twice": _arg(["slice"], 2, lambda begin: 4 if begin == 0 else 0),
    "gate and up exchanged": _part,
    "another activation": _onednn,
    "folded weight of a neighbour": _weights("_folded", lambda weight: weight.roll(1, 0)),
    "merged weight of a neighbour": _weights("_merged", lambda weight: weight.roll(1, 0)),
    "folded bias lost": _weights("_bias", torch.zeros_like),
    "merged biases lost": _weights("_biases", torch.zeros_like),
    "silu instead of gelu": _other(["gelu"], aten.silu.default),
    "gelu instead of silu": _other(["silu"], aten.gelu.default),
}  # fmt: skip
REWRITES = ("fold", "sdpa", "merge_linears", "gelu", "norms", "rotary", "gated", "activation", "casts", "transposes")
#: What is no mistake, and has to pass.
RIGHT: dict[str, Change] = {
    "nothing": lambda _module, _node: True,
    "the sum the other way round": _swap(["add"]),
    "a scale as a product": lambda module, node: _as_product(module, node),
}


def _as_product(_: Any, node: Any) -> bool:
    if graph.operator(node) != "div" or not isinstance(node.args[1], float):
        return False
    node.target, node.args = aten.mul.Tensor, (node.args[0], 1.0 / node.args[1])
    return True


def places(program: Any, change: Change) -> Iterator[int]:
    """The nodes at which a change can be made, by their number."""
    for number, (module, node) in enumerate(graph.every(graph.copied(program))):
        if change(module, node):
            yield number


def planted(change: Change, number: int, rewritten: Callable[[Any], Any] = graph.copied) -> Callable[[Any], Any]:
    """A rewrite with that change at that node."""

    def make(program: Any) -> Any:
        made = rewritten(program)
        module, node = list(graph.every(made))[number]
        change(module, node)
        return graph.recompiled(made)

    return make


def tried(
    found: subject.Subject, mistakes: dict[str, Change], most: int | None = None
) -> Iterator[tuple[str, int, bool, str]]:
    """(mistake, node, whether it passed, why not) of every place, or of so many a mistake."""
    truth = truths(found)
    for name, change in mistakes.items():
        for number in list(places(found.program, change))[:most]:
            try:
                told = judged(planted(change, number), truth, found.about.gradients, None)
            except FAILURES as error:
                yield name, number, False, f"cannot be made: {type(error).__name__}"
                continue
            yield name, number, told.ok, str(told.why)


def rewrites_of(found: subject.Subject) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """The project's own rewrites that apply to a model."""
    asked = Asked(False, found.about.gradients, found.about.dynamic, "cpu", True)
    for name in REWRITES:

        def made(program: Any, name: str = name) -> Any:
            return rewrite.rewrite(name).apply(graph.copied(program), asked).model

        try:
            made(found.program)
        except DoesNotApply:
            continue
        yield name, made


def tried_in_rewrites(found: subject.Subject, most: int | None = None) -> Iterator[tuple[str, int, bool, str]]:
    """Each rewrite as it is, which has to pass (node -1), and with each mistake in what it has put in."""
    truth = truths(found)
    for name, made in rewrites_of(found):
        told = judged(made, truth, found.about.gradients, None)
        yield f"{name} as it is", -1, told.ok, str(told.why)
        before = {node.name for _, node in graph.every(found.program)}
        for mistake, change in IN_REWRITES.items():
            new = [number for number, (module, node) in enumerate(graph.every(made(found.program)))
                   if node.name not in before and change(module, node)]  # fmt: skip
            for number in new[:most]:
                try:
                    told = judged(planted(change, number, made), truth, found.about.gradients, None)
                except FAILURES as error:
                    yield f"{name}: {mistake}", number, False, f"cannot be made: {type(error).__name__}"
                    continue
                yield f"{name}: {mistake}", number, told.ok, str(told.why)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="where the subjects go")
    parser.add_argument("--most", type=int, help="places of each mistake and model")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    for name, (module, batch) in models().items():
        found = captured(module, batch, arguments.output / name)
        for kind, passes in ((MISTAKES, False), (RIGHT, True)):
            for mistake, number, passed, why in tried(found, kind, arguments.most):
                counts["wrong" if kind is MISTAKES else "right"] += 1
                if why.startswith("cannot be made"):
                    counts["fails"] += 1
                if passed != passes:
                    counts["misjudged"] += 1
                    print(f"{name}: {mistake} at node {number}: {'passed' if passed else why}", flush=True)
        for mistake, number, passed, why in tried_in_rewrites(found, arguments.most):
            counts["right" if number < 0 else "wrong"] += 1
            if passed != (number < 0):
                counts["misjudged"] += 1
                print(f"{name}: {mistake} at node {number}: {'passed' if passed else why}", flush=True)
    print(f"{counts['wrong']} wrong rewrites, {counts['fails']} of them no program at all; "
          f"{counts['right']} right ones; {counts['misjudged']} misjudged")  # fmt: skip
    return 1 if counts["misjudged"] else 0


if __name__ == "__main__":
    sys.exit(main())

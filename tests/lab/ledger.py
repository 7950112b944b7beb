"""`python -m tests.lab.ledger [NAME ...]`: predicted against measured over many subjects and rewrites.

Small models of our own, and those of tests/lab/zoo.py that are installed (torchvision, timm, transformers). Weights are
random. Every line goes to --file; --write makes docs/ledger.md from that file and measures nothing. Run it on a machine
that does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from npulens.collectors.backends.backend import open_backend
from npulens.collectors.lab import engines, ledger, measuring, subject
from npulens.collectors.lab.flat import Flat, taken_apart
from npulens.collectors.lab.judging import CannotRun
from npulens.collectors.lab.rewrites import rewrite
from npulens.collectors.lab.trial import Laboratory, Options
from tests.lab import wrong, zoo

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/ledger.md"
NOT_TRIED = ("compile", "freeze", "fp16")


class Tower(nn.Module):
    """Convolutions with BatchNorm; ``grouped`` makes them depthwise with products of points in between."""

    def __init__(self, width: int, grouped: bool = False) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        for _ in range(3):
            if grouped:
                layers += [nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False), nn.BatchNorm2d(width)]
            kernel = 1 if grouped else 3
            layers += [
                nn.Conv2d(width, width, kernel, padding=kernel // 2, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        return self.layers(x).mean((2, 3))


class Encoder(nn.Module):
    """Layers of a transformer whose attention is written out."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.heads = heads
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "norm": nn.LayerNorm(width), "q": nn.Linear(width, width), "k": nn.Linear(width, width),
                "v": nn.Linear(width, width), "o": nn.Linear(width, width), "after": nn.LayerNorm(width),
                "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width),
            }) for _ in range(layers)
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            y = layer["norm"](x)
            q, k, v = (layer[name](y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name in "qkv")
            weights = torch.softmax((q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5, -1)
            x = x + layer["o"]((weights @ v).transpose(1, 2).flatten(-2))
            x = x + layer["down"](nn.functional.gelu(layer["up"](layer["after"](x))))
        return x


class Linears(nn.Module):
    """Layers with BatchNorm between them, as tables are read."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(
            part for _ in range(4) for part in (nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU())
        ))  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.layers(x)


Made = tuple[nn.Module, dict[str, Any]]
OWN: dict[str, Callable[[], Made]] = {
    "tower_16": lambda: (Tower(16), {"": torch.randn(2, 3, 32, 32)}),
    "tower_64": lambda: (Tower(64), {"": torch.randn(2, 3, 48, 48)}),
    "grouped_64": lambda: (Tower(64, True), {"": torch.randn(2, 3, 56, 56)}),
    "encoder_64": lambda: (Encoder(64, 4, 2), {"": torch.randn(2, 32, 64)}),
    "encoder_256": lambda: (Encoder(256, 8, 2), {"": torch.randn(2, 128, 256)}),
    "encoder_long": lambda: (Encoder(128, 4, 2), {"": torch.randn(1, 512, 128)}),
    "linears_128": lambda: (Linears(128), {"": torch.randn(64, 128)}),
    "linears_512": lambda: (Linears(512), {"": torch.randn(256, 512)}),
    "gated": lambda: (wrong.Gated(), {"": torch.randn(2, 6, 16)}),
    "attention": lambda: (wrong.Attention(), {"": torch.randn(2, 6, 16), "mask": torch.ones(2, 6, dtype=torch.bool)}),
}


def names() -> list[str]:
    """The subjects that can be made here."""
    return [*OWN, *(name for name, (library, _) in zoo.ZOO.items() if importlib.util.find_spec(library))]


def made(name: str, seed: int = 7) -> Made:
    """A model whose statistics are such as a trained network could have, and a batch."""
    torch.manual_seed(seed)
    if name in OWN:
        model, given = OWN[name]()
    else:
        model, batch = zoo.ZOO[name][1]()
        given = batch(2)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
            module.running_mean.normal_(0, 0.1)
            assert module.running_var is not None
            module.running_var.uniform_(0.5, 1.5)
    return model.eval(), given


def captured(name: str, place: Path, seed: int = 7) -> subject.Subject:
    """A subject as the laboratory writes and reads it."""
    model, given = made(name, seed)
    tensors = [each for each in given.values() if isinstance(each, torch.Tensor)]
    taken = taken_apart(tensors, {}) if "" in given else taken_apart((), given)
    program = engines.capture(Flat(model, taken), [tuple(tensors)])
    about = subject.About(
        name, program.engine, False, False, "cpu", torch.get_num_threads(), (), (), 1, 0, 0, program.dynamic, None
    )
    subject.write(place, about, program.save, [tuple(tensors)], [None])
    return subject.read(place)


def tried(name: str, rewrites: Sequence[str], options: Options, where: Path) -> None:
    """Every rewrite on one subject; a line of the ledger each."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        found = captured(name, place)
        backend = open_backend("cpu")
        laboratory = Laboratory(found, backend, options)
        for each in rewrites:
            trial = laboratory.tried(each).as_dict()
            about = {
                "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "module": name,
                "device": backend.properties().get("name"), "environment": {"versions": {"torch": torch.__version__}},
            }  # fmt: skip
            line = ledger.entry(ledger.subject_hash(place / subject.PROGRAM), about, trial)
            if line is None:
                print(f"{name:16} {each:14} {trial['verdict']}: {trial['why']}", flush=True)
                continue
            ledger.add(line, where)
            print(f"{name:16} {each:14} {said(line)}", flush=True)


def said(line: dict[str, Any]) -> str:
    """One line for people."""
    ways = [line[way] for way in ledger.WAYS]
    told = [f"{way['low']:.2f} {way['mid']:.3f} {way['high']:.2f}" if way else "-" for way in ways]
    claim = "claimed" if line["claimed"] else "       "
    measured = f"{line['ratio']:.3f} [{line['low']:.3f}, {line['high']:.3f}]"
    return f"{told[0]} {claim} (class {told[1]}); {measured}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--file", type=Path, default=ROOT / "build/ledger.jsonl")
    parser.add_argument("--rewrites", default=",".join(each for each in rewrite.names() if each not in NOT_TRIED))
    parser.add_argument("--pairs", type=int, default=measuring.PAIRS)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--write", action="store_true", help="only write docs/ledger.md from --file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if not arguments.write:
        options = Options(pairs=arguments.pairs, seconds=arguments.seconds)
        for name in arguments.names or names():
            with contextlib.suppress(CannotRun):
                tried(name, arguments.rewrites.split(","), options, arguments.file)
    lines, _ = ledger.read(arguments.file)
    for way in ledger.WAYS:
        print(way, ledger.score(lines, way))
    print(decided(ledger.score(lines, "predicted")))
    if arguments.write:
        PAGE.write_text(page(lines), encoding="utf-8")
    return 0


_HEAD = """# Predicted against measured

`python -m tests.lab.ledger` wrote this page. Each line is one rewrite on one subject: what theory said of its time
before it was timed ([how](lab.md#what-theory-says)), and what was measured then. Times are multiples of the original's.

A prediction is *claimed* where its interval excludes 1 and the gain is above 1 %. It has the *right sign* where the
measured ratio lies on the same side of 1, and is *contradicted* where the whole measured interval lies on the other.
*Time within 25 %*: the measured ratio is at most a quarter away from the predicted one. *Gain within 25 %*: the same of
1 minus the ratio, which is much harder for small gains. It is *contradicted* where no ratio of the measured interval
has such a gain. Nothing was left out: rewrites that do not apply or were refused have no time, and `compile` and
`freeze` are not predicted.
"""
_WAYS = {"predicted": "as claimed", "by_class": "by classes, where they price all"}


def page(lines: Sequence[dict[str, Any]]) -> str:
    """docs/ledger.md."""
    where = sorted({f"{line['machine']}, torch {line['torch']}" for line in lines})
    days = sorted({str(line["at"])[:10] for line in lines})
    told = [_HEAD, f"Measured on {' and '.join(where)}; {' to '.join(sorted({days[0], days[-1]}))}.\n" if lines else ""]
    told += ["| priced | trials | predicted | claimed | right sign | contradicted | time within 25 % | "
             "gain within 25 % | contradicted |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    told += [_score(name, ledger.score(lines, way)) for way, name in _WAYS.items()]
    told += ["", decided(ledger.score(lines, "predicted"))]
    told += ["", "| rewrite | trials | predicted | claimed | right sign | contradicted | time within 25 % | "
             "gain within 25 % | contradicted |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    rewrites = sorted({line["rewrite"] for line in lines})
    told += [_score(f"`{name}`", ledger.score([line for line in lines if line["rewrite"] == name]))
             for name in rewrites]  # fmt: skip
    told += ["", "| subject | rewrite | predicted | claimed | by class | measured, 99 % interval | verdict |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    told += [_line(line) for line in lines]
    return "\n".join(told) + "\n"


def decided(found: ledger.Score) -> str:
    """What the measured intervals say of the gains that were claimed."""
    sure = found.near_gain + found.apart
    return (
        f"Of {found.claimed} gains claimed, {found.near_gain} were measured within 25 % of it and {found.apart} are "
        f"contradicted; {found.claimed - sure} cannot be told, because the measured interval is wider than that."
    )


def _score(name: str, found: ledger.Score) -> str:
    def share(count: int) -> str:
        return f"{count} ({count / found.claimed:.0%})" if found.claimed else "-"

    cells = [str(found.trials), str(found.predicted), str(found.claimed), share(found.right_sign),
             share(found.against), share(found.near_time), share(found.near_gain), share(found.apart)]  # fmt: skip
    return f"| {name} | {' | '.join(cells)} |"


def _line(line: dict[str, Any]) -> str:
    guess = line["predicted"]
    told = f"{guess['mid']:.3f} [{guess['low']:.3f}, {guess['high']:.3f}]" if guess else "not predicted"
    by_class = f"{line['by_class']['mid']:.3f}" if line["by_class"] else "-"
    measured = f"{line['ratio']:.3f} [{line['low']:.3f}, {line['high']:.3f}]"
    cells = [line["module"], line["rewrite"], told, "yes" if line["claimed"] else "", by_class, measured,
             line["verdict"].replace("_", " ")]  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())

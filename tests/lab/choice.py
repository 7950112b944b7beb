"""`python -m tests.lab.choice [NAME ...] [--time SECONDS]`: jobs of known best plans through `--choose`.

One row a job: the plan, what the search saw of it, what fresh pairs say, and what the fastest of one try each would
have claimed and is. Names of `tests.lab.zoo` are taken as well, where what they need is installed. It fails where
padding is used although positions are mixed, or where a module that overflows was put into float16.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.lab.zoo import ZOO

ROOT = Path(__file__).resolve().parents[2]
CALLS = 40


def _convolutions() -> None:
    """Convolution and BatchNorm, two sizes of batches: folding, the layout and compilers have something to do."""
    import torch
    from torch import nn

    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval()
    for norm in (layer for layer in layers if isinstance(layer, nn.BatchNorm2d)):
        assert norm.running_mean is not None and norm.running_var is not None
        norm.running_mean.normal_(0, 0.1)
        norm.running_var.uniform_(0.5, 1.5)
    for call in range(CALLS):
        model(torch.randn(8 if call % 3 else 4, 3, 32, 32))


def _encoder(masked: bool) -> None:
    """A block over texts of mixed lengths; without a mask all positions are mixed."""
    import torch
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self, width: int = 128) -> None:
            super().__init__()
            self.words, self.norm = nn.Embedding(200, width), nn.LayerNorm(width)
            self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down, self.head = (
                nn.Linear(width, 4 * width),
                nn.Linear(4 * width, width),
                nn.Linear(width, 9),
            )

        def forward(self, words: Any, mask: Any = None) -> Any:
            x = self.words(words)
            y = self.norm(x)
            q, k, v = (part(y).unflatten(-1, (4, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
            scores = (q @ k.transpose(-2, -1)) / 5.0
            if mask is not None:
                scores = scores.masked_fill((mask == 0)[:, None, None, :], float("-inf"))
            x = x + self.o((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(-2))
            return self.head(x + self.down(nn.functional.gelu(self.up(x))))

    model = Encoder().eval()
    for call in range(CALLS):
        size = (9, 17, 40, 96)[(call * call + call // 3) % 4]
        words, mask = torch.randint(0, 200, (4, size)), torch.ones(4, size, dtype=torch.int64)
        mask[0, -3:] = 0
        model(words, mask) if masked else model(words)


def _overflowing() -> None:
    """Wide layers, one of which gives numbers that float16 has not."""
    import torch
    from torch import nn

    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.big, self.two = nn.Linear(512, 2048), nn.Linear(2048, 512), nn.Linear(512, 2048)
            self.big.weight.data.mul_(1e6)

        def forward(self, x: Any) -> Any:
            return self.two(torch.tanh(self.big(torch.relu(self.one(x))) * 1e-6))

    model = Wide().eval()
    for _ in range(CALLS):
        model(torch.randn(64, 512))


JOBS: dict[str, Callable[[], None]] = {
    "convolutions": _convolutions, "masked": lambda: _encoder(True), "mixing": lambda: _encoder(False),
    "overflowing": _overflowing,
}  # fmt: skip


def run(name: str) -> None:
    """Be the job."""
    import torch

    torch.manual_seed(11)
    with torch.no_grad():
        JOBS[name]()


def through(name: str, place: Path, more: list[str]) -> dict[str, Any]:
    """The choice of one of them."""
    collectors = [sys.executable, "-m", "npulens.collectors"]
    module = "tests.lab.choice" if name in JOBS else "tests.lab.zoo"
    heard = _answer([*collectors, "lab-hear", "-o", str(place), "--", sys.executable, "-m", module, "--run", name])
    if not heard.get("subjects"):
        return {"status": "failed", "reason": str(heard.get("refused"))}
    return _answer([*collectors, "lab-choose", heard["subjects"][0]["place"], *more])


def _answer(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=7200)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-1500:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def wrong(name: str, answer: dict[str, Any]) -> list[str]:
    """What may not be in an answer."""
    said = []
    if name == "mixing" and any(axis["fills"] is not None and [0, 1] in axis["places"]
                                for axis in answer["shapes"]["axes"]):  # fmt: skip
        said.append("padded although positions are mixed")
    if answer["precision"]["chosen"].get("big") == "float16":
        said.append("a module that overflows is in float16")
    for each in (answer["winner"], answer["naive"]):
        if each is not None and each["speed"]["said"] not in ("faster", "slower", "same", "cannot_tell"):
            said.append(f"no verdict: {each['speed']}")
    if answer["winner"] is not None and not answer["winner"]["errors"]["ok"]:
        said.append("the winner is wrong")
    return said


def row(name: str, answer: dict[str, Any]) -> str:
    """One line of the table."""
    if answer["status"] == "failed":
        return f"| {name} | not chosen: {answer['reason']} |"
    won, naive = answer["winner"], answer["naive"]
    tried = sum(arm["said"] == "tried" for arm in answer["plans"])
    cells = ["keep the original", "", "", ""]
    if won is not None:
        cells = [_plan(won), f"{won['searched_ratio']:.3f}", _speed(won), f"{won['errors']['of_rewrite']:.0e}"]
    once = ["", "", ""] if naive is None else [_plan(naive), f"{naive['claimed']:.3f}", _speed(naive)]
    counts = f"{tried} of {len(answer['plans'])}"
    return f"| {' | '.join([name, counts, *cells, *once])} |"


def _plan(told: dict[str, Any]) -> str:
    return " + ".join(part["name"] for part in told["plan"])


def _speed(told: dict[str, Any]) -> str:
    speed = told["speed"]
    return f"{speed['said']} {speed['ratio']:.3f} [{speed['low']:.3f}, {speed['high']:.3f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--run", metavar="NAME", help="be the job")
    parser.add_argument("--time", type=float, default=180.0, help="seconds of search a job")
    parser.add_argument("--seconds", type=float, default=8.0)
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.run)
        return 0
    print("| job | plans measured | plan | in the search | on fresh pairs | error | best of one try | claims | is |")
    print("|---|---|---|---|---|---|---|---|---|")
    failures = 0
    for name in arguments.names or JOBS:
        if name not in JOBS and importlib.util.find_spec(ZOO[name][0]) is None:
            print(f"| {name} | {ZOO[name][0]} is not installed |", flush=True)
            continue
        with tempfile.TemporaryDirectory() as place:
            more = ["--time", str(arguments.time), "--seconds", str(arguments.seconds)]
            answer = through(name, Path(place) / "subject", more)
        print(row(name, answer), flush=True)
        said = wrong(name, answer) if answer["status"] == "complete" else [answer["reason"]]
        failures += bool(said)
        for each in said:
            print(f"{name}: {each}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

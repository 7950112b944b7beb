"""docs/models.md: the seeds' table of models, fused and not, as this machine measured it.

    python -m tests.models [NAME ...] [--pairs 10] [--seconds 8] [-o docs/models.md]

Each job of collectors/jobs runs under `npulens lab`, which hears its module and batches. The rewrites that the seeds
name for it are tried: first whether they are right, then how fast they are. What this machine has not run says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from npulens.app.pages.laboratory import sentences
from npulens.collectors.backends.backend import open_backend
from npulens.collectors.harness.quantiles import quantiles
from npulens.collectors.lab import calls, measuring
from npulens.collectors.lab import subject as subjects
from npulens.collectors.lab.trial import Laboratory, Options

ROOT = Path(__file__).resolve().parents[1]
#: Calls of the original that are timed, after a few that are not.
_CALLS, _WARM = 60, 5
_TOLD = "npulens.collectors.jobs"


@dataclass(frozen=True)
class Model:
    """One line of the seeds' table."""

    name: str
    job: tuple[str, ...]  # as the job is called
    rewrites: tuple[str, ...]
    seed: str  # what the seeds fuse, and what they claim of it


MODELS = (
    Model("ResNet50", ("resnet50", "--steps", "4"), ("fold", "channels_last", "compile"),
          "Conv+BN+ReLU: + 210 %, memory - 28 %"),
    Model("BERT", ("bert", "--plant", "gelu_by_hand", "--steps", "4"), ("gelu", "compile"),
          "LayerNorm+GELU: + 180 %, memory - 35 %"),
    Model("BERT, attention written out", ("bert", "--plant", "attention_by_hand", "--steps", "4"), ("sdpa", "compile"),
          "attention as one operator"),
    Model("YOLOv5-like", ("yolo", "--steps", "6"), ("fold", "channels_last", "compile"),
          "Focus+Conv: + 250 %, memory - 32 %"),
    Model("LSTM", ("lstm", "--plant", "gate_by_gate", "--steps", "4"), ("merge_linears", "compile"),
          "MatMul+Add+activation: + 160 %, memory - 25 %"),
    Model("Recommender", ("recommender", "--steps", "6"), ("compile", "sparse_embedding"),
          "Embedding+MLP: latency / 2.8, throughput x 3.1, memory - 45 %"),
    Model("Latent attention", ("latent_attention", "--plant", "norms_by_hand", "--steps", "6"), ("norms", "compile"),
          "MatMul+LayerNorm+GELU: latency - 36 %, accesses - 60 %"),
    Model("Vision and language", ("vision_language", "--steps", "4"), ("merge_linears", "compile"),
          "training x 3.36, memory - 50 %"),
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """What was found of one model; times in ns."""

    model: Model
    why_not: str | None = None
    batch: str = ""
    latency: tuple[int, int, int] = (0, 0, 0)  # the median and its interval
    launches: int = 0
    moved: int = 0
    trials: tuple[dict[str, Any], ...] = ()


def heard(model: Model, place: Path) -> Path | None:
    """The subject of the job's largest module."""
    command = [sys.executable, "-m", "npulens.collectors", "lab-hear", "-o", str(place), "--"]
    words = [*command, sys.executable, "-m", f"{_TOLD}.{model.job[0]}", *model.job[1:]]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    answer = json.loads([line for line in done.stdout.splitlines() if line.startswith('{"exit_status"')][-1])
    return Path(answer["subjects"][0]["place"]) if answer["subjects"] else None


def latency(under: subjects.Subject, backend: Any) -> tuple[int, int, int]:
    """The median of the original's calls, with an interval that supposes nothing of their distribution."""
    batch, gradients = under.batches[0], under.about.gradients
    step, took = measuring.step(under.program, batch, gradients, under.program), list[int]()
    for number in range(_WARM + _CALLS):
        begun = time.perf_counter_ns()
        step()
        backend.synchronize()
        if number >= _WARM:
            took.append(time.perf_counter_ns() - begun)
    (middle,) = quantiles(took, (0.5,))
    return middle.value, middle.low, middle.value if middle.high is None else middle.high


def measured(model: Model, options: Options, place: Path) -> Measured:
    found = heard(model, place)
    if found is None:
        return Measured(model, "its module was not captured")
    under, backend = subjects.read(found), open_backend("cpu")
    shapes = ", ".join(" x ".join(map(str, each.shape)) for each in under.batches[0])
    run = calls.heard(under.program, under.batches[0])
    counted = sum(one.launches for one in run), sum(one.moved for one in run)
    took = latency(under, backend)
    laboratory = Laboratory(under, backend, options)
    trials = tuple(laboratory.tried(name).as_dict() for name in model.rewrites)
    return Measured(model, None, shapes, took, *counted, trials)


def lines(found: Measured) -> list[str]:
    """The original, then one row a rewrite."""
    model = found.model
    if found.why_not:
        return [f"| {model.name} | | not measured: {found.why_not} | | | | | | {model.seed} | not run |"]
    middle, low, high = (each / 1e6 for each in found.latency)
    peaks = [trial["peak_bytes_of_original"] for trial in found.trials if trial["peak_bytes_of_original"]]
    first = (
        f"| {model.name} ({found.batch}) | as it is | {middle:.2f} [{low:.2f}, {high:.2f}] ms | 1 | "
        f"{1e3 / middle:.1f} | {found.launches} | {found.moved / 1e6:.1f} | "
        f"{_megabytes(peaks[0] if peaks else None)} | {model.seed} | not run |"
    )
    return [first, *(_line(found, trial) for trial in found.trials)]


def _line(found: Measured, trial: dict[str, Any]) -> str:
    speed, guess = trial["speed"], trial["predicted"] or {}
    after = guess.get("after")
    counts = f"{after['launches']} | {after['moved'] / 1e6:.1f}" if after else "not counted | not counted"
    verdict = str(trial["verdict"]).replace("_", " ")
    if not speed:
        why = trial["why"] or {}
        said = sentences.why(why["name"], why.get("values", {}), "en") if why else ""
        return f"| | {trial['rewrite']} | {verdict}: {said} | | | | | | | not run |"
    middle = found.latency[0] * speed["ratio"] / 1e6
    return (
        f"| | {trial['rewrite']} | {verdict}, {middle:.2f} ms | {speed['ratio']:.3f} [{speed['low']:.3f}, "
        f"{speed['high']:.3f}] | {1e3 / middle:.1f} | {counts} | {_megabytes(trial['peak_bytes'])} | | not run |"
    )


def _megabytes(peak: int | None) -> str:
    return "not measured" if peak is None else f"{peak / 1e6:.2f}"


def ladder() -> str:
    """The table of the ladder of precisions, as the job prints it."""
    told = []
    for more in ([], ["--plant", "overflows"], ["--plant", "overflows", "--fixed"]):
        words = [sys.executable, "-m", f"{_TOLD}.ladder", *more]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=True)
        table = [line for line in done.stdout.splitlines() if line.startswith("|")]
        told += table if not told else table[-1:]
    return "\n".join(told)


def overlap() -> str:
    """What the link hides, in both forms."""
    told = ["| form | buckets | MB/s | link, ms | backward, ms | seen of the link, ms | predicted, ms | off by |",
            "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for more in (["--plant", "reduces_at_the_end"], []):
        words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", f"{_TOLD}.overlap"]
        done = subprocess.run(
            [*words, *more], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        said = json.loads([line for line in done.stdout.splitlines() if line.startswith('{"job"')][-1])
        off = said["exposed_ns"] / said["predicted_ns"] - 1
        told.append(
            f"| {'at the end' if more else 'by buckets'} | {said['buckets']} | {said['megabytes_per_s']:.0f} | "
            f"{said['link_ns'] / 1e6:.1f} | {said['backward_ns'] / 1e6:.1f} | {said['exposed_ns'] / 1e6:.1f} | "
            f"{said['predicted_ns'] / 1e6:.1f} | {off:+.1%} |"
        )
    return "\n".join(told)


def page(found: Sequence[Measured], precisions: str, linked: str) -> str:
    """docs/models.md."""
    return "\n".join([
        "# The seeds' models, fused and not", "",
        "Generated by `make models`. Each model is written in this project's own lines with seeded weights, and small",
        "enough for a processor (`collectors/jobs`). Its job runs under `npulens lab`, which hears its module and",
        "batches. A rewrite is first compared with float64 and then timed in turns with the original. The ratio is its",
        "time divided by the original's, with its interval. A latency of a rewrite is that of the original times",
        "the ratio. Launches and traffic are counted of one run: kernels that write memory of their own, and what they",
        "read and write. Of compiled code they are not counted. Memory is what one call needs at most besides the",
        "weights.",
        "The seeds' claims are for an NPU and their own models; nothing here has run on one.", "",
        "| model (batch) | rewrite | latency | ratio | calls a second | launches | traffic, MB | memory, MB | "
        "the seeds claim | on an NPU |", "|---|---|---|---|---|---|---|---|---|---|",
        *(line for each in found for line in lines(each)), "",
        "## The ladder of precisions", "",
        "`python -m npulens.collectors.jobs.ladder` with each of its options. The last two lines have the planted",
        "overflow, without and with a scaler. No sensor tells the energy of this machine.", "", precisions, "",
        "## A link of known bandwidth", "",
        "`torchrun --nproc-per-node 2 -m npulens.collectors.jobs.overlap`: two ranks, gradients over a link of",
        "known bandwidth. Predicted from the moments when the buckets were ready.", "", linked, "",
        f"Measured with torch {version('torch')} and Python {platform.python_version()} on {os.cpu_count()} cores "
        f"({platform.machine()}). NPU: not run.", "",
    ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.models")
    parser.add_argument("names", nargs="*", help="jobs; all unless said")
    parser.add_argument("--pairs", type=int, default=measuring.PAIRS)
    parser.add_argument("--seconds", type=float, default=measuring.SECONDS)
    parser.add_argument("-o", "--output", type=Path)
    told = parser.parse_args()
    chosen = [model for model in MODELS if not told.names or model.job[0] in told.names]
    if not chosen:
        raise SystemExit(f"there is no such model; there are: {', '.join(model.job[0] for model in MODELS)}")
    found = []
    for model in chosen:
        with tempfile.TemporaryDirectory() as place:
            found.append(measured(model, Options(told.pairs, told.seconds), Path(place) / "subject"))
        print(*lines(found[-1]), sep="\n", flush=True)
    if told.output:
        told.output.write_text(page(found, ladder(), overlap()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

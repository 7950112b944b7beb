"""The figures of docs/seeds.md: what four articles say, computed again.

    python -m tests.seeds            write them into the page
    python -m tests.seeds --check    say which differ, and which parts of the articles the page lacks, and fail

A figure stands in the page as <!-- name -->figure<!-- / -->. Those that take torch are left as they are without it.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from npulens.collectors.bench.times import REACH
from npulens.collectors.harness.quantiles import needed

PAGE = Path(__file__).resolve().parent.parent / "docs/seeds.md"
FIGURE = re.compile(r"<!-- (\w+) -->(.*?)<!-- / -->")


def percent(before: float, after: float) -> str:
    return f"{(after / before - 1) * 100:+.1f} %"


def calls() -> np.ndarray[Any, Any]:
    """500 calls of about 1 ms, of which ten take ten times as long."""
    rng = np.random.default_rng(500)
    times = rng.normal(1.0, 0.04, 500)
    times[rng.choice(500, 10, replace=False)] *= 10
    return times


def filtered(times: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """As the article has it: what lies beyond Tukey's fences is taken away."""
    low, high = np.percentile(times, [25, 75])
    reach = REACH * (high - low)
    return times[(times >= low - reach) & (times <= high + reach)]


def attention(keys: int = 77, block: int = 64) -> float:
    """By how much attention is wrong if each block of keys has a softmax of its own: of the right output's spread."""
    rng = np.random.default_rng(80)
    query, key, value = rng.normal(size=(197, 80)), rng.normal(size=(keys, 80)), rng.normal(size=(keys, 80))
    scores = query @ key.T * 80**-0.5

    def softmax(part: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        powers = np.exp(part - part.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]

    right = softmax(scores) @ value
    wrong = sum(softmax(scores[:, at : at + block]) @ value[at : at + block] for at in range(0, keys, block))
    return float(np.abs(wrong - right).mean() / np.abs(right).mean())


def layer_operations() -> tuple[float, float]:
    """The article's count for 24 layers of 197 tokens and 1,280 wide, and that of their matrix products."""
    tokens, width, layers = 197, 1280, 24
    theirs = (224 // 16) ** 2 * width * 3 + layers * tokens**2 * width
    # Four projections and two of four times the width: 12 tokens width^2; scores and their use: 2 tokens^2 width.
    products = 2 * layers * (12 * tokens * width**2 + 2 * tokens**2 * width)
    return theirs, products


def score(latency_ms: float, per_second: float, memory: float) -> float:
    """The automatic tuner's: lower is better."""
    return 0.5 * latency_ms + 0.3 * (1 / per_second) + 0.2 * memory


def overflows() -> str:
    """The first product of x = matmul(x, x.t()) that is not finite in float32."""
    import torch

    x = torch.randn(32, 1024, generator=torch.Generator().manual_seed(13))
    for time in range(1, 11):
        x = torch.matmul(x, x.t())
        if not bool(torch.isfinite(x).all()):
            return str(time)
    return "none"


def traces(inside: bool) -> str:
    """Files that torch's profiler leaves of five batches: made anew in each of them, or once around the loop."""
    import torch
    from torch import profiler

    def made(directory: str) -> Any:
        return profiler.profile(
            activities=[profiler.ProfilerActivity.CPU], on_trace_ready=profiler.tensorboard_trace_handler(directory),
            schedule=profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
        )  # fmt: skip

    with tempfile.TemporaryDirectory() as directory:
        if inside:
            for _ in range(5):
                with made(directory) as each:
                    torch.ones(8).sum()
                    each.step()
        else:
            with made(directory) as once:
                for _ in range(5):
                    torch.ones(8).sum()
                    once.step()
        return str(len(list(Path(directory).iterdir())))


def fused(copied: bool, training: bool) -> float:
    """The greatest difference between Conv+BN+ReLU and the article's fusion of it."""
    import torch
    from torch import nn

    torch.manual_seed(4)
    image = torch.randn(2, 64, 32, 32)
    conv, norm = nn.Conv2d(64, 128, 3, padding=1, bias=False), nn.BatchNorm2d(128)
    joined = nn.Conv2d(64, 128, 3, padding=1)
    with torch.no_grad():
        if copied:
            joined.weight.copy_(conv.weight)
            assert joined.bias is not None
            joined.bias.zero_()
        else:  # what the article folds is the new layer's own first weights; its bias is not zero either
            pass
        factor = norm.weight / (norm.running_var + norm.eps).sqrt()  # type: ignore[operator]
        bias = (joined.bias - norm.running_mean) * factor + norm.bias
        joined.weight *= factor.reshape(-1, 1, 1, 1)
        joined.bias.copy_(bias)
        norm.train(training)
        return float((torch.relu(norm(conv(image))) - torch.relu(joined(image))).abs().max())


#: The classes and functions of the articles' code that stand for a tool, a model or a measurement.
PARTS = (
    "a_heavy_computation", "a_data_pipeline", "DepthwiseConvBenchmark", "our_triton_depthwise_conv",
    "pytorch_native_depthwise_conv", "VectorAddKernel", "MlaPrologFusedKernel", "MlaPrologFusedOperator",
    "DynamicShapeOptimizer", "DistributedTrainingOptimizer", "performance_analysis_pipeline", "mla_prolog_dsl",
    "auto_schedule_mla_prolog", "MultimodalCompatibilityAnalyzer", "OptimizedCrossModalAttention",
    "OptimizedEmbeddingDenseGrad", "MixedPrecisionTrainer", "MultimodalTaskEvaluator", "TrainingStabilityMonitor",
    "AnomalyDetector", "loss_curvature", "MultimodalProfiler", "GraphFusionEngine", "UBFusionOptimizer",
    "OriginalConvBNReLU", "FusedConvBNReLU", "benchmark_model", "FusionAnalyzer", "PrecisionAwareFusion",
    "DynamicShapeFusion", "FusedEmbeddingMLP", "RecommendationFusionOptimizer", "YOLOv5FusionOptimizer",
    "HardwareAwareFusionSelector", "FusionAutoTuner", "FusionPerformanceDebugger", "FusionVisualizer",
    "AIDrivenFusionAgent",
)  # fmt: skip
ROOT = PAGE.parents[1]


def lacking(page: str) -> list[str]:
    """Parts of the articles without a row, and commands and files of the page that there are not."""
    found = [f"{part}: no row" for part in PARTS if f"`{part}`" not in page]
    for verb in sorted(set(re.findall(r"`npulens (\w+)", page))):
        if not (ROOT / f"app/commands/{verb}.py").exists():
            found.append(f"npulens {verb}: there is no such command")
    for module in sorted(set(re.findall(r"python -m (?:npulens\.)?([\w.]+)", page))):
        place = ROOT / module.replace(".", "/")
        if not place.with_suffix(".py").exists() and not place.is_dir():
            found.append(f"python -m {module}: there is no such module")
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for target in sorted(set(re.findall(r"`make\s([\w-]+)`", page)) - targets):
        found.append(f"make {target}: there is no such target")
    for name in sorted(set(re.findall(r"`((?:collectors|tests|analysis|docs)/[\w/.]+)`", page))):
        if not (ROOT / name).exists():
            found.append(f"{name}: there is no such file")
    return found


FIGURES: dict[str, Callable[[], str]] = {
    # profiler and benchmark
    "p99_true": lambda: f"{np.percentile(calls(), 99):.2f} ms",
    "p99_filtered": lambda: f"{np.percentile(filtered(calls()), 99):.2f} ms",
    "mean_true": lambda: f"{calls().mean():.2f} ms",
    "mean_filtered": lambda: f"{filtered(calls()).mean():.2f} ms",
    "removed": lambda: str(500 - len(filtered(calls()))),
    "needed_p99": lambda: str(needed(0.99)),
    "needed_p999": lambda: f"{needed(0.999):,}",
    "p99_fell": lambda: percent(500, 150),
    # fused operators
    "throughput": lambda: percent(82.3, 95.7),
    "latency": lambda: percent(15.3, 9.8),
    "throughput_of_latency": lambda: percent(9.8, 15.3),
    "latency_of_throughput": lambda: percent(95.7, 82.3),
    "accesses": lambda: percent(5, 2),
    "copied_elements": lambda: f"{256 * 256 * 2:,}",
    # multimodal
    "parameters": lambda: f"{3.2 + 1.8:.1f}",
    "memory": lambda: percent(48, 20),
    "watts": lambda: f"{4200 / 284:.1f} W",
    "watts_each": lambda: f"{4200 / 284 / 4:.1f} W",
    "watts_all": lambda: ", ".join(
        f"{speed / energy:.1f}" for speed, energy in ((1250, 85), (2100, 142), (3150, 213), (3780, 255), (4200, 284))
    ),  # fmt: skip
    "scale_as_half": lambda: _as_half(65536.0),
    "flagged": lambda: f"{1e4 / 65536:.2f}",
    "theirs": lambda: f"{layer_operations()[0]:.2e}",
    "products": lambda: f"{layer_operations()[1]:.2e}",
    "short": lambda: f"{layer_operations()[1] / layer_operations()[0]:.0f}",
    "attention": lambda: f"{attention():.0%}",
    # operator fusion
    "score_bytes": lambda: f"{score(5, 400, 2.1e9) / score(10, 200, 2.0e9):.2f}",
    "score_gib": lambda: f"{score(5, 400, 2.1e9 / 2**30) / score(10, 200, 2.0e9 / 2**30):.2f}",
}
WITH_TORCH: dict[str, Callable[[], str]] = {
    "overflows": overflows,
    "inside": lambda: traces(True),
    "around": lambda: traces(False),
    "unlike": lambda: f"{fused(copied=False, training=False):.1f}",
    "folded": lambda: _below(fused(copied=True, training=False), 1e-5),
    "in_training": lambda: f"{fused(copied=True, training=True):.1f}",
}


def _as_half(value: float) -> str:
    with np.errstate(over="ignore"):
        return str(float(np.float32(value).astype(np.float16)))


def _below(value: float, bound: float) -> str:
    return f"below {bound:g}" if value < bound else f"{value:.1e}"


def written(page: str) -> str:
    """The page with the figures of this machine."""
    known = {**FIGURES, **(WITH_TORCH if importlib.util.find_spec("torch") else {})}

    def figure(found: re.Match[str]) -> str:
        if found[1] not in {**FIGURES, **WITH_TORCH}:
            raise SystemExit(f"docs/seeds.md wants {found[1]}, which nothing computes")
        return f"<!-- {found[1]} -->{known[found[1]]() if found[1] in known else found[2]}<!-- / -->"

    return FIGURE.sub(figure, page)


def main() -> int:
    page = PAGE.read_text("utf-8")
    new = written(page)
    if "--check" in sys.argv:
        wrong = [f"{b[0]}: the page says {a[1]}, it is {b[1]}" for a, b in
                 zip(FIGURE.findall(page), FIGURE.findall(new), strict=True) if a != b]  # fmt: skip
        wrong += lacking(page)
        print("\n".join(wrong) or "docs/seeds.md is current")
        return 1 if wrong else 0
    PAGE.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

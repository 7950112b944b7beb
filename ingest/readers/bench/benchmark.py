"""What the manifest of a benchmark may say: one shape a part, checked before anything else reads it.

A benchmark's figures are anybody's text until they have been read through these shapes. They ask for numbers of the
right kind and within reach, and for names of a readable length. Words come from a closed list where there is one.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from npulens.ingest.messages import Message

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Why = Annotated[str, Meta(max_length=2000)] | None
Ns = Annotated[int, Meta(ge=0, le=2**60)]
Count = Annotated[int, Meta(ge=0, le=2**60)]
Real = Annotated[float, Meta(ge=-1e30, le=1e30)]
Positive = Annotated[float, Meta(gt=0, le=1e30)]
Share = Annotated[float, Meta(ge=0, le=1)]
Sizes = dict[Name, Count]


class Samples(Struct):
    """One series of samples.json; ``at_ns`` is since 1970 and may be missing."""

    clock: Literal["host", "device", "cpu"]
    ns: list[Ns]
    at_ns: list[Annotated[int, Meta(ge=0, le=2**62)]] | None = None


class Case(Struct):
    """What every figure is of."""

    variant: Name
    dtype: Name
    shape: Name


class Numerics(Case, tag_field="part", tag="numerics"):
    """Against float64; ``ok`` is None where the variant does not run."""

    ok: bool | None
    why: Why = None
    relative_error: Real | None = None
    tolerance: Real | None = None
    max_ulp: Real | None = None
    cosine: Real | None = None
    nan: Count | None = None
    inf: Count | None = None


class Quantile(Struct):
    level: Share
    value: Ns
    low: Ns
    high: Ns | None
    samples: Count
    needed: Count


class Steadiness(Struct):
    state: Literal["steady", "cold_start", "throttled", "drift", "unsteady", "too_few"]
    kept_from: Count
    changed_at: Count | None
    change: Real | None


class Outlier(Struct):
    at: Count
    ns: Ns
    events: list[Name]


class Outliers(Struct):
    count: Count
    share: Share
    low_fence: Real
    high_fence: Real
    listed: list[Outlier]
    with_events: Count


class WarmUp(Struct):
    series: Name
    samples: Count
    settled: bool
    first_ns: Ns | None


class Model(Struct, frozen=True):
    flops: Count | None = None
    bytes: Count | None = None
    kernels: Count | None = None
    flops_per_byte: Real | None = None
    flops_per_s: Real | None = None
    bytes_per_s: Real | None = None


class Roof(Struct, frozen=True):
    """Beside the roofs that were measured on the same machine; a share above 1 is that of data in a cache."""

    least_ns: Positive
    share: Positive
    bound: Literal["compute", "memory"]
    measured_at: Name


class Latency(Case, tag_field="part", tag="latency"):
    """The calls of one case on one clock."""

    cache: Literal["hot", "cold"]
    clock: Literal["host", "device", "cpu"]
    series: Name
    numerics: bool
    samples: Count
    wanted: Count
    steadiness: Steadiness
    counts: bool
    quantiles: list[Quantile]
    min: Ns
    max: Ns
    mean: Real
    deviation: Real | None
    mad: Real | None
    outliers: Outliers
    warm_up: WarmUp
    throttled: Why = None
    model: Model = Model()
    roof: Roof | None = None
    cache_bytes: Count | None = None
    flushed_bytes: Count | None = None
    copies: Count | None = None


class OtherClock(Struct):
    """What a second clock says of the same pairs."""

    clock: Literal["host", "cpu"]
    said: Literal["different", "same", "cannot_tell"]
    ratio: Positive
    low: Positive
    high: Positive


class Versus(Case, tag_field="part", tag="versus"):
    """Pairs of the variant and the base; ``ratio`` above 1: the variant takes longer."""

    base: Name
    control: bool
    said: Literal["different", "same", "cannot_tell"]
    ratio: Positive
    low: Positive
    high: Positive
    p: Share
    pairs: Count
    pairs_needed: Count | None
    ratios: list[Positive]
    withheld: Why = None
    withheld_by: Literal["noisy", "wide"] | None = None
    beside: Name | None = None  # of a control: the variant in whose rounds it was measured
    clock: Literal["host", "cpu"] = "host"
    other_clock: OtherClock | None = None


class Throughput(Case, tag_field="part", tag="throughput"):
    completed: Count
    seconds: Positive
    in_flight: Count
    per_second: Real


class BatchPoint(Struct):
    batch: Count
    per_second: Real
    p50_ns: Ns
    p99_ns: Ns
    samples: Count
    peak_bytes: Count | None = None
    moved_bytes: Count | None = None


class Batch(Case, tag_field="part", tag="batch"):
    """The batch curve, and the batches that it recommends."""

    batch_name: Name
    points: list[BatchPoint]
    stopped: Literal["time", "memory", "largest"]
    slo_ns: Ns | None = None
    sweet_spot: Count | None = None
    knee: Count | None = None
    within: Count | None = None


class Together(Case, tag_field="part", tag="together"):
    """Several workers at once, against one alone."""

    kind: Literal["streams", "threads", "processes"]
    workers: Count
    seconds: Positive
    solo_per_second: Positive
    per_second: Real
    p50_ns: list[Ns]
    p99_ns: list[Ns]
    solo_p50_ns: Ns
    efficiency: Real


class Sweep(Case, tag_field="part", tag="sweep"):
    sizes: Sizes
    refused: Why = None
    ok: bool | None = None
    why: Why = None
    p50: Ns | None = None
    samples: Count = 0
    relative_error: Real | None = None


Figure = Numerics | Latency | Versus | Throughput | Batch | Together | Sweep


class Manifest(Struct):
    """The head of a benchmark; the figures are read one by one, so that a damaged one is lost alone."""

    what: Literal["bench"]
    evidence: Literal["npu", "cuda", "mps", "cpu"]
    status: Literal["complete", "partial", "failed"]
    workload: Name
    shape: Name
    sizes: Sizes
    figures: list[msgspec.Raw]
    reason: Why = None
    said: dict[str, Any] | None = None  # the reason as a message
    made_at: Name | None = None
    samples: Name | None = None
    telemetry: list[dict[str, Any]] = []
    environment: dict[str, Any] = {}
    device: dict[str, Any] = {}
    method: dict[str, Any] = {}
    backend: dict[str, Any] = {}
    command: list[str] = []


def contradiction(figure: Figure, samples: dict[str, Samples]) -> Message | None:
    """Where a figure is not what its own numbers give; None where it is."""
    if isinstance(figure, Versus):
        mean = math.exp(sum(math.log(ratio) for ratio in figure.ratios) / max(1, len(figure.ratios)))
        fits = len(figure.ratios) == figure.pairs and math.isclose(mean, figure.ratio, rel_tol=1e-9)
        return (None if fits and figure.low <= figure.ratio <= figure.high else Message("benchmark_ratio_differs"))
    if not isinstance(figure, Latency) or not samples:
        return None
    if figure.series not in samples:
        return Message("benchmark_lacks_samples")
    counted = sorted(samples[figure.series].ns[figure.steadiness.kept_from :])
    if len(counted) != figure.samples or not counted or [counted[0], counted[-1]] != [figure.min, figure.max]:
        return Message("benchmark_other_samples")
    for each in figure.quantiles:
        place = max(1, min(len(counted), math.ceil(each.level * len(counted) - 1e-9)))
        if counted[place - 1] != each.value:
            return Message("benchmark_quantile_differs", {"level": f"{100 * each.level:g}"})
    return None

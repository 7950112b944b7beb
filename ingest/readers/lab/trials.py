"""What a result of the laboratory may say: one shape a part, checked before anything else reads it.

Figures are anybody's text until they have been read through these shapes. Words that decide come from a closed list.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from npulens.ingest.messages import Message

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(max_length=4000)]
Short = Annotated[str, Meta(max_length=400)]
Count = Annotated[int, Meta(ge=0, le=2**60)]
Real = Annotated[float, Meta(ge=-1e30, le=1e30)]
Positive = Annotated[float, Meta(gt=0, le=1e30)]
Share = Annotated[float, Meta(ge=0, le=1e30)]
Scalar = Short | int | float | bool | None
Verdict = Literal["faster", "slower", "same", "cannot_tell", "refused", "does_not_apply"]
#: Verdicts that say something about time, and so need one that was measured on a result that is right.
TIMED = ("faster", "slower", "same")


class Reason(Struct):
    """The name of a text and its values; a rewrite of somebody's own brings names of its own."""

    name: Short
    values: dict[Name, Scalar] = {}


class Errors(Struct):
    """Shares of the result; None where it is no finite number."""

    ok: bool
    why: Text | None = None
    where: Short | None = None
    of_original: Share | None = None
    of_rewrite: Share | None = None
    allowed: Share | None = None
    against_original: Share | None = None
    runs: Count | None = None


class Speed(Struct):
    """``ratio`` below 1: the rewrite takes less time."""

    said: Literal["faster", "slower", "same", "cannot_tell"]
    ratio: Positive
    low: Positive
    high: Positive
    pairs: Count
    clock: Literal["host", "cpu", "device"] = "host"
    why: Short | None = None
    pairs_needed: Count | None = None
    control_low: Positive | None = None
    control_high: Positive | None = None
    again: tuple[Positive, Positive, Positive] | None = None
    calls: Count | None = None


class Guess(Struct):
    """The time of the rewrite as a multiple of the original's."""

    low: Real
    mid: Real
    high: Real


class Work(Struct):
    launches: Count
    flops: Count
    moved: Count


class Predicted(Struct):
    """What theory said before anything was timed; not ``claimed``: no more than its own error."""

    guess: Guess | None = None
    claimed: bool = False
    why: Reason | None = None
    before: Work | None = None
    after: Work | None = None


class Trial(Struct):
    """What became of one rewrite."""

    rewrite: Name
    verdict: Verdict
    why: Reason | None = None
    changed: Count = 0
    left: dict[Name, Count] = {}
    dtype: Name | None = None
    errors: Errors | None = None
    speed: Speed | None = None
    peak_bytes: Count | None = None
    peak_bytes_of_original: Count | None = None
    first_call_s: Share | None = None
    nodes: tuple[Count, Count] | None = None
    predicted: Predicted | None = None


class ShapeClass(Struct):
    shapes: list[list[Count]]
    calls: Count


class Named(Struct):
    """A finding of a run that named a rewrite; the saving is a ceiling."""

    rewrite: Name
    detector: Name
    saving_ns: Count | None = None
    run_id: Name | None = None
    titles: dict[Name, Text] = {}


class Head(Struct):
    """Everything but the trials, which are read one by one, so that a damaged one is lost alone."""

    subject: Text
    module: Name
    engine: Name
    training: bool
    gradients: bool
    backend: Literal["npu", "cuda", "mps", "cpu"]
    status: Literal["complete", "partial", "failed"]
    trials: list[Any]
    device: Short | None = None
    captured_on: Short | None = None
    made_at: Name | None = None
    calls: Count | None = None
    shapes: Annotated[list[ShapeClass], Meta(max_length=1000)] = []
    error_of_original: Share | None = None
    reason: Text | None = None
    environment: dict[str, Any] = {}
    method: dict[Name, Scalar] = {}
    findings: Annotated[list[Named], Meta(max_length=200)] = []


class Node(Struct):
    """One node of a program; ``state`` only of those that a rewrite made or changed."""

    name: Short
    op: Short
    module: Short = ""
    value: Short = ""
    inputs: Annotated[list[Short], Meta(max_length=10_000)] = []
    state: Literal["new", "changed", "rewired"] | None = None


class Program(Struct):
    nodes: Annotated[list[Node], Meta(max_length=20_000)]
    count: Count
    left_out: Count = 0


class Source(Struct):
    """A line of the job's own code that a replaced node comes from."""

    file: Short
    line: Count
    code: Short = ""
    ops: Annotated[list[Short], Meta(max_length=50)] = []


class Changes(Struct):
    gone: Annotated[list[Short], Meta(max_length=20_000)]
    nodes: Annotated[list[Node], Meta(max_length=20_000)]
    left_out: Count = 0
    sources: Annotated[list[Source], Meta(max_length=200)] = []
    difference: Annotated[str, Meta(max_length=100_000)] | None = None


class Drawing(Struct):
    """What one rewrite did to the program, and what to paste to get it."""

    rewrite: Name
    paste: Annotated[str, Meta(max_length=10_000)] | None = None
    changes: Changes | None = None
    original: Program | None = None


def contradiction(trial: Trial) -> Message | None:
    """Where a verdict is not what its own figures give; None where it is."""
    speed = trial.speed
    if speed is not None and not speed.low <= speed.ratio <= speed.high:
        return Message("lab_ratio_outside")
    if trial.verdict not in TIMED:
        return None
    if speed is None or speed.said != trial.verdict:
        return Message("lab_verdict_without_times")
    if trial.errors is None or not trial.errors.ok:
        return Message("lab_verdict_without_numerics")
    outside = {"faster": speed.high < 1, "slower": speed.low > 1}.get(trial.verdict, True)
    return None if outside else Message("lab_verdict_differs")

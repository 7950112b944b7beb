"""What is faster: blocks of two variants in turns, and the baseline against itself in the same rounds.

Only variants that are right are compared. On a processor a block is taken by the wall clock and by the CPU time of one
thread. The control says which of the two is steadier here, and how far equal things come apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.bench import text
from npulens.collectors.bench.session import Session
from npulens.collectors.harness.cache import hot
from npulens.collectors.harness.controlled import (
    AGAIN,
    BASE,
    OTHER,
    Bite,
    Block,
    Controlled,
    blocks,
    rounds,
    verdict,
)  # fmt: skip
from npulens.collectors.harness.cpu_time import has_cpu_time
from npulens.collectors.harness.latency import Load, bite, threads_of
from npulens.collectors.harness.versus import Verdict

WITHHELD = {
    "noisy": "the control, a variant against itself, came out different: this machine was not quiet enough to say",
    "wide": "the control, a variant against itself, reaches as far as this difference",
}


def run(session: Session) -> None:
    """Each variant that is right against the baseline, with a control of its own."""
    each = session.shares().comparison
    for dtype in session.subject.timed:
        base = session.baseline(dtype)
        others = [variant for variant, right in session.ran.get(dtype, {}).items() if variant != base and right]
        if base is None or not others:
            continue
        session.say(text.versus_head(base, dtype, session.options.pairs))
        for variant in others:
            _tell(session, base, variant, dtype, compare(session, base, variant, dtype, each))


def compare(session: Session, base: str, other: str, dtype: str, seconds: float) -> Controlled:
    """The rounds of one variant; its samples are kept by clock and side."""
    session.doing = f"{other} against {base} in {dtype}"
    loads = {side: hot(session.subject.build(other if side == OTHER else base, dtype)) for side in (BASE, OTHER, AGAIN)}
    sides = {side: _bites(session.backend, load) for side, load in loads.items()}
    clocks = ("host", "cpu") if has_cpu_time(session.backend) else ("host",)
    each, taken = seconds / (session.options.pairs * len(clocks)), list[Block]()
    for clock in clocks:
        with threads_of(clock):
            list(blocks(sides, clock, "".join(sides), each))  # what is built anew is cold anew
    for order in rounds(session.options.pairs):
        session.watch.look()
        for clock in clocks:
            with threads_of(clock):
                taken += blocks(sides, clock, order, each)
    for clock in clocks:
        for side in sides:
            ns = [block.ns for block in taken if (block.clock, block.side) == (clock, side)]
            session.result.keep_blocks(_name(base, other, dtype, side, clock), clock, ns)
    return verdict(taken)


def _bites(backend: Backend, load: Load) -> Bite:
    return lambda clock: bite(backend, load, clock)


def _name(base: str, other: str, dtype: str, side: str, clock: str) -> str:
    return f"{other} against {base} {dtype} {clock} {side}"


def _tell(session: Session, base: str, other: str, dtype: str, found: Controlled) -> None:
    """The control, then the variant, both by the clock that was chosen, and beside them what the other clock says."""
    for control, verdicts, side in ((True, found.control, AGAIN), (False, found.found, OTHER)):
        withheld = None if control else found.withheld
        figure: dict[str, Any] = {
            **session.where(base if control else other, dtype), "base": base, "control": control, "beside": other,
            **asdict(verdicts[found.clock]), "clock": found.clock, "other_clock": _other(verdicts, found.clock),
            "withheld": None if withheld is None else WITHHELD[withheld], "withheld_by": withheld,
            "series_a": _name(base, other, dtype, BASE, found.clock),
            "series_b": _name(base, other, dtype, side, found.clock),
        }  # fmt: skip
        session.say(text.versus(session.add("versus", figure)))


def _other(verdicts: Mapping[str, Verdict], chosen: str) -> dict[str, Any] | None:
    """What the clock says that the verdict is not taken from."""
    for clock, found in verdicts.items():
        if clock != chosen:
            return {"clock": clock, "said": found.said, "ratio": found.ratio, "low": found.low, "high": found.high}
    return None

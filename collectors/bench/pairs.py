"""What is faster: blocks of two variants in turns, and the same variant against itself as the control.

Only variants that are right are compared. The control says what this machine calls different today: where it finds
that a thing differs from itself, nothing else it finds is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from npulens.collectors.bench import text
from npulens.collectors.bench.session import Session
from npulens.collectors.harness.cache import hot
from npulens.collectors.harness.latency import Load, block
from npulens.collectors.harness.versus import Verdict, versus

#: Calls of a block: a few, so that one stall is not the block, and no more than the budget has time for.
FEWEST, MOST = 5, 200
NOISY = "the control, a variant against itself, came out different: this machine was not quiet enough to say"


def run(session: Session) -> None:
    """The control first, then each variant that is right against the baseline."""
    each = session.shares().comparison
    for dtype in session.subject.timed:
        base = session.baseline(dtype)
        if base is None:
            continue
        session.say(text.versus_head(base, dtype, session.options.pairs))
        control = _pair(session, base, base, dtype, each)
        noisy = control.said == "different"
        _say(session, base, base, dtype, control, None)
        for variant, right in session.ran[dtype].items():
            if variant != base and right:
                found = _pair(session, base, variant, dtype, each)
                _say(session, base, variant, dtype, found, NOISY if noisy else None)


def _pair(session: Session, base: str, other: str, dtype: str, seconds: float) -> Verdict:
    session.doing = f"{other} against {base} in {dtype}"
    slower = max(session.p50_ns[base, dtype], session.p50_ns[other, dtype], 1)
    calls = max(FEWEST, min(MOST, int(seconds * 1e9 / (2 * session.options.pairs * slower))))
    loads = [hot(session.subject.build(variant, dtype)) for variant in (base, other)]
    kept: tuple[list[list[int]], list[list[int]]] = ([], [])
    for load in loads:
        block(session.backend, load, calls)  # what is built anew is cold anew
    found = versus(_side(session, loads[0], calls, kept[0]), _side(session, loads[1], calls, kept[1]),
                   session.options.pairs)  # fmt: skip
    for side, blocks in zip("AB", kept):
        session.result.keep_blocks(_name(base, other, dtype, side), blocks)
    return found


def _side(session: Session, load: Load, calls: int, kept: list[list[int]]) -> Callable[[], list[int]]:
    def one_block() -> list[int]:
        session.watch.look()
        kept.append(block(session.backend, load, calls))
        return kept[-1]

    return one_block


def _name(base: str, other: str, dtype: str, side: str) -> str:
    return f"{other} against {base} {dtype} {side}"


def _say(session: Session, base: str, other: str, dtype: str, found: Verdict, withheld: str | None) -> None:
    figure = {
        **session.where(other, dtype), "base": base, "control": base == other, **asdict(found), "withheld": withheld,
        "series_a": _name(base, other, dtype, "A"), "series_b": _name(base, other, dtype, "B"),
    }  # fmt: skip
    session.say(text.versus(session.add("versus", figure)))

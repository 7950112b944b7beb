"""What `npulens bench` prints of a figure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from npulens.collectors.bench import text


def figures() -> Iterator[tuple[dict[str, Any], str]]:
    told = {"base": "unfused", "variant": "fused", "control": False, "withheld": None, "pairs_needed": None,
            "low": 0.5, "high": 0.7}  # fmt: skip
    yield {**told, "ratio": 0.6, "said": "different"}, "faster: 1.67 x"
    yield {**told, "ratio": 1.25, "said": "different"}, "slower: takes 1.25 x the time"
    yield {**told, "ratio": 1.0, "said": "same"}, "same within 1 %"
    yield {**told, "ratio": 1.0, "said": "cannot_tell", "pairs_needed": 1000}, "cannot tell; about 1,000 pairs would"
    yield {**told, "ratio": 1.0, "said": "cannot_tell", "pairs_needed": 1234}, (
        "cannot tell: too noisy here, 1,234 pairs would not be taken by anyone"
    )
    yield {**told, "ratio": 1.2, "said": "different", "control": True}, "DIFFERENT from itself"
    yield {**told, "ratio": 0.6, "said": "different", "withheld": "noise"}, "withheld: noise"
    host = {"clock": "host", "ratio": 0.7, "low": 0.2, "high": 2.5}
    yield {**told, "ratio": 0.6, "said": "different", "clock": "cpu", "other_clock": host}, (
        "faster: 1.67 x; by CPU time (the wall clock: 0.700 [0.200, 2.500])"
    )


@pytest.mark.parametrize(("figure", "says"), list(figures()))
def test_what_a_comparison_prints(figure: dict[str, Any], says: str) -> None:
    assert says in text.versus(figure)


def test_a_percentile_without_an_upper_bound_says_how_many_it_takes() -> None:
    each = {"level": 0.99, "value": 9_000, "low": 8_000, "high": None, "samples": 500, "needed": 555}
    assert text._quantile(each) == "P99 >= 8 µs (P99 needs n >= 555)"
    assert text.busy(3.0, 4) is not None and text.busy(0.5, 4) is None

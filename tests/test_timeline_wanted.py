"""What is typed into the search field of the timeline: the grammar by hand, and against brute force over rows."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npulens.analysis.timeline.wanted import NotUnderstood, Place, Text, Wanted, understood


def text(*pieces: str, whole: bool = False, absent: bool = False) -> Text:
    return Text(pieces, whole, absent)


BY_HAND = [
    ("gemm", Wanted(names=(text("gemm"),))),
    ("aten::add mm", Wanted(names=(text("aten::add"), text("mm")))),
    ('"aten add"', Wanted(names=(text("aten add"),))),
    ("mat*mul", Wanted(names=(text("mat", "mul"),))),
    ('"a*b"', Wanted(names=(text("a*b"),))),
    ('name="Add \\"x\\""', Wanted(names=(text('Add "x"', whole=True),))),
    ("name~gemm name!~nccl", Wanted(names=(text("gemm"), text("nccl", absent=True)))),
    ("name!=Add", Wanted(names=(text("Add", whole=True, absent=True),))),
    ("rank:3", Wanted(ranks=((3, 3),))),
    ("RANK：0-3,7 step=5", Wanted(ranks=((0, 3), (7, 7)), steps=((5, 5),))),
    ("dur>1ms", Wanted(least_ns=1_000_001)),
    ("dur>=1.5us dur<2ms", Wanted(least_ns=1500, most_ns=1_999_999)),
    ("dur<=1.5ns", Wanted(most_ns=1)),
    ("dur:1us..2us", Wanted(least_ns=1000, most_ns=2000)),
    ("dur>1us dur>3us", Wanted(least_ns=3001)),
    ("track:stream cat:kernel,memcpy", Wanted(tracks=(text("stream"),), kinds=(text("kernel"), text("memcpy")))),
    ("@120.5ms", Place(120_500_000, None)),
    ("@1ms..1.000001ms", Place(1_000_000, 1_000_001)),
    ("nn.Module:", Wanted(names=(text("nn.Module:"),))),
    ("duration>1", Wanted(names=(text("duration>1"),))),
]


@pytest.mark.parametrize(("typed", "meant"), BY_HAND, ids=[typed for typed, _ in BY_HAND])
def test_what_is_typed_is_what_is_meant(typed: str, meant: Wanted | Place) -> None:
    assert understood(typed) == meant


@pytest.mark.parametrize(
    "typed",
    ["dur>", "dur>1", "dur~1ms", "rank:x", "rank>1", "rank:1-", "step:", "name~", "cat>x", "@", "@12", "@2ms..1ms",
     "@1ms..", "dur>99999999s", "@999999999999999s"],
)  # fmt: skip
def test_what_says_nothing_is_refused_with_what_was_written(typed: str) -> None:
    with pytest.raises(NotUnderstood) as refused:
        understood(f"gemm {typed}" if typed[0] != "@" else typed)
    assert refused.value.part == typed


@given(st.text(max_size=60))
def test_any_text_is_understood_or_refused(typed: str) -> None:
    try:
        found = understood(typed)
    except NotUnderstood as refused:
        assert refused.part in typed
    else:
        assert isinstance(found, (Wanted, Place))


@settings(max_examples=200)
@given(st.lists(st.sampled_from(("a", "B", "%", "_", "\\", "é", " ")), max_size=5), st.text("aBb%_\\é x", max_size=8))
def test_a_pattern_means_what_it_says(pieces: list[str], name: str) -> None:
    """LIKE against a pattern of this test's own."""
    import duckdb

    wanted = Text(tuple(pieces) or ("",))
    pattern = re.compile(".*".join(re.escape(piece) for piece in wanted.pieces), re.IGNORECASE | re.DOTALL)
    said = duckdb.execute("SELECT lower(?) LIKE lower(?) ESCAPE '\\'", [name, wanted.like]).fetchall()[0][0]
    assert said == (pattern.search(name) is not None)

"""The views on real captures: against the breakdown, the slow way, and figures read from the files by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis import views
from tests.test_views import Con, ask_all, opened, same, split_is_breakdown, sums_agree

ASCEND = "Ascend+msinsight/test/data/pytorch"
REAL = (
    *(f"{ASCEND}/{kind}/{level}" for kind in ("text", "db") for level in ("level0", "level1", "level2")),
    "AMD-AGI+TraceLens/tests/traces/b200/eager_trace.json.gz",
    "facebookresearch+HolisticTraceAnalysis/tests/data/nccl_parser_config/nccl_data.json.gz",
)
#: A host that is behind, and clocks that differ.
MAY_BE_NEGATIVE = {"lead_ns", "latency_ns"}


@pytest.fixture(scope="module")
def real(shared_traces: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Con]:
    """Real captures of each profiler, opened."""
    found = {}
    for path in REAL:
        where = tmp_path_factory.mktemp("real")
        assert ingest.load(shared_traces / path, where).runs[0].run_id, path
        found[path] = opened(where)
        views.install(found[path])
    return found


@pytest.mark.shared
@pytest.mark.parametrize("path", REAL)
def test_of_real_captures_the_split_is_the_breakdown(path: str, real: dict[str, Con]) -> None:
    split_is_breakdown(real[path])
    sums_agree(real[path])
    for view in views.views():
        for column in (c.name for c in view.columns if c.name.endswith("_ns") and c.name not in MAY_BE_NEGATIVE):
            assert ask_all(real[path], f"SELECT count(*) FROM {view.name} WHERE {column} < 0") == [(0,)]


@pytest.mark.shared
def test_of_a_real_capture_the_views_say_what_the_slow_way_says(real: dict[str, Con]) -> None:
    same(real[f"{ASCEND}/db/level0"])


@pytest.mark.shared
@pytest.mark.parametrize(("capture", "peer", "longest"), [
    ("text/level1", 5, {0: 78_764_614, 1: 73_149_982}), ("db/level1", 6, {0: 88_423_507, 1: 84_906_536}),
])  # fmt: skip
def test_the_first_allreduce_waits_for_a_rank_that_was_not_captured(
    capture: str, peer: int, longest: dict[int, int], real: dict[str, Con]
) -> None:
    """The figures are the longest Notify_Wait of each rank, read from the files."""
    con = real[f"{ASCEND}/{capture}"]
    query = """
        SELECT p.rank, p.peer, p.longest_ns, p.captured FROM peer_wait p JOIN collective c ON c.span_id = p.op_id
        WHERE c.ordinal = 0 QUALIFY row_number() OVER (PARTITION BY p.rank ORDER BY p.wait_ns DESC) = 1
    """
    assert {row[:3] for row in ask_all(con, query)} == {(rank, peer, ns) for rank, ns in longest.items()}
    assert {row[3] for row in ask_all(con, query)} == {False}


@pytest.mark.shared
def test_a_peers_planes_are_one_wait(real: dict[str, Con]) -> None:
    """Rank 0 waits for rank 5 on planes 5 and 3, one after the other: 78764614 + 5400 + 7600 + 4460 ns."""
    query = "SELECT max(wait_ns) FROM peer_wait WHERE rank = 0 AND peer = 5"
    assert ask_all(real[f"{ASCEND}/text/level1"], query) == [(78_782_074,)]

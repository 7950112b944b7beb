"""Whose a rank directory is, and what its small JSON files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npulens.ingest.readers import readers
from npulens.ingest.readers.ascend import rankdir
from npulens.ingest.tables.draft import Draft

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
REAL = TRACES / "Ascend+msinsight" / "test" / "data" / "pytorch" / "text" / "level1" / "rank1_ascend_pt"

GROUP = "90.91.105.46%enp189s0f0_60000_0_1736410538306028"
GROUP_HASH = "17148521525495523210"  # the name and the number that one real database holds for this group

CONFIG = {
    "common_config": {"activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"]},
    "experimental_config": {"_profiler_level": "Level2", "_export_type": ["text", "db"]},
}
START = {"freq": 100, "start_cnt": 7, "start_monotonic": 1_000}
END = {"collectionTimeEnd": 1_736_408_884_023_552_840, "MonotonicTimeEnd": 5_000}


def rank_directory(
    tmp_path: Path, name: str = "x_ascend_pt", info: str | None = "profiler_info_3.json", **told: Any
) -> Path:
    root = tmp_path / name
    (root / "ASCEND_PROFILER_OUTPUT").mkdir(parents=True)
    if info:
        found = {"config": CONFIG, "start_info": START, "end_info": END} | told
        (root / info).write_text(json.dumps({key: value for key, value in found.items() if value is not None}))
    return root


@pytest.mark.parametrize(
    ("name", "info", "rank_id", "rank", "source"),
    [
        ("rank7_ascend_pt", "profiler_info_3.json", 5, 3, "file name"),
        ("rank7_ascend_pt", "profiler_info.json", 5, 5, "metadata"),
        ("rank7_ascend_pt", "profiler_info.json", "5", 5, "metadata"),
        ("rank7_ascend_pt", "profiler_info.json", -1, 7, "directory name"),
        ("dp0_pp0_tp1_rank12_20250109_ascend_pt", "profiler_info.json", "five", 12, "directory name"),
        ("rank-4_20250109_ascend_ms", None, None, 4, "directory name"),
        ("rank_0_ascend_ms", None, None, 0, "directory name"),
        ("ubuntu_3096504_20250109034804_ascend_pt", None, None, None, None),
        ("frank1_ascend_pt", None, None, None, None),
    ],
)
def test_the_rank_comes_from_the_file_name_first(
    tmp_path: Path, name: str, info: str | None, rank_id: object, rank: int | None, source: str | None
) -> None:
    facts = rankdir.facts(rank_directory(tmp_path, name, info, rank_id=rank_id))
    assert (facts.rank, facts.rank_source) == (rank, source)


@pytest.mark.parametrize(
    ("job", "places", "rank"),
    [
        ({"world_size": 8, "rank": 5}, (), 5), ({"rank": "5"}, (), 5), ({}, ((1, [2, 5]), (0, [5, 6])), 5),
        ({"world_size": 8, "rank": 5}, ((1, [2, 5]),), 5),
        ({"world_size": 8, "rank": 5}, ((0, [2, 5]),), None), ({}, ((1, [2, 5]), (1, [5, 6])), None),
        ({"world_size": 4, "rank": 5}, (), None), ({"rank": -1}, (), None), ({}, ((2, [2, 5]), (-1, [2, 5])), None),
        ({"rank": True}, (), None), ({}, ((0, ["x"]),), None),
    ],
)  # fmt: skip
def test_the_job_itself_numbers_a_rank_where_the_profiler_does_not(
    tmp_path: Path, job: dict[str, Any], places: tuple[tuple[int, list[Any]], ...], rank: int | None
) -> None:
    """By its rank and its place in every group, which must agree."""
    root = rank_directory(tmp_path, info="profiler_info.json", rank_id=-1)
    groups = {f"g{n}": {"group_rank": place, "global_ranks": listed} for n, (place, listed) in enumerate(places)}
    metadata = {"distributed_args": job, "parallel_group_info": groups}
    (root / "profiler_metadata.json").write_text(json.dumps(metadata))
    assert rankdir.facts(root).rank == rank
    assert rankdir.facts(root.rename(tmp_path / "rank7_ascend_pt")).rank == 7


def test_the_rank_may_be_in_the_name_of_the_directory_above(tmp_path: Path) -> None:
    (tmp_path / "rank_6").mkdir()
    assert rankdir.facts(rank_directory(tmp_path / "rank_6", "node_ascend_ms", None)).rank == 6


def test_the_root_of_every_way_to_point_at_a_rank(tmp_path: Path) -> None:
    root = rank_directory(tmp_path)
    assert rankdir.rank_root(root) == root
    assert rankdir.rank_root(root / "ASCEND_PROFILER_OUTPUT") == root
    assert rankdir.rank_root(tmp_path) is None
    prof = tmp_path / "PROF_000001_20230818142704322_COJGGGCANRMICFBC"
    (prof / "mindstudio_profiler_output").mkdir(parents=True)
    assert rankdir.rank_root(prof / "mindstudio_profiler_output") == prof
    assert rankdir.output_dir(prof) == prof / "mindstudio_profiler_output"
    assert rankdir.output_dir(root) == root / "ASCEND_PROFILER_OUTPUT"


def test_the_window_is_told_by_the_only_stamp_of_both_clocks(tmp_path: Path) -> None:
    facts = rankdir.facts(rank_directory(tmp_path))
    assert facts.end_ns == 1_736_408_884_023_552_840
    assert facts.begin_ns == 1_736_408_884_023_552_840 - 4_000


@pytest.mark.parametrize(
    "end", [None, {}, {"collectionTimeEnd": 12}, {"collectionTimeEnd": "x", "MonotonicTimeEnd": 1}, 3]
)
def test_no_begin_without_both_clocks(tmp_path: Path, end: object) -> None:
    assert rankdir.facts(rank_directory(tmp_path, end_info=end)).begin_ns is None


def test_a_group_is_known_by_its_hash() -> None:
    assert rankdir.double_hash(GROUP) == GROUP_HASH


def test_groups_of_the_metadata_and_of_the_analysis_agree(tmp_path: Path) -> None:
    root = rank_directory(tmp_path)
    groups = {GROUP: {"group_name": "tp", "group_rank": 1, "global_ranks": [3, "4", None, "x"]}, "odd": 5}
    (root / "profiler_metadata.json").write_text(json.dumps({"parallel_group_info": groups}))
    (root / "ASCEND_PROFILER_OUTPUT" / "communication.json").write_text(
        json.dumps({"step": {"collective": {f"hcom_allReduce__210_0_1@{GROUP_HASH}": {}, "hcom_x@99999999": {}}}})
    )
    facts = rankdir.facts(root)
    assert set(facts.groups) == {GROUP_HASH, "99999999", rankdir.double_hash("odd")}
    assert rankdir.groups_of(root)[GROUP_HASH] == (GROUP, (3, 4))


TWO = {"a": {"group_name": "default_group", "global_ranks": [0, 1]}}


@pytest.mark.parametrize(
    ("metadata", "size"),
    [
        ({"distributed_args": {"world_size": 16}}, 16),
        ({"distributed_args": {"world_size": "16"}}, 16),
        ({"distributed_args": {"world_size": 0}, "parallel_group_info": TWO}, 2),
        ({"parallel_group_info": {"a": {"group_name": "tp", "global_ranks": [0, 1]}}}, None),
        ([], None),
    ],
)
def test_the_world_is_as_said_or_its_default_group(tmp_path: Path, metadata: object, size: int | None) -> None:
    root = rank_directory(tmp_path)
    (root / "profiler_metadata.json").write_text(json.dumps(metadata))
    assert rankdir.facts(root).world_size == size


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"a":' * 100_000, b"null"])
def test_a_damaged_file_is_said_and_stops_nothing(tmp_path: Path, content: bytes) -> None:
    root = rank_directory(tmp_path)
    (root / "profiler_info_3.json").write_bytes(content)
    (root / "profiler_metadata.json").write_bytes(content)
    draft = Draft(tmp_path / "draft", 3)
    rankdir.describe(root, draft)
    assert rankdir.facts(root).rank == 3
    assert [reason.split()[0] for reason in draft.broken] == ["profiler_info_3.json", "profiler_metadata.json"]


@pytest.mark.parametrize("config", [5, [], {"common_config": [], "experimental_config": {"_export_type": {}}}])
def test_odd_types_are_as_good_as_nothing(tmp_path: Path, config: object) -> None:
    root = rank_directory(tmp_path, config=config, start_info=[], end_info="x", rank_id=[1])
    draft = Draft(tmp_path / "draft", 3)
    rankdir.describe(root, draft)
    assert draft.broken == []
    assert "profiler_level" not in draft.facts


def test_describe_fills_the_rank_once(tmp_path: Path) -> None:
    root = rank_directory(tmp_path, "host-1_77_20250109034804123_ascend_pt", torch_npu_version="2.1",
        cann_version="8.0")
    (root / "profiler_metadata.json").write_text(
        json.dumps(
            {
                "ENV_VARIABLES": {"HCCL_ALGO": "ring"},
                "parallel_group_info": {GROUP: {"group_name": "default_group", "global_ranks": [3, 1, 0, 2]}},
            }
        )
    )
    draft = Draft(tmp_path / "draft", 3)
    rankdir.describe(root, draft)
    rankdir.describe(root, draft)
    assert draft.facts["profiler_level"] == "Level2"
    assert draft.facts["world_size"] == 4
    assert json.loads(str(draft.facts["settings"])) == CONFIG
    assert json.loads(str(draft.facts["versions"])) == {"torch_npu_version": "2.1", "cann_version": "8.0"}
    assert json.loads(str(draft.facts["environment"])) == {"HCCL_ALGO": "ring"}
    (clock,), (group,) = draft.selects["clock"], draft.selects["parallel_group"]
    assert draft.con.execute(clock).fetchall() == [(1_000, 7, 100.0, 1_736_408_884_023_552_840, 5_000)]
    assert draft.con.execute(group).fetchall() == [(GROUP, "default_group", [3, 1, 0, 2], "profiler_metadata.json")]
    assert rankdir.worker(root) == ("host-1", 77)
    assert rankdir.records_device(root) and rankdir.level(root) == "Level2"
    assert draft.broken == []


def test_a_profiler_that_did_not_stop_in_order_is_partial(tmp_path: Path) -> None:
    root = rank_directory(tmp_path, end_info=None)
    (root / "logs").mkdir()
    (root / "logs" / "a.log").write_text("[INFO] fine\n[ERROR] [77] msprof is not found\n")
    draft = Draft(tmp_path / "draft", 3)
    rankdir.describe(root, draft)
    assert len(draft.broken) == 2
    assert "end_info" in draft.broken[0] and "msprof is not found" in draft.broken[1]


@pytest.mark.shared
@pytest.mark.skipif(not REAL.is_dir(), reason="the shared real captures are not here")
def test_a_real_rank() -> None:
    facts = rankdir.facts(REAL)
    told = json.loads((REAL / "profiler_info_1.json").read_text())
    assert (facts.rank, facts.rank_source) == (1, "file name")
    assert facts.end_ns == told["end_info"]["collectionTimeEnd"]
    spent = told["end_info"]["MonotonicTimeEnd"] - told["start_info"]["start_monotonic"]
    assert facts.begin_ns == facts.end_ns - spent
    assert facts.groups == ("17522688603477080586",)


@pytest.mark.parametrize("name", [
    "PROF_000001_20250101_X", "a_ascend_pt", "node_123_20250101_ascend_ms", "ASCEND_PROFILER_OUTPUT", "FRAMEWORK",
    "mindstudio_profiler_output", "device_0", "host", "rank_0", "cluster_analysis_output", "OPPROF_20250101_X", "plain",
])  # fmt: skip
def test_no_reader_claims_a_directory_in_which_nothing_lies(name: str, tmp_path: Path) -> None:
    """The walk over an upload asks none of them about it."""
    (tmp_path / name).mkdir()
    assert [reader for reader in readers().values() if reader.sniff(tmp_path / name) is not None] == []


@pytest.mark.parametrize(
    ("names", "msprof"),
    [
        (["api_statistic_20260605161737.csv"], True),  # msprof adds when it exported
        (["op_statistic_20260605161737_slice_0.csv"], True),
        (["api_statistic.csv"], False),  # as torch_npu's profiler calls it
        (["api_statistic_20260605161737.csv", "trace_view.json"], False),
        (["op_summary_20260605161737.csv", "api_statistic_20260605161737.csv"], True),
    ],
)
def test_who_wrote_files_is_told_by_their_names(names: list[str], msprof: bool) -> None:
    assert rankdir.by_msprof(names) is msprof

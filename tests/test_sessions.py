"""What a run is: the rules of DESIGN, case by case."""

from __future__ import annotations

from ingest.sessions import Member, sessions

S = 10**9


def member(key: int, rank: int | None, begin: int, end: int, groups: str = "") -> Member:
    return Member(key, rank, frozenset(groups.split()), begin * S, end * S)


def keys(members: list[Member]) -> list[list[int]]:
    return sorted([m.key for m in run] for run in sessions(members))


def test_different_ranks_that_overlap_are_one_run() -> None:
    assert keys([member(0, 0, 100, 110), member(1, 1, 105, 115)]) == [[0, 1]]


def test_a_repeated_rank_starts_another_run() -> None:
    assert keys([member(0, 0, 100, 110), member(1, 0, 100, 110)]) == [[0], [1]]


def test_an_unrelated_time_starts_another_run() -> None:
    assert keys([member(0, 0, 100, 110), member(1, 1, 100_000, 100_010)]) == [[0], [1]]


def test_clocks_of_hosts_may_be_minutes_apart() -> None:
    assert keys([member(0, 0, 100, 110), member(1, 1, 300, 310)]) == [[0, 1]]


def test_ranks_of_different_groups_are_different_jobs() -> None:
    assert keys([member(0, 0, 100, 110, "a"), member(1, 1, 100, 110, "b")]) == [[0], [1]]


def test_a_shared_group_joins_ranks_whose_clocks_are_far_apart() -> None:
    assert keys([member(0, 0, 100, 110, "a"), member(1, 1, 1000, 1010, "a")]) == [[0, 1]]


def test_several_sessions_of_one_job_each_find_their_own() -> None:
    found = [member(0, 0, 100, 110), member(1, 1, 102, 112), member(2, 0, 200, 210), member(3, 1, 202, 212)]
    assert keys(found) == [[0, 1], [2, 3]]


def test_a_rank_nobody_knows_is_alone() -> None:
    assert keys([member(0, None, 100, 110), member(1, 1, 100, 110)]) == [[0], [1]]

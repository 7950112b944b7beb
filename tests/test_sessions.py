"""What a run is: the rules of DESIGN, case by case."""

from __future__ import annotations

from npulens.ingest.loading.worker import Member, sessions

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


def test_ranks_without_a_common_group_are_one_run_only_while_both_ran() -> None:
    """Of a job of many groups a few ranks may have been captured that share none."""
    assert keys([member(0, 0, 100, 110, "a"), member(1, 1, 105, 115, "b")]) == [[0, 1]]
    assert keys([member(0, 0, 100, 110, "a"), member(1, 1, 111, 120, "b")]) == [[0], [1]]


def test_neighbours_bring_together_ranks_that_share_no_group() -> None:
    """Stages of a pipeline, in whatever order their clocks put them."""
    chain = [member(0, 0, 100, 110, "a"), member(1, 1, 400, 410, "a b"), member(2, 2, 200, 210, "b c"),
             member(3, 3, 300, 310, "c")]  # fmt: skip
    assert keys(chain) == [[0, 1, 2, 3]]


def test_two_jobs_at_once_stay_apart() -> None:
    jobs = [member(0, 0, 100, 110, "a"), member(1, 1, 101, 110, "b"), member(2, 1, 102, 110, "a"),
            member(3, 0, 103, 110, "b")]  # fmt: skip
    assert keys(jobs) == [[0, 2], [3, 1]]  # each in the order of its ranks


def test_a_shared_group_joins_ranks_whose_clocks_are_far_apart() -> None:
    assert keys([member(0, 0, 100, 110, "a"), member(1, 1, 1000, 1010, "a")]) == [[0, 1]]


def test_several_sessions_of_one_job_each_find_their_own() -> None:
    found = [member(0, 0, 100, 110), member(1, 1, 102, 112), member(2, 0, 200, 210), member(3, 1, 202, 212)]
    assert keys(found) == [[0, 1], [2, 3]]


def test_a_rank_nobody_knows_is_alone() -> None:
    assert keys([member(0, None, 100, 110), member(1, 1, 100, 110)]) == [[0], [1]]


def unstamped(key: int, rank: int, groups: str, steps: tuple[int, int] | None, world: int | None = 4) -> Member:
    return Member(key, rank, frozenset(groups.split()), None, None, world_size=world, steps=steps)


def stepped(key: int, rank: int, begin: int, groups: str, steps: tuple[int, int], world: int | None = 4) -> Member:
    return Member(key, rank, frozenset(groups.split()), begin * S, (begin + 10) * S, world_size=world, steps=steps)


def test_a_rank_without_stamps_comes_to_the_session_of_its_groups_and_steps() -> None:
    assert keys([stepped(0, 0, 100, "a", (13, 13)), unstamped(1, 1, "a", (13, 13))]) == [[0, 1]]


def test_a_rank_without_stamps_stays_alone_where_nothing_ties_it() -> None:
    session = stepped(0, 0, 100, "a", (13, 13))
    for other in (
        unstamped(1, 1, "b", (13, 13)), unstamped(1, 1, "a", (14, 15)), unstamped(1, 1, "a", None),
        unstamped(1, 1, "a", (13, 13), world=8), unstamped(1, 0, "a", (13, 13)),
    ):  # fmt: skip
        assert keys([session, other]) == [[0], [1]]


def test_a_rank_without_stamps_that_fits_two_sessions_joins_neither() -> None:
    twice = [stepped(0, 0, 100, "a", (13, 13)), stepped(1, 0, 90_000, "a", (13, 13))]
    assert keys([*twice, unstamped(2, 1, "a", (13, 13))]) == [[0], [1], [2]]


def test_ranks_of_which_none_has_stamps_are_one_run() -> None:
    assert keys([unstamped(0, 0, "a", (1, 2)), unstamped(1, 1, "a", (1, 2))]) == [[0, 1]]


def test_worlds_of_other_sizes_are_other_jobs() -> None:
    assert keys([stepped(0, 0, 100, "a", (1, 2)), stepped(1, 1, 100, "a", (1, 2), world=8)]) == [[0], [1]]


def test_other_steps_at_another_time_are_another_session() -> None:
    """The same group a minute later with later steps: the next cycle of the schedule, of which rank 0 is not here."""
    assert keys([stepped(0, 0, 100, "a", (10, 12)), stepped(1, 1, 160, "a", (20, 22))]) == [[0], [1]]
    assert keys([stepped(0, 0, 100, "a", (10, 12)), stepped(1, 1, 105, "a", (20, 22))]) == [[0, 1]]

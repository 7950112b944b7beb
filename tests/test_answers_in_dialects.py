"""What is said of captures with planted faults where one fault, or what was not recorded, looks like another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from npulens import ingest
from npulens.analysis.engine import Check, check
from npulens.app.text.wording import together
from npulens.collectors.planting.plant import Options, plan, write
from npulens.ingest.store import runs
from tests.score.__main__ import Task

ALL = Options(missing_ranks=0)


def said(causes: list[str], seed: int, options: Options, home: Path) -> Check:
    write(plan(causes, seed, options), home)
    (run,) = ingest.load(home / "capture", home / "store").runs
    return check(runs.open_run(home / "store", str(run.run_id)))


def outcome(told: Check, detector: str) -> str:
    (found,) = [one.outcome for one in told.outcomes if one.detector == detector]
    return found


def test_exchanges_of_two_ranks_without_waits_are_exposed_and_nobody_is_called_punctual(tmp_path: Path) -> None:
    """One rank of two, Level0: its exchanges last 9.4 ms, and nothing says how much of it was waiting."""
    options = Options(dialect="p2p_bare", format="db", level=0, ranks=2, missing_ranks=1)
    told = said(["late_rank"], 58053836, options, tmp_path)
    assert outcome(told, "late_rank") == "not_measured"
    (exposed,) = [one for one in told.findings if one.cause == "comm_exposed"]
    assert exposed.numbers["collective"] == "batchsendrecv" and exposed.saving_share > 0.05


def test_packets_sent_again_make_no_slow_link(tmp_path: Path) -> None:
    """On one link half of the transfers take 179 times as long, the others as long as on every link."""
    options = replace(ALL, dialect="renamed", format="db", level=2, ranks=4)
    told = said(["retransmission"], 1328445501, options, tmp_path)
    assert outcome(told, "retransmission") == "found" and outcome(told, "slow_link") == "clean"


def test_small_packets_are_found_beside_packets_sent_again(tmp_path: Path) -> None:
    """Packets sent again take more than half of the step; that exposes them too, and the small ones stay told."""
    told = said(["retransmission", "small_packets"], 5, replace(ALL, format="db", level=2, ranks=2), tmp_path)
    causes = {one.cause: one.saving_share for one in told.findings}
    assert {"comm_exposed", "retransmission", "small_packets"} <= set(causes)
    assert causes["small_packets"] > 0.03 and sum(causes.values()) <= 1


def test_an_engines_slow_first_step_does_not_make_first_use_clean(tmp_path: Path) -> None:
    """A serving engine's steps do not say whether it had just started, so nothing is said of it, and not "clean"."""
    options = Options(dialect="vllm", format="text", level=0, ranks=2, missing_ranks=0)
    told = said(["first_use"], 956729689, options, tmp_path)
    assert outcome(told, "first_use") == "not_measured"
    assert told.findings[0].cause == "host_late" and told.findings[0].numbers["per"] == "once"


def test_groups_named_by_kernels_alone_make_one_run_of_hosts_with_other_clocks(tmp_path: Path) -> None:
    """A list of events has no header; the clocks of its two hosts are eleven minutes apart."""
    options = replace(ALL, dialect="bare_list", ranks=2, skew_ns=660 * 10**9)
    write(plan(["sync_stall"], 7, options), tmp_path)
    (run,) = ingest.load(tmp_path / "capture", tmp_path / "store").runs
    assert run.ranks == (0, 1)


def test_a_saving_above_the_idle_time_it_names_is_explained(tmp_path: Path) -> None:
    """Reads in the middle of the step cost the host its lead: gaps far behind them are theirs too."""
    told = said(["sync_stall"], 8, replace(ALL, format="text", level=1, ranks=2), tmp_path)
    (stall,) = [one for one in told.findings if one.cause == "sync_stall"]
    idle = stall.numbers["idle_ns"]
    assert isinstance(idle, int) and stall.saving_ns > 1.05 * idle
    assert "gives back more than that idle time" in stall.words["en"].advice
    assert "收益大于上述空闲时间" in stall.words["zh"].advice
    others = [one for one in told.findings if one.saving_ns <= one.numbers.get("idle_ns", 0)]
    assert not any("more than that idle" in one.words["en"].advice for one in others)


def test_launches_behind_a_profiler_that_reads_counters_are_not_clean(tmp_path: Path) -> None:
    """After each of the many small kernels the device waits 110 us for the profiler, so no gap shows their launches."""
    options = Options(dialect="first_step", format="text", level=1, ranks=2, missing_ranks=0)
    told = said(["launch_overhead", "profiler_overhead"], 1641250446, options, tmp_path)
    assert outcome(told, "launch_overhead") == "not_measured" and outcome(told, "profiler_overhead") == "found"


def test_compiling_in_the_queue_of_a_database_is_no_first_use(tmp_path: Path) -> None:
    """A database keeps the calls of CANN on another track than the queue's thread that makes them."""
    options = Options(dialect="vllm", format="db", level=0, ranks=2, missing_ranks=0)
    told = said(["compile"], 1316099508, options, tmp_path)
    assert [one.cause for one in told.findings] == ["compile"]


def test_transfers_of_one_plane_do_not_clear_the_links_of_the_others(tmp_path: Path) -> None:
    """An old device records the transfers to the next rank only; the slow link leads elsewhere."""
    options = Options(dialect="910a", format="text", level=1, ranks=4, missing_ranks=0)
    told = said(["slow_link"], 922953212, options, tmp_path)
    assert outcome(told, "slow_link") == "not_measured" and told.findings[0].cause == "comm_exposed"


def test_an_operator_that_ends_before_its_launch_can_be_a_first_use(tmp_path: Path) -> None:
    """Its kernel is launched by a call behind it; the External id tells whose it is."""
    options = Options(dialect="external_id", format="kineto", ranks=2, missing_ranks=0)
    told = said(["first_use"], 1794568265, options, tmp_path)
    assert [one.cause for one in told.findings] == ["first_use"]


def test_copies_of_unknown_direction_do_not_clear_those_within_the_device(tmp_path: Path) -> None:
    """The truth of such a capture calls them so, too; what would record it is what the reader said, not its level."""
    options = Options(dialect="910a", format="db", level=2, ranks=2, missing_ranks=0)
    told = said(["device_copies"], 1, options, tmp_path)
    assert outcome(told, "device_copies") == "not_measured" and told.findings[0].cause == "copy_exposed"
    assert [truth.fault.cause for truth in plan(["device_copies"], 1, options).truths] == ["copy_exposed"]
    (setting,) = [one.collect_with for one in told.outcomes if one.detector == "device_copies"]
    assert setting == "profiler_level=Level2, export_type=[Text]"


def test_a_kernel_belongs_to_the_operator_of_its_external_id_and_not_to_the_one_around(tmp_path: Path) -> None:
    """In a backward pass mm ends before its launch, and what is still open is its autograd node, without the shapes."""
    options = Options(dialect="external_id", format="kineto", ranks=2, steps=3, missing_ranks=0)
    told = said(["low_efficiency"], 743529716, options, tmp_path)
    assert [one.cause for one in told.findings] == ["low_efficiency"]
    assert told.findings[0].numbers["type"] == "mm"


def planted(causes: tuple[str, ...], seed: int, dialect: str, home: Path) -> tuple[Check, dict[str, int]]:
    """As tests/score makes it: what is said, and what each fault costs in ns of a step."""
    truth = write(plan(causes, seed, Task("combined", causes, seed, dialect).options), home)
    (run,) = ingest.load(home / "capture", home / "store").runs
    told = check(runs.open_run(home / "store", str(run.run_id)))
    return told, {str(fault["cause"]): int(fault["gain_ns"]) for fault in truth["faults"]}


def test_a_slow_link_to_a_ring_with_a_member_that_was_not_captured(tmp_path: Path) -> None:
    """Rank 2 of 4 is missing. It waits for the slow link as well, so how much comes back lies between two ends."""
    told, gains = planted(("small_packets", "slow_link"), 461666937, "uneven_bytes", tmp_path)
    (link,) = [one for one in told.findings if one.cause == "slow_link"]
    assert link.saving_ns < gains["slow_link"] and abs(link.saving_most_ns - gains["slow_link"]) < 5e5
    all_of_it = together(told, "en")
    assert all_of_it is not None and "between" not in all_of_it  # within the exposed communication, not beside it


def test_what_drives_a_fused_collective_does_not_stand_still(tmp_path: Path) -> None:
    """MatmulAllReduceAicpu has no launch. What rank 1 loses in memory calls comes back whole in every step."""
    told, gains = planted(("memory_alloc", "environment"), 497397505, "custom_comm", tmp_path)
    saved = {one.cause: one.saving_ns for one in told.findings}
    for cause in ("memory_alloc", "environment"):
        assert abs(saved[cause] / gains[cause] - 1) < 0.05, cause


def test_kernels_that_compute_and_communicate_at_once_are_not_clean(tmp_path: Path) -> None:
    """One rank at Level0: its late peer makes MatmulAllReduce longer, and nothing recorded says by how much."""
    told, _ = planted(("late_rank",), 913603695, "custom_comm", tmp_path)
    assert outcome(told, "comm_exposed") == "not_measured"


def test_a_missing_member_may_be_the_late_one(tmp_path: Path) -> None:
    """Rank 3 of 4 is late and was not captured: the others come together, and that is no proof of transfer."""
    told, _ = planted(("late_rank",), 1205383513, "custom_comm", tmp_path)
    (exposed,) = [one for one in told.findings if one.cause == "comm_exposed"]
    assert exposed.confidence == "low" and "was not recorded" in exposed.words["en"].title


def test_what_a_pipelines_waits_hide_still_takes_its_time_without_them(tmp_path: Path) -> None:
    """Garbage is collected for 30 ms of a host in each step, most of it behind waits for the other stage.

    Of 81 ms of waiting the job without any is 18.6 ms shorter: then the collections hold it up.
    """
    options = Options(steps=3, dialect="no_steps")
    (gain,) = [one.gain_ns for one in plan(["gc", "pipeline_bubble"], 1903128355, options).truths
               if one.fault.cause == "pipeline_bubble"]  # fmt: skip
    told = said(["gc", "pipeline_bubble"], 1903128355, options, tmp_path)
    (bubble,) = [one for one in told.findings if one.cause == "pipeline_bubble"]
    assert 0.9 * 3 * gain < bubble.saving_most_ns < 1.1 * 3 * gain and gain == 6_209_291

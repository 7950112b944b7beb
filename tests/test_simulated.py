"""The simulated job agrees with itself: nesting, streams, arrows, collectives, steps, and the profiler's own sums."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest

from npulens.collectors.simulator.items import Exchange
from npulens.collectors.simulator.job import CommOp, CommTask, HostOp, Job, RankRecord, Span
from npulens.collectors.simulator.simulated import Cost, SimConfig, simulate
from npulens.collectors.writers.profiler_rules import db_step_times, lanes, subtract, text_step_times, union
from tests.simjob import expected_links, job, launched

FLIGHT, TICK = 260, 20

JOBS = [(4, 1, True), (4, 2, True), (2, 2, True), (1, 1, True), (2, 1, False)]


@pytest.fixture(params=JOBS, ids=lambda p: f"ranks{p[0]}-tp{p[1]}-queue{p[2]:d}", scope="module")
def any_job(request: pytest.FixtureRequest) -> Job:
    ranks, tensor_parallel, queue = request.param
    return job(ranks=ranks, tensor_parallel=tensor_parallel, task_queue=queue)


def by_track(record: RankRecord) -> dict[str, list[Span]]:
    tracks: dict[str, list[Span]] = defaultdict(list)
    for span in record.spans:
        tracks[span.track].append(span)
    return tracks


def test_same_seed_same_job_and_another_seed_another() -> None:
    config = SimConfig(seed=3, ranks=2, steps=1, layers=1)
    assert simulate(config).ranks == simulate(config).ranks
    assert simulate(config).ranks != simulate(SimConfig(seed=4, ranks=2, steps=1, layers=1)).ranks


def test_a_perturbation_changes_only_what_it_touches() -> None:
    plain = simulate(SimConfig(seed=3, ranks=2, steps=2, layers=1))

    def late(cost: Cost, ns: int) -> int:
        slow = cost.rank == 1 and cost.step == 11 and cost.what == "dataloader"
        return ns + 3_000_000 if slow else ns

    faulty = simulate(SimConfig(seed=3, ranks=2, steps=2, layers=1, perturb=late))
    first, second = plain.ranks[0].steps
    for rank in (0, 1):
        before = [s for s in plain.ranks[rank].spans if s.ts_ns < second.ts_ns and s.kind != "python"]
        assert before == [s for s in faulty.ranks[rank].spans if s.ts_ns < second.ts_ns and s.kind != "python"]
    assert plain.ranks[1].steps[1].dur_ns + 2_500_000 < faulty.ranks[1].steps[1].dur_ns
    same = [(s.name, s.dur_ns) for s in plain.ranks[0].of("kernel")]
    assert same == [(s.name, s.dur_ns) for s in faulty.ranks[0].of("kernel")]


def test_an_exchange_is_called_by_what_goes_which_way() -> None:
    ways = {(4, 4): "batchSendRecv", (4, 0): "send", (0, 4): "receive"}
    for (send, receive), called in ways.items():
        assert Exchange("pp", send, receive, 2, "bf16", ()).collective == called


def test_impossible_jobs_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SimConfig(layers=0)
    with pytest.raises(ValueError, match="do not divide"):
        SimConfig(ranks=3, tensor_parallel=2)


def test_spans_are_sorted_whole_and_on_known_tracks(any_job: Job) -> None:
    for record in any_job.ranks:
        assert [s.ts_ns for s in record.spans] == sorted(s.ts_ns for s in record.spans)
        assert len({s.id for s in record.spans}) == len(record.spans) == len(record.by_id)
        for span in record.spans:
            assert span.dur_ns >= 0 and span.track in record.tracks
            assert record.begin_ns <= span.ts_ns and span.end_ns <= record.end_ns


def test_host_spans_nest(any_job: Job) -> None:
    for record in any_job.ranks:
        for key, spans in by_track(record).items():
            if record.tracks[key].kind != "host_thread":
                continue
            open_spans: list[Span] = []
            for span in spans:
                while open_spans and open_spans[-1].end_ns <= span.ts_ns:
                    open_spans.pop()
                assert not open_spans or span.end_ns <= open_spans[-1].end_ns, (open_spans[-1], span)
                open_spans.append(span)


def test_python_frames_name_the_frame_around_them(any_job: Job) -> None:
    for record in any_job.ranks:
        frames = {span.detail.py_id: span for span in record.of("python")}
        assert sum(frame.detail.parent == number for number, frame in frames.items()) == 1
        for span in frames.values():
            parent = frames[span.detail.parent]
            assert parent.ts_ns <= span.ts_ns and span.end_ns <= parent.end_ns


def test_nothing_overlaps_on_a_stream_or_plane(any_job: Job) -> None:
    for record in any_job.ranks:
        for key, spans in by_track(record).items():
            if record.tracks[key].kind == "host_thread":
                continue
            if record.tracks[key].kind == "stream":  # a communication operator occupies its stream
                spans = spans + [s for s in record.of("comm_op") if f"stream {s.detail.stream}" == key]
                spans.sort(key=lambda span: span.ts_ns)
            for left, right in zip(spans, spans[1:], strict=False):
                assert left.end_ns <= right.ts_ns, (key, left, right)


def test_everything_launched_has_its_arrows(any_job: Job) -> None:
    for record in any_job.ranks:
        arrows = Counter((link.route, link.dst) for link in record.links)
        for span in launched(record):
            assert arrows["host_to_device", span.id] == arrows["torch_to_npu", span.id] == 1
        for link in record.links:
            source, target = record.by_id[link.src], record.by_id[link.dst]
            if link.route == "host_to_device":
                assert source.kind == "runtime" and source.detail.connection == target.detail.connection
            elif link.route == "torch_to_npu":
                assert source.kind == "cpu_op"
        starts = [target for route, _, target in expected_links(record, "torch_to_npu")]
        assert len(starts) == len(set(starts)), "torch_to_npu names its target by its start"


def test_the_queue_hands_over_in_order(any_job: Job) -> None:
    for record in any_job.ranks:
        enqueued, dequeued = record.of("enqueue"), record.of("dequeue")
        assert [s.detail.correlation for s in enqueued] == [s.detail.correlation for s in dequeued]
        assert bool(enqueued) == any_job.config.task_queue
        assert all(left.end_ns <= right.ts_ns for left, right in zip(enqueued, dequeued, strict=True))
        assert len(expected_links(record, "task_queue")) == len(enqueued)


def test_backward_operators_carry_the_sequence_of_their_forward(any_job: Job) -> None:
    for record in any_job.ranks:
        pairs = [link for link in record.links if link.route == "fwdbwd"]
        assert pairs
        for link in pairs:
            forward, backward = record.by_id[link.src].detail, record.by_id[link.dst].detail
            assert isinstance(forward, HostOp) and isinstance(backward, HostOp)
            assert forward.sequence == backward.sequence >= 0 and backward.fwd_thread and not backward.stack
            assert record.by_id[link.src].end_ns <= record.by_id[link.dst].ts_ns


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_negative_latencies_come_at_their_rate(rate: float) -> None:
    record = simulate(SimConfig(ranks=1, steps=3, layers=1, hidden=64, tokens=64, negative_latency_rate=rate)).ranks[0]
    links = [link for link in record.links if link.route == "host_to_device"]
    negative = sum(record.by_id[link.dst].ts_ns < record.by_id[link.src].ts_ns for link in links)
    assert (negative > 0) == (rate > 0)
    assert negative <= 0.4 * len(links)


# -- collectives -------------------------------------------------------------------------------------------------------


def collectives(whole: Job) -> Iterable[dict[int, tuple[Span, list[Span]]]]:
    """Per collective: rank -> its operator and the operator's tasks."""
    for group in whole.groups:
        members = {
            rank: [s for s in whole.ranks[rank].of("comm_op") if s.detail.group == group.name] for rank in group.ranks
        }
        assert len({tuple(s.name for s in spans) for spans in members.values()}) == 1
        for index in range(len(members[group.ranks[0]])):
            found = {}
            for rank in group.ranks:
                operator = members[rank][index]
                tasks = [s for s in whole.ranks[rank].of("comm_task") if s.detail.op == operator.id]
                found[rank] = (operator, tasks)
            yield found


def test_collectives_end_when_the_last_has_come_and_all_is_transferred(any_job: Job) -> None:
    seen = 0
    for members in collectives(any_job):
        seen += 1
        true = any_job.config.offset
        last = max(operator.ts_ns - true(rank) for rank, (operator, _) in members.items())
        for rank, (operator, tasks) in members.items():
            detail = operator.detail
            assert isinstance(detail, CommOp) and detail.arrival_ns == operator.ts_ns
            assert operator.end_ns - true(rank) >= last
            assert operator.end_ns == max(task.end_ns for task in tasks)
            assert operator.ts_ns == min(task.ts_ns for task in tasks)
            moved = sum(t.detail.bytes for t in tasks if t.detail.link == "HCCS")
            part = detail.bytes // detail.ranks
            assert moved == 2 * part * (detail.ranks - 1)
    assert bool(seen) == (any_job.config.ranks > 1)


def test_every_wait_ends_when_its_peer_tells(any_job: Job) -> None:
    """The n-th wait of a rank for a peer ends one flight after the peer's n-th record for that rank, or at once."""
    for members in collectives(any_job):
        told: dict[tuple[int, int], list[int]] = defaultdict(list)
        waits: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for rank, (_, tasks) in members.items():
            offset = any_job.config.offset(rank)
            for task in tasks:
                detail = task.detail
                assert isinstance(detail, CommTask)
                if detail.task_type == "Notify_Record":
                    told[detail.src, detail.dst].append(task.end_ns - offset)
                elif detail.task_type == "Notify_Wait":
                    waits[detail.src, detail.dst].append((task.ts_ns - offset, task.end_ns - offset))
        assert len(waits) == len(members) * (len(members) - 1)
        for (local, peer), times in waits.items():
            assert len(times) == len(told[peer, local]) == 4
            for (start, end), record in zip(sorted(times), sorted(told[peer, local]), strict=True):
                assert end == max(start + TICK, record + FLIGHT)


# -- steps and the profiler's sums -----------------------------------------------------------------------------------


def test_steps_hold_what_starts_in_their_window(any_job: Job) -> None:
    for record in any_job.ranks:
        marks = record.steps
        assert [s.name for s in record.of("step_mark")] == [f"ProfilerStep#{mark.step}" for mark in marks]
        device = (s for s in record.spans if not s.track.startswith("thread") and s.kind != "device_other")
        device_end = max(s.end_ns for s in device)
        edges = [mark.ts_ns for mark in marks] + [max(marks[-1].end_ns, device_end) + 1]
        for span in record.spans:
            inside = [m.step for m, end in zip(marks, edges[1:], strict=True) if m.ts_ns <= span.ts_ns < end]
            assert span.step == (inside[0] if inside else None)


def test_lanes_are_unions_found_instant_by_instant(any_job: Job) -> None:
    for record in any_job.ranks:
        compute = [(s.ts_ns, s.end_ns) for s in record.of("kernel", "memset")]
        comm = [(s.ts_ns, s.end_ns) for s in record.of("comm_op")]
        edges = sorted({edge for pair in compute + comm for edge in pair})
        sums = Counter()
        for left, right in zip(edges, edges[1:], strict=False):
            computing = any(start <= left < end for start, end in compute)
            communicating = any(start <= left < end for start, end in comm)
            sums["Computing"] += (right - left) * computing
            sums["Communication"] += (right - left) * communicating
            sums["NotOverlapped"] += (right - left) * (communicating and not computing)
            sums["Free"] += (right - left) * (not computing and not communicating)
        found = lanes(record)
        total = [sum(end - start for start, end in lane) for lane in found]
        assert total == [sums["Computing"], sums["Communication"], sums["NotOverlapped"], sums["Free"]]


def test_interval_helpers() -> None:
    assert union([(5, 9), (0, 3), (3, 4), (8, 10)]) == [(0, 4), (5, 10)]
    assert subtract([(0, 10), (20, 30)], [(2, 3), (8, 22), (40, 50)]) == [(0, 2), (3, 8), (22, 30)]


def test_step_sums_of_both_exports(any_job: Job) -> None:
    for record in any_job.ranks:
        text, db = text_step_times(record), db_step_times(record)
        assert [row.step for row in text] == [row.step for row in db] == [mark.step for mark in record.steps]
        for left, right in zip(text, db, strict=True):
            assert left[1:5] == right[1:5], "what is busy does not depend on the export"
            assert left.communication == left.overlapped + left.not_overlapped
            assert right.stage == right.computing + right.not_overlapped + right.free
            assert left.free >= right.free, "text counts the gap before the next step too"
        found = lanes(record)
        assert sum(row.computing for row in text) == sum(end - start for start, end in found.computing)
        assert sum(row.free for row in text) == sum(end - start for start, end in found.free)


def test_memory_adds_up(any_job: Job) -> None:
    for record in any_job.ranks:
        changes = [(b.ts_ns, 0, b.bytes, b.totals) for b in record.memory]
        changes += [(b.release_ns, 1, -b.bytes, b.release_totals) for b in record.memory if b.release_ns]
        states = [s.totals for s in record.memory_states if s.component == "PTA"]
        assert len(states) == len(changes)
        for before, after in zip(states, states[1:], strict=False):
            assert abs(after[0] - before[0]) in {block.bytes for block in record.memory}
        assert all(total[0] <= total[1] for _, _, _, total in changes)

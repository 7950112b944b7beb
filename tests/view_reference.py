"""What each view must say, worked out the slow way (tests/slow_job.py): one function a view, named as the view.

The values are those of the columns in `COLUMNS`; the others are copied from a table.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.slow_job import DEVICE, WORK, Job, Rows, Task, during, pieces, quantile, union

COLUMNS = {
    "device_busy": "rank, step, track, dur_ns, busy_ns",
    "device_gap": "rank, step, ts_ns, dur_ns, previous_id, next_id, complete",
    "stream_gap": "rank, track, step, ts_ns, dur_ns, waiting_ns, previous_id, next_id",
    "launch": "span_id, launch_id, launch_kind, launch_ns, latency_ns, negative",
    "queue_depth": "*",
    "host_lead": "span_id, launch_ns, free_ns, lead_ns",
    "kernel_group": "*",
    "kernel_sequence": "*",
    "transfer_group": "rank, direction, from_bytes, count, bytes, busy_ns, overlapped_ns, exposed_ns",
    "collective": "span_id, ordinal, transfer_ns, wait_ns, only_waiting_ns, launch_ns, late_launch_ns",
    "collective_plane": "*",
    "peer_wait": "op_id, peer, peer_local, waits, wait_ns, longest_ns, ts_ns, captured",
    "split": "*",
    "rank_step": "rank, step, only_waiting_ns, kernels, collectives, copies",
    "metric": "name, rank, step, value, unit",
}
#: Rows of a view that are another view's numbers.
WHERE = {"metric": "name IN ('launch_latency_median_ns', 'launch_count', 'copied_bytes')"}


def device_busy(job: Job) -> Rows:
    rows: Rows = []
    for rank, step, begin, end in job.windows():
        for track in sorted({span.track for span in job.work if span.rank == rank}):
            mine = [span for span in job.work if span.track == track]
            rows.append((rank, step, track, end - begin, during(begin, end, bool, mine)))
        busy = during(begin, end, bool, [span for span in job.work if span.rank == rank])
        rows.append((rank, step, None, end - begin, busy if job.recorded(rank)["computing"] else None))
    return rows


def device_gap(job: Job) -> Rows:
    rows: Rows = []
    for rank, step, begin, end in job.windows():
        recorded, work = job.recorded(rank), [span for span in job.work if span.rank == rank]
        if step is not None or not recorded["computing"]:
            continue
        gaps: list[list[int]] = []
        for a, b, (busy,) in pieces(begin, end, work):
            if not busy and gaps and gaps[-1][1] == a:
                gaps[-1][1] = b
            elif not busy:
                gaps.append([a, b])
        for a, b in gaps:
            before = min((s.span_id for s in work if s.end == a), default=None)
            after = min((s.span_id for s in work if s.ts == b), default=None)
            complete = recorded["communication"] and recorded["copy"]
            rows.append((rank, job.step_at(rank, a), a, b - a, before, after, complete))
    return rows


def stream_gap(job: Job) -> Rows:
    rows: Rows = []
    waiting = {span.rank for span in job.spans if span.kind == "wait"}
    for track in {span.track for span in job.work}:
        work = [span for span in job.work if span.track == track]
        waits = [span for span in job.spans if span.track == track and span.kind == "wait"]
        begins = sorted({span.ts for span in work})
        for end in sorted({span.end for span in work}):
            if any(span.ts <= end < span.end for span in work) or begins[-1] <= end:
                continue
            after = min(at for at in begins if at > end)
            following = min((s for s in work if s.ts == after), key=lambda s: s.span_id)
            waited = during(end, after, bool, waits) if following.rank in waiting else None
            before = min(s.span_id for s in work if s.end == end)
            rows.append(
                (following.rank, track, following.step, end, after - end, waited, before, following.span_id)
            )
    return rows


def launch(job: Job) -> Rows:
    rows: Rows = []
    for span in job.spans:
        host = job.launches.get(span.span_id)
        if host:
            late = span.ts - host.ts
            rows.append((span.span_id, host.span_id, host.kind, host.ts, late, late < 0))
        elif span.kind in WORK:
            rows.append((span.span_id, None, None, None, None, None))
    return rows


def queue_depth(job: Job) -> Rows:
    rows: Rows = []
    for rank in job.ranks:
        linked = [(host.ts, job.by_id[i].ts) for i, host in job.launches.items() if host.rank == rank]
        tasks = [(min(called, start), start) for called, start in linked]
        for at in sorted({moment for task in tasks for moment in task}):
            launched, started = sum(task[0] <= at for task in tasks), sum(task[1] <= at for task in tasks)
            rows.append((rank, at, launched, started, launched - started))
    return rows


def host_lead(job: Job) -> Rows:
    rows: Rows = []
    for span_id, host in job.launches.items():
        task = job.by_id[span_id]
        earlier = [
            s for s in job.spans
            if s.kind in DEVICE and s.track == task.track and (s.ts, s.span_id) < (task.ts, task.span_id)
        ]  # fmt: skip
        free = min(task.ts, max(s.end for s in earlier)) if earlier else None
        rows.append((span_id, host.ts, free, None if free is None else free - host.ts))
    return rows


def kernel_group(job: Job) -> Rows:
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for span in job.spans:
        if span.kind in ("kernel", "memset"):
            op, *rest = job.kernel.get(span.span_id, (None,) * 6)
            groups[span.rank, span.name if op is None else op, *rest].append(span.dur)
    shares = ((1, 2), (9, 10), (99, 100))
    return [
        (*key, len(all_), sum(all_), min(all_), *(quantile(all_, share) for share in shares), max(all_))
        for key, all_ in groups.items()
    ]


def kernel_sequence(job: Job) -> Rows:
    """Every kernel and every gap of a sequence counts once, however many of its runs share it."""
    found: dict[tuple[Any, ...], list[tuple[int, int, int]]] = defaultdict(list)
    lengths: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
    gaps: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
    for track in {span.track for span in job.spans}:
        lane = [s for s in job.spans if s.track == track and (s.kind in WORK or (s.kind == "wait" and s.dur > 0))]
        lane.sort(key=lambda s: (s.ts, s.span_id))
        for length in (2, 3):
            for i in range(len(lane) - length + 1):
                run = lane[i : i + length]
                if all(s.kind == "kernel" for s in run):
                    types = [(job.kernel.get(s.span_id) or (None,))[0] for s in run]
                    ops = tuple(s.name if op is None else op for s, op in zip(run, types, strict=True))
                    between = {b.span_id: max(0, b.ts - a.end) for a, b in zip(run, run[1:], strict=False)}
                    key = run[0].rank, ops
                    found[key].append((run[-1].ts, run[0].span_id, sum(between.values())))
                    lengths[key] |= {s.span_id: s.dur for s in run}
                    gaps[key] |= between
    return [
        (key[0], list(key[1]), len(runs), sum(lengths[key].values()), sum(gaps[key].values()),
         quantile([r[2] for r in runs], (1, 2)), min(runs)[1])
        for key, runs in found.items()
    ]  # fmt: skip


def transfer_group(job: Job) -> Rows:
    groups = defaultdict(list)
    for span in job.spans:
        if span.kind == "memcpy":
            direction, size = job.transfer.get(span.span_id, (None, None))
            groups[span.rank, direction, 1 << size.bit_length() - 1 if size else size].append((span, size))
    rows: Rows = []
    for (rank, direction, from_bytes), each in groups.items():
        spans, sizes = [span for span, _ in each], [size for _, size in each if size is not None]
        begin, end = min(s.ts for s in spans), max(s.end for s in spans)
        shown = during(begin, end, lambda c, other: c and not other, spans, job.of(rank, "computing", "communication"))
        known = job.recorded(rank)["computing"] and job.recorded(rank)["communication"]
        over = (union(spans) - shown, shown) if known else (None, None)
        rows.append((rank, direction, from_bytes, len(each), sum(sizes) if sizes else None, union(spans), *over))
    return rows


def collective(job: Job) -> Rows:
    rows: Rows = []
    for span in (span for span in job.spans if span.kind == "comm_op"):
        group = job.comm.get(span.span_id, (None,))[0]
        peers = [
            s for s in job.spans
            if s.kind == "comm_op" and s.rank == span.rank and job.comm.get(s.span_id, (None,))[0] == group
        ]  # fmt: skip
        ordinal = sum((s.ts, s.span_id) < (span.ts, span.span_id) for s in peers)
        mine = [task for task in job.tasks if task.op == span.span_id]
        host = job.launches.get(span.span_id)
        late = None
        if host:
            earlier = [
                s.end for s in job.spans
                if s.kind in WORK and s.rank == span.rank and (s.ts, s.span_id) < (span.ts, span.span_id)
            ]  # fmt: skip
            late = max(0, min(host.ts, span.ts) - min(span.ts, max(earlier))) if earlier else None
        rows.append((span.span_id, ordinal, *_parts(mine), host.ts if host else None, late))
    return rows


def _parts(tasks: list[Task]) -> tuple[int | None, int | None, int | None]:
    """Transferring, waiting and only waiting."""
    if not tasks:
        return None, None, None
    moves, waits = ([t.span for t in tasks if t.part == part] for part in ("transfer", "wait"))
    begin, end = min(t.span.ts for t in tasks), max(t.span.end for t in tasks)
    return union(moves), union(waits), during(begin, end, lambda w, m: w and not m, waits, moves)


def collective_plane(job: Job) -> Rows:
    groups = defaultdict(list)
    for task in job.tasks:
        if task.op is not None:
            groups[task.op, task.span.rank, task.plane].append(task)
    rows: Rows = []
    for key, tasks in groups.items():
        sizes = [t.bytes for t in tasks if t.part == "transfer" and t.bytes is not None]
        rows.append((*key, len(tasks), sum(sizes) if sizes else None, *_parts(tasks)))
    return rows


def peer_wait(job: Job) -> Rows:
    groups = defaultdict(list)
    for task in job.tasks:
        named = task.peer is not None or task.local is not None
        if task.part == "wait" and task.op is not None and named and task.peer != task.span.rank:
            groups[task.op, task.peer, task.local].append(task.span)
    rows: Rows = []
    for (op, peer, local), waits in groups.items():
        longest = max(s.dur for s in waits)
        first = min(s.ts for s in waits if s.dur == longest)
        captured = None if peer is None else peer in job.ranks
        rows.append((op, peer, local, len(waits), union(waits), longest, first, captured))
    return rows


def split(job: Job) -> Rows:
    rows: Rows = []
    for rank, step, begin, end in job.windows():
        kinds = ("computing", "communication", "copy")
        groups = [job.of(rank, kind) for kind in (*kinds, "unknown")]
        known = [job.recorded(rank)[kind] for kind in kinds]
        parts = [
            during(begin, end, test, *groups) if all(known[i] for i in needs) else None
            for needs, test in (
                ((0,), lambda c, m, y, u: c), ((1,), lambda c, m, y, u: m), ((0, 1), lambda c, m, y, u: m and not c),
                ((0, 1), lambda c, m, y, u: m and c), ((2,), lambda c, m, y, u: y),
                ((0, 1, 2), lambda c, m, y, u: y and not c and not m), ((0,), lambda c, m, y, u: u),
                ((0, 1, 2), lambda c, m, y, u: u and not (c or m or y)),
                ((0, 1, 2), lambda c, m, y, u: not (c or m or y or u)),
            )
        ]  # fmt: skip
        whole = all(known)
        left = end - begin - sum(parts[i] or 0 for i in (0, 2, 5, 7, 8)) if whole else None
        rows.append((rank, step, begin, end - begin, *parts, left))
    there = {row[0] for row in rows}
    return rows + [(rank, *[None] * 13) for rank in job.ranks if rank not in there]


def rank_step(job: Job) -> Rows:
    rows: Rows = []
    windows = list(job.windows())
    told = len(windows)
    windows += [(rank, None, 0, 0) for rank in job.ranks if rank not in {window[0] for window in windows}]
    for rank, step, begin, end in windows:
        recorded = job.recorded(rank)
        mine = [task for task in job.tasks if task.span.rank == rank]
        waits, moves = ([t.span for t in mine if t.part == part] for part in ("wait", "transfer"))
        groups = job.of(rank, "communication"), job.of(rank, "computing"), waits, moves
        waiting: int | None = during(begin, end, lambda c, k, w, m: c and w and not k and not m, *groups)
        operators = any(s.rank == rank and (s.kind == "comm_op" or s.span_id in job.fused) for s in job.spans)
        known = recorded["computing"] and recorded["communication"] and (bool(mine) or not operators)
        if not known or windows.index((rank, step, begin, end)) >= told:
            waiting = None
        counts = []
        for part, kinds in (
            ("computing", ("kernel", "memset")), ("communication", ("comm_op",)), ("copy", ("memcpy",)),
        ):  # fmt: skip
            inside = [
                s for s in job.spans if s.rank == rank and (step is None or s.step == step)
                and (s.kind in kinds or part == "communication" and s.span_id in job.fused)
            ]  # fmt: skip
            counts.append(len(inside) if recorded[part] else None)
        rows.append((rank, step, waiting, *counts))
    return rows


def metric(job: Job) -> Rows:
    """What the other views do not hold already."""
    rows: Rows = []
    windows = [(rank, step) for rank, step, *_ in job.windows()]
    windows += [(rank, None) for rank in job.ranks if rank not in {window[0] for window in windows}]
    for rank, step in windows:
        mine = [s for s in job.spans if s.rank == rank and s.kind in WORK and (step is None or s.step == step)]
        late = [s.ts - job.launches[s.span_id].ts for s in mine if s.span_id in job.launches]
        linked = job.con.execute(f"SELECT count(*) FROM link WHERE rank = {rank}").fetchall()[0][0] > 0
        rows.append(("launch_latency_median_ns", rank, step, quantile(late, (1, 2)) if late else None, "ns"))
        rows.append(("launch_count", rank, step, len(late) if linked else None, "count"))
        copies = [span for span in mine if span.kind == "memcpy"]
        sizes = [size for span in copies if (size := job.transfer.get(span.span_id, (None, None))[1]) is not None]
        none = 0 if not copies and job.recorded(rank)["copy"] else None
        rows.append(("copied_bytes", rank, step, sum(sizes) if sizes else none, "bytes"))
    return rows

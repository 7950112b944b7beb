"""Recorded time of which no figure speaks: before the first device task and after the last, where no step is marked.

A job that starts up loads libraries, compiles and waits for its first batch. The device has no task yet, so it has no
gap either. What calls took there is told, and nobody says of them that nothing of the kind was seen.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npulens.analysis.device.family import family
from npulens.analysis.idle.host_names import special
from npulens.analysis.idle.issue import tasks
from npulens.analysis.intervals import Intervals, bare
from npulens.analysis.run import Run
from npulens.analysis.say import duration
from npulens.analysis.steady import BEFORE_SHARE, OUTSIDE_SHARE, Outside, outside

#: English and Chinese.
Overlap = tuple[str, str]

_HOST_WORK = "kind IN ('cpu_op', 'runtime', 'python', 'annotation', 'enqueue', 'dequeue', 'gc', 'host_other')"
#: What the job itself did: marks of the profiler tell nothing of it.
_OF_THE_JOB = f"{_HOST_WORK} AND kind NOT IN ('gc', 'host_other')"


def told(run: Run) -> Iterator[tuple[Overlap, bool]]:
    """What is said of that time in English and Chinese, and whether it is most of what was recorded."""
    found = run.get(outside)
    if found is None:
        if (found := run.get(beyond_calls)) is not None:
            yield _beyond(found)
        return
    before, after, whole, rank, (first, last) = (
        found.before_ns, found.after_ns, found.whole_ns, found.rank, found.window
    )  # fmt: skip
    longest = _longest_outside(run, rank, (first, last), after > 0)
    call = "".join(f". The longest call there is {en} ({duration(ns)})" for (en, _), ns in longest)
    call_zh = "".join(f"；其间最长的调用是 {zh}（{duration(ns)}）" for (_, zh), ns in longest)
    # What is much shorter than the longest call, such as a mark, says nothing.
    least = max([1, *(ns // 10 for _, ns in longest)])
    for name, ns in _device_outside(run, rank, (first, last) if after > 0 else (first, None), least):
        call += f". On the device {name} ran there for {duration(ns)}, which is not counted as work"
        call_zh += f"；其间设备侧还有 {name}（{duration(ns)}），未计为设备任务"
    silent = _silent_ns(run, rank, (first, last) if after > 0 else (first, None))
    if silent > _DAYS * 86_400 * 10**9:
        yield _other_clock(rank, silent), True
        return
    if 2 * silent >= before + after:
        call += f". For {duration(silent)} of it no call was recorded at all"
        call_zh += f"；其中 {duration(silent)} 没有采集到任何调用"
    if (waited := _first_waits(run, rank)) is not None and 2 * waited >= before:
        call += (
            f". The first task had been launched {duration(waited)} before it ran: the device still worked off what "
            "was launched before the recording"
        )
        call_zh += f"；首个任务下发 {duration(waited)} 后才执行：设备仍在执行采集开始之前下发的任务"
    task, task_zh = _task(run)
    where, where_zh = f"before the first {task} or after the last", f"首个{task_zh}之前或最后一个之后"
    if min(before, after) <= max(before, after) / 100:
        where, where_zh = (
            (f"before the first {task}", f"首个{task_zh}之前") if before > after else
            (f"after the last {task}", f"最后一个{task_zh}之后")
        )  # fmt: skip
    text, text_zh = _lie(found, where, where_zh)
    yield (text + call, text_zh + call_zh), 2 * found.ns > whole


#: No recording is silent for so many days.
_DAYS = 2


def _other_clock(rank: int, silent: int) -> Overlap:
    days = silent // (86_400 * 10**9)
    return (
        f"rank {rank}: some calls lie {days:,} days away from the device's work, so they are of another clock, or the "
        "file is damaged. No figure here holds them",
        f"rank {rank}：部分调用与设备任务相隔 {days:,} 天，说明二者时钟不同或文件已损坏；这里的数字都不包含这些调用",
    )


def _lie(found: Outside, where: str, where_zh: str) -> Overlap:
    ns, whole = duration(found.ns), duration(found.whole_ns)
    return (
        f"rank {found.rank}: {ns} of {whole} recorded lie {where}, and no figure here holds them",
        f"rank {found.rank}：采集的 {whole} 中有 {ns} 位于{where_zh}，这里的数字都不包含这段时间",
    )


def _beyond(found: Outside) -> tuple[Overlap, bool]:
    where, where_zh = "before the first recorded call or after the last", "首个采集到的调用之前或最后一个之后"
    return _lie(found, where, where_zh), 2 * found.ns > found.whole_ns


def beyond_calls(run: Run) -> Outside | None:
    """The same of a capture of the host alone without steps: before its first call and after its last."""
    if any(run.steps[rank] or run.window(rank) is not None for rank in run.ranks):
        return None
    rows = run.con.execute(
        f"SELECT rank, min(ts_ns), max(ts_ns + dur_ns), min(ts_ns) FILTER ({_OF_THE_JOB}), "
        f"max(ts_ns + dur_ns) FILTER ({_OF_THE_JOB}) FROM span GROUP BY rank ORDER BY rank"
    ).fetchall()
    every = [
        Outside(rank, first - begin, end - last, end - begin, (first, last))
        for rank, begin, end, first, last in rows if first is not None
    ]  # fmt: skip
    large = [one for one in every if one.ns > OUTSIDE_SHARE * one.whole_ns]
    return max(large, key=lambda one: one.ns, default=None)


#: Causes that take their time in calls of the host, wherever the device's first task lies.
_IN_CALLS = ("gc", "compile", "memory_alloc", "dataloader")


def calls_of(run: Run, cause: str) -> int:
    """How long calls of a cause took in that time, in ns: no gap of the device tells of them."""
    found = run.get(outside)
    mine = None if found is None or cause not in _IN_CALLS else run.get(special).get(found.rank)
    if found is None or mine is None:
        return 0
    first, last = found.window
    of_it = mine.of(cause)
    ran = Intervals.union_of(mine.starts[of_it], mine.ends[of_it])
    end = max(last, int(mine.ends.max(initial=last)))
    return (ran - Intervals.union_of(np.array([first]), np.array([last if found.after_ns else end]))).total()


#: A call that takes no more than this ratio of what the same usually takes later is no first use.
_AS_LATER = 1.5
_AS_USUAL = f"""
WITH usual AS (
    SELECT kind, name, median(dur_ns) AS ns FROM span
    WHERE rank = $rank AND kind IN ('cpu_op', 'runtime') AND ts_ns >= $first GROUP BY kind, name
)
SELECT s.ts_ns AS ts, least(s.ts_ns + s.dur_ns, $first) AS stop FROM span s JOIN usual u USING (kind, name)
WHERE s.rank = $rank AND s.ts_ns < $first AND s.dur_ns <= {_AS_LATER} * u.ns
"""


def _perhaps_first_ns(run: Run) -> int:
    """How much of the time before the first task no call fills that takes as long later."""
    found = run.get(outside)
    if found is None or not found.before_ns:
        return 0
    rows = run.con.execute(_AS_USUAL, {"rank": found.rank, "first": found.window[0]}).fetchnumpy()
    usual = Intervals.union_of(bare(rows["ts"]), bare(rows["stop"]))
    return max(0, found.before_ns - usual.total())


def not_clean(run: Run, cause: str, least: float) -> Overlap | None:
    """Why nobody may say that nothing of a cause was seen; None: that time does not forbid it.

    All that a job does before its device has anything to do is its start-up.
    """
    found = run.get(outside)
    if found is None:
        return None
    task, task_zh = _task(run)
    if (ns := calls_of(run, cause)) >= max(1.0, least * found.whole_ns):
        where = f"before the first {task}" + (" or after the last" if found.after_ns else "")
        where_zh = f"首个{task_zh}之前" + ("或最后一个之后" if found.after_ns else "")
        return (
            f"its calls took {duration(ns)} {where}, and no figure holds that time",
            f"相关调用在{where_zh}耗时 {duration(ns)}，这里的数字都不包含这段时间",
        )
    if cause == "first_use" and run.get(_perhaps_first_ns) > BEFORE_SHARE * found.whole_ns:
        before, whole = duration(found.before_ns), duration(found.whole_ns)
        return (
            f"{before} of {whole} recorded lie before the first {task}, and what was first used there is in no figure",
            f"采集的 {whole} 中有 {before} 位于首个{task_zh}之前，其中的首次使用未计入任何数字",
        )
    return None


def _task(run: Run) -> Overlap:
    return ("operator", "算子") if run.get(family) == "cpu" else ("device task", "设备任务")


#: A first task that waits so long waits for work from before the recording.
_LONG_WAIT_NS = 1_000_000


def _first_waits(run: Run, rank: int) -> int | None:
    """How long the first task of a rank lay launched before it ran; None where that is ordinary, or not known."""
    did = run.get(tasks).get(rank)
    if did is None or not len(did.ids) or not did.linked[0]:
        return None
    waited = int(did.starts[0] - did.source_end[0])
    return waited if waited >= _LONG_WAIT_NS else None


#: A call of the runtime library that is so much of the longest call says where that went.
_MOST_OF_IT = 0.5


def _longest_outside(run: Run, rank: int, window: tuple[int, int], after: bool) -> list[tuple[Overlap, int]]:
    """The host's longest call outside a window, or the runtime library's call that is most of it: at most one."""
    # A function or a mark that goes on beside the device's work says less than a call. The profiler's own work is none.
    rows = run.con.execute(
        "WITH call AS (SELECT name, kind, span_id, ts_ns, ts_ns + dur_ns AS end_ns, "
        "greatest(0, least(ts_ns + dur_ns, $2) - ts_ns) "
        "+ CASE WHEN $4 THEN greatest(0, ts_ns + dur_ns - greatest(ts_ns, $3)) ELSE 0 END AS out_ns "
        f"FROM span WHERE rank = $1 AND {_HOST_WORK} AND (ts_ns < $2 OR $4 AND ts_ns + dur_ns > $3) "
        "AND NOT (kind = 'host_other' AND track IN (SELECT track FROM track WHERE track.kind = 'profiler'))), "
        "longest AS (FROM call ORDER BY kind NOT IN ('runtime', 'cpu_op') AND end_ns > $2 AND ts_ns < $3, "
        "out_ns DESC, span_id LIMIT 1) "
        "SELECT longest.name, longest.out_ns, call.name, call.out_ns FROM longest LEFT JOIN call "
        "ON call.kind = 'runtime' AND longest.kind <> 'runtime' AND call.out_ns >= $5 * longest.out_ns "
        "AND call.ts_ns >= longest.ts_ns AND call.end_ns <= longest.end_ns ORDER BY 4 DESC NULLS LAST LIMIT 1",
        [rank, *window, after, _MOST_OF_IT],
    ).fetchall()  # fmt: skip
    return [
        ((f"{name} in {around}", f"{around} 中的 {name}"), int(ns)) if name else ((around, around), int(out))
        for around, out, name, ns in rows
    ]  # fmt: skip


def _device_outside(run: Run, rank: int, window: tuple[int, int | None], least: int) -> list[tuple[str, int]]:
    """What is no work and took the device longest before a window, and after it where it ends: at most one."""
    return [(str(name), int(ns)) for name, ns in run.con.execute(
        "SELECT name, greatest(0, least(ts_ns + dur_ns, $2) - ts_ns) "
        "+ CASE WHEN $3 IS NULL THEN 0 ELSE greatest(0, ts_ns + dur_ns - greatest(ts_ns, $3)) END AS out_ns "
        "FROM span WHERE rank = $1 AND kind = 'device_other' ORDER BY out_ns DESC, span_id LIMIT 1", [rank, *window],
    ).fetchall() if ns >= least]  # fmt: skip


def _silent_ns(run: Run, rank: int, window: tuple[int, int | None]) -> int:
    """How long before a window, and after it where it ends, the host recorded nothing."""
    first, last = window
    spans = run.columns(
        f"SELECT ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE rank = ? AND {_HOST_WORK} AND kind <> 'host_other'",
        [rank],
    )
    ends = "SELECT min(ts_ns), max(ts_ns + dur_ns) FROM span WHERE rank = ?"
    ((begin, end),) = run.con.execute(ends, [rank]).fetchall()
    empty = Intervals.union_of(spans["ts_ns"], spans["end_ns"]).gaps(begin, end)
    edges = [(begin, first)] if last is None else [(begin, first), (last, end)]
    return sum(int(empty.within(np.array([a]), np.array([max(a, b)]))[0]) for a, b in edges)

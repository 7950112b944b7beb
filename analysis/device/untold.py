"""Time in which nothing recorded ran, where more may have run than was recorded: it is not known to be idle.

Where one gap has most of it, the gap is named by the kernel that ends it. CANN tells of each kernel how long it came
after the one before it (Task Wait Time). That bears the gap out and gives no reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npulens.analysis.idle.pieces import idle
from npulens.analysis.intervals import Intervals
from npulens.analysis.run import Run
from npulens.analysis.say import duration, share

#: Time without recorded work is told from this share on.
UNTOLD_SHARE = 0.1
#: One gap with so much of the time is named.
_MOST_OF_IT = 0.5
#: CANN's own wait for a kernel differs from its gap by no more than this share.
_SAME = 0.01
_HOST = "kind IN ('cpu_op', 'runtime', 'python', 'annotation', 'enqueue', 'dequeue', 'gc')"
_ENDS = f"""
SELECT s.name, k.wait_ns, (SELECT count(*) FROM span o WHERE o.rank = s.rank AND o.kind = s.kind AND o.name = s.name),
    EXISTS (FROM span o WHERE o.rank = s.rank AND o.kind = s.kind AND o.name = s.name AND o.ts_ns < s.ts_ns),
    EXISTS (FROM span h WHERE h.rank = s.rank AND {_HOST})
FROM span s LEFT JOIN kernel k USING (span_id)
WHERE s.rank = $rank AND s.ts_ns = $at AND s.kind = 'kernel' AND s.dur_ns > 0 ORDER BY s.span_id LIMIT 1
"""


def untold(run: Run) -> Iterator[tuple[str, str]]:
    """Of the rank with most of such time: how much there is, and where most of it lies."""
    silent = []
    for rank in set(run.ranks) - set(run.get(idle).ranks):
        if (window := run.window(rank)) is not None and window[1] > window[0]:
            work = run.activity(rank).work()
            if len(work.starts):  # where nothing of the device is there, that is what is said
                silent.append((work.gaps(*window).total(), window[1] - window[0], rank))
    ns, whole_ns, rank = max(silent, default=(0, 1, 0))
    if ns <= UNTOLD_SHARE * whole_ns:
        return
    lost, all_, part = duration(ns), duration(whole_ns), share(ns / whole_ns)
    en, zh = f"{lost} of {all_} ({part})", f"{all_} 中有 {lost}（{part}）"
    if lost == all_:
        rest = duration(whole_ns - ns)
        en, zh = f"all but {rest} of {all_}", f"{all_} 中除 {rest} 外"
    window = run.window(rank)
    gap, gap_zh = ("", "") if window is None else _longest(run, rank, run.activity(rank).work().gaps(*window))
    yield (
        f"rank {rank}: none of the recorded work ran for {en}. Not all of the device's work "
        f"was recorded, so whether it idled, copied or communicated then cannot be told{gap}",
        f"rank {rank}：{zh}没有任何已采集的设备任务在执行；设备上的任务没有全部采集，"
        f"无法判断当时是空闲、拷贝还是通信{gap_zh}",
    )


def _longest(run: Run, rank: int, empty: Intervals) -> tuple[str, str]:
    """The gap that has most of the time, by the kernel that ends it, and what is known of it."""
    lengths = empty.ends - empty.starts
    at = int(np.argmax(lengths))
    ns = int(lengths[at])
    rows = run.con.execute(_ENDS, {"rank": rank, "at": int(empty.ends[at])}).fetchall()
    if ns < _MOST_OF_IT * empty.total() or not rows:
        return "", ""
    name, wait, count, before, host = rows[0]
    place, place_zh = f"before a {name}", f"{name} 之前"
    if not before:
        place = f"before {name}" if count == 1 else f"before the first of {count:,} {name}"
        place_zh = f"{name}（共 {count:,} 次）首次执行之前" if count > 1 else f"{name} 之前"
    en = f". One gap has {duration(ns)} of it, {place}"
    zh = f"。其中一段空隙就有 {duration(ns)}，位于 {place_zh}"
    if wait is not None and abs(wait - ns) <= _SAME * ns:
        en += ", and its Task Wait Time says so as well"
        zh += "，其 Task Wait Time 与此一致"
    if not before and not host:
        en += ". It first ran after that. Whether it was compiled or loaded meanwhile, no recorded call of the host "
        en += "tells"
        zh += "。该算子在此之后才首次执行；其间是否在编译或加载它，没有采集到可说明的主机调用"
    return en, zh

"""What this capture can and cannot answer, how far it can be trusted, and how to collect a better one.

The score is a weighted mean that anyone can do again by hand. Every part has points and a share, ``score = round(100 *
sum(points * share) / sum(points))`` over the parts that apply. Seventy points are for what was recorded: the share is
that of the captured ranks that have it. Thirty are for how far it can be trusted. What the backend's profiler has no
setting for does not count. Nor does what a job without collectives or with one rank cannot have. It is still listed as
missing.

The points are a judgement. What most detectors need weighs most: device tasks, launch arrows, steps, call stacks, and
whom a collective waits for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from npulens.analysis.capability import BY_NAME, Has, capabilities
from npulens.analysis.collect import Recipe, recipe
from npulens.analysis.device.family import on_npu
from npulens.analysis.device.unseen import told as unseen
from npulens.analysis.device.untold import untold
from npulens.analysis.finding import Finding
from npulens.analysis.idle.behind import behind, early_said, from_before
from npulens.analysis.idle.blame import said as ranges
from npulens.analysis.idle.pieces import idle
from npulens.analysis.modules.training_mode import training_mode
from npulens.analysis.ranks.clock import clock
from npulens.analysis.ranks.several_devices import told as several
from npulens.analysis.run import Run
from npulens.analysis.say import duration, share
from npulens.analysis.serving.exported import exports, hurt
from npulens.analysis.work.partly import told as of_a_part
from npulens.analysis.work.sums_alone import told as sums_alone
from npulens.ingest.messages import render, restored

# How far a capture can be trusted: which shares of it are there, and what may mislead.
#
# A part is a share of something that ought to be whole; a doubt is a sentence. Both are facts of the capture, not of
# the job. A late rank is a finding, a rank that was not captured is a doubt.
Overlap = tuple[str, str]
#: name, what it is, points, share
Share = tuple[str, Overlap, int, float]

_LAUNCHED = "('kernel', 'memset', 'memcpy', 'comm_op', 'unknown')"
#: A first step this many times the median of the others is taken for a warm-up.
WARM_UP = 1.5
#: An offset between ranks that is known to less than this share of the step can order their waits.
CLOCK_SHARE = 0.01
#: Work from before the recording that takes this share of it is said.
BACKLOG_SHARE = 0.01
#: A device that is behind the host by more than this share of a step is said.
LAG_SHARE = 0.25


@dataclass(frozen=True)
class Doubt:
    """A property of the capture that may make its figures misleading."""

    name: str
    text: Overlap
    beside: bool = False  # so much of the capture that it belongs beside the answer


@dataclass(frozen=True)
class Facts:
    """The counts that both the shares and the doubts are made of."""

    events: int
    dropped: int
    lost: int  # of those, the ones that may have been work
    partial: tuple[tuple[int, str | None], ...]  # ranks whose files are incomplete, and why
    tasks: int  # device tasks that a host call must have launched
    linked: int
    launches: int
    negative: int  # launches that seem to arrive before they were made
    earliest_ns: int  # the most negative of their latencies
    collectives: bool


def facts(run: Run) -> Facts:
    """One pass over each table."""
    one = run.con.execute
    ((events, dropped),) = one("SELECT coalesce(sum(events), 0), coalesce(sum(dropped), 0) FROM rank").fetchall()
    ((lost,),) = one(
        "SELECT coalesce(sum(dropped), 0) FROM coverage WHERE table_name IN ('span', 'kernel', 'transfer')"
    ).fetchall()
    told = one("SELECT rank, reason, said FROM rank WHERE status <> 'complete' ORDER BY rank").fetchall()
    partial = [(rank, restored(reason, said)) for rank, reason, said in told]
    ((tasks, linked),) = one(
        "SELECT count(*), coalesce(sum((s.span_id IN (SELECT dst_span_id FROM link WHERE route <> 'fwdbwd'))::BIGINT), "
        f"0) FROM span s WHERE kind IN {_LAUNCHED}"
    ).fetchall()
    ((launches, negative, earliest),) = one(
        "SELECT count(*), coalesce(sum((latency_ns < 0)::BIGINT), 0), coalesce(min(latency_ns), 0) FROM link "
        "WHERE route NOT IN ('fwdbwd', 'task_queue')"
    ).fetchall()
    collectives = bool(one("SELECT 1 FROM span WHERE kind = 'comm_op' LIMIT 1").fetchall())
    return Facts(
        int(events), int(dropped), int(lost), tuple(partial), tasks, int(linked), launches, int(negative),
        int(earliest), collectives,
    )  # fmt: skip


def trust(run: Run) -> tuple[Share, ...]:
    """The thirty points: name, what it is, points, share."""
    return tuple(_shares(run, run.get(facts)))


def _shares(run: Run, found: Facts) -> Iterator[Share]:
    captured = len(run.ranks)
    if run.world_size is not None:
        yield "ranks", ("ranks of the job that were captured", "已采集的 rank"), 8, captured / max(1, run.world_size)
    elif found.collectives:
        # Neither all nor none of it is known to be missing.
        yield "ranks", ("ranks captured; the size of the job is not known", "已采集的 rank（任务规模未知）"), 8, 0.5
    met = found.events + found.dropped
    yield "events", ("events kept", "保留的事件"), 5, found.events / met if met else 0.0
    whole = (captured - len(found.partial)) / max(1, captured)
    yield "whole", ("ranks whose files are complete", "文件完整的 rank"), 3, whole
    if found.tasks:
        text = ("device tasks whose launch is known", "能找到下发点的设备任务")
        yield "linked", text, 5, found.linked / found.tasks
    if found.launches:
        text = ("launches that do not arrive before they were made", "到达时间不早于下发时间的任务")
        yield "launch_clock", text, 2, 1 - found.negative / found.launches
    if captured > 1:
        text = ("ranks whose clocks are aligned to 1 % of the step", "时钟对齐误差在步长 1% 以内的 rank")
        yield "rank_clocks", text, 2, _aligned(run)
    most = max([0, *(len(steps) for steps in run.steps.values())])
    if most:
        text = ("steps, of the five that a mean needs", "训练步数（平均至少需要 5 步）")
        yield "step_count", text, 5, min(most, 5) / 5


def uncertainties(run: Run) -> dict[int, int | None]:
    """What is known of each rank's clock against the others, in ns; None is "cannot tell"."""
    return {rank: run.get(clock).uncertainty_ns(rank) for rank in run.ranks}


def _aligned(run: Run) -> float:
    known = [ns for ns in run.get(uncertainties).values() if ns is not None and ns <= run.step_ns * CLOCK_SHARE]
    return len(known) / max(1, len(run.ranks))


def doubts(run: Run) -> tuple[Doubt, ...]:
    """What may mislead, the worst first."""
    found = run.get(facts)
    return tuple([
        *(Doubt("part", text) for text in of_a_part(run)), *_files(found),
        *(Doubt("sums", text) for text in sums_alone(run)), *(Doubt("untold", text) for text in untold(run)),
        *(Doubt("devices", text, True) for text in several(run)), *_unused(run),
        *(Doubt("outside", text, most) for text, most in unseen(run)), *_launches(found),
        *(Doubt("training_mode", text) for text in training_mode(run)),
        *_backlog(run), *_clocks(run), *_steps(run), *_lag(run), *_profiler(run), *_export(run),
    ])  # fmt: skip


def _files(found: Facts) -> Iterator[Doubt]:
    alike: dict[str | None, list[int]] = {}
    for rank, reason in found.partial:
        alike.setdefault(reason, []).append(rank)
    for reason, ranks in alike.items():
        listed = ranges(tuple(ranks))
        yield Doubt("partial", (
            f"rank {listed} is incomplete: {reason}" if len(ranks) == 1 else f"ranks {listed} are incomplete: {reason}",
            f"rank {listed} 的数据不完整：{render(reason, 'zh')}",
        ))  # fmt: skip
    if found.lost:
        met = found.events + found.lost
        yield Doubt("dropped", (
            f"{found.lost:,} of {met:,} events were not kept, so time shown as idle may be work that is missing",
            f"{met:,} 个事件中有 {found.lost:,} 个未保留，显示为空闲的时间可能是缺失的工作",
        ))  # fmt: skip


def _unused(run: Run) -> Iterator[Doubt]:
    """A device that was there, of a job that ran on the CPU alone."""
    rows = run.con.execute(
        "SELECT rank, json_extract(settings, '$.unused_devices')::VARCHAR FROM rank "
        "WHERE json_valid(settings) AND json_extract(settings, '$.unused_devices') IS NOT NULL ORDER BY rank"
    ).fetchall()
    by_names: dict[str, list[int]] = {}
    for rank, said in rows:
        by_names.setdefault(", ".join(map(str, json.loads(said))), []).append(rank)
    for names, ranks in by_names.items():
        listed = ranges(tuple(ranks))
        who = f"rank {listed}" if len(ranks) == 1 else f"ranks {listed}"
        yield Doubt("unused", (
            f"{who}: {names} was there, and nothing recorded ran on it: all of the work was the CPU's",
            f"rank {listed}：机器上有 {names}，但采集到的任务都没有用它，全部在 CPU 上运行",
        ), True)  # fmt: skip


def _launches(found: Facts) -> Iterator[Doubt]:
    if found.tasks and found.linked < found.tasks:
        lost, part = found.tasks - found.linked, share(1 - found.linked / found.tasks)
        yield Doubt("links", (
            f"{lost:,} of {found.tasks:,} device tasks ({part}) have no known launch: "
            "why the device waited before them cannot be told",
            f"{found.tasks:,} 个设备任务中有 {lost:,} 个（{part}）找不到下发点，无法说明设备为何在其之前等待",
        ))  # fmt: skip
    if found.negative:
        by = duration(-found.earliest_ns)
        yield Doubt("negative_latency", (
            f"{found.negative:,} of {found.launches:,} tasks seem to start before they were launched, by up to {by}: "
            "the clocks of host and device differ by at least that much, and launch latencies are that uncertain",
            f"{found.launches:,} 个任务中有 {found.negative:,} 个看起来早于下发就开始，最多早 {by}："
            "主机与设备时钟至少相差这么多，下发时延的误差与此相当",
        ))  # fmt: skip


def _backlog(run: Run) -> Iterator[Doubt]:
    """Where the device still ran what was launched before the recording, which nobody recorded."""
    for rank, ns in run.get(idle).by_rank("backlog").items():
        if ns >= BACKLOG_SHARE * run.wall_ns and rank not in run.get(from_before):  # told with the step's work
            yield Doubt("backlog", (
                f"rank {rank}: for {duration(ns)} shown as idle, the device still ran work from before the recording; "
                "look at later steps",
                f"rank {rank}：显示为空闲的 {duration(ns)} 其实在执行采集开始之前的任务，已下发的任务在等它，"
                "请看之后的步",
            ))  # fmt: skip


def _clocks(run: Run) -> Iterator[Doubt]:
    if len(run.ranks) < 2:
        return
    known = run.get(uncertainties)
    unknown = [rank for rank, ns in known.items() if ns is None]
    if unknown:
        listed = ", ".join(map(str, unknown[:8])) + (", ..." if len(unknown) > 8 else "")
        yield Doubt("clock", (
            f"the clock of rank {listed} could not be aligned with the others: who came late cannot be told by time",
            f"rank {listed} 的时钟无法与其他 rank 对齐，不能按时间判断谁迟到",
        ))  # fmt: skip
    worst = max([0, *(ns for ns in known.values() if ns is not None)])
    if worst > run.step_ns * CLOCK_SHARE:
        yield Doubt("clock", (
            f"the clocks of the ranks are aligned to {duration(worst)} only: smaller differences between ranks mean "
            "nothing",
            f"各 rank 的时钟只能对齐到 {duration(worst)}，更小的差异没有意义",
        ))  # fmt: skip


def _steps(run: Run) -> Iterator[Doubt]:
    if not any(run.steps.values()):
        listed = run.con.execute("SELECT 1 FROM profiler_step WHERE step IS NOT NULL LIMIT 1").fetchall()
        why, why_zh = (
            ("when each step began was not recorded", "没有采集各步的起始时间") if listed
            else ("no steps were marked", "没有 step 标记")
        )  # fmt: skip
        yield Doubt("no_steps", (
            f"{why}: the whole capture counts as one step", f"{why_zh}：整个采集按一步计算",
        ))  # fmt: skip
    slow, late = [], run.get(behind)
    for rank, steps in run.steps.items():
        if rank in late and late[rank].lag_ns > LAG_SHARE * median(step.dur_ns for step in steps):
            continue  # the lengths are those of the host's marks
        if len(steps) >= 3 and steps[0].dur_ns > WARM_UP * median(step.dur_ns for step in steps[1:]):
            slow.append(rank)
    if slow:
        first = run.steps[slow[0]]
        ratio = first[0].dur_ns / max(1, median(step.dur_ns for step in first[1:]))
        yield Doubt("warm_up", (
            f"the first step takes {ratio:.1f} times as long as the others: if it is a warm-up, what it shows is not "
            "what the job usually does",
            f"第一步耗时是其他步的 {ratio:.1f} 倍：如果它是预热，就不代表任务的平常状态",
        ))  # fmt: skip


def _lag(run: Run) -> Iterator[Doubt]:
    """Where the device is behind the host's marks: of the rank that is furthest."""
    found = run.get(behind)
    if (text := early_said(run)) is not None:
        yield Doubt("early", text)
    lags = [
        (one.lag_ns, rank) for rank, one in found.items()
        if one.lag_ns > LAG_SHARE * median(step.dur_ns for step in run.steps[rank])
    ]  # fmt: skip
    if lags:
        lag, rank = max(lags)
        yield Doubt("lag", (
            f"rank {rank}: the device is {duration(lag)} behind the host when a step begins, and steps are cut at the "
            "host's marks: single steps say little, their mean does",
            f"rank {rank}：每步开始时设备落后主机 {duration(lag)}，而步按主机标记切分：单步数值意义不大，请看平均值",
        ))  # fmt: skip


def _export(run: Run) -> Iterator[Doubt]:
    """A profiler that writes its trace stops a serving engine, and its requests with it."""
    if not (windows := exports(run.con)):
        return
    stopped, open_ = duration(sum(end - begin for begin, end in windows)), len(hurt(run.con))
    yield Doubt("export", (
        f"the profiler's own export stopped the engine for {stopped}; {open_} requests were open then and do not count",
        f"采集器导出数据时引擎停了 {stopped}；当时未完成的 {open_} 个请求不计入",
    ))  # fmt: skip


def _profiler(run: Run) -> Iterator[Doubt]:
    """Settings that make the host slower than it is without them."""
    rows: list[Any] = run.con.execute("SELECT settings FROM rank WHERE settings IS NOT NULL LIMIT 1").fetchall()
    try:
        settings = json.loads(rows[0][0]) if rows else {}
    except ValueError:
        settings = {}
    common = settings.get("common_config", settings) if isinstance(settings, dict) else {}
    on = [name for name in ("with_stack", "profile_memory", "with_modules", "with_flops")
          if isinstance(common, dict) and common.get(name)]  # fmt: skip
    if on:
        listed = ", ".join(on)
        yield Doubt("overhead", (
            f"{listed} slowed the host while profiling: host time without the profiler is somewhat less",
            f"采集时开启了 {listed}，会拖慢主机；不采集时主机耗时会少一些",
        ))  # fmt: skip


Pair = tuple[str, str]

#: Capability -> its points. The others are listed when they are missing, and weigh nothing.
POINTS = {
    "kernels": 14, "launches": 10, "steps": 8, "peer_waits": 7, "python": 6, "host_ops": 4, "runtime_calls": 4,
    "kernel_types": 4, "kernel_shapes": 2, "kernel_counters": 2, "copies": 2, "copy_bytes": 2, "gc": 2, "memory": 2,
    "frequency": 1,
}  # fmt: skip
#: What only a job that communicates can have.
OF_A_JOB = ("peer_waits",)
#: What torch.profiler records since 2.9 only, and for which nobody asks it.
OF_AN_NPU = ("gc",)


@dataclass(frozen=True)
class Part:
    """One line of the score."""

    name: str
    text: Pair
    points: int
    share: float

    def as_dict(self, lang: str) -> dict[str, Any]:
        return {"name": self.name, "text": _in(lang, self.text), "points": self.points, "share": round(self.share, 4)}


@dataclass(frozen=True)
class Missing:
    """Something the capture does not hold."""

    name: str
    what: Pair
    why: Pair
    collect_with: str | None  # None: no setting records it
    ranks: tuple[int, ...]  # those that lack it; empty: what is missing belongs to no captured rank

    def as_dict(self, lang: str) -> dict[str, Any]:
        return {
            "what": _in(lang, self.what), "why": _in(lang, self.why), "collect_with": self.collect_with,
            "name": self.name, "ranks": list(self.ranks),
        }  # fmt: skip


@dataclass(frozen=True)
class Quality:
    """What `npulens check` says about the capture itself."""

    score: int
    parts: tuple[Part, ...]
    missing: tuple[Missing, ...]
    doubts: tuple[Doubt, ...]
    collect: Recipe

    def as_dict(self, lang: str = "en") -> dict[str, Any]:
        return {
            "score": self.score, "missing": [missing.as_dict(lang) for missing in self.missing],
            "doubts": [_in(lang, doubt.text) for doubt in self.doubts],
            "parts": [part.as_dict(lang) for part in self.parts], "collect": self.collect.as_dict(lang),
        }  # fmt: skip


def quality(run: Run, findings: Sequence[Finding] = ()) -> Quality:
    """The capture's own examination. The findings say which rank is worth capturing next."""
    has = run.get(capabilities)
    parts = (*_recorded(run, has), *(Part(*part) for part in run.get(trust)))
    missing = (*_ranks(run), *_lacking(has), *_few_steps(run))
    return Quality(
        score_of(parts), parts, missing, run.get(doubts),
        recipe(run, about(run), [entry.name for entry in missing], findings),
    )  # fmt: skip


def score_of(parts: Iterable[Part]) -> int:
    """The weighted mean of the shares, in percent; a capture to which nothing applies has none."""
    parts = tuple(parts)
    return round(100 * sum(p.points * p.share for p in parts) / max(1, sum(p.points for p in parts)))


def _recorded(run: Run, has: dict[str, Has]) -> Iterator[Part]:
    """What was recorded: the share of the captured ranks that have it."""
    npu, communicates = about(run)["npu"], talks(run)
    for name, points in POINTS.items():
        capability = BY_NAME[name]
        if (name in OF_A_JOB and not communicates) or (not npu and (capability.torch is None or name in OF_AN_NPU)):
            continue
        if not has[name].applies:
            continue
        yield Part(name, capability.means, points, len(has[name].ranks) / max(1, len(run.ranks)))


def talks(run: Run) -> bool:
    """Whether this is a job of several ranks, as far as the capture tells."""
    if run.world_size is not None:
        return run.world_size > 1
    return bool(run.con.execute("SELECT 1 FROM span WHERE kind = 'comm_op' LIMIT 1").fetchall())


def about(run: Run) -> dict[str, Any]:
    """What the first rank says of the profiler that recorded it."""
    rows = run.con.execute("SELECT backend, formats, profiler_level, settings FROM rank ORDER BY rank LIMIT 1")
    for backend, formats, level, settings in rows.fetchall():
        return {"npu": on_npu(backend, formats), "backend": backend, "level": level, "settings": _object(settings)}
    return {"npu": True, "backend": None, "level": None, "settings": {}}


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _lacking(has: dict[str, Has]) -> Iterator[Missing]:
    for name, found in has.items():
        if found.applies and found.lacking and found.why and found.why_zh:
            why = (found.why, found.why_zh)
            yield Missing(name, found.capability.means, why, found.collect_with, found.lacking)


def _ranks(run: Run) -> Iterator[Missing]:
    """Ranks of the job that were not captured."""
    if not run.missing_ranks:
        return
    listed, world = _listed(run.missing_ranks), run.world_size
    few = "rank" if len(run.missing_ranks) == 1 else "ranks"
    of, of_zh = (f" of {world}", f"（共 {world} 个 rank）") if world else ("", "")
    yield Missing(
        "ranks", (f"{few} {listed}{of}", f"rank {listed}{of_zh}"),
        ("not captured, or not loaded together with these", "未采集，或没有与现有数据一起加载"),
        f"npulens load --join ({few} {listed})", (),
    )  # fmt: skip


def _listed(ranks: Sequence[int]) -> str:
    """0, 2-7: neighbours joined, the first few of them."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    told = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ", ".join(told[:8]) + (", ..." if len(told) > 8 else "")


#: A mean over fewer steps than this is mostly noise; the profilers' own guides record about as many.
ENOUGH_STEPS = 5


def _few_steps(run: Run) -> Iterator[Missing]:
    steps = max([0, *(len(steps) for steps in run.steps.values())])
    if 0 < steps < ENOUGH_STEPS:
        counted = "one step" if steps == 1 else f"{steps} steps"
        yield Missing(
            "more_steps", (f"more than {counted}", f"多于 {steps} 个训练步"),
            (f"what {counted} show{'s' * (steps == 1)} may be chance", f"只有 {steps} 步，可能是偶然"),
            f"schedule(active={ENOUGH_STEPS})", (),
        )  # fmt: skip


def _in(lang: str, text: Pair) -> str:
    return text[1 if lang == "zh" else 0]

"""Runs the detectors over a run and ranks what they find.

One file of analysis/detectors is one judgement. A user's own come from a folder or from installed packages (entry
points of the group `npulens.detectors`). Each ends in exactly one of five outcomes, and all are always said:

* found: a fix gives back at least the detector's limit;
* masked: time is lost, but a fix gives nothing back until another limit falls;
* clean: what it needs covers most of the time it speaks of, and what was measured is small;
* not_measured: something it needs is missing, or is known for too little of that time;
* failed: the detector has a defect.

Causes of the vocabulary that no detector looks for are listed beside them.

A saving is never the detector's word: the engine replays the run with the change that a fix would make
(analysis/replay/whatif.py). In ns of the mean step. The list as a whole never promises more than the step. From the
largest down, each finding is given at most what the others have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from npulens.analysis.capability import (
    capabilities,
    explains,
    held,
    idle_untold,
    its_own,
    of_this_kind,
    setting,
    unexplained,
)
from npulens.analysis.causes import CAUSES, OF_EXPOSED, OF_IDLE
from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import kernels
from npulens.analysis.device.spent import KernelTime, kernel_time
from npulens.analysis.device.unseen import not_clean
from npulens.analysis.discovery import OURS, Detector, detectors
from npulens.analysis.finding import STEP as OF_STEP
from npulens.analysis.finding import Candidate, Change, Finding, NotMeasured, severity, together
from npulens.analysis.idle.behind import as_judged
from npulens.analysis.limits import COVERED, Limits, overridden
from npulens.analysis.problems.because import joined, said_once, umbrella, without_implied
from npulens.analysis.quality import Quality, quality
from npulens.analysis.ranks.several_devices import hidden as behind_others
from npulens.analysis.replay import whatif
from npulens.analysis.replay.critical import STILL, held_by, unmovable, waits_for_absent
from npulens.analysis.run import Run
from npulens.analysis.say import ONCE, ONLY_STEP, RECORDED, STEP, Whole, filled, number, on_cpu, per
from npulens.analysis.serving import judging
from npulens.analysis.serving.served import Summary, summary
from npulens.analysis.settings import DEFAULT, Settings
from npulens.analysis.steady import of_step, shares_of, steady_ns
from npulens.analysis.views import install
from npulens.analysis.work.host_time import HostTime, host_time
from npulens.analysis.work.judged import none_ran
from npulens.analysis.work.partly import too_little
from npulens.ingest.messages import render

#: A saving that is so much more than the idle time a finding names is explained.
MORE = 1.05
#: The views that our own detectors ask; somebody else's may ask any.
_ASKED = ("comm_task",)
_LATER_GAPS = {
    "en": "It gives back more than that idle time: the host is earlier from then on, and later gaps close as well.",
    "zh": "收益大于上述空闲时间：主机此后下发更早，后面的空隙也会缩小。",
}
#: What masked time gives back all the same is told from the first share of it on; from the second on it is not masked.
_SOME, _NEARLY = 0.02, 0.5
#: Of a finding that most steps are without.
_ONE_STEP = {
    "en": "Nearly all of it lies in step {only_step}: what is said of each step is the mean.",
    "zh": "几乎全部集中在第 {only_step} 步，上述每步的数值是平均值。",
}
#: Of a host that was late once, in the first recorded step.
_FIRST_STEP = {
    "en": "It happened once, in the first recorded step: first use of an operator or a library looks like this. Later "
    "steps do not pay it.",
    "zh": "只在采集的第一步出现过一次：算子或库首次使用时常会这样，后续各步不再产生这笔开销。",
}
#: Of a finding: another of its kind of which the replay gives nothing back.
_HIDDEN = {
    "en": "There is more of the kind, hidden until other limits are gone: {what}.",
    "zh": "同类问题还有一处，其他限制消除后才会显现：{what}。",
}
#: What can hold a run's end, and what it would have to do, in English and Chinese.
_LIMITS = {
    "host": ("the host{who} is faster", "{who}主机变快"), "launch": ("launches{who} are faster", "{who}任务下发变快"),
    "queue": ("the task queue{who} is faster", "{who}任务队列变快"),
    "kernel": ("the computing{who} is faster", "{who}计算变快"),
    "copy": ("the copies{who} are faster", "{who}拷贝变快"),
    "comm": ("the communication{who} is faster", "{who}通信变快"),
    "peer": ("a rank that was not captured comes earlier", "未采集的卡更早到达"),
    "sync": ("a synchronising call{who} ends earlier", "{who}同步调用更早结束"),
    "unexplained": ("what was not recorded{who} is known", "{who}未采集到的原因查明"),
}  # fmt: skip

#: What holds a run's end and is the same as what a detector speaks of.
_OWN_KIND = {
    "sync_stall": "sync", "launch_overhead": "launch", "host_late": "host", "copy_exposed": "copy",
    "comm_exposed": "comm",
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How one detector ended."""

    detector: str
    outcome: str  # 'found', 'masked', 'clean', 'not_measured' or 'failed'
    reason: str
    reason_zh: str
    collect_with: str | None = None
    recordable: bool = True  # else no setting of a profiler would change it

    def as_dict(self, lang: str = "en") -> dict[str, Any]:
        return {
            "detector": self.detector, "outcome": self.outcome,
            "reason": self.reason_zh if lang == "zh" else self.reason,
            "collect_with": None if self.collect_with is None else render(self.collect_with, lang),
        }  # fmt: skip


@dataclass(frozen=True)
class Check:
    """Everything `npulens check` says of a run."""

    run_id: str
    step_ns: int
    steps: int
    quality: Quality
    findings: tuple[Finding, ...]
    together_ns: int  # what all of them give back at once, replayed together
    outcomes: tuple[Outcome, ...]
    not_looked_for: tuple[str, ...]  # causes that no detector of this check speaks of
    steady_step_ns: int  # the mean step without first use: what shares of each step are shares of
    serving: Summary | None = None  # of a serving run
    whole: Whole = Whole()  # what shares are of
    host: HostTime | None = None  # of a run without work of a device beside the CPU
    kernels: KernelTime | None = None  # of a run with it

    def as_dict(self, lang: str = "en") -> dict[str, Any]:
        return {
            "run_id": self.run_id, "step_ns": self.step_ns, "steps": self.steps,
            "steady_step_ns": self.steady_step_ns, "together_ns": self.together_ns,
            "quality": self.quality.as_dict(lang),
            "serving": self.serving.as_dict() if self.serving else None,
            "host": self.host.as_dict() if self.host else None,
            "kernels": self.kernels.as_dict() if self.kernels else None,
            "findings": [finding.as_dict(lang) for finding in self.findings],
            "outcomes": [outcome.as_dict(lang) for outcome in self.outcomes],
            "not_looked_for": [
                {"cause": cause, "means": CAUSES[cause][1 if lang == "zh" else 0]} for cause in self.not_looked_for
            ],
        }  # fmt: skip


def check(con: duckdb.DuckDBPyConnection, only: Iterable[str] | None = None, settings: Settings = DEFAULT) -> Check:
    """Judge a run. `only`: names of detectors; `settings`: limits and own detectors of npulens.toml."""
    every = chosen(detectors(settings), only)
    ours = all(detector.detect.__module__.startswith(f"{OURS}.") for detector in every)
    install(con, _ASKED if ours else None)
    run = as_judged(Run.of(con, settings.slo))
    elsewhere = () if only else tuple(each for each in every if each.about and not of_this_kind(run, each.about))
    every = tuple(each for each in every if each not in elsewhere)
    found: list[Finding] = []
    outcomes: list[Outcome] = []
    for detector in every:
        findings, outcome = judged(run, detector, settings)
        found += findings
        outcomes.append(outcome)
    of_steps = [finding for finding in found if finding.measure == OF_STEP]
    of_requests = judging.once(run, [finding for finding in found if finding.measure != OF_STEP])
    stepwise = tuple(_capped(run, umbrella(said_once(without_implied(run, joined(run, of_steps))), run.step_ns)))
    saved = _all_saved(run, stepwise) if stepwise else 0
    ranked = (*of_requests, *stepwise)
    looked_for = {outcome.detector for outcome in outcomes} | {each.name for each in elsewhere}
    unseen = tuple(cause for cause in CAUSES if cause not in looked_for)
    return Check(
        run.run_id, run.step_ns, run.step_count, quality(run, ranked), ranked, saved, tuple(outcomes),
        unseen if only is None else (), run.get(steady_ns) // run.step_count,
        run.get(summary) if of_this_kind(run, "requests") else None, run.get(shares_of), run.get(host_time),
        run.get(kernel_time),
    )  # fmt: skip


def _all_saved(run: Run, findings: Sequence[Finding]) -> int:
    """What all of them give back of the mean step at once: a replay of all changes, and what no replay knows.

    Of a saving that is not of the replay, what its change gives in the replay is there already.
    """
    all_made = together((Change(), *(finding.change for finding in findings)))
    beside = sum(
        max(0, finding.saving_ns - whatif.saved_ns(run, finding.change) // run.step_count)
        for finding in findings if not finding.replayed
    )  # fmt: skip
    return min(min(whatif.saved_ns(run, all_made), run.wall_ns) // run.step_count + beside, run.step_ns)


def chosen(known: tuple[Detector, ...], only: Iterable[str] | None) -> tuple[Detector, ...]:
    """The detectors asked for; all of them unless some are named."""
    if only is None:
        return known
    names = set(only)
    if unknown := names - {detector.name for detector in known}:
        raise ValueError(
            f"there is no detector {', '.join(sorted(unknown))}; there are {', '.join(d.name for d in known)}"
        )
    return tuple(detector for detector in known if detector.name in names)


def judged(run: Run, detector: Detector, settings: Settings) -> tuple[list[Finding], Outcome]:
    """One detector's findings and how it ended. Its failure is its outcome; the others still run."""
    try:
        limits = overridden(detector.limits(), settings.limits_of(detector.name), "npulens.toml")
        if (lacking := _lacking(run, detector)) is not None:
            return [], lacking
        candidates = list(detector.detect(run.con, run, limits))
        if detector.about:
            return _of_requests(run, detector, candidates, limits)
        each = [(_measured(run, detector, candidate), candidate) for candidate in candidates]
        measured = sorted((finding for finding, _ in each), key=lambda finding: -finding.saving_ns)
    except NotMeasured as missing:
        collect_with = its_own(run, missing.collect_with)
        return [], Outcome(detector.name, "not_measured", missing.why, missing.why_zh, collect_with, missing.recordable)
    except Exception as error:  # a defect of one detector must not take the others' answers away
        why = f"{type(error).__name__}: {error}"
        return [], Outcome(detector.name, "failed", why, why)
    findings = [finding for finding in measured if finding.saving_share >= limits.min_share and finding.saving_ns > 0]
    if findings:
        best = findings[0]
        hidden = [(candidate.measured_ns or 0, finding) for finding, candidate in each
                  if finding not in findings and _hides(run, candidate, limits)]  # fmt: skip
        if hidden:
            findings[0] = _with_hidden(best, max(hidden, key=lambda one: one[0])[1])
        return findings, Outcome(detector.name, "found", best.words["en"].title, best.words["zh"].title)
    most = max(candidates, key=lambda candidate: candidate.measured_ns or 0, default=None)
    lost = (most.measured_ns or 0) if most else 0
    if most and (whole := _whole_ns(run, most)) and lost >= limits.min_share * whole:
        gain = next(finding.saving_ns for finding, candidate in each if candidate is most)
        return [], _masked(run, detector, most, lost, gain, limits)
    return [], _too_little(run, detector, limits) or _clean(run, detector, measured, most, limits)


def _lacking(run: Run, detector: Detector) -> Outcome | None:
    """How a detector ends where something that it needs was not recorded at all; None: all of it was."""
    for need in detector.needs:
        has = run.get(capabilities)[need]
        if has.status == "absent":
            (en, zh), name = has.capability.means, detector.name
            return Outcome(name, "not_measured", f"{en}: {has.why}", f"{zh}：{has.why_zh}", has.collect_with)
    return None


def _hides(run: Run, candidate: Candidate, limits: Limits) -> bool:
    """Whether as much is lost to it as a finding needs, though the replay gives too little of that back."""
    whole, lost = _whole_ns(run, candidate), candidate.measured_ns or 0
    return candidate.replayed and whole > 0 and lost >= limits.min_share * whole


def _with_hidden(best: Finding, hidden: Finding) -> Finding:
    """A finding that also says what of its kind shows only once other limits are gone."""
    return replace(best, words={
        lang: said.advising(lang, _HIDDEN[lang].format(what=hidden.words[lang].title))
        for lang, said in best.words.items()
    })  # fmt: skip


def _of_requests(
    run: Run, detector: Detector, candidates: list[Candidate], limits: Limits
) -> tuple[list[Finding], Outcome]:
    """The same of a detector of serving or of reinforcement learning: its savings are not of a step."""
    measured = [one for each in candidates if (one := judging.finding(run, detector, each)) is not None]
    findings = [one for one in measured if one.saving_share >= limits.min_share and one.saving_ns > 0]
    if findings:
        best = max(findings, key=lambda one: one.saving_share)
        return findings, Outcome(detector.name, "found", best.words["en"].title, best.words["zh"].title)
    outcome, why = judging.unfound(run, candidates, measured, limits)
    return [], Outcome(detector.name, outcome, why.title, why.advice)


def _whole_ns(run: Run, candidate: Candidate) -> int:
    """What a saving of the whole run is a share of.

    What happens once is a share of all that was recorded, the rest of steps.
    """
    return run.wall_ns if candidate.numbers.get("per") == ONCE else run.get(steady_ns)


def _masked(run: Run, detector: Detector, candidate: Candidate, lost: int, gain: int, limits: Limits) -> Outcome:
    """Time is lost, and the replay gives little of it back: what holds the run's end then, where that can be told.

    Where it gives most of it back, that is too little to be a finding.
    """
    if gain * run.step_count >= _NEARLY * lost:
        return _nearly(run, detector, candidate, lost, gain, limits)
    ns, share = number("_ns", lost // run.step_count), number("_share", lost / _whole_ns(run, candidate))
    still, held_ = run.get(unmovable), held_by(run, candidate.change)
    if still > STILL or held_ is None:
        stays = number("_share", still)
        return Outcome(
            detector.name, "masked",
            f"{ns} {_of(run)} ({share}) is lost to it; what removing it gives back cannot be told, because {stays} of "
            "the critical path cannot move in the replay",
            f"{_in(run)}因此损失 {ns}（{share}）；去掉它的收益无法判断，因为关键路径的 {stays} 在重放中无法移动",
        )  # fmt: skip
    en, zh = _LIMITS.get(held_.kind, _LIMITS["unexplained"])
    some = gain * run.step_count >= _SOME * lost
    given = number("_ns", gain)
    back, back_zh = (f"only {given}", f"只能收回 {given}") if some else ("nothing", "没有收益")
    where = f" of rank {held_.rank}" if held_.rank is not None else ""
    where_zh = f" rank {held_.rank} 的" if held_.rank is not None else ""
    if held_.kind == _OWN_KIND.get(detector.name):  # to name itself as the reason would say nothing
        named, named_zh = (f" ({held_.name})", f"（{held_.name}）") if held_.name else ("", "")
        return Outcome(
            detector.name, "masked",
            f"{ns} {_of(run)} ({share}) is lost to it; removing these moments alone gives {back} back, because others "
            f"of the same kind{where} then hold the run up{named}",
            f"{_in(run)}因此损失 {ns}（{share}），但只去掉这些{back_zh}：此后{where_zh}同类环节会挡住运行{named_zh}",
        )  # fmt: skip
    until = en.replace("{who}", where) + (f" ({held_.name})" if held_.name and held_.kind != "peer" else "")
    until_zh = zh.replace("{who}", where_zh) + (f"（{held_.name}）" if held_.name and held_.kind != "peer" else "")
    return Outcome(
        detector.name, "masked",
        f"{ns} {_of(run)} ({share}) is lost to it; removing it gives {back} back until {until}",
        f"{_in(run)}因此损失 {ns}（{share}），但在{until_zh}之前，去掉它{back_zh}",
    )  # fmt: skip


def _too_little(run: Run, detector: Detector, limits: Limits) -> Outcome | None:
    """Why a detector that found nothing may not say clean; None: it may."""
    if (few := too_little(run)) is not None:
        return Outcome(detector.name, "not_measured", *few)
    if (lies := not_clean(run, detector.name, limits.min_share)) is not None:
        return Outcome(detector.name, "not_measured", *lies, setting(run, "steps"))
    of_idle = detector.name in OF_IDLE  # these speak of idle time only, which is asked below
    if "kernels" in detector.needs and not of_idle and not run.get(kernels).ran:
        told = none_ran(run)
        return Outcome(detector.name, "not_measured", told.why, told.why_zh, told.collect_with)
    for need in detector.needs:
        has, share = run.get(capabilities)[need], held(run, need)
        if share < COVERED and not (of_idle and need == "launches"):
            (en, zh), said = has.capability.means, number("_share", share)
            return Outcome(
                detector.name, "not_measured", f"{en}: known for only {said} of the time they are about",
                f"{zh}：只覆盖相关时间的 {said}", has.collect_with or setting(run, need),
            )  # fmt: skip
    if (of_idle or detector.name == "idle_unexplained") and (lies := behind_others(run, limits.min_share)) is not None:
        return Outcome(detector.name, "not_measured", *lies, recordable=False)
    if of_idle:
        if (untold := idle_untold(run)) is not None:
            return Outcome(detector.name, "not_measured", *untold)
        for rank, (left, unknown, whole) in run.get(unexplained).items():
            unknown = unknown if detector.name == "profiler_overhead" else left  # it also holds up what was launched
            if unknown > (1 - COVERED) * whole and unknown >= limits.min_share * run.get(steady_ns):
                said = number("_share", unknown / whole)
                # Call stacks do not tell when a task was launched.
                lacks = explains(run) if detector.name != "host_late" or held(run, "launches") < COVERED else None
                return Outcome(
                    detector.name, "not_measured",
                    f"{said} of the idle time of rank {rank} has no recorded reason; it may be this",
                    f"rank {rank} 空闲时间的 {said} 没有采集到原因，可能就是它", lacks,
                )  # fmt: skip
    return None


def _nearly(run: Run, detector: Detector, candidate: Candidate, lost: int, gain: int, limits: Limits) -> Outcome:
    """More is lost to it than a finding needs, and a little less can be had back."""
    ns, back = (number("_ns", some) for some in (lost // run.step_count, gain))
    part = gain * run.step_count / _whole_ns(run, candidate)
    least, share = number("_share", limits.min_share), _below(part, limits.min_share)
    return Outcome(
        detector.name, "clean",
        f"{ns} {_of(run)} is lost to it; removing it gives back at most {back} ({share}), below the limit of {least}",
        f"{_in(run)}因此损失 {ns}；去掉它至多收回 {back}（{share}），低于阈值 {least}",
    )  # fmt: skip


def _clean(
    run: Run, detector: Detector, measured: list[Finding], most: Candidate | None, limits: Limits
) -> Outcome:  # fmt: skip
    """Clean is said with what was measured, as a share of what it is a share of."""
    if not measured or most is None:
        return Outcome(detector.name, "clean", "nothing of the kind was seen", "未发现此类现象")
    best, lost = measured[0], (most.measured_ns or 0) // run.step_count
    amount, numbers = (lost, most.numbers) if lost > best.saving_ns else (best.saving_ns, best.numbers)
    least = number("_share", limits.min_share)
    if numbers.get("per") == ONCE:
        total, whole = amount * run.step_count, replace(run.get(shares_of), steady=False)
        saving, share = number("_ns", total), _below(total / run.wall_ns if run.wall_ns else 0.0, limits.min_share)
        return Outcome(
            detector.name, "clean",
            f"at most {saving}, once ({share} {per('of each step', RECORDED, whole)}), "
            f"below the limit of {least}",
            f"至多 {saving}，仅一次（{per('占步长', RECORDED, whole)} {share}），"
            f"低于阈值 {least}",
        )  # fmt: skip
    return _at_most(run, detector, amount, limits)


def _at_most(run: Run, detector: Detector, amount: int, limits: Limits) -> Outcome:
    """Clean, with the most that it is of each step."""
    share, saving = _below(of_step(run, amount), limits.min_share), number("_ns", amount)
    least = number("_share", limits.min_share)
    return Outcome(
        detector.name, "clean",
        f"at most {saving} {_of(run)} ({share}), below the limit of {least}",
        f"至多 {saving}（{_as_told(run, '占步长')} {share}），低于阈值 {least}",
    )  # fmt: skip


def _below(part: float, least: float) -> str:
    """A share below a limit, never written as the limit itself."""
    said = number("_share", part)
    return said if part >= least or said != number("_share", least) else f"{int(part * 10_000) / 100:.2f} %"


def _of(run: Run) -> str:
    """What a time is of, in English."""
    return _as_told(run, "of the step")


def _in(run: Run) -> str:
    """The same in Chinese, at the beginning of a sentence."""
    return _as_told(run, "每步")


def _as_told(run: Run, of_step: str) -> str:
    """A phrase about each step, said of this run."""
    if run.step_count > 1:
        return of_step
    said = per(of_step, ONLY_STEP if run.stepped else RECORDED, run.get(shares_of))
    return on_cpu(said) if run.get(family) == "cpu" else said


def _measured(run: Run, detector: Detector, candidate: Candidate) -> Finding:
    """The candidate with its saving and its words."""
    total = whatif.saved_ns(run, candidate.change) if candidate.replayed else run.wall_ns
    if candidate.ceiling_ns is not None:
        total = min(total, candidate.ceiling_ns)
    whole = _whole_ns(run, candidate)
    saving = max(0, min(total, whole)) // run.step_count
    step = whole // run.step_count
    share = saving / step if step else 0.0
    most = saving
    little = candidate.cause in {"comm_exposed", *OF_EXPOSED} and total < _NEARLY * (candidate.measured_ns or 0)
    still = run.get(unmovable) > STILL or (little and waits_for_absent(run, candidate.change))
    if candidate.replayed and candidate.measured_ns and still:
        bounds = [candidate.measured_ns, whole, *([candidate.ceiling_ns] if candidate.ceiling_ns else ())]
        most = max(saving, min(bounds) // run.step_count)
    most = max(most, min(candidate.most_ns or 0, whole) // run.step_count)
    each = RECORDED if not run.stepped else STEP if run.step_count > 1 else ONLY_STEP
    told = {"per": each, "device": run.get(family)}
    numbers = {**told, **candidate.numbers, "saving_ns": saving, "saving_share": share, "step_ns": step}
    words = {lang: filled(texts[candidate.text], numbers, run.get(shares_of)) for lang, texts in detector.text.items()}
    if numbers["per"] == STEP and "only_step" in numbers:
        words = {lang: said.advising(lang, _ONE_STEP[lang].format_map(numbers)) for lang, said in words.items()}
    if _late_in_first_step(run, candidate):
        words = {lang: said.advising(lang, _FIRST_STEP[lang]) for lang, said in words.items()}
    if detector.name in OF_IDLE and 0 < MORE * (candidate.measured_ns or 0) < saving * run.step_count:
        words = {lang: said.advising(lang, _LATER_GAPS[lang]) for lang, said in words.items()}
    return Finding(
        detector.name, candidate.cause, severity(share), words,
        saving, most, share, candidate.confidence, numbers, candidate.evidence, candidate.change, text=candidate.text,
        replayed=candidate.replayed,
    )  # fmt: skip


#: Sentences of a late host that do not say what else may be the reason where it happened once.
_LATE_ONCE = ("found", "scattered", "holds", "besides")


def _late_in_first_step(run: Run, candidate: Candidate) -> bool:
    """Whether the host was late once, in the first of several steps that were recorded."""
    if candidate.cause != "host_late" or candidate.text.removesuffix(" graphed") not in _LATE_ONCE:
        return False
    if candidate.numbers.get("per") != ONCE or not candidate.evidence:
        return False
    where = candidate.evidence[0]
    steps = run.steps.get(where.rank, ())
    return len(steps) > 1 and where.ts_ns < steps[0].ts_ns + steps[0].dur_ns


def _capped(run: Run, ranked: list[Finding]) -> Iterator[Finding]:
    """Largest first, none more than the others have left of the step."""
    left = run.step_ns
    for finding in ranked:
        saving = min(finding.saving_ns, left)
        left -= saving
        if saving == finding.saving_ns:
            yield finding
        elif saving:
            yield finding.with_saving(saving)

"""From what a detector of serving noticed to a finding: its saving, in the measure that gains most.

A saving is a difference of two replays, in ns of P99 or P50 of TTFT or TPOT. Beside it lie all measures and goodput.
The list as a whole says nothing twice: a finding counts only with what it gives beyond those above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from npulens.analysis.finding import Candidate, Change, Finding, Gain, Value, Words, severity
from npulens.analysis.limits import Limits
from npulens.analysis.run import Run
from npulens.analysis.say import filled, number
from npulens.analysis.serving.replay import Edit
from npulens.analysis.serving.served import BELIEVED, GOODPUT, Served, served

if TYPE_CHECKING:
    from npulens.analysis.discovery import Detector

#: A finding that gives less than this share of its saving beyond those above it is told by them.
_OWN = 0.5
#: What a saving is of, in English and Chinese.
MEASURES: dict[str, tuple[str, str]] = {
    "ttft_p99": ("P99 TTFT", "P99 TTFT"), "ttft_p50": ("P50 TTFT", "P50 TTFT"),
    "tpot_p99": ("P99 TPOT", "P99 TPOT"), "tpot_p50": ("P50 TPOT", "P50 TPOT"),
    GOODPUT: ("goodput", "goodput"), "rl_step": ("the step of the job", "训练迭代"),
}  # fmt: skip


def finding(run: Run, detector: Detector, candidate: Candidate) -> Finding | None:
    """The candidate with its saving and its words; None: no replay can tell what a fix gives back."""
    gains = candidate.gains
    if candidate.edit is not None:
        found = run.get(served)
        gains = found.gains(candidate.edit) if found else ()
    if not gains or gains[0].measure == GOODPUT:
        return None
    lead = gains[0]
    numbers: dict[str, Value] = {
        **candidate.numbers, **said(gains), "saving_ns": round(lead.before - lead.after), "saving_share": lead.share,
    }  # fmt: skip
    words = {
        lang: filled(texts[candidate.text], {**numbers, "gives": gives(gains, lang)})
        for lang, texts in detector.text.items()
    }
    saving = max(0, round(lead.before - lead.after))
    return Finding(
        detector.name, candidate.cause, severity(lead.share), words, saving, saving, lead.share, candidate.confidence,
        numbers, candidate.evidence, Change(), lead.measure, gains, candidate.edit,
    )  # fmt: skip


def said(gains: Sequence[Gain]) -> dict[str, Value]:
    """Every measure before and after, as numbers of the finding."""
    numbers: dict[str, Value] = {}
    for gain in gains:
        end = "" if gain.measure == GOODPUT else "_ns"
        numbers[f"{gain.measure}{end}"] = round(gain.before)
        numbers[f"{gain.measure}_after{end}"] = round(gain.after)
        numbers[f"{gain.measure}_error_share"] = gain.error
    return numbers


def gives(gains: Sequence[Gain], lang: str) -> str:
    """What a fix does to the measures: the end of a sentence, and where it is to several, one more for each."""
    zh = lang == "zh"
    parts = []
    for gain in gains:
        before, after, error = number("_ns", gain.before), number("_ns", gain.after), number("_share", gain.error)
        name = MEASURES[gain.measure][zh]
        if gain.measure == GOODPUT:
            now, then = f"{gain.before:.0f}", f"{gain.after:.0f}"
            if now != then:
                parts.append(f"{name} {now} → {then}（共 {gain.of} 个请求）" if zh
                             else f"{name} {now} to {then} of {gain.of} requests")  # fmt: skip
        elif gain.share >= _SAID and gain.error:
            parts.append(f"{name} {before} → {after}（±{error}）" if zh else f"{name} {before} to {after} (±{error})")
        elif gain.share >= _SAID:
            parts.append(f"{name} {before} → {after}" if zh else f"{name} {before} to {after}")
    return "，".join(parts) or "-" if zh else ". ".join(f"{one[:1].upper()}{one[1:]}" for one in parts) or "-"


#: A measure is said where it changes by so much.
_SAID = 0.02


def unfound(
    run: Run, candidates: Sequence[Candidate], findings: Sequence[Finding], limits: Limits
) -> tuple[str, Words]:
    """How a detector of serving ended that found nothing: the outcome, and why in English and Chinese."""
    found = run.get(served)
    if candidates and not findings and found is not None:
        miss = number("_share", min(found.error(name) for name in ("ttft_p99", "tpot_p99")))
        most = number("_share", BELIEVED)
        return "masked", Words(
            f"time is lost to it; what removing it gives back cannot be told, because the replay of this run misses it "
            f"by {miss}, and {most} is the most that is believed",
            f"因此有时间损失；收益无法判断：对本次运行的重放误差为 {miss}，超过可信上限 {most}",
        )  # fmt: skip
    if not findings:
        return "clean", Words("nothing of the kind was seen", "未发现此类现象")
    best = max(findings, key=lambda one: one.saving_share)
    least, share, saving = (number(*one) for one in (
        ("_share", limits.min_share), ("_share", best.saving_share), ("_ns", best.saving_ns)))  # fmt: skip
    en, zh = MEASURES[best.measure]
    return "clean", Words(
        f"at most {saving} of {en} ({share}), below the limit of {least}",
        f"至多为 {zh} 的 {saving}（{share}），低于阈值 {least}",
    )


def once(run: Run, findings: Sequence[Finding]) -> list[Finding]:
    """The findings from the largest down, without those that the ones above them tell."""
    found: Served | None = run.get(served)
    kept: list[Finding] = []
    together = Edit()
    for one in sorted(findings, key=lambda one: (-one.saving_share, one.detector)):
        if found is None or one.edit is None or not kept:
            kept.append(one)
            together = together | one.edit if one.edit is not None else together
            continue
        before = {gain.measure: gain.after for gain in found.gains(together)}
        after = {gain.measure: gain.after for gain in found.gains(together | one.edit)}
        lead = one.gains[0]
        own = (before[lead.measure] - after[lead.measure]) / lead.before
        if own >= _OWN * one.saving_share:
            kept.append(replace(one, saving_share=one.saving_share))
            together = together | one.edit
    return kept

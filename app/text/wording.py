"""A check in sentences. The terminal, the screen and every report say the same ones.

Nothing here is markup: whoever shows these sentences escapes them, because they hold names from traces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from npulens.analysis.causes import CAUSES, OF_EXPOSED
from npulens.analysis.finding import STEP, Evidence, Finding, Value
from npulens.analysis.limits import Limits, ServingLimits
from npulens.analysis.say import ONCE, Whole, duration, number, single
from npulens.analysis.serving.judging import MEASURES
from npulens.app.text.i18n import known, ranges, say
from npulens.app.text.i18n import moment as moment_of
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import render

if TYPE_CHECKING:
    from npulens.analysis.engine import Check, Outcome
    from npulens.analysis.quality import Doubt, Missing
    from npulens.analysis.work.host_time import HostTime
    from npulens.ingest.store.runs import RunInfo

Pair = tuple[str, str]
#: Numbers behind a problem that only choose the words of a sentence.
WORDS = ("per", "device", "who", "waiting", "ascend", "cudnn", "mindspeed")
_MOST_LACKS = 3  # things a quality line names before it says how many more there are


def of(lang: str, text: Pair) -> str:
    """The text in one of the two languages."""
    return text[1 if lang == "zh" else 0]


def text_of(lang: str, key: str, name: str) -> str:
    """The text of ``key``; the bare name where there is none."""
    return say(lang, key) if known(key) else name


def share(value: float) -> str:
    return number("_share", value)


def formats(run: RunInfo, lang: str) -> str:
    """The formats of a run in words."""
    *most, last = [text_of(lang, f"shell.format_{name}", name) for name in run.formats] or [""]
    return say(lang, "runs.and").join(filter(None, (say(lang, "shell.comma").join(most), last)))


def run_name(run: RunInfo, lang: str) -> str:
    """What a run is called: its label and its job, else its format and when it was recorded; never its id."""
    when = moment_of(run.origin_ns, lang) or run.loaded_at[:16].replace("T", " ")
    name = run.label or say(lang, "runs.unnamed", {"formats": formats(run, lang) or run.status, "when": when})
    return f"{name} · {run.job}" if run.job and run.job not in name else name


def shown_numbers(finding: Finding) -> Iterator[tuple[str, Value]]:
    """The numbers behind a problem that tell something by themselves; the others only choose words of its sentences."""
    for name, value in finding.numbers.items():
        told = value is not None and value not in ("", [])
        if told and name not in WORDS and not name.endswith("_zh") and f"{name}_zh" not in finding.numbers:
            yield name, value


def number_name(name: str, lang: str) -> str:
    """What a number behind a problem is called."""
    plain_name = re.sub(r"_(?:ns|share|bytes|bytes_per_s)$", "", name).replace("_", " ")
    return text_of(lang, f"numbers.{name}", plain_name[:1].upper() + plain_name[1:])


def limit_name(name: str, lang: str) -> str:
    """What a threshold is called."""
    return text_of(lang, f"limits.{name}", name.replace("_", " "))


def count(check: Check, outcome: str) -> int:
    return sum(found.outcome == outcome for found in check.outcomes)


#: The doubts that belong beside the answer.
BESIDE = ("part", "partial", "backlog", "early")
#: What of a host a capture may hold.
_OF_THE_HOST = ("host_ops", "runtime_calls", "python")


def answer(check: Check, lang: str) -> str:
    """The one sentence to take away; of a job on the CPU also which operators have its time."""
    told, host = of_a_cpu(_answer(check, lang), check.host is not None), _host(check, lang)
    return told if host is None else say(lang, "findings.answer_and", {"answer": told, "host": host})


def _host(check: Check, lang: str) -> str | None:
    """Which operators of the host have the time, up to all of it; nothing where a device did the work."""
    found = check.host
    if found is None:
        return None
    told = [
        say(lang, f"findings.host_operator{'_alone' if one.name in found.alone else ''}{'_from' if one.code else ''}", {
            "name": plain(one.name), "share": share(one.own_ns / found.own_ns), "n": one.calls,
            "code": plain(one.code or ""),
        }) for one in found.most
    ]  # fmt: skip
    if found.others:
        values = {"n": found.others, "share": share(found.others_ns / found.own_ns)}
        told.append(say(lang, "findings.host_others", values))
    which = "calls" if found.called else "host"
    ran = say(lang, f"findings.{which}" if check.whole.stepped else f"findings.{which}_recorded", {
        "ran": duration(found.ran_ns), "whole": duration(found.whole_ns), "share": share(found.ran_ns / found.whole_ns),
        "own": duration(found.own_ns), "operators": say(lang, "shell.comma").join(told),
    })  # fmt: skip
    for sentence in beside_operators(found, lang):
        ran = say(lang, "findings.answer_and", {"answer": ran, "host": sentence})
    return ran


def beside_operators(found: HostTime, lang: str) -> list[str]:
    """What is said of such a job's host beside its operators: its data loader, and random numbers."""
    least, drawn, told = Limits().min_share * found.whole_ns, found.drawn, []
    if found.loads_ns >= max(1, least):
        values = {"ns": duration(found.loads_ns), "share": share(found.loads_ns / found.whole_ns)}
        told.append(say(lang, "findings.host_loads", values))
    if drawn is not None and drawn.own_ns >= least:
        told.append(say(lang, "findings.host_draws_alone" if drawn.alone else "findings.host_draws", {
            "ns": duration(drawn.own_ns), "share": share(drawn.own_ns / found.own_ns), "name": plain(drawn.name),
        }))  # fmt: skip
    return told


def kernels(check: Check, lang: str) -> list[str]:
    """Which types of kernels have the time, up to all of it; nothing where no device worked."""
    found = check.kernels
    if found is None:
        return []
    told = [f"{plain(one.type)} {share(one.ns / found.whole_ns)}" for one in found.most]
    if found.others:
        values = {"n": found.others, "share": share(found.others_ns / found.whole_ns)}
        told.append(say(lang, "findings.kernels_others" if found.others > 1 else "findings.kernels_other", values))
    said = say(lang, "findings.kernels" if check.whole.stepped else "findings.kernels_recorded", {
        "ns": duration(found.whole_ns / found.per), "types": say(lang, "shell.comma").join(told),
    })  # fmt: skip
    # Without findings the answer itself tells it, and pipes that were counted tell how well a kernel uses the device.
    counted = any(one.detector == "pipe_stall" and one.outcome != "not_measured" for one in check.outcomes)
    unjudged = _unjudged(check) if check.findings and not counted else 0.0
    if unjudged < _MOST_OF_IT:
        return [said]
    values = {"kernels": share(unjudged), "whole": whole(check, lang, check.steady_step_ns)}
    return [say(lang, "findings.answer_and", {"answer": said, "host": say(lang, "findings.kernels_unjudged", values)})]


#: Time with work of a device, as it is said where a CPU did the work.
_OF_A_CPU = (("with device work", "with operators"), ("设备工作", "算子运行"))


def of_a_cpu(text: str, on_cpu: bool) -> str:
    """A sentence about a time, as it is said of a job on a CPU."""
    for device, operators in _OF_A_CPU if on_cpu else ():
        text = text.replace(device, operators)
    return text


def _bare(title: str) -> str:
    """A title without its full stop; three dots belong to the name before them."""
    text = plain(title)
    return text if text.endswith("...") else text.rstrip(".。")


def _answer(check: Check, lang: str) -> str:
    if check.findings:
        top = check.findings[0]
        if top.measure != STEP:
            title = _bare(top.words[lang].title)
            values = {"title": title, "saving": saved(top, lang), "share": share(top.saving_share)}
            return say(lang, "findings.answer_measure", values)
        once = top.numbers.get("per") == ONCE
        key = "answer_once_outside" if check.whole.outside else "answer_once"
        if not once:
            key = "answer_between" if _wide(top) else "answer"
        return say(lang, f"findings.{key}", {
            "title": _bare(top.words[lang].title),
            "saving": duration(top.saving_ns * (check.steps if once else 1)), "most": duration(top.saving_most_ns),
            "whole": whole(check, lang, check.steady_step_ns), "share": share(top.saving_share),
            "most_share": share(top.saving_share * top.saving_most_ns / top.saving_ns),
        })  # fmt: skip
    clean, masked, blind = (count(check, outcome) for outcome in ("clean", "masked", "not_measured"))
    if check.serving and (clean or masked):
        return say(lang, "findings.answer_serving", {
            "least": share(ServingLimits().min_share), "clean": clean, "masked": _masked(check, lang), "blind": blind,
        })  # fmt: skip
    unseen = any(doubt.name == "untold" for doubt in check.quality.doubts)  # time in which nothing that is known ran
    if blind > 0 and clean + masked > 0 and (unseen or clean + masked < blind):
        return say(lang, "findings.answer_little", {
            "clean": clean, "masked": _masked(check, lang), "blind": blind, "all": len(check.outcomes),
        })  # fmt: skip
    if clean or masked:
        unjudged = _unjudged(check)
        return say(lang, "findings.answer_none" if unjudged < _MOST_OF_IT else "findings.answer_none_but", {
            "whole": whole(check, lang, check.steady_step_ns), "clean": clean, "masked": _masked(check, lang),
            "blind": blind, "kernels": share(unjudged),
        })  # fmt: skip
    if not blind:
        return say(lang, "findings.answer_no_detectors")
    if not host_only(check):
        return say(lang, "findings.answer_blind", {"blind": blind})
    if check.host is None or check.host.launch is None:
        return say(lang, "findings.answer_no_device", {"blind": blind})
    key = "answer_lost" if check.host.asked else "answer_launched"
    return say(lang, f"findings.{key}", {"blind": blind, "call": plain(check.host.launch)})


#: From this share of the time on, kernels that could not be judged are told beside "no problem".
_MOST_OF_IT = 0.5


def _unjudged(check: Check) -> float:
    """The share of the time that kernels take where nothing says how well they use the device; 0 where that is told."""
    found = check.kernels
    blind = any(one.detector == "low_efficiency" and one.outcome == "not_measured" for one in check.outcomes)
    if found is None or not blind:
        return 0.0
    return min(1.0, found.whole_ns / found.per / check.steady_step_ns) if check.steady_step_ns else 0.0


def host_only(check: Check) -> bool:
    """Whether the capture holds work of the host and none of the device."""
    shares = {part.name: part.share for part in check.quality.parts}
    return not shares.get("kernels", 1) and any(shares.get(name) for name in _OF_THE_HOST)


def whole(check: Check, lang: str, ns: int) -> str:
    """The time that a saving is a share of, with its length: the step, or what was recorded."""
    steady = check.whole.steady and ns < check.step_ns
    said = say(lang, f"findings.whole{_kind(replace(check.whole, steady=steady))}", {"step": duration(ns)})
    return of_a_cpu(said, check.host is not None)


def _kind(of_what: Whole) -> str:
    """How the key of a text about such a time ends."""
    kind = "" if of_what.stepped else "_outside" if of_what.outside else "_recorded"
    return f"{kind}_steady" if of_what.steady else kind


def _masked(check: Check, lang: str) -> str:
    """How many are masked, as a part of a sentence; nothing where none is."""
    masked = count(check, "masked")
    return say(lang, "findings.masked_and", {"n": masked}) if masked else ""


#: An interval is said from this ratio of its ends on.
_WIDE = 1.25


def _wide(finding: Finding) -> bool:
    """Whether what a fix gives back is told between two ends."""
    return 0 < _WIDE * finding.saving_ns < finding.saving_most_ns


#: Findings overlap worth mentioning from this share of the step on.
_WORTH_SAYING = 0.001


def together(check: Check, lang: str) -> str | None:
    """What all findings give back at once; nothing where there is but one."""
    of_steps = [finding for finding in check.findings if finding.measure == STEP]
    if len(of_steps) < 2:
        return None
    apart = sum(finding.saving_ns for finding in of_steps)
    more, worth = check.together_ns - apart, check.step_ns * _WORTH_SAYING
    key = "together" if more < -worth else "together_more" if more > worth else "together_sum"
    once = any(finding.numbers.get("per") == ONCE for finding in of_steps)  # start-up may be part of what is saved
    of_ns = check.step_ns if once else check.steady_step_ns
    most = min(of_ns, max(check.together_ns, _most_ns(of_steps)))
    if any(map(_wide, of_steps)) and most > _WIDE * check.together_ns:
        key = "together_between"
    part, most_part = (ns / of_ns if of_ns else 0.0 for ns in (check.together_ns, most))
    return say(lang, f"findings.{key}", {
        "saving": duration(check.together_ns), "whole": whole(check, lang, of_ns), "share": share(part),
        "most": duration(most), "most_share": share(most_part),
    })  # fmt: skip


def _most_ns(findings: Sequence[Finding]) -> int:
    """What all of them give back at most; what makes exposed communication long is within that."""
    inside = sum(one.saving_most_ns for one in findings if one.cause in OF_EXPOSED)
    exposed = sum(one.saving_most_ns for one in findings if one.cause == "comm_exposed")
    others = sum(one.saving_most_ns for one in findings if one.cause not in OF_EXPOSED | {"comm_exposed"})
    return others + max(inside, exposed)


def quality(check: Check, lang: str) -> str:
    """How much the capture can answer, and the first things it cannot."""
    lacks = [plain(of(lang, entry.what)) for entries, _, _ in alike(check.quality.missing, lang) for entry in entries]
    values: dict[str, object] = {"score": check.quality.score}
    if not lacks:
        return say(lang, "findings.quality", values)
    what = say(lang, "findings.wide_comma").join(lacks[:_MOST_LACKS])
    if len(lacks) > _MOST_LACKS:
        what = say(lang, "findings.and_more", {"what": what, "n": len(lacks) - _MOST_LACKS})
    return say(lang, "findings.quality_lacks", {**values, "what": what})


def is_beside(doubt: Doubt) -> bool:
    """Whether it belongs beside the answer, and not only below it."""
    return doubt.beside or doubt.name in BESIDE


def of_a_part(check: Check, lang: str) -> list[str]:
    """What belongs beside the answer: that only a part of the job was read, or of its time can be spoken of."""
    said = [plain(of(lang, doubt.text)) for doubt in check.quality.doubts if is_beside(doubt)]
    return [f"{text[:1].upper() if lang == 'en' else text[:1]}{text[1:]}{say(lang, 'runs.stop')}" for text in said]


def outcomes(check: Check, lang: str) -> str:
    """How many detectors ended how."""
    failed = count(check, "failed")
    return single(say(lang, "findings.outcomes_failed" if failed else "findings.outcomes_count", {
        "found": count(check, "found"), "masked": _masked(check, lang), "clean": count(check, "clean"),
        "blind": count(check, "not_measured"), "failed": failed, "all": len(check.outcomes),
    }))  # fmt: skip


def not_looked_for(check: Check, lang: str) -> str | None:
    """The causes that no detector speaks of; nothing where there is none, or where only some detectors were asked."""
    if not check.not_looked_for:
        return None
    named = (f"{of(lang, CAUSES[cause])} ({cause})" for cause in check.not_looked_for)
    causes = say(lang, "findings.wide_comma").join(named)
    return say(lang, "findings.not_looked_for_means", {"causes": causes})


def as_dict(check: Check, lang: str) -> dict[str, Any]:
    """What `npulens check --json` promises."""
    return check.as_dict(lang)


def reason(outcome: Outcome, lang: str) -> str:
    return plain(outcome.reason_zh if lang == "zh" else outcome.reason)


def unmeasured(outcome: Outcome, lang: str) -> str:
    """Why a detector could not measure, and what would let it."""
    if not outcome.recordable:
        return reason(outcome, lang)
    values = {"reason": reason(outcome, lang).rstrip(".。"), "remedy": remedy(outcome.collect_with, lang)}
    return say(lang, "findings.reason_remedy", values)


def remedy(setting: str | None, lang: str) -> str:
    """What would record something that is not there."""
    if setting is None:
        return say(lang, "findings.no_setting")
    return say(lang, "findings.recorded_by", {"setting": plain(render(setting, lang))})


def error(found: Exception, lang: str) -> str:
    """What went wrong, as text."""
    return plain(render(found.said(), lang) if isinstance(found, IngestError) else str(found))


def why(entry: Missing, lang: str) -> str:
    """Why something is missing."""
    return plain(of(lang, entry.why))


def alike(missing: Sequence[Missing], lang: str) -> list[tuple[list[Missing], str, str | None]]:
    """What is missing for the same reason with the same remedy, together: (entries, why, setting)."""
    groups: dict[tuple[str, str | None], list[Missing]] = {}
    for entry in missing:
        groups.setdefault((why(entry, lang), entry.collect_with), []).append(entry)
    # What a setting would record comes first.
    found = sorted(groups.items(), key=lambda item: item[0][1] is None)
    return [(entries, why, setting) for (why, setting), entries in found]


def saved(finding: Finding, lang: str) -> str:
    """What a fix gives back, and of what, where that is not the step."""
    if finding.measure == STEP:
        return duration(finding.saving_ns)
    measure = of(lang, MEASURES[finding.measure])
    return say(lang, "findings.saved_of", {"saving": duration(finding.saving_ns), "measure": measure})


def share_of(finding: Finding, key: str, lang: str) -> str:
    """The share that a fix gives back, with ``key`` where it is of the step."""
    values = {"share": share(finding.saving_share)}
    if finding.measure == STEP:
        return say(lang, key, values)
    return say(lang, "findings.share_of", {**values, "measure": of(lang, MEASURES[finding.measure])})


def gives_back(finding: Finding, lang: str, of_what: Whole) -> str:
    """The same with its share, and what that is of."""
    values = {"saving": saved(finding, lang), "share": share(finding.saving_share)}
    if finding.measure != STEP:
        return say(lang, "findings.gives_back_of", values)
    once = finding.numbers.get("per") == ONCE
    said = say(lang, f"findings.gives_back{_kind(replace(of_what, steady=of_what.steady and not once))}", values)
    return of_a_cpu(said, finding.numbers.get("device") == "cpu")


def serving(check: Check, lang: str) -> list[str]:
    """The percentiles and goodput of a serving run, and what was left out of them; nothing of any other run."""
    found = check.serving
    if found is None:
        return []
    real = found.real
    said = [say(lang, "findings.serving", {
        "requests": real.requests, "good": round(real.good), "ttft_p50": duration(real.ttft_p50_ns),
        "ttft_p99": duration(real.ttft_p99_ns), "tpot_p50": duration(real.tpot_p50_ns),
        "tpot_p99": duration(real.tpot_p99_ns), "ttft_slo": duration(found.slo.ttft_ns),
        "tpot_slo": duration(found.slo.tpot_ns),
    })]  # fmt: skip
    if found.left_out or found.export_ns:
        values = {"export": duration(found.export_ns), "n": found.left_out}
        said.append(say(lang, "findings.serving_left_out", values))
    return [*said, say(lang, "findings.serving_replay", {"error": share(found.error)})]


def cause(finding: Finding, lang: str) -> str:
    """What the finding blames, in the words of the vocabulary."""
    meaning = CAUSES.get(finding.cause)
    return say(lang, "findings.cause", {"cause": of(lang, meaning)}) if meaning else finding.cause


def interval(finding: Finding, lang: str) -> str | None:
    """Between what and what a saving lies, where a part of the run cannot move; nothing where that is one figure."""
    if not _wide(finding):
        return None
    values = {"least": duration(finding.saving_ns), "most": duration(finding.saving_most_ns)}
    return say(lang, "findings.interval", values)


def moment(evidence: Evidence, lang: str) -> str:
    """One window in words."""
    values = {
        "rank": evidence.rank, "start": duration(evidence.ts_ns), "length": duration(evidence.dur_ns),
        "note": plain(evidence.note),
    }  # fmt: skip
    return say(lang, "findings.evidence_first" if evidence.note else "findings.evidence_first_bare", values)


def first_moment(finding: Finding, lang: str) -> str:
    """The largest window, and how many more there are."""
    if not finding.evidence:
        return ""
    text = moment(finding.evidence[0], lang)
    more = len(finding.evidence) - 1
    return say(lang, "findings.evidence_more", {"text": text, "n": more}) if more else text


def collect(check: Check, lang: str) -> str:
    """What the ready configuration records."""
    recipe = check.quality.collect
    everyone = say(lang, "findings.collect_all")
    some = say(lang, "findings.collect_some", {"ranks": ranges(recipe.ranks)}) if recipe.ranks else everyone
    if recipe.tool == "msprof":
        return say(lang, "findings.collect_by_command", {"ranks": some})
    return say(lang, "findings.collect_how", {"steps": recipe.steps, "ranks": some})


def points(check: Check, lang: str) -> str:
    """The rule of the score with this capture's numbers."""
    got = sum(part.points * part.share for part in check.quality.parts)
    values = {"got": f"{got:.1f}", "of": sum(part.points for part in check.quality.parts), "score": check.quality.score}
    return say(lang, "findings.score_rule", values)


#: What a character may not be that comes from a trace: control, format (it can turn text around), surrogate, private.
_SHADY = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def plain(text: str) -> str:
    """Text on one line, without characters that act on a terminal or turn the text around."""
    return "".join(
        " " if char in "\t\n\r" else "\ufffd" if unicodedata.category(char) in _SHADY else char for char in text
    )

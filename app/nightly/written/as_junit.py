"""JUnit for CI: a task is a suite, a metric a test case; regressed fails, ambiguous and too young are skipped."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from npulens.app.nightly.events import Event, events
from npulens.app.nightly.night import Night, Row, Task
from npulens.app.nightly.written import figures, night_text
from npulens.app.report.as_junit import xml

_KINDS = ("tests", "failures", "errors", "skipped")


def write(night: Night, langs: tuple[str, ...]) -> str:
    """The suites, in the first language asked for: a test report has room for one."""
    root = Element("testsuites", name=xml(f"npulens {night.name} {night.label}"))
    for task in night.tasks:
        _suite(root, night, task, langs[0])
    for kind in _KINDS:
        root.set(kind, str(sum(int(suite.get(kind, "0")) for suite in root)))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suite(root: Element, night: Night, task: Task, lang: str) -> None:
    suite = SubElement(root, "testsuite", name=xml(task.name), time=f"{task.seconds:.3f}")
    fresh = [*night.of("regressed"), *night.of("open")]
    event_of = {id(row): event for event in events(night) for row in event.rows}
    for row in (row for row in night.rows if row.task == task.name):
        case = SubElement(suite, "testcase", classname=xml(f"npulens.{task.name}"),
                          name=xml(f"{row.metric} {row.where}".strip()), time="0")  # fmt: skip
        _case(case, row, event_of.get(id(row)), row in fresh, lang)
    if task.status != "done":
        case = SubElement(suite, "testcase", classname=xml(f"npulens.{task.name}"), name="sessions", time="0")
        SubElement(case, "error", type=task.status, message=xml(night_text.failure(task, lang)))
    for kind, tag in zip(_KINDS, ("testcase", "failure", "error", "skipped"), strict=True):
        found = suite.findall(tag) if kind == "tests" else suite.findall(f"testcase/{tag}")
        suite.set(kind, str(len(found)))


def _case(case: Element, row: Row, event: Event | None, regressed: bool, lang: str) -> None:
    verdict = night_text.tagged(row, lang)
    message = f"{figures.metric(lang, row.metric)}: {verdict} {figures.change(row.ratio)} {figures.interval(row)}"
    told = "\n".join([
        *filter(None, [night_text.beside(event, row, lang) if event else None]), night_text.was(row, lang),
        *night_text.why(row, lang), *(f"{words} {command}" for words, command in night_text.commands(row, lang)),
    ])  # fmt: skip
    if regressed:
        SubElement(case, "failure", type="regressed", message=xml(message.strip())).text = xml(told)
    elif row.verdict in ("ambiguous", "young", "likely"):
        SubElement(case, "skipped", message=xml(message.strip()))
    else:
        SubElement(case, "system-out").text = xml(f"{message}\n{told}")

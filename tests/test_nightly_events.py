"""One cause is one event, in every report; and what to do about it is said with its commits."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from npulens.app.nightly.advice import commits_between
from npulens.app.nightly.events import events
from npulens.app.nightly.night import Hint, Night, Row, Said, Share, by_kernel
from npulens.app.nightly.written import as_html, as_junit, as_markdown, leave, night_text
from tests.nights.lab import Lab, job
from tests.test_nightly_judge import QUIET

DRIVER = Hint("machine.driver", "24.1.0", "24.1.1", True, 1.0)
CANN = Hint("software.cann", "8.1", "8.2", False, 1.0)


def row(task: str, metric: str = "step", ratio: float = 1.05, **more: Any) -> Row:
    said: dict[str, Any] = {
        "verdict": "regressed", "fresh": True, "since": "2026-03-11", "hints": (DRIVER,), "low": ratio - 0.01,
        "high": ratio + 0.01, "better": "lower",
    }  # fmt: skip
    return Row(task=task, identity=f"on {task}", where="", metric=metric, unit="ms", value=100 * ratio, by="history",
               level=100.0, ratio=ratio, **{**said, **more})  # fmt: skip


def night(*rows: Row) -> Night:
    return Night(name="n", label="2026-03-11", at_ns=0, began="", ended="", seconds=0, budget_s=1, tasks=(), rows=rows)


FOURTEEN = tuple(row(f"t{n % 3}", f"step{n}", 1.05 + 0.001 * (n % 2)) for n in range(14))


def test_fourteen_metrics_of_three_tasks_and_one_driver_are_one_event() -> None:
    told = night(*FOURTEEN)
    (event,) = events(told)
    assert len(event.rows) == 14 and set(event.tasks) == {"t0", "t1", "t2"} and event.everything
    headline = night_text.headline(told, "en")
    assert headline.startswith("1 regression in 3 tasks: everything, machine.driver 24.1.0 → 24.1.1, +5.")
    assert night_text.headline(told, "zh").startswith("3 个任务有 1 处变差：全部指标，machine.driver 24.1.0 → 24.1.1，")


def test_everything_is_only_said_of_everything() -> None:
    told = night(*FOURTEEN, row("t3", verdict="same", fresh=False, ratio=1.0))
    (event,) = events(told)
    assert not event.everything and "everything" not in night_text.headline(told, "en")


@pytest.mark.parametrize("other", [
    row("b", hints=(CANN,)), row("b", hints=()), row("b", since="2026-03-10"), row("b", ratio=1.20),
    row("b", verdict="machine"), row("b", low=None, high=None),
], ids=["another condition", "no condition", "another night", "another factor", "another verdict",
        "no interval"])  # fmt: skip
def test_tasks_without_a_cause_in_common_are_apart(other: Row) -> None:
    assert len(events(night(row("a"), other))) == 2
    assert len(events(night(row("a"), row("b")))) == 1, "and the same task without the difference is not"


def test_one_factor_must_lie_in_the_intervals_of_all() -> None:
    """1.03 … 1.05, 1.045 … 1.065 and 1.06 … 1.08 overlap in a chain, and no factor is in the first and the last."""
    rows = [row("a", ratio=1.04), row("b", ratio=1.055), row("c", ratio=1.07)]
    for order in itertools.permutations(rows):
        found = events(night(*order))
        assert len(found) == 2 and not any({"a", "c"} <= set(event.tasks) for event in found)


def test_a_rate_that_falls_and_a_time_that_grows_are_one_factor() -> None:
    fallen = row("b", "rate", 1 / 1.05, better="higher", low=1 / 1.06, high=1 / 1.04)
    (event,) = events(night(row("a"), fallen))
    assert event.factors == (pytest.approx(1.05), pytest.approx(1.05))


def test_parts_are_with_their_step_and_what_got_better_is_apart() -> None:
    part = row("a", "kernel", 1.5, verdict="likely", settles=Said("settles_many", {"n": 4}))
    better = row("a", "idle", 0.9, verdict="improved")
    found = events(night(part, row("a"), better))
    assert [[each.metric for each in event.rows] for event in found] == [["step", "kernel"], ["idle"]]


def test_every_row_is_in_exactly_one_event() -> None:
    rows = [row(f"t{n % 4}", f"m{n}", ratio, verdict=verdict, since=since)
            for n, (ratio, verdict, since) in enumerate(itertools.product(
                (0.9, 1.05, 1.3), ("regressed", "open", "likely", "machine", "fixed", "improved"),
                ("2026-03-10", "2026-03-11")))]  # fmt: skip
    found = [each.metric for event in events(night(*rows)) for each in event.rows]
    assert sorted(found) == sorted(each.metric for each in rows)


def test_muted_rows_are_in_the_table_only() -> None:
    told = night(row("quiet", muted=True), row("loud", hints=()))
    assert [event.tasks for event in events(told)] == [("loud",)]
    assert "quiet" not in as_markdown.write(told, ("en",)) and "quiet" in as_html.write(told, ("en",))


def test_what_settles_a_likely_part_is_in_every_report() -> None:
    told = night(row("a"), row("a", "kernel", 1.5, verdict="likely", settles=Said("settles_many", {"n": 4})))
    sentence = "Among 4 tasks a change like this may be chance; one more night would tell."
    for report in (as_markdown.write(told, ("en",)), as_markdown.message(told, "en")[1], as_html.write(told, ("en",))):
        assert sentence.replace(";", "") in report.replace("\\", "").replace(";", "")


def test_an_event_names_one_row_a_task_and_what_moved_otherwise() -> None:
    """Forty parts moved with their step; two did not, and the one that is more of the step comes first."""
    wide = {"low": 1.04, "high": 1.06}
    alike = [row("a", f"kernel_ns k{n}", 1.051, **wide, share=0.01, step="regressed") for n in range(40)]
    idle = row("a", "idle_ns", 60.0, low=59.0, high=61.0, share=0.001, step="regressed")
    softmax = row("a", "kernel_ns softmax", 1.5, low=1.4, high=1.6, share=0.1, step="regressed")
    told = night(row("a", "step_net_ns", 1.06, **wide), row("a", "step_ns", 1.05, **wide), idle, softmax, *alike)
    (event,) = events(told)
    assert [each.metric for each in event.named] == ["step_ns", "kernel_ns softmax", "idle_ns"]
    lines = night_text.event_lines(event, "en")
    assert len(lines) == 4 and lines[-1] == "41 more metrics of this event"
    assert not any("the step itself moved too" in sentence for sentence in night_text.event_why(event, "en"))


def test_what_the_machine_slowed_in_an_earlier_night_stays_in_the_headline() -> None:
    slow = row("a", "step", 1.05, verdict="machine", fresh=False, since="2026-03-02")
    fast = row("b", "step", 0.95, verdict="machine", fresh=False, since="2026-03-02")
    said = night_text.headline(night(slow, fast), "en")
    assert said == "Nothing changed; 1 metric has been worse since the machine changed on 2026-03-02"


def test_a_night_of_mostly_young_metrics_is_still_learning() -> None:
    young = [row("a", f"m{n}", 1.0, verdict="young", fresh=False) for n in range(5)]
    known = [row("b", f"m{n}", 1.0, verdict="same", fresh=False) for n in range(2)]
    told = night(*young, *known)
    assert told.outcome == "learning"
    assert night_text.headline(told, "en").startswith("Still learning: 5 of 7 metrics lack the 5 nights")
    few = night(young[0], *known)
    said = night_text.headline(few, "en")
    assert few.outcome == "quiet" and said == "Nothing changed; 1 metric has too few nights yet"


def test_a_likely_change_is_in_the_headline_the_message_and_the_table() -> None:
    told = night(row("a", verdict="likely"))
    assert night_text.headline(told, "en").startswith("1 likely change in 1 task: a · step")
    title, body = as_markdown.message(told, "en")
    assert "1 likely change" in title and "likely changed" in body and "likely changed" in as_html.write(told, ("en",))


def test_a_failure_of_a_metric_names_its_event(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "[night]\nrounds = 8\n" + job("a", sides(100, 105)) + job("b", sides(100, 105)))
    assert lab.run("--night", "2026-03-01").exit_code == 1
    told = lab.night("2026-03-01")
    hinted = replace(told, rows=tuple(replace(each, hints=(DRIVER,)) for each in told.rows))
    root = ElementTree.fromstring(as_junit.write(hinted, ("en",)).partition("\n")[2])
    failures = root.findall(".//failure")
    assert len(failures) == 2 and root.get("failures") == "2", "one a metric"
    for each in failures:
        assert "Part of one event of 2 metrics: everything, machine.driver 24.1.0 → 24.1.1" in (each.text or "")


def sides(base: float, head: float) -> str:
    return f'base = {{ env = {{ VALUE = "{base}" }} }}\nhead = {{ env = {{ VALUE = "{head}", X = "1" }} }}\n'


def git(folder: Path, *words: str) -> str:
    made = ["-c", "user.name=Mei Lin", "-c", "user.email=mei@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(folder), *made, *words], check=True, capture_output=True, text=True).stdout


def test_a_night_names_the_commits_between_and_the_search_for_the_one(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "job.py")
    subjects = ("First", "Faster copies", "Exact softmax")
    for subject in subjects:
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", subject)
    first, last = (git(tmp_path, "rev-parse", name).strip()[:12] for name in ("HEAD~2", "HEAD"))
    pair = (f'base = {{ commit = "{first}", env = {{ VALUE = "100" }} }}\n'
            f'head = {{ commit = "{last}", env = {{ VALUE = "105" }} }}\n')  # fmt: skip
    lab.path.write_text("[night]\nrounds = 8\n" + job("a", pair))
    done = lab.run("--night", "2026-03-01")
    assert done.exit_code == 1
    sentence = f"2 commits between {first} and {last}; the last: Exact softmax (Mei Lin)"
    command = f"npulens bisect {lab.path} a --good {first} --bad {last}"
    folder = lab.store / ".nights" / "nightly" / "2026-03-01"
    failure = ElementTree.parse(folder / "night.junit.xml").getroot().find(".//failure")
    assert failure is not None and sentence in (failure.text or "") and command in (failure.text or "")
    assert sentence in done.stdout and command in done.stdout and command in (folder / "night.md").read_text()
    assert sentence in (folder / "night.html").read_text() and command in (folder / "night.html").read_text()
    assert json.loads((folder / "night.json").read_text())["rows"][0]["commits"]["between"] == 2
    assert leave.redacted(lab.night("2026-03-01")).rows[0].commits.author == "–", "a person"  # type: ignore[union-attr]
    only = commits_between(tmp_path, "HEAD~1", "HEAD")
    assert only is not None and only.between == 1
    assert commits_between(tmp_path, "HEAD", "0" * 40) is None and commits_between(tmp_path, "--all", "HEAD") is None


def test_there_is_always_a_next_command(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "[night]\nrounds = 8\n" + job("a", sides(100, 105)))
    done = lab.run("--night", "2026-03-01")
    assert f"npulens nightly {lab.path} --only a" in done.stdout


@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_of_the_report_is_cut_off(tmp_path: Path, width: int) -> None:
    sync = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium")
    long = "Long words of why that need the whole width of the table to be read. " * 3
    page = tmp_path / "night.html"
    wide = row("d", "m" * 60, 1.2, settles=Said("broken", {"reason": long}), next="npulens " + "x" * 90)
    told = night(*FOURTEEN, wide)
    page.write_text(as_html.write(told, ("en", "zh")))
    with sync.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": width, "height": 900})
        shown.goto(page.as_uri())
        over = shown.evaluate("[document.documentElement, ...document.querySelectorAll('.wide, pre')]"
                              ".map(part => part.scrollWidth - part.clientWidth)")  # fmt: skip
        browser.close()
    assert len(over) > 3 and max(over) <= 0


def test_shapes_of_one_kernel_are_summed() -> None:
    shares = [Share("kernel", "gemm", 3, "8x8"), Share("gap", "host_late", 6), Share("kernel", "gemm", 4, "16x16")]
    assert [[part.delta_ns for part in kernel] for kernel in by_kernel(shares)] == [[3, 4], [6]]
    told = night(row("a", parts=tuple(shares), parts_ns=13, residual_ns=0))
    page = as_html.write(told, ("en",))
    assert "The largest part of it: gemm, +7 ns" in page and "16x16" in page and page.count(">gemm<") == 1


def test_one_driver_that_slows_three_tasks_is_one_event_of_a_real_night(tmp_path: Path) -> None:
    def toml(value: float, driver: str) -> str:
        tasks = (job(name, f'rounds = 1\nhead = {{ env = {{ VALUE = "{value}" }} }}') for name in "abc")
        return "".join(tasks) + f'[machine]\ndriver = "{driver}"\n'

    lab = Lab(tmp_path, "")
    for day in range(1, 14):
        value = QUIET[day - 1]
        lab.path.write_text(toml(value, "24.1.0") if day < 12 else toml(value * 1.05, "24.1.1"))
        lab.run("--night", f"2026-03-{day:02d}")
    told = lab.night("2026-03-13")
    (event,) = events(told)
    assert set(event.tasks) == {"a", "b", "c"} and event.everything
    assert (event.verdict, event.lead.since) == ("machine", "2026-03-12")
    assert event.factors is not None and all(abs(factor - 1.05) < 0.01 for factor in event.factors)
    headline = night_text.headline(told, "en")
    assert "the machine changed: everything, machine.driver 24.1.0 → 24.1.1, +" in headline

"""The store as a machine: whatever is done to it in whatever order, killed wherever, it shows whole runs and no others.

A model of some sets and dicts is kept beside a real store. Loads commit copies of runs that were loaded once, so that
hundreds of steps take seconds; the torture loads for real. Every kill is a SIGKILL at a chosen point where the
operation touches the disk (tests/crashing.py); the store then stands before or after the operation, never between.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from npulens.ingest.loading import worker
from npulens.ingest.store import lod, notes, runs
from tests.crashing import Mill, in_a_child
from tests.store_templates import Templates

MEMORY = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
RUNS = ("zero", "one", "other", "both")
#: What a store's directory may hold beside its runs.
FURNITURE = {".staging", ".uploads", ".trash", ".timeline", "state.sqlite", "state.sqlite-wal", "state.sqlite-shm"}
TEXTS = st.sampled_from(["", "night", "day", "a b", "\u8ba1\u7b97", "x" * 200])


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("templates"))


class Machine(RuleBasedStateMachine):
    """Operations on a store, their model, and what holds after each."""

    templates: Templates
    loads_for_real = False

    @initialize()
    def begin(self) -> None:
        self.where = Path(tempfile.mkdtemp(prefix="npulens-machine-", dir=MEMORY)) / "store"
        self.visible: set[str] = set()
        self.trash: set[str] = set()
        self.labels: dict[str, str] = {}
        self.about: dict[str, notes.About] = {}

    def teardown(self) -> None:
        if hasattr(self, "where"):
            for run_id in self.visible:
                self.opens(run_id)
            shutil.rmtree(self.where.parent)

    # --- operations ---

    def load(self, name: str) -> str:
        if not self.loads_for_real:
            return self.templates.copy(self.where, name)
        join = self.templates.ids["zero"] if name == "both" else None
        capture = self.templates.captures["one" if name == "both" else name]
        (entry,) = worker.load(worker.Request((capture,), self.where, None, join), lambda message: None).runs
        assert entry["run_id"] == self.templates.ids[name], entry
        return str(entry["stored"])

    def can_load(self, name: str) -> bool:
        return name != "both" or self.templates.ids["zero"] in self.visible

    @rule(name=st.sampled_from(RUNS))
    def loads(self, name: str) -> None:
        if self.can_load(name):
            run_id = self.templates.ids[name]
            assert self.load(name) == ("exists" if run_id in self.visible else "new")
            self.visible.add(run_id)

    @precondition(lambda self: self.visible)
    @rule(data=st.data())
    def removes(self, data: st.DataObject) -> None:
        run_id = data.draw(st.sampled_from(sorted(self.visible)))
        runs.remove(self.where, run_id)
        self.visible.discard(run_id)
        self.trash.add(run_id)

    @precondition(lambda self: self.trash)
    @rule(data=st.data())
    def restores(self, data: st.DataObject) -> None:
        run_id = data.draw(st.sampled_from(sorted(self.trash)))
        assert runs.restore(self.where, run_id) == run_id
        self.trash.discard(run_id)
        self.visible.add(run_id)

    @rule(old=st.booleans())
    def collects(self, old: bool) -> None:
        runs.open_store(self.where)
        if old:
            self.age()
        runs.collect(self.where)
        assert list((self.where / ".staging").iterdir()) == []
        assert [path for path in (self.where / ".uploads").iterdir() if path.suffix not in (".json", ".lock")] == []
        if old:
            self.forgotten()
            assert list((self.where / ".trash").iterdir()) == []

    def age(self) -> None:
        """Everything in the trash was put there two days ago."""
        for entry in (self.where / ".trash").iterdir():
            os.utime(entry, (time.time() - 2 * runs.UNDO_S,) * 2)

    def forgotten(self) -> None:
        for run_id in self.trash - self.visible:
            self.labels.pop(run_id, None)
            self.about.pop(run_id, None)
        self.trash.clear()

    @precondition(lambda self: self.visible)
    @rule(data=st.data(), text=TEXTS)
    def labels_a_run(self, data: st.DataObject, text: str) -> None:
        run_id = data.draw(st.sampled_from(sorted(self.visible)))
        runs.set_label(self.where, run_id, text)
        self.labels = {key: name for key, name in self.labels.items() if key != run_id and name != text}
        if text:
            self.labels[run_id] = text

    @precondition(lambda self: self.visible)
    @rule(data=st.data(), note=TEXTS, tags=st.sets(st.sampled_from(["a", "b", "c"])))
    def notes_and_tags(self, data: st.DataObject, note: str, tags: set[str]) -> None:
        run_id = data.draw(st.sampled_from(sorted(self.visible)))
        notes.set_note(self.where, run_id, note)
        notes.set_tags(self.where, run_id, tags)
        self.about.pop(run_id, None)
        if note or tags:
            self.about[run_id] = notes.About(note, tuple(sorted(tags)))

    @rule(kind=st.sampled_from(["staged", "lock only", "aside", "built", "doomed"]))
    def somebody_died_here(self, kind: str) -> None:
        """What a load, a collection or a build leaves behind that was killed long before this process began."""
        runs.open_store(self.where)
        staging, name = self.where / ".staging", "0" * 32
        if kind in ("staged", "lock only"):
            (staging / f"{name}.lock").touch()
        if kind == "staged":
            (staging / name / "part0").mkdir(parents=True, exist_ok=True)
            (staging / name / "part0" / "span.parquet").write_bytes(b"PAR1 and no more")
        if kind == "aside":
            (self.where / ".uploads" / f"{self.templates.ids['zero']}.{name}").write_text('[{"run_id"')
        if kind == "built":
            (self.where / ".timeline").mkdir(exist_ok=True)
            (self.where / ".timeline" / f"{self.templates.ids['one']}.{lod.VERSION}.ab12cd34.part").write_bytes(b"x")

    @precondition(lambda self: self.visible)
    @rule(data=st.data())
    def is_looked_at(self, data: st.DataObject) -> None:
        """The timeline's file is built and holds the spans of the run."""
        run_id = data.draw(st.sampled_from(sorted(self.visible)))
        with lod.open_lod(self.where, run_id) as con:
            assert con.execute("SELECT count(*) FROM span").fetchall() == [(self.templates.rows[run_id]["span"],)]
        assert [path for path in (self.where / ".timeline").iterdir() if path.suffix == ".part"] in ([], self.parts())

    def parts(self) -> list[Path]:
        """What is left beside when the file was there already, and nothing was built."""
        return sorted((self.where / ".timeline").glob("*.part"))

    @precondition(lambda self: self.visible)
    @rule(data=st.data())
    def opened(self, data: st.DataObject) -> None:
        self.opens(data.draw(st.sampled_from(sorted(self.visible))))

    def opens(self, run_id: str) -> None:
        with runs.open_run(self.where, run_id) as con:
            for table in ("span", "kernel", "coverage"):
                rows = con.execute(f"SELECT count(*) FROM {table}").fetchall()
                assert rows == [(self.templates.rows[run_id][table],)]
            assert con.execute("SELECT count(*) - count(DISTINCT span_id) FROM span").fetchall() == [(0,)]

    # --- killed in the middle ---

    def killed(self, work: Callable[[], object], at: int) -> bool:
        """Do something in a process that is killed at its n-th point; whether it was."""
        mill = Mill()
        mill.set(at)
        status = in_a_child(lambda: work() and None, mill)
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    @rule(name=st.sampled_from(RUNS), at=st.integers(1, 80))
    def dies_loading(self, name: str, at: int) -> None:
        if self.can_load(name):
            died = self.killed(lambda: self.load(name), at)
            seen = {run.run_id for run in runs.runs(self.where)}
            after = self.visible | {self.templates.ids[name]}
            assert seen in (self.visible, after) and (died or seen == after)
            self.visible = seen

    @precondition(lambda self: self.visible)
    @rule(data=st.data(), at=st.integers(1, 40))
    def dies_removing(self, data: st.DataObject, at: int) -> None:
        run_id = data.draw(st.sampled_from(sorted(self.visible)))
        self.killed(lambda: runs.remove(self.where, run_id), at)
        if run_id not in {run.run_id for run in runs.runs(self.where)}:
            self.visible.discard(run_id)
            self.trash.add(run_id)
        else:  # an older copy in the trash may have gone already
            self.trash.intersection_update(each.run.run_id for each in runs.deleted(self.where))

    @precondition(lambda self: self.trash)
    @rule(data=st.data(), at=st.integers(1, 40))
    def dies_restoring(self, data: st.DataObject, at: int) -> None:
        run_id = data.draw(st.sampled_from(sorted(self.trash)))
        was = run_id in self.visible
        self.killed(lambda: runs.restore(self.where, run_id), at)
        seen = {run.run_id for run in runs.runs(self.where)}
        assert not was or run_id in seen
        self.trash = {each.run.run_id for each in runs.deleted(self.where)}
        self.visible |= {run_id} & seen
        assert run_id in self.visible | self.trash, "neither here nor there"

    @rule(at=st.integers(1, 60))
    def dies_collecting(self, at: int) -> None:
        """What is listed as deleted after that can still be had back whole."""
        runs.open_store(self.where)
        self.age()
        before = set(self.trash)
        self.killed(lambda: runs.collect(self.where), at)
        left = {each.run.run_id for each in runs.deleted(self.where)}
        assert left <= before
        for run_id in left:
            assert self.templates.counted(self.where / ".trash" / run_id) == self.templates.rows[run_id]
        self.trash = left
        for run_id in before - left - self.visible:  # said or forgotten: it is gone
            self.labels.pop(run_id, None)
            self.about.pop(run_id, None)
            notes.forget(self.where, [run_id])

    @precondition(lambda self: self.visible)
    @rule(data=st.data(), at=st.integers(1, 30))
    def dies_building(self, data: st.DataObject, at: int) -> None:
        run_id = data.draw(st.sampled_from(sorted(self.visible)))
        self.killed(lambda: lod.build(self.where, run_id), at)
        with lod.open_lod(self.where, run_id) as con:
            assert con.execute("SELECT count(*) FROM span").fetchall() == [(self.templates.rows[run_id]["span"],)]

    # --- what always holds ---

    @invariant()
    def whole_runs_and_no_others(self) -> None:
        if not hasattr(self, "where"):
            return
        listed = [run.run_id for run in runs.runs(self.where)]
        assert len(listed) == len(set(listed)) and set(listed) == self.visible
        entries = {entry.name for entry in self.where.iterdir()} if self.where.is_dir() else set()
        assert entries - FURNITURE == self.visible
        for run_id in listed:
            assert self.templates.counted(self.where / run_id) == self.templates.rows[run_id]
            assert runs.manifest(self.where, run_id)["run_id"] == run_id
        assert {each.run.run_id for each in runs.deleted(self.where)} == self.trash

    @invariant()
    def what_was_said_stays_said(self) -> None:
        if hasattr(self, "where"):
            assert notes.labels(self.where) == self.labels
            assert dict(notes.about(self.where)) == self.about


def run(templates: Templates, examples: int, steps: int, real: bool) -> None:
    machine = type("Machine", (Machine,), {"templates": templates, "loads_for_real": real})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=not real, database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


def test_any_order_of_operations_and_kills(templates: Templates) -> None:
    run(templates, 12, 20, real=False)


@pytest.mark.torture
def test_any_order_with_copies_at_length(templates: Templates) -> None:
    run(templates, 150, 40, real=False)


@pytest.mark.torture
def test_any_order_with_real_loads(templates: Templates) -> None:
    run(templates, 30, 25, real=True)

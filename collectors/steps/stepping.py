"""Finds the steps of somebody's job without touching its source, and drives a recorder with them."""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from npulens.collectors import profilers
from npulens.collectors.overheard import Overheard
from npulens.collectors.profilers.jobs_own import JobsOwn
from npulens.collectors.recorder import Recorder
from npulens.collectors.settings import Settings
from npulens.collectors.steps import slices, spares
from npulens.collectors.steps.period import KINDS, By, Mark, Rhythm

#: What the processes of a job are told by whoever started it.
VARIABLE = "NPULENS_RECORDING"
#: How often it is looked whether the job computes without a step, and which share of a core counts as computing.
_LOOK_S, _BUSY = 0.5, 0.1
#: A forward is missed when it stays away for so many times the longest distance of two of them.
_MISSED = 20


class Stepping:
    """Listens for what may be a step; once it is known which, listens to nothing else any more."""

    def __init__(self, recorder: Recorder, by: str = "auto", trigger: Path | None = None) -> None:
        self._recorder, self._by, self._trigger = recorder, By.parse(by), trigger
        self._rhythm = Rhythm(self._by)
        self._mark: Mark | None = None
        self._seen = 0  # events of the mark's owner since the last step
        self._updated = False  # an optimiser has stepped since the last rollout began
        self._steps_ns: list[int] = []
        self._resumed_ns = 0  # when the job went on after the profiler had its turn
        self._over = False
        self._depth = threading.local()
        self._turn = threading.RLock()  # one thread at a time drives a profiler
        self._inside: set[int] = set()  # threads within a forward of the mark's owner
        self._at_once = 1  # the most of them so far
        self._started_in = 0
        self._heard = 0  # signs of steps
        self._counted_s = 0.0  # when an event was last counted
        self._longest_s = 0.0  # between two events that counted
        self._ran = False  # whether a module has
        self._sliced = False  # whether slices of time took over from a mark that stayed away
        self._spares = spares.Spares(recorder, self._turn)
        self._gradients: list[Overheard] = []
        self._made: list[weakref.ref[Any]] = []  # optimisers, as they are made
        self._making: Overheard | None = None
        self._stepped: dict[int, int] = {}  # which optimiser it was that stepped with these groups of parameters
        self._optimizer_hook: Any = None
        self._module_hooks: list[Any] = []
        self._warming: Any = None
        self._own = recorder.own = JobsOwn(self._make_way)

    @staticmethod
    def from_environment() -> Stepping:
        """As ``npulens collect`` describes it."""
        told = json.loads(os.environ[VARIABLE])
        settings = Settings.from_json(json.dumps(told["settings"]))
        session, since_ns = told.get("session"), told.get("since_ns")
        recorder = Recorder(told["directory"], settings, told["backend"], session, since_ns)
        trigger = Path(told["trigger"]) if told.get("trigger") else None
        return Stepping(recorder, told.get("by", "auto"), trigger)

    def watch(self, optimizer: Any, late: bool = False) -> None:
        """Hooks every optimiser and every module of this process, until it is known which of them makes the steps.

        ``late``: the job runs already, and may have made optimisers. Looking for them takes some 0.1 s.
        """
        atexit.register(self._end)
        self._own.watch()
        self._warm_up_with_the_first_model()
        os.register_at_fork(after_in_child=self._forked)
        if self._by.way == "time":
            self._slice()
            return
        base = optimizer.Optimizer
        if late:  # asking an object for its class may run code of the job, its type does not
            self._made = [weakref.ref(thing) for thing in gc.get_objects() if issubclass(type(thing), base)]
        self._making = Overheard(base, "__init__", lambda one: self._made.append(weakref.ref(one)), [0])
        if self._by.way == "auto":
            self._listen_to_gradients()
            slices.apart(self._look)
        if self._by.way != "forward":
            self._optimizer_hook = optimizer.register_optimizer_step_post_hook(self._optimizer_stepped)
        if self._by.way != "optimizer":
            import torch.nn.modules.module as module

            self._module_hooks = [
                module.register_module_forward_pre_hook(self._forward_begins),
                module.register_module_forward_hook(self._forward_ends, always_call=True),
            ]

    def _warm_up_with_the_first_model(self) -> None:
        """A process that makes a parameter will make steps: the profiler's first start is taken then, not amid them."""
        import torch.nn.modules.module as module

        self._warming = module.register_module_parameter_registration_hook(self._warm_up)

    def _warm_up(self, *_: object) -> None:
        if self._warming is None:
            return
        with self._turn:  # nobody begins meanwhile
            warming, self._warming = self._warming, None
            if warming is None:
                return
            warming.remove()
            if not self._own.is_on:
                self._guarded(self._recorder.warm_up)

    def _make_way(self) -> None:
        with self._turn:
            self._guarded(self._recorder.make_way)
            self._guarded(self._spares.make_way)

    def _listen_to_gradients(self) -> None:
        """What tells the steps of a job that updates its parameters itself."""
        import torch.autograd as autograd
        from torch.optim import lr_scheduler

        depth = [0]
        self._gradients = [
            Overheard(autograd, kind, functools.partial(self._backward_ended, kind), depth) for kind in KINDS
        ]
        schedulers = getattr(lr_scheduler, "LRScheduler", None) or lr_scheduler._LRScheduler
        self._gradients.append(Overheard(schedulers, "step", self._scheduler_stepped, [0]))

    def _forget_what_trains(self) -> None:
        for each in (*self._gradients, *([self._making] if self._making else [])):
            each.stop()
        self._gradients, self._making = [], None

    def _backward_ended(self, kind: str, _: object) -> None:
        self._heard += 1
        mark = self._mark
        if mark is None or mark.kind == "forward":
            found = self._rhythm.backward_ended(kind, self._trains)
            if found is not None and self._recorder.state in ("idle", "recording"):
                self._count(self._follow(found))
        elif mark.kind == "backward" and mark.owner == KINDS.index(kind):
            self._count(mark)

    def _scheduler_stepped(self, _: object) -> None:
        mark = self._mark
        found = self._rhythm.scheduler_stepped() if mark is None else mark if mark.kind == "scheduler" else None
        if found is not None:
            self._count(found if mark is not None else self._follow(found))

    def _optimizer_stepped(self, optimizer: Any, *_: object) -> None:
        self._updated = True
        self._heard += 1
        mark = self._mark
        if mark is not None and mark.kind not in ("optimizer", "rollout") and self._by.way == "auto":
            self._rhythm.forget_forwards()
            mark = None
        if mark is None:
            self._stepped[_key(optimizer)] = id(optimizer)
            found = self._rhythm.optimizer_stepped(_key(optimizer), self._optimizers())
            if found is None:
                return
            mark = self._follow(found)
        # A state that is loaded brings new groups of parameters to the same optimiser.
        if mark.kind == "optimizer" and (mark.owner is None or self._stepped[mark.owner] == id(optimizer)):
            self._count(mark)

    def _forward_begins(self, module: Any, *_: object) -> None:
        if _compiled():
            return
        depth = getattr(self._depth, "now", 0)
        self._depth.now = depth + 1
        self._heard += 1
        if depth == 0 and self._mark is None and not _gradients():
            found = self._rhythm.inference_begins()
            if found is not None:
                self._follow(found, module)
                self._rollout_begins()

    def _forward_ends(self, module: Any, *_: object) -> None:
        if _compiled():
            return
        self._depth.now = getattr(self._depth, "now", 1) - 1
        self._ran = True
        self._heard += 1
        if self._depth.now == 0 and self._mark is None:
            found = self._rhythm.forward_ended(id(module), _gradients(), self._trains)
            if found is not None:
                self._count(self._follow(found, module))
        elif self._depth.now == 0 and self._mark is not None and self._mark.owner is None:
            self._count(self._mark)

    def _rollout_begins(self, *_: object) -> None:
        if self._updated and not _gradients():
            self._updated = False
            self._step()

    def _follow(self, mark: Mark, module: Any = None) -> Mark:
        """Listens to what makes the steps and no more: hooks on every module cost time and hinder compilers."""
        first, self._mark, self._seen = self._mark is None, mark, 0
        if mark.kind == "forward" and mark.owner is None:
            return mark
        for hook in self._module_hooks:
            hook.remove()
        self._module_hooks = []
        if mark.kind in ("optimizer", "rollout"):
            self._forget_what_trains()
        if mark.kind == "rollout":
            module.register_forward_pre_hook(self._rollout_begins)
        elif mark.kind == "forward":
            self._module_hooks = [
                module.register_forward_pre_hook(self._enters),
                module.register_forward_hook(lambda *_: self._count(mark)),
                module.register_forward_hook(self._leaves, always_call=True),
            ]
            if self._optimizer_hook is not None and self._by.way != "auto":
                self._optimizer_hook.remove()
        elif not first:
            self._recorder.stepping["late"] = True  # steps before this one were forwards
        return mark

    def _count(self, mark: Mark) -> None:
        """One more event of the mark's owner. Where forwards run at the same time, a step has so many of them."""
        now, recorder = time.monotonic(), self._recorder
        bound = recorder.state == "recording" and not recorder.everywhere
        if recorder.state not in ("idle", "recording") or (bound and threading.get_ident() != self._started_in):
            return
        if recorder.state == "recording":
            self._longest_s = max(self._longest_s, now - self._counted_s)
        self._counted_s = now
        self._heard += 1
        self._seen += 1
        if self._seen >= mark.every * (1 if bound else self._at_once):
            self._seen = 0
            self._step()

    def _enters(self, *_: object) -> None:
        if self._recorder.state in ("idle", "recording"):
            self._inside.add(threading.get_ident())
            self._at_once = max(self._at_once, len(self._inside))

    def _leaves(self, *_: object) -> None:
        self._inside.discard(threading.get_ident())

    def _step(self) -> None:
        now = time.perf_counter_ns()
        if self._turn.acquire(blocking=False):  # who has it makes this very step, or begins, or ends
            try:
                self._guarded(lambda: self._stepped_at(now))
            finally:
                self._turn.release()
        self._resumed_ns = time.perf_counter_ns()

    def _stepped_at(self, now: int) -> None:
        recorder = self._recorder
        if recorder.state == "idle" and self._may_begin():
            self._steps_ns, self._started_in = [], threading.get_ident()
            one_thread = self._mark is not None and self._mark.kind in ("optimizer", "rollout")
            if not one_thread or self._started_in != threading.main_thread().ident:
                recorder.everywhere = profilers.hears_all_threads(recorder.backend)
            recorder.start()
        elif recorder.state == "recording" and (recorder.everywhere or threading.get_ident() == self._started_in):
            self._steps_ns.append(now - self._resumed_ns)
            recorder.stepping.update(self._said())
            recorder.step()
        if recorder.state in ("written", "cut_short"):
            self._spares.drop()
        if recorder.state not in ("idle", "recording"):
            self._forget_what_trains()

    def _may_begin(self) -> bool:
        told = self._trigger is None or self._trigger.exists()
        return told and not self._own.is_on and not self._spares.is_recording and not self._over

    def _slice(self) -> None:
        """Slices of time, because somebody wants them."""

        def step() -> None:
            self._driven(self._step)

        slices.Slices(self._by.slice_ns, step, lambda: self._recorder.state in ("idle", "recording")).start()

    def _driven(self, action: Callable[[], None]) -> None:
        """Does it where a profiler may be driven: anywhere if it hears all threads, in the main thread else."""
        self._warm_up_for_slices()
        if profilers.hears_all_threads(self._recorder.backend):
            action()
        else:
            slices.InMain(action)()

    def _warm_up_for_slices(self) -> None:
        """In the main thread, where torch wants it; here if that does not come back to Python."""
        if self._warming is not None and not slices.InMain(self._warm_up)(spares.PATIENCE_S):
            self._warm_up()

    def _look(self) -> None:
        """In a thread of ours: begins slices of time where the job computes and nothing tells its steps."""
        slices.wait_for_torch()
        born_s = quiet_since_s = time.monotonic()
        due_s, heard = 0.0, 0
        while self._recorder.state in ("idle", "recording") and not self._over and self._spares.good < spares.MOST:
            before = time.process_time()
            time.sleep(_LOOK_S)
            if slices.helper():
                return
            now = time.monotonic()
            if time.process_time() - before < _BUSY * _LOOK_S or heard != self._heard:
                quiet_since_s, heard = now, self._heard
            quiet_s = now - quiet_since_s
            if self._is_missed(quiet_s):
                self._take_over()
            elif now - born_s >= due_s and self._is_unmarked(quiet_s):
                self._warm_up_for_slices()
                self._spares.record(lambda: self._mark is None and not self._own.is_on, self._guarded)
                due_s = spares.LATER * (now - born_s)

    def _is_missed(self, quiet_s: float) -> bool:
        """Whether a mark stays away: as when a graph was captured, and is replayed from now on."""
        mark, recorder = self._mark, self._recorder
        if mark is None or mark.kind != "forward" or recorder.state != "recording":
            return False
        here = recorder.everywhere or self._started_in == threading.main_thread().ident
        return here and quiet_s >= max(spares.LOADING_S, _MISSED * self._longest_s)

    def _take_over(self) -> None:
        """Goes on with slices until the recording is done, or the mark is there again."""
        heard, self._sliced = self._heard, True
        drive = self._step if self._recorder.everywhere else slices.InMain(self._step)
        slices.Slices(
            spares.SLICE_NS, drive,
            lambda: self._recorder.state == "recording" and self._heard == heard and not self._over,
        ).run()  # fmt: skip

    def _is_unmarked(self, quiet_s: float) -> bool:
        """Whether there is nothing yet that could tell steps; an optimiser that exists can."""
        loading = self._warming is None and not self._ran
        if self._mark is not None or quiet_s < (spares.LOADING_S if loading else spares.PATIENCE_S):
            return False
        return self._may_begin() and profilers.device_is_on(self._recorder.backend) and not self._trains()

    def _guarded(self, action: Callable[[], None], recorder: Recorder | None = None) -> None:
        try:
            action()
        except Exception as error:  # the job goes on without us, whatever its profiler met
            failed = recorder or self._recorder
            failed.fail(error)
            sys.stderr.write(f"npulens: the recording failed, the job goes on: {failed.reason}\n")

    def _said(self) -> dict[str, object]:
        """What a step is, and how long each took, without what the profiler took between two."""
        made = Mark("time", None) if self._mark is None or self._sliced else self._mark
        said = {"steps_by": made.kind, "every": made.every, "steps_ns": list(self._steps_ns)}
        return {**said, **spares.automatic()} if self._sliced else said

    def _trains(self) -> bool:
        return bool(self._optimizers())

    def _optimizers(self) -> set[int]:
        """The optimisers that exist: what wraps one has the same groups of parameters and counts once."""
        there = (each() for each in tuple(self._made))
        return {_key(each) for each in there if each is not None and "param_groups" in vars(each)}

    def _end(self) -> None:
        self._over = True
        with self._turn:
            try:
                self._recorder.end()
                self._spares.end(self._recorder.state in ("written", "cut_short"))
            except Exception as error:  # at the end of a process there is nobody left to raise to
                self._recorder.fail(error)

    def _forked(self) -> None:
        """In a child that forked off: the threads that keep the time are its parent's."""
        self._turn, self._inside = threading.RLock(), set()
        self._spares.forget(self._turn)
        if self._recorder.state == "idle" and self._by.way == "time":
            self._slice()
        elif self._recorder.state == "idle" and self._by.way == "auto" and self._mark is None:
            slices.apart(self._look)


def _key(optimizer: Any) -> int:
    return id(optimizer.param_groups)


def _compiled() -> bool:
    """Whether a compiler reads this call: what it kept of a hook would fail in the job once the hook is removed."""
    import torch

    asked = getattr(getattr(torch, "compiler", None), "is_compiling", None)  # not in the oldest releases
    return bool(asked is not None and asked())


def _gradients() -> bool:
    import torch

    return bool(torch.is_grad_enabled())

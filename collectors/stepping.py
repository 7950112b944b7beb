"""Finds the steps of somebody's job without touching its source, and drives a recorder with them."""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from npulens.collectors.period import By, Mark, Rhythm
from npulens.collectors.profilers.jobs_own import JobsOwn
from npulens.collectors.recorder import Recorder
from npulens.collectors.settings import Settings
from npulens.collectors.slices import Slices

#: What the processes of a job are told by whoever started it.
VARIABLE = "NPULENS_RECORDING"


class Stepping:
    """Listens for what may be a step; once it is known which, listens to nothing else any more."""

    def __init__(self, recorder: Recorder, by: str = "auto", trigger: Path | None = None) -> None:
        self._recorder, self._by, self._trigger = recorder, By.parse(by), trigger
        self._rhythm = Rhythm(self._by)
        self._mark: Mark | None = None
        self._seen = 0  # events of the mark's owner
        self._updated = False  # an optimiser has stepped since the last rollout began
        self._steps_ns: list[int] = []
        self._resumed_ns = 0  # when the job went on after the profiler had its turn
        self._over = False
        self._depth = threading.local()
        self._known: set[int] | None = None
        self._stepped: dict[int, int] = {}  # which optimiser it was that stepped with these groups of parameters
        self._looked = False  # for optimisers, since the first of them stepped
        self._base: Any = None  # torch's Optimizer
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

    def watch(self, optimizer: Any) -> None:
        """Hooks every optimiser and every module of this process, until it is known which of them makes the steps."""
        atexit.register(self._end)
        self._own.watch()
        self._warm_up_with_the_first_model()
        if self._by.way == "time":
            Slices(self._by.slice_ns, self._step, lambda: self._recorder.state in ("idle", "recording")).start()
            return
        self._base = optimizer.Optimizer
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
        warming, self._warming = self._warming, None
        warming.remove()
        if not self._own.is_on:
            self._guarded(self._recorder.warm_up)

    def _make_way(self) -> None:
        self._guarded(self._recorder.make_way)

    def _optimizer_stepped(self, optimizer: Any, *_: object) -> None:
        self._updated = True
        mark = self._mark
        if mark is not None and mark.kind == "forward" and self._by.way == "auto":
            self._rhythm.forget_forwards()
            mark = None
        if mark is None:
            self._stepped[_key(optimizer)] = id(optimizer)
            if not self._looked:
                self._known, self._looked = None, True
            found = self._rhythm.optimizer_stepped(_key(optimizer), self._optimizers())
            if found is None:
                return
            mark = self._follow(found)
        # A state that is loaded brings new groups of parameters to the same optimiser.
        if mark.kind == "optimizer" and (mark.owner is None or self._stepped[mark.owner] == id(optimizer)):
            self._count(mark)

    def _forward_begins(self, module: Any, *_: object) -> None:
        depth = getattr(self._depth, "now", 0)
        self._depth.now = depth + 1
        if depth == 0 and self._mark is None and not _gradients():
            found = self._rhythm.inference_begins()
            if found is not None:
                self._follow(found, module)
                self._rollout_begins()

    def _forward_ends(self, module: Any, *_: object) -> None:
        self._depth.now = getattr(self._depth, "now", 1) - 1
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
        if mark.kind == "rollout":
            module.register_forward_pre_hook(self._rollout_begins)
        elif mark.kind == "forward":
            self._module_hooks = [module.register_forward_hook(lambda *_: self._count(mark))]
            if self._optimizer_hook is not None and self._by.way != "auto":
                self._optimizer_hook.remove()
        elif not first:
            self._recorder.stepping["late"] = True  # steps before this one were forwards
        return mark

    def _count(self, mark: Mark) -> None:
        self._seen += 1
        if self._seen % mark.every == 0:
            self._step()

    def _step(self) -> None:
        now = time.perf_counter_ns()
        self._guarded(lambda: self._stepped_at(now))
        self._resumed_ns = time.perf_counter_ns()

    def _stepped_at(self, now: int) -> None:
        if self._recorder.state == "idle" and not self._over and not self._own.is_on:
            if self._trigger is None or self._trigger.exists():
                self._steps_ns = []
                self._recorder.start()
        elif self._recorder.state == "recording":
            self._steps_ns.append(now - self._resumed_ns)
            self._recorder.stepping.update(self._said())
            self._recorder.step()

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # the job goes on without us, whatever its profiler met
            self._recorder.fail(error)
            sys.stderr.write(f"npulens: the recording failed, the job goes on: {self._recorder.reason}\n")

    def _said(self) -> dict[str, object]:
        """What a step is, and how long each took, without what the profiler took between two."""
        made = self._mark or Mark("time", None)
        return {"steps_by": made.kind, "every": made.every, "steps_ns": list(self._steps_ns)}

    def _trains(self) -> bool:
        return bool(self._optimizers())

    def _optimizers(self) -> set[int]:
        """The optimisers that exist, looked for once: what wraps one has the same groups of parameters and counts once.

        Looked at by their types: asking an object for its class may run code of the job.
        """
        if not self._known:
            mine = (thing for thing in gc.get_objects() if issubclass(type(thing), self._base))
            self._known = {_key(each) for each in mine if "param_groups" in vars(each)}
        return self._known

    def _end(self) -> None:
        self._over = True
        try:
            self._recorder.end()
        except Exception as error:  # at the end of a process there is nobody left to raise to
            self._recorder.fail(error)


def _key(optimizer: Any) -> int:
    return id(optimizer.param_groups)


def _gradients() -> bool:
    import torch

    return bool(torch.is_grad_enabled())

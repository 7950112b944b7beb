"""Finds the steps of somebody's job without touching its source, and drives a recorder with them."""

from __future__ import annotations

import atexit
import json
import os
import sys
from pathlib import Path
from typing import Any

from npulens.collectors.recorder import Recorder
from npulens.collectors.settings import Settings

#: What the processes of a job are told by whoever started it.
VARIABLE = "NPULENS_RECORDING"
#: An event that happens so often is the step.
REPEATS = 2


class Stepping:
    """Counts what may be a step; once it is known which, listens to nothing else any more."""

    def __init__(self, recorder: Recorder, by: str = "auto", trigger: Path | None = None) -> None:
        self._recorder, self._by, self._trigger = recorder, by, trigger
        self._depth = 0
        self._seen: dict[int, int] = {}  # optimisers and outermost modules, by id
        self._owner: int | None = None
        self._hooks: list[Any] = []

    @staticmethod
    def from_environment() -> Stepping:
        """As ``npulens collect`` describes it."""
        told = json.loads(os.environ[VARIABLE])
        recorder = Recorder(told["directory"], Settings.from_json(json.dumps(told["settings"])), told["backend"])
        trigger = Path(told["trigger"]) if told.get("trigger") else None
        return Stepping(recorder, told.get("by", "auto"), trigger)

    def watch(self, optimizer: Any) -> None:
        """Hooks every optimiser and every module of this process, until it is known which of them makes the steps."""
        if self._by != "forward":
            self._hooks.append(optimizer.register_optimizer_step_post_hook(self._optimizer_stepped))
        if self._by != "optimizer":
            import torch.nn.modules.module as module

            self._hooks.append(module.register_module_forward_pre_hook(self._forward_begins))
            self._hooks.append(module.register_module_forward_hook(self._forward_ends, always_call=True))
        atexit.register(self._end)

    def _optimizer_stepped(self, optimizer: Any, *_: object) -> None:
        if self._is_owner(optimizer):  # a job with two optimisers makes one step with both
            if self._by == "auto":
                self._by = "optimizer"
                self._forget(self._hooks[1:])  # hooks on every module cost time and are in the way of compilers
            self._step()

    def _forward_begins(self, *_: object) -> None:
        self._depth += 1

    def _forward_ends(self, module: Any, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and not _gradients() and self._is_owner(module):
            self._by = "forward"
            self._forget(self._hooks)
            module.register_forward_hook(lambda *_: self._step())
            self._step()

    def _is_owner(self, thing: Any) -> bool:
        """Whether this is what makes the steps: the first that does it ``REPEATS`` times."""
        if self._owner is None:
            self._seen[id(thing)] = self._seen.get(id(thing), 0) + 1
            if self._seen[id(thing)] == REPEATS:
                self._owner = id(thing)
        return self._owner == id(thing)

    def _forget(self, hooks: list[Any]) -> None:
        for hook in hooks:
            hook.remove()
        self._hooks = []

    def _step(self) -> None:
        try:
            if self._recorder.state == "idle":
                if self._trigger is None or self._trigger.exists():
                    self._recorder.start()
            else:
                self._recorder.step()
        except Exception as error:  # the job goes on without us, whatever its profiler met
            self._recorder.fail(error)
            sys.stderr.write(f"npulens: the recording failed, the job goes on: {self._recorder.reason}\n")

    def _end(self) -> None:
        try:
            self._recorder.stop()
        except Exception as error:  # at the end of a process there is nobody left to raise to
            self._recorder.fail(error)


def _gradients() -> bool:
    import torch

    return bool(torch.is_grad_enabled())

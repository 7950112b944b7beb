"""Python imports this at the start of every process of a job run by ``npulens collect -- ...`` or ``lab -- ...``.

It waits until the process imports torch, and then for steps (collectors/steps/period.py says what they are). A process
that makes no steps (a data loader's worker, a launcher) is left alone. Nothing that goes wrong here may stop the job.
"""

from __future__ import annotations

import _thread
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from importlib.machinery import ModuleSpec

_HERE = os.path.dirname(os.path.abspath(__file__))
_WATCHED = "torch"


class _Watch(importlib.abc.MetaPathFinder):
    """Hears of the one import that matters, and lets the usual finders do it.

    Who only asks whether torch is there, as transformers and vLLM do, gets an answer and imports it later.
    """

    def __init__(self) -> None:
        self._asking: set[int] = set()  # threads that ask the other finders just now

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        thread = _thread.get_ident()
        if name != _WATCHED or thread in self._asking:
            return None
        self._asking.add(thread)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.discard(thread)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    _begin()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # one loader, for one import
        return spec


def _ours() -> None:
    """npulens.collectors under that name and no other: a job's own packages are untouched, also in a zip file."""
    if "npulens" not in sys.modules:
        package = sys.modules["npulens"] = types.ModuleType("npulens")
        package.__path__ = [os.path.dirname(os.path.dirname(_HERE))]


def _begin() -> None:
    try:
        _ours()
        if os.environ.get("NPULENS_RECORDING"):
            from npulens.collectors.plugin import listen

            listen()
        else:
            from npulens.collectors.lab.listening import Listening

            Listening.from_environment().begin()
    except Exception as error:  # whatever is wrong, it is the job that matters
        sys.stderr.write(f"npulens: the job is not recorded: {type(error).__name__}: {error}\n")


def _next_customisation() -> None:
    """The sitecustomize of this installation, which ours stands before."""
    for place in sys.path:
        if os.path.abspath(place or ".") == _HERE:
            continue
        path = os.path.join(place, "sitecustomize.py")
        if os.path.isfile(path):
            spec = importlib.util.spec_from_file_location("sitecustomize", path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return


if os.environ.get("NPULENS_RECORDING") or os.environ.get("NPULENS_HEARING"):
    sys.meta_path.insert(0, _Watch())
_next_customisation()

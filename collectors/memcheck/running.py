"""Runs what launches kernels, ours or somebody's, under the checker."""

from __future__ import annotations

import importlib.util
import inspect
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from npulens.collectors import kernels
from npulens.collectors.generated import function as functions
from npulens.collectors.generated.function import NoFunction
from npulens.collectors.lab.judging import FAILURES, first_line
from npulens.collectors.memcheck import ours
from npulens.collectors.memcheck.finding import Report
from npulens.collectors.workloads.workload import NotHere


class Failed(ValueError):
    """What launches the kernels failed by itself, before anything could be said."""


def checked(target: str | None, arguments: Sequence[str] = ()) -> Report:
    """Kernels of ours; of a file that is run as a script; or of one function of it (FILE.py:NAME)."""
    if importlib.util.find_spec("triton") is None or importlib.util.find_spec("torch") is None:
        raise NotHere("the checker needs torch and triton: pip install triton (or triton-ascend), or name another "
                      "interpreter with --python")  # fmt: skip
    if "triton" in sys.modules and os.environ.get(kernels.INTERPRET) != "1":
        raise ValueError(f"Triton was imported already and compiles: start with {kernels.INTERPRET}=1")
    os.environ[kernels.INTERPRET] = "1"
    from npulens.collectors.memcheck.interpreter import checking

    with checking() as checker:
        why = None
        try:
            _run(target, arguments)
        except _failures() as error:
            why = _why(error)
    report = checker.report()
    if not report.launches:
        raise Failed(f"no kernel was launched: {why}" if why else "no kernel was launched, so nothing was checked")
    return report if why is None else Report(**{**vars(report), "notes": (why,)})


def _failures() -> tuple[type[BaseException], ...]:
    from triton.runtime.errors import InterpreterError

    return (InterpreterError, *FAILURES, ImportError, NameError, OSError, SystemExit)


def _why(error: BaseException) -> str | None:
    """In one line; a script that ends itself well has not failed."""
    if isinstance(error, SystemExit) and not error.code:
        return None
    if isinstance(error, (NotHere, NoFunction)):
        raise error
    inner = error.__cause__ if error.__cause__ is not None and type(error).__name__ == "InterpreterError" else error
    frame = inner.__traceback__
    place = ""
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if "triton" not in Path(name).parts and not name.startswith(str(Path(__file__).parent)):
            place = f"{name}:{frame.tb_lineno}: "
        frame = frame.tb_next
    return f"{place}{type(inner).__name__}: {first_line(inner)}"


def _run(target: str | None, arguments: Sequence[str]) -> None:
    if target is None:
        ours.run()
        return
    path, _, name = target.rpartition(":") if target.rpartition(":")[2].isidentifier() else (target, "", "")
    if not path:
        path, name = target, ""
    if not Path(path).is_file():
        raise NoFunction(f"there is no file {path}")
    if not name:
        sys.argv = [path, *arguments]
        sys.path.insert(0, str(Path(path).resolve().parent))
        runpy.run_path(path, run_name="__main__")
        return
    call = getattr(functions.module(Path(path)), name, None)
    if call is None or not inspect.isfunction(call):
        raise NoFunction(f"{name} is no function of {path}; name one that launches the kernels")
    if any(each.default is each.empty for each in inspect.signature(call).parameters.values()):
        given = functions.read(Path(path), name)
        given.call(**given.values)
    else:
        call()

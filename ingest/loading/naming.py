"""What a run is called: after the directory, archive or file that somebody brought, never after a hash."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePath

from npulens.ingest.store.notes import line

#: Directories that a profiler names, not a person.
_MADE = re.compile(
    r".*_ascend_(?:pt|ms)|PROF_.*|ASCEND_PROFILER_OUTPUT|mindstudio_profiler_output|OPPROF_.*|device_\d+|host|FRAMEWORK"
)
#: Files that every profiler run has under the same name.
_COMMON = {
    "trace_view.json", "kernel_details.csv", "communication.json", "trace.json", "result.json", "manifest.json",
    "step_trace_time.csv", "operator_details.csv", "memory_record.csv",
}  # fmt: skip
_LONGEST = 80  # letters of a job with its model
#: Arguments that name the model of a job.
_MODEL = re.compile(r"--?(?:(?:pretrained[_-])?model(?:[_-](?:name|path|id|name[_-]or[_-]path))?)")


def job(told: Mapping[str, object]) -> str | None:
    """The job and its model as the description of a recording tells them: train.py · Qwen2-7B."""
    command, workload = told.get("command"), told.get("workload")
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    script = next((PurePath(word).name for word in words if word.endswith((".py", ".sh"))), None)
    name = workload if isinstance(workload, str) and workload else script
    return None if name is None else line(" · ".join(dict.fromkeys(filter(None, (name, _model(words))))))[:_LONGEST]


def _model(words: Sequence[str]) -> str:
    """The last part of what the command calls its model."""
    for word, following in pairwise([*words, ""]):
        option, equals, value = word.partition("=")
        value = value if equals else following
        if _MODEL.fullmatch(option) and value and not value.startswith("-"):
            return PurePath(value).name
    return ""


def names(files: Sequence[Sequence[Path]], paths: Sequence[Path], called: str | None = None) -> list[str]:
    """A name for each run of a load, from its files and the paths that were to be loaded.

    A run that is all of a path is called like it. Of several in one path each is called after what lies within.
    ``called``: what the path is called where it came from. One with another name is a folder of things from anywhere.
    """
    tops = [_top(of, paths, called) for of in files]
    return [
        _outer(top, called if top in paths else None) if tops.count(top) == 1 else _inner(of, top, called)
        for of, top in zip(files, tops, strict=True)
    ]


def _top(files: Sequence[Path], paths: Sequence[Path], called: str | None) -> Path:
    """The path that these files were found in; of a folder of things from anywhere, the thing."""
    real = [Path(os.path.realpath(file)) for file in files]
    within = [path for path in paths if real and real[0].is_relative_to(os.path.realpath(path))]
    top = max(within, key=lambda path: len(path.parts), default=paths[0])
    if called and top.name != called and within:
        things = {file.relative_to(os.path.realpath(top)).parts[:1] for file in real if file != top}
        if len(things) == 1 and (thing := next(iter(things))):
            return top / thing[0]
    return top


def _outer(path: Path, called: str | None) -> str:
    if called:
        return called
    if _MADE.fullmatch(path.name):
        return path.parent.name or path.name
    return f"{path.parent.name}/{path.name}" if path.name in _COMMON and path.parent.name else path.name


def _inner(files: Sequence[Path], top: Path, called: str | None) -> str:
    real = [Path(os.path.realpath(file)) for file in files]
    common = real[0] if len(real) == 1 else Path(os.path.commonpath([file.parent for file in real]))
    parts = common.relative_to(os.path.realpath(top)).parts if common.is_relative_to(os.path.realpath(top)) else ()
    made = next((place for place, part in enumerate(parts) if _MADE.fullmatch(part)), len(parts))
    told = parts[:made]
    if told and told[-1] in _COMMON:
        return "/".join(told[-2:])
    return told[-1] if told else parts[0] if parts else _outer(top, called)

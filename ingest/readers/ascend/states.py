"""The state of a directory that no reader claims: raw, interrupted, aborted or badly analysed, and what to run.

Raw data is binary and parsed only by the tools of the machine it was recorded on. So the answer is their command.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message, joined
from npulens.ingest.readers.ascend import commands, completeness, prof_dir, rankdir
from npulens.ingest.readers.ascend.profiler_log import last_errors


def state(directory: Path) -> IngestError | None:
    """What a directory of the Ascend profilers is, if nothing of it can be loaded; None if it is none of theirs."""
    try:
        children = peek.at(directory).names
    except OSError:
        return None
    if prof_dir.NAME.match(directory.name):
        return _prof(directory, (directory.name,))
    if prof_dir.DEVICE.match(directory.name) and "data" in children:
        return _raw_msprof(directory, directory.parent, (directory.resolve().parent.name,))
    if rankdir.OUTPUT in children or directory.name == rankdir.OUTPUT:
        return _failed(directory.parent if directory.name == rankdir.OUTPUT else directory)
    if commands.FRAMEWORK in children:
        return _raw_framework(directory)
    if rankdir.RANK_DIR.search(directory.name) or rankdir.info_file(directory):
        return _without_framework(directory)
    return None


def outermost(found: Iterable[IngestError]) -> list[IngestError]:
    """Each state once, and those inside another left out: what is raw is raw with all its parts. Top down."""
    kept: dict[Path, IngestError] = {}
    for error in found:
        path = Path(error.path or "")
        if kept.keys().isdisjoint((path, *path.parents)):
            kept[path] = error
    return [*kept.values()]


def _log_said(root: Path) -> list[Message]:
    """The last errors of the profiler's log; nothing without any."""
    errors = last_errors(root)
    return [Message("log_s_last_errors", {"errors": " | ".join(errors)})] if errors else []


def _prof(directory: Path, shown: tuple[str, ...]) -> IngestError:
    if prof_dir.has_raw(directory) or (directory / "host").is_dir() or prof_dir.devices(directory):
        return _raw_msprof(directory, directory, shown)
    return IngestError("aborted", Message("prof_directory_without_data_msprof"), str(directory))


def _raw_msprof(entry: Path, prof: Path, shown: tuple[str, ...]) -> IngestError:
    cut = prof_dir.interrupted(prof)
    what = (Message("raw_msprof_data_interrupted_collection") if cut else Message("raw_msprof_data_not_exported"))
    return IngestError("raw_msprof", joined([what, _on_host(commands.export(*shown, interrupted=cut))]), str(entry))


def _raw_framework(directory: Path) -> IngestError:
    mindspore = directory.name.endswith("_ascend_ms")
    profs = _profs(directory)
    if not profs:
        name = "raw_data_without_prof_directory"
    elif any(map(prof_dir.interrupted, profs)) or not rankdir.stopped(directory):
        name = "raw_data_that_did_not_stop"
    else:
        name = "raw_data_not_analysed_yet"
    text = Message(name, {"tool": "MindSpore" if mindspore else "torch_npu"})
    told = [text, _on_host(commands.analyse(directory)), *_log_said(directory)]
    kind = "raw_mindspore" if mindspore else "raw_torch_npu"
    return IngestError(kind, joined(told), str(directory))


def _without_framework(directory: Path) -> IngestError:
    """Neither an analysis nor the framework's raw data."""
    profs = [prof for prof in _profs(directory) if prof_dir.has_raw(prof)]
    if profs:
        cut = prof_dir.interrupted(profs[0])
        command = commands.export(directory.name, profs[0].name, interrupted=cut)
        text = Message("raw_device_data_without_framework")
        return IngestError("raw_msprof", joined([text, _on_host(command)]), str(directory))
    if rankdir.info_file(directory):
        text = Message("profiler_left_its_settings_profiler")
    else:
        text = Message("profiler_left_no_data_in")
    return IngestError("aborted", joined([text, *_log_said(directory)]), str(directory))


def _failed(root: Path) -> IngestError:
    done = (root / rankdir.OUTPUT / "analyse.done").exists()
    name = "holds_nothing_analysis_failed_done" if done else "holds_nothing_to_load_analysis"
    text = Message(name, {"file": rankdir.OUTPUT})
    return IngestError("failed_analysis", joined([text, completeness.again(root), *_log_said(root)]), str(root))


def _on_host(command: str) -> Message:
    return Message("on_npu_host_run", {"command": command})


def _profs(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("PROF_*") if path.is_dir() and prof_dir.NAME.match(path.name))

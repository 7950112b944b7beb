"""Raw data of torch_npu made readable after the job: by its own analysis, wherever torch_npu is installed."""

from __future__ import annotations

from pathlib import Path

from npulens.collectors.profilers.asked import asked

#: What the analysis leaves in a directory of torch_npu's.
OUTPUT = "ASCEND_PROFILER_OUTPUT"


def recorded(directory: Path) -> list[Path]:
    """Directories of torch_npu below one; that may be one itself."""
    if directory.name.endswith("_ascend_pt"):
        return [directory]
    return sorted(path for path in directory.rglob("*_ascend_pt") if path.is_dir())


def analyse(directory: Path) -> int:
    """Analyses what is raw; the number of such directories. One that fails says so in its own logs."""
    found = [path for path in recorded(directory) if not (path / OUTPUT).exists()]
    if found:
        try:
            from torch_npu.profiler.profiler import analyse as theirs
        except ImportError as error:
            raise ValueError(f"the analysis is torch_npu's, which is not installed here: {error}") from error
        for path in found:
            asked(theirs, {"profiler_path": str(path)}, [])
    return len(found)

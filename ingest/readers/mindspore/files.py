"""Which files of a directory are MindSpore's, and which of them describe the same device.

The profiler writes into one flat directory; the number in a file's name is the device's (in later versions the
rank's). Everything with one number is one rank, and the one file without a number belongs to each.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

#: Role of a file -> how it is called. The order is that of importance: the first one found stands for the rank.
ROLES: dict[str, re.Pattern[str]] = {
    role: re.compile(pattern)
    for role, pattern in {
        "timeline": r"^(?:ascend_)?timeline_display_(\d{1,6})\.json$",
        "calls": r"^output_timeline_data_(\d{1,6})\.txt$",
        "steps": r"^step_trace_raw_(\d{1,6})_detail_time\.csv$",
        "framework": r"^framework_raw_(\d{1,6})\.csv$",
        "types": r"^aicore_intermediate_(\d{1,6})_type\.csv$",
        "details": r"^aicore_intermediate_(\d{1,6})_detail\.csv$",
        "op_times": r"^output_op_compute_time_(\d{1,6})\.txt$",
        "op_type_times": r"^output_op_compute_time_detail_(\d{1,6})\.txt$",
        "flops": r"^flops_(\d{1,6})\.txt$",
        "pipeline": r"^minddata_pipeline_raw_(\d{1,6})\.csv$",
        "queues": r"^pipeline_profiling_(\d{1,6})\.json$",
        "counter": r"^min_cycle_counter_(\d{1,6})\.txt$",
        "points": r"^step_trace_point_info(?:_(\d{1,6}))?\.json$",
    }.items()
}


def role(name: str) -> tuple[str, int | None] | None:
    """What a file of this name is, and whose; None if it is not MindSpore's."""
    for found, pattern in ROLES.items():
        if match := pattern.match(name):
            return found, None if match[1] is None else int(match[1])
    return None


def beside(path: Path) -> dict[str, Path]:
    """Role -> file of everything that describes the same device as ``path``, the most important first."""
    told = role(path.name)
    if told is None:
        return {}
    listed = _listed(path.parent, path.parent.stat().st_mtime_ns)
    mine = told[1] if told[1] is not None else min((number for number, _ in listed if number is not None), default=None)
    return {found: listed[mine, found] if (mine, found) in listed else listed[None, found]
            for found in ROLES if (mine, found) in listed or (None, found) in listed}  # fmt: skip


@lru_cache(maxsize=8)
def _listed(directory: Path, _changed_ns: int) -> dict[tuple[int | None, str], Path]:
    """Number and role -> file. Kept while the directory stays as it is: a walk asks once for every file in it."""
    found: dict[tuple[int | None, str], Path] = {}
    for path in sorted(directory.iterdir()):
        if (told := role(path.name)) and path.is_file() and not path.is_symlink():
            found.setdefault((told[1], told[0]), path)
    return found

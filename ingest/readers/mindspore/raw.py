"""Raw files of MindSpore's older profiler, which only its own parser turns into anything: recognised, not read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

#: hwts.log.data.45.dev.profiler_default_tag.1.slice_0, Framework.host.vm.point.1.slice_0, host_start.log.1 ...
_RAW = re.compile(
    r"^(?:(?:hwts\.log\.data|training_trace|aicore|DATA_PREPROCESS|Framework|l2_cache|runtime|ts_track|adda|hccl)\..*"
    r"\.slice_\d+(?:\.done)?|host_start\.log(?:\.\d+)?|dev_start\.log(?:\.\d+)?)$"
)
_SLICES, _SLICE = "raw_slices_of_mindspore", "raw_slice_of_mindspore"


def is_raw(name: str) -> bool:
    """Whether a file of this name is such a slice."""
    return bool(_RAW.match(name))


def directory(entry: Path, children: Iterable[str]) -> IngestError | None:
    """The refusal of a directory of raw slices, which speaks for every file below it."""
    slices = sum(map(is_raw, children))
    if not slices or any(map(is_raw, os.listdir(entry.parent))):
        return None
    return IngestError("raw_mindspore", Message(_SLICES, {"n": slices}), str(entry))


def file(entry: Path) -> IngestError | None:
    """The refusal of one such slice that was given alone."""
    return IngestError("raw_mindspore", Message(_SLICE), str(entry)) if is_raw(entry.name) else None

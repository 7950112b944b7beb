"""What an NPU's profiler leaves beside its exports: the data that the device wrote, slice by slice.

CANN writes into PROF_*/device_N/data and PROF_*/host, and torch_npu keeps both, as its documentation says. Real raw
slices of an Ascend 910 have 64 kB to 4 MB. Exports alone can be written by anybody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from npulens.analysis.proof.verdict import Verdict, judged

_DEVICE = re.compile(r"(?:^|/)PROF_[^/]+/device_\d+/data/[^/]*slice[^/]*$")
_HOST = re.compile(r"(?:^|/)PROF_[^/]+/host/")


def kept(about: str, sizes: Mapping[str, int]) -> Verdict:
    """The files of one recording and their sizes."""
    device = [size for name, size in sizes.items() if _DEVICE.search(name) and not name.endswith(".done")]
    host = sum(bool(_HOST.search(name)) for name in sizes)
    full = sum(size > 0 for size in device)
    seen = {"slices": len(device), "full": full, "bytes": sum(device), "host": host}
    return judged("raw", about, not full or not host, "raw_kept", seen)

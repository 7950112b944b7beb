"""Which versions belong together, as torch_npu's maintainers publish it. Facts with a date: newer releases exist.

A release of torch_npu needs the torch of its own number: the wheels pin it. It is tested with one CANN; neighbours
often work, which is why another CANN is a warning and another torch a failure.
"""

from __future__ import annotations

DATE = "2026-11-22"
SOURCE = "COMPATIBILITY.md of github.com/Ascend/pytorch and of its releases"

#: torch_npu -> the CANN that it was released with.
CANN = {
    "2.12.0.post2": "9.1", "2.11.0.post2": "9.1", "2.10.0.post6": "9.1", "2.9.0.post8": "9.1", "2.7.1.post10": "9.1",
    "2.12.0": "9.1.0", "2.11.0": "9.1.0", "2.10.0.post4": "9.1.0", "2.9.0.post6": "9.1.0", "2.7.1.post8": "9.1.0",
    "2.10.0": "9.0.0", "2.9.0.post2": "9.0.0", "2.8.0.post4": "9.0.0", "2.7.1.post4": "9.0.0",
    "2.9.0": "8.5.0", "2.8.0.post2": "8.5.0", "2.7.1.post2": "8.5.0", "2.6.0.post5": "8.5.0",
    "2.8.0": "8.3.RC1", "2.7.1": "8.3.RC1", "2.6.0.post3": "8.3.RC1", "2.1.0.post17": "8.3.RC1",
    "2.6.0": "8.2.RC1", "2.5.1.post1": "8.2.RC1", "2.1.0.post13": "8.2.RC1",
    "2.5.1": "8.1.RC1", "2.4.0.post4": "8.1.RC1", "2.3.1.post6": "8.1.RC1", "2.1.0.post12": "8.1.RC1",
    "2.4.0.post2": "8.0.0", "2.3.1.post4": "8.0.0", "2.1.0.post10": "8.0.0",
    "2.4.0": "8.0.RC3", "2.3.1.post2": "8.0.RC3", "2.1.0.post8": "8.0.RC3",
    "2.3.1": "8.0.RC2", "2.2.0.post2": "8.0.RC2", "2.1.0.post6": "8.0.RC2",
    "2.2.0": "8.0.RC1", "2.1.0.post4": "8.0.RC1", "2.1.0": "7.0.0",
}  # fmt: skip

#: The oldest release of this table. Its profiler takes a recording with our own defaults, as do all that follow.
OLDEST = "2.1.0"
#: The releases of CANN above, oldest first.
ORDER = (
    "7.0.0", "8.0.RC1", "8.0.RC2", "8.0.RC3", "8.0.0", "8.1.RC1", "8.2.RC1", "8.3.RC1", "8.5.0", "9.0.0", "9.1.0",
    "9.1",
)  # fmt: skip
#: A setting of a recording, or one value of it -> the CANN whose torch_npu was the first to have it. Read in the wheels
#: of all releases above but 2.1.0.post4, of which there is none (tests/npu/profilers.json).
SINCE = {
    "mstx": "8.0.RC2", "op_attr": "8.0.RC2", "export db": "8.0.RC2", "gc_threshold_ms": "8.0.RC3",
    "asynchronous": "8.1.RC1", "metrics MemoryAccess": "8.1.RC1", "export text and db": "8.1.RC1",
    "host_system": "8.2.RC1", "mstx_only": "8.2.RC1", "mstx_without": "8.2.RC1", "system_io": "8.2.RC1",
    "interconnection": "8.2.RC1", "host_system NUMA": "9.1.0",
}  # fmt: skip

#: torch -> the first and the last Python 3 that its torch_npu is built for.
PYTHON = {
    "2.13": (10, 14), "2.12": (10, 14), "2.11": (10, 14), "2.10": (10, 13), "2.9": (10, 13), "2.8": (9, 13),
    "2.7": (9, 13), "2.6": (9, 11), "2.5": (9, 11), "2.4": (8, 11), "2.3": (8, 11), "2.2": (8, 10), "2.1": (8, 11),
}  # fmt: skip


def lacking(torch_npu: str) -> tuple[str, ...] | None:
    """The settings that a release's profiler does not have; None where the table does not know the release."""
    cann = CANN.get(torch_npu)
    if cann is None:
        return None
    return tuple(setting for setting, since in SINCE.items() if ORDER.index(cann) < ORDER.index(since))


def base(version: str) -> str:
    """2.7.1.post2 and 2.7.1+cpu -> 2.7.1."""
    return ".".join(version.split("+")[0].split(".")[:3])

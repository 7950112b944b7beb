"""Whether a detector of kernels could judge enough of them to say that a run is fine."""

from __future__ import annotations

import numpy as np

from npulens.analysis.capability import setting
from npulens.analysis.device.kernels import kernels
from npulens.analysis.device.kinds import Bools
from npulens.analysis.finding import NotMeasured
from npulens.analysis.intervals import Ints
from npulens.analysis.limits import COVERED
from npulens.analysis.run import Run
from npulens.analysis.say import number
from npulens.analysis.steady import steady_ns

#: Calls of the host that launch a kernel, of CUDA, ROCm and CANN.
_LAUNCH = r"(?:cuda|hip|cu|Module)Launch(?:Cooperative)?Kernel|aclrtLaunchKernel|^(?:\w+@)?launch$"


def none_ran(run: Run) -> NotMeasured:
    """What to say where no kernel was recorded: none ran, or one was launched and its time is not there."""
    launched = run.con.execute(
        "SELECT 1 FROM span WHERE kind = 'runtime' AND regexp_matches(name, ?) LIMIT 1", [_LAUNCH]
    ).fetchall()  # fmt: skip
    if launched:
        return NotMeasured(
            "kernels were launched, but none was recorded on the device", "主机下发过算子，但没有采集到设备上的算子",
            setting(run, "kernels"),
        )  # fmt: skip
    return NotMeasured(
        "no kernel ran on the device in the recorded time", "采集时段内设备上没有运行过算子", None
    )  # fmt: skip


def some(about: Bools) -> None:
    """Raises where no kernel is of the kind that a detector is about: none was judged, so nothing is known to be fine.

    `about`: kernels of that kind.
    """
    if not about.any():
        raise NotMeasured(
            "no kernel that this check is about ran on the device", "设备上没有运行过此项检查所针对的算子", None
        )


def enough(run: Run, about: Bools, told: Bools, min_share: float, what: tuple[str, str]) -> None:
    """Raises where too much of the time was not judged, unless what is left is too short to matter.

    `about`: kernels that a detector is about. `told`: those that it could judge. `what` these are.
    """
    every, left = run.get(kernels), about & ~told
    known = int(every.dur[about & told].sum()) / max(1, int(every.dur[about].sum()))
    lost = most_of_a_rank(every.rank[left], every.dur[left])
    if known < COVERED and lost >= min_share * run.get(steady_ns):
        said = number("_share", known)
        raise NotMeasured(
            f"{what[0]} have only {said} of the time that this check is about",
            f"{what[1]}只占此项检查所针对时间的 {said}",
            None,
        )


def most_of_a_rank(rank: Ints, ns: Ints) -> int:
    """The sum of the rank that has most."""
    ranks, which = np.unique(rank, return_inverse=True)
    total = np.zeros(len(ranks), np.int64)
    np.add.at(total, which.ravel(), ns)
    return int(total.max(initial=0))

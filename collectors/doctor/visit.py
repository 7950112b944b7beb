"""One visit of the doctor: every check on the same facts, in the order in which one mends them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npulens.collectors.doctor import ascend, compatibility, machine, settings, software
from npulens.collectors.doctor.check import FAIL, Check
from npulens.collectors.doctor.facts import Facts, gather

CHECKS: tuple[Callable[[Facts], Check], ...] = (
    machine.backend, software.python, software.torch, software.torch_npu, software.versions, software.torch_build,
    ascend.cann, ascend.devices, ascend.npu_smi, ascend.msprof, settings.user, settings.umask, settings.log_level,
    settings.variables, software.triton, machine.processes, machine.clocks, machine.memory, machine.disk,
)  # fmt: skip


def visit(place: Path) -> dict[str, Any]:
    """What every check found, as JSON tells it; ``place`` is where recordings would go."""
    return report(gather(place))


def report(facts: Facts) -> dict[str, Any]:
    """The same for facts that somebody has gathered."""
    found = [check(facts) for check in CHECKS]
    return {
        "status": "unusable" if any(check.status == FAIL for check in found) else "usable",
        "backend": next((name for name, each in facts.backends.items() if each.available), None),
        "checks": [asdict(check) for check in found],
        "compatibility": {"date": compatibility.DATE, "source": compatibility.SOURCE},
    }

"""Which rank a process is: what torch.distributed says, and before that what its launcher has put into the environment.

A launcher may have been started by another, as torchrun by Slurm: the innermost is asked first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

#: Launcher -> where it says the rank: torchrun, Open MPI, MPICH and Intel MPI, PMIx, Slurm.
RANKS = {
    "torchrun": "RANK", "Open MPI": "OMPI_COMM_WORLD_RANK", "MPICH": "PMI_RANK", "PMIx": "PMIX_RANK",
    "Slurm": "SLURM_PROCID",
}  # fmt: skip


def rank(environment: Mapping[str, str] = os.environ) -> int | None:
    """The rank of this process; None where nobody says."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    told = (environment.get(name, "") for name in RANKS.values())
    return next((int(each) for each in told if each.isascii() and each.isdecimal()), None)

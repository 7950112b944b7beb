"""A Slurm cluster of two nodes on this machine: a controller and two slurmd, on the loopback, without munge."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.nodes.ports import free_port

_CONFIGURATION = """ClusterName=two
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={place}
SlurmdSpoolDir={place}/%n
SlurmctldPidFile={place}/controller.pid
SlurmdPidFile={place}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
ReturnToService=2
MpiDefault=none
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 Port={one} CPUs=1
NodeName=two NodeHostname={host} NodeAddr=127.0.0.1 Port={two} CPUs=1
PartitionName=all Nodes=one,two Default=YES State=UP
"""
#: Its daemons lie where only root looks.
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_PATIENCE_S = 30


def program(name: str) -> str:
    """Where one of Slurm's programs lies; its name where it does not."""
    return shutil.which(name, path=_PATH) or name


def missing() -> str | None:
    """Why there can be no cluster here; None where there can."""
    for name in ("slurmctld", "slurmd", "srun", "sbatch"):
        if shutil.which(name, path=_PATH) is None:
            return f"{name} is not here"
    return None if os.geteuid() == 0 else "its daemons are started as root"


@contextmanager
def cluster(place: Path) -> Iterator[dict[str, str]]:
    """The environment in which srun and sbatch find it."""
    place.mkdir()
    text = _CONFIGURATION.format(
        host=platform.node(), place=place, controller=free_port(), one=free_port(), two=free_port()
    )
    (place / "slurm.conf").write_text(text)
    environment = {**os.environ, "PATH": _PATH, "SLURM_CONF": str(place / "slurm.conf")}
    node = [program("slurmd"), "-D", "-N"]
    commands = ([program("slurmctld"), "-D"], [*node, "one"], [*node, "two"])
    daemons = []
    try:
        for number, command in enumerate(commands):
            with (place / f"{number}.log").open("w") as log:
                daemons.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            time.sleep(1)
        for _ in range(_PATIENCE_S):
            told = subprocess.run(["sinfo", "-h", "-o", "%T %D"], env=environment, capture_output=True, text=True)
            if told.stdout.split() == ["idle", "2"]:
                break
            time.sleep(1)
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(_PATIENCE_S)

"""Everything the checks look at, gathered once. Whatever may spoil a process is asked in another one."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from npulens.collectors.backends.probe import STUB_SYMBOL, Capability, survey
from npulens.collectors.telemetry import cann, machine, npu_smi
from npulens.collectors.telemetry.processor import our_cores
from npulens.collectors.telemetry.tool_answer import ToolAnswer, ask

_PACKAGES = ("torch", "torch-npu", "triton", "triton-ascend", "numpy", "pybind11", "pyyaml")
_FIND = "find / -name set_env.sh -path '*scend*' 2>/dev/null"
_STUB = f"import ctypes; print('stub' if hasattr(ctypes.CDLL('libascendcl.so'), '{STUB_SYMBOL}') else 'real')"


@dataclass(frozen=True)
class Node:
    """One file below /dev that stands for a device."""

    path: str
    usable: bool
    group: str | None


@dataclass(frozen=True)
class Smi:
    """npu-smi: whether it answered, its table, and key and value of every chip."""

    asked: ToolAnswer
    info: npu_smi.Info
    common: Mapping[int, Mapping[int, dict[str, str]]]


@dataclass(frozen=True)
class Facts:
    """The state of one machine, seen by one user in one shell."""

    python: tuple[int, int, int]
    packages: Mapping[str, str]
    backends: Mapping[str, Capability]
    variables: Mapping[str, str]
    cann_home: Path | None
    cann_version: str | None
    cann_setup: Path | None  # a set_env.sh that could be sourced
    cann_library: str  # real, stub, or why it does not load
    nodes: tuple[Node, ...]
    smi: Smi
    gpu_processes: ToolAnswer
    msprof: str | None
    umask: int
    root: bool
    cores: int
    load: float | None
    governor: str | None
    container: str | None
    memory: tuple[int, int] | None
    disk_free: int

    @property
    def ascend(self) -> bool:
        """Whether anything here belongs to an NPU: otherwise its checks have nothing to say."""
        return bool(
            self.nodes or "torch-npu" in self.packages or self.cann_home or self.cann_setup
            or self.smi.asked.status is not None
        )  # fmt: skip

    @property
    def setup(self) -> str:
        """The command that makes CANN known to a shell, or the one that finds it."""
        return f"source {self.cann_setup}" if self.cann_setup else _FIND


def gather(place: Path) -> Facts:
    """Asks everybody; takes as long as importing torch twice."""
    home = cann.home()
    return Facts(
        python=(sys.version_info[0], sys.version_info[1], sys.version_info[2]),
        packages=_packages(),
        backends={each.name: each for each in survey()},
        variables=dict(os.environ),
        cann_home=home,
        cann_version=cann.version(home) if home else None,
        cann_setup=cann.installed(),
        cann_library=_library(),
        nodes=tuple(_nodes()),
        smi=_smi(),
        gpu_processes=ask(
            ["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits"]
        ),
        msprof=shutil.which("msprof"),
        umask=_umask(),
        root=hasattr(os, "geteuid") and os.geteuid() == 0,
        cores=len(our_cores()),
        load=machine.load(),
        governor=machine.governor(),
        container=machine.container(),
        memory=machine.memory(),
        disk_free=shutil.disk_usage(place).free,
    )


def _packages() -> dict[str, str]:
    found: dict[str, str] = {}
    for each in distributions():
        name = str(each.metadata["Name"] or "").lower().replace("_", "-")
        if name in _PACKAGES:
            found.setdefault(name, each.version)  # the first on the path is the one that is imported
    return found


def _library() -> str:
    asked = ask([sys.executable, "-c", _STUB])
    if asked.answered:
        return asked.text.strip()
    return (asked.text.strip().splitlines() or ["it does not load"])[-1][:200]


def _nodes() -> list[Node]:
    found = []
    for path in sorted(Path("/dev").glob("davinci*")) + [Path("/dev/devmm_svm"), Path("/dev/hisi_hdc")]:
        if path.exists():
            try:
                group: str | None = path.group()
            except (KeyError, OSError):
                group = None
            found.append(Node(str(path), os.access(path, os.R_OK | os.W_OK), group))
    return found


def _smi() -> Smi:
    asked = ask(["npu-smi", "info"])
    told = npu_smi.info(asked.text)
    cards = sorted({chip.npu for chip in told.chips})
    common = {card: npu_smi.chips(ask(["npu-smi", "info", "-t", "common", "-i", str(card)]).text) for card in cards}
    return Smi(asked, told, common)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def missing_library(reason: str) -> str | None:
    """The library that the dynamic linker did not find, if that is what a message says."""
    found = re.search(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object", reason)
    return found[1] if found else None

"""An all-reduce of known sizes between processes, each of which records itself: HCCL, NCCL, or Gloo on a CPU."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import open_backend
from npulens.collectors.evidence.capture import record
from npulens.collectors.evidence.drawn import SETTINGS
from npulens.collectors.workloads.workload import NotHere

_LIBRARIES = {"npu": "hccl", "cuda": "nccl", "cpu": "gloo"}


def started(home: Path, backend: str, devices: int, ranks: int, command: list[str], limit_s: float) -> None:
    """Starts a process for each rank and waits for them; one that fails ends the others."""
    if backend not in _LIBRARIES:
        raise NotHere(f"no library for communication is known on {backend}")
    if backend != "cpu" and devices < ranks:
        raise NotHere(f"an all-reduce of {ranks} ranks wants as many devices; {devices} here")
    home.mkdir(parents=True, exist_ok=True)
    told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_port()), "WORLD_SIZE": str(ranks)}
    children = [
        subprocess.Popen(
            command, stdout=sys.stderr,
            env={**os.environ, **told, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(ranks)
    ]  # fmt: skip
    try:
        status = [child.wait(limit_s) for child in children]
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()
    if any(status):
        raise RuntimeError(f"the ranks ended with {', '.join(map(str, status))}")


def reduce(home: Path, backend: str, plan: Mapping[str, Any]) -> None:
    """One rank's part."""
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    opened = open_backend(backend)
    if backend != "cpu":
        getattr(torch, backend).set_device(rank)
        opened.device = f"{backend}:{rank}"
    dist.init_process_group(_LIBRARIES[backend])
    sizes = plan["reduced_bytes"]
    weight = torch.randn(256, 256, device=opened.device) / 16
    held = [[torch.ones(size // 4, device=opened.device) for size in each] for each in sizes]

    def step(number: int) -> None:
        (weight @ weight).relu()
        for each in held[number]:
            dist.all_reduce(each)

    about = {"planted": "reduce", "wanted_bytes": sizes[-SETTINGS.active :]}
    record(home, opened, replace(SETTINGS), step, about)
    dist.destroy_process_group()


def _port() -> int:
    """A free port of this machine's own address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

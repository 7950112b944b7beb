"""Two nodes of a Ray cluster on this machine, in processes of their own, and ways to lose a part of them.

`python -m tests.fleet.cluster` is the cluster: it prints its address, does what it is told by lines on standard input,
and ends with it.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
#: In the environment of every process of one cluster: its own word.
_MARK = "NPULENS_TESTS_CLUSTER"


def missing() -> str | None:
    """Why there can be no cluster here."""
    return None if find_spec("ray") and find_spec("grpc") else "ray is not installed: `make test-fleet` installs it"


@dataclass
class Cluster:
    """A running cluster of a head and a second node, one processor each."""

    address: str  # for drivers of this machine
    client: str  # ray://HOST:PORT
    mark: str
    ask: IO[str]
    answers: IO[str]

    def environment(self) -> dict[str, str]:
        """What makes it the cluster of this machine."""
        return {"RAY_ADDRESS": self.address}

    def lose_node(self) -> None:
        """The second node is gone at once, with all that runs on it."""
        self._told("lose")

    def add_node(self) -> None:
        """Another second node."""
        self._told("add")

    def _told(self, line: str) -> None:
        self.ask.write(line + "\n")
        self.ask.flush()
        assert self.answers.readline().strip() == line

    def workers(self, task: str) -> list[int]:
        """The processes that do a task now."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    mine = f"{_MARK}={self.mark}".encode() in (entry / "environ").read_bytes()
                    if mine and (entry / "cmdline").read_bytes().startswith(f"ray::{task}".encode()):
                        found.append(int(entry.name))
        return found

    def kill_worker(self, task: str) -> bool:
        """Kill a process that does a task now; whether there was one."""
        for pid in self.workers(task):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start one, and end it."""
    mark = secrets.token_hex(8)
    environment = {**os.environ, _MARK: mark, "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-m", "tests.fleet.cluster"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        while (line := process.stdout.readline()) and not line.startswith("address "):
            continue
        _, address, client = line.split()
        try:
            yield Cluster(address, client, mark, process.stdin, process.stdout)
        finally:
            process.stdin.close()
            process.wait(60)


def main() -> None:
    """Be the cluster."""
    import socket

    from ray.cluster_utils import Cluster as Nodes

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    small = {"num_cpus": 1, "object_store_memory": 80 * 10**6}
    nodes = Nodes(
        initialize_head=True, head_node_args={**small, "include_dashboard": False, "ray_client_server_port": port}
    )
    second = nodes.add_node(**small)
    print("address", nodes.address, f"ray://127.0.0.1:{port}", flush=True)
    for line in sys.stdin:
        if line.strip() == "lose":
            nodes.remove_node(second, allow_graceful=False)
        else:
            second = nodes.add_node(**small)
        print(line.strip(), flush=True)
    nodes.shutdown()


if __name__ == "__main__":
    main()

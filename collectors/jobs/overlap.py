"""Two ranks train side by side over a link whose bandwidth is known: what of the link does the backward pass hide?

    torchrun --nproc-per-node 2 -m npulens.collectors.jobs.overlap

Gradients are averaged by Gloo. The kernel lets its connections send no faster than the link that was asked for. So how
long a step waits can be predicted from the moments when its buckets were ready: those of the step itself, and those of
steps with no such limit. The seeds begin to reduce before the backward pass, when there is nothing to reduce.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from npulens.collectors.jobs import job
from npulens.collectors.jobs.job import Plant

PLANTS = {
    "reduces_at_the_end": Plant(
        "all gradients are one bucket, which is ready when the backward pass is over",
        "a bucket goes as soon as its gradients are ready", ("comm_exposed",), ranks=2,
    ),
}  # fmt: skip
_WIDTH, _LAYERS, _BATCH = 512, 8, 1536
#: As Linux names it (asm-generic/socket.h; other numbers on parisc and sparc only), and no limit at all.
_SO_MAX_PACING_RATE, _UNLIMITED = 47, 0xFFFFFFFF


@dataclass
class Step:
    """Moments of one step, in ns: when it began, when each bucket was ready, and when all of it was over."""

    begun: int = 0
    over: int = 0
    ready: list[tuple[int, int]] = field(default_factory=list)  # moment, bytes


class Link:
    """The connections that Gloo made, which the kernel lets send no faster than told."""

    def __init__(self, before: frozenset[str]) -> None:
        self._sockets = [socket.socket(fileno=os.dup(int(fd))) for fd in _connections() - before]

    def bandwidth(self, bytes_per_s: float | None) -> None:
        """In each direction; None: as fast as this machine is."""
        for each in self._sockets:
            most = _UNLIMITED if bytes_per_s is None else round(bytes_per_s)
            each.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("I", most))

    def close(self) -> None:
        """Lets go of the connections; they stay Gloo's."""
        for each in self._sockets:
            each.close()


def _connections() -> frozenset[str]:
    """The descriptors of this process that are sockets."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                found.add(fd)
        except OSError:  # closed meanwhile: that of the listing itself
            continue
    return frozenset(found)


def on_the_link(size: int, ranks: int) -> float:
    """The bytes that each rank sends for a bucket: Gloo reduces in a ring, then passes the sums on in it."""
    return 2 * size * (ranks - 1) / ranks


def predicted_ns(ready: Sequence[tuple[int, int]], bandwidth: float, ranks: int) -> float:
    """How long a step waits for such a link once nothing is left to compute, which is when its last bucket is ready.

    The link is never idle while a bucket is there, so it does not matter in which order they go.
    """
    free = 0.0
    for moment, size in ready:
        free = max(free, moment) + on_the_link(size, ranks) / bandwidth * 1e9
    return free - ready[-1][0]


def trained(told: job.Asked, steps: int) -> tuple[list[Step], float]:
    """So many steps; the last loss."""
    torch.manual_seed(told.seed)
    layers = [part for _ in range(_LAYERS) for part in (nn.Linear(_WIDTH, _WIDTH), nn.ReLU())]
    megabytes = 1000.0 if told.wrong("reduces_at_the_end") else 1.0
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=megabytes)

    step = Step()

    def hook(_: object, bucket: Any) -> Any:
        buffer = bucket.buffer()
        step.ready.append((time.perf_counter_ns(), buffer.numel() * buffer.element_size()))
        buffer.div_(dist.get_world_size())
        return dist.all_reduce(buffer, async_op=True).get_future().then(lambda done: done.value()[0])

    hook.__annotations__.clear()  # DDP compares them with its own classes, and these are text
    model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batch = torch.randn(_BATCH, _WIDTH, generator=torch.Generator().manual_seed(dist.get_rank()))
    made, loss = list[Step](), torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        dist.barrier()
        step = Step(time.perf_counter_ns())
        loss.backward()
        step.over = time.perf_counter_ns()
        optimizer.step()
        made.append(step)
    return [_last_of_all(step) for step in made[job.WARM :] or made], float(loss.detach())


def _last_of_all(step: Step) -> Step:
    """A bucket is ready when the last rank has it; the ranks of one machine have one clock."""
    ready: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(ready, step.ready)
    moments = [max(moment for moment, _ in each) for each in zip(*ready)]
    return Step(step.begun, step.over, [(moment, size) for moment, (_, size) in zip(moments, step.ready)])


def main() -> None:
    parser = job.parser("overlap", __doc__, PLANTS, 16)
    parser.add_argument("--megabytes-per-s", type=_positive, default=40.0, help="of the link, in each direction")
    given = parser.parse_args()
    told = job.asked("overlap", given)
    if "RANK" not in os.environ:
        raise SystemExit("several ranks make this job: torchrun --nproc-per-node 2 -m npulens.collectors.jobs.overlap")
    if told.device != "cpu":
        raise SystemExit("the link of this job is one between processors: leave --device out")
    if not sys.platform.startswith("linux"):
        raise SystemExit("only Linux makes a connection slower: SO_MAX_PACING_RATE")
    bandwidth, before = given.megabytes_per_s * 1e6, _connections()
    dist.init_process_group("gloo")
    dist.all_reduce(torch.zeros(1))  # connections are made when they are needed
    link = Link(before)
    link.bandwidth(bandwidth)
    with_link, loss = trained(told, told.steps)
    link.bandwidth(None)
    without, _ = trained(told, told.steps)
    backward = statistics.median(step.ready[-1][0] - step.begun for step in without)
    measured = statistics.median(step.over - step.ready[-1][0] for step in with_link)
    own, unhindered = (
        statistics.median(predicted_ns(step.ready, bandwidth, dist.get_world_size()) for step in steps)
        for steps in (with_link, without)
    )
    size = sum(each for _, each in with_link[-1].ready)
    if dist.get_rank() == 0:
        job.say(told, [step.over - step.begun for step in with_link], loss, {
            "buckets": len(with_link[-1].ready), "megabytes_per_s": given.megabytes_per_s, "backward_ns": backward,
            "link_ns": on_the_link(size, dist.get_world_size()) / bandwidth * 1e9,
            "exposed_ns": measured, "predicted_ns": own, "predicted_without_link_ns": unhindered,
        })  # fmt: skip
    dist.barrier()
    link.close()
    dist.destroy_process_group()


def _positive(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e6:
        raise argparse.ArgumentTypeError("a number above zero")
    return found


if __name__ == "__main__":
    main()

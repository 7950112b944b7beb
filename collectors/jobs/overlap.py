"""Two ranks train side by side over a link whose bandwidth is known: what of the link does the backward pass hide?

    torchrun --nproc-per-node 2 -m npulens.collectors.jobs.overlap

Gradients are averaged by Gloo for real. Each bucket then stays on the link until its bytes would have gone over it, and
one bucket goes after another. So how long a step waits for the link can be predicted from the moments when its buckets
were ready: those of the step itself, and those of steps with no link at all. The seeds begin to reduce before the
backward pass, when there is nothing to reduce.
"""

from __future__ import annotations

import argparse
import os
import queue
import statistics
import threading
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
_WIDTH, _LAYERS, _BATCH = 512, 8, 384


@dataclass
class Step:
    """Moments of one step, in ns: when it began, when each bucket was ready, and when all of it was over."""

    begun: int = 0
    over: int = 0
    ready: list[tuple[int, int]] = field(default_factory=list)  # moment, bytes


class Link:
    """One bucket after another; each takes its bytes divided by the bandwidth, and no less than Gloo does."""

    def __init__(self, bandwidth: float | None) -> None:
        self.bandwidth = bandwidth  # bytes a second; None: there is no link to wait for
        self.step = Step()
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def taken(self, bucket: Any) -> Any:
        """A bucket that is ready; what comes back says when it is there."""
        buffer, done, now = bucket.buffer(), torch.futures.Future(), time.perf_counter_ns()
        self.step.ready.append((now, buffer.numel() * buffer.element_size()))
        self._waiting.put((buffer, done, now))
        return done

    def _work(self) -> None:
        free = 0.0  # when the link has nothing to carry any more
        while True:
            buffer, done, now = self._waiting.get()
            last = torch.tensor(now)
            dist.all_reduce(last, dist.ReduceOp.MAX)  # a bucket is on the link when every rank has it
            dist.all_reduce(buffer)
            buffer /= dist.get_world_size()
            if self.bandwidth is not None:
                free = max(free, float(last)) + buffer.numel() * buffer.element_size() / self.bandwidth * 1e9
                time.sleep(max(0.0, free - time.perf_counter_ns()) / 1e9)
            done.set_result(buffer)


def predicted_ns(ready: Sequence[tuple[int, int]], bandwidth: float) -> float:
    """How long a step waits for such a link once nothing is left to compute, which is when its last bucket is ready.

    Buckets go in the order in which they were ready, one after another.
    """
    free = 0.0
    for moment, size in ready:
        free = max(free, moment) + size / bandwidth * 1e9
    return free - ready[-1][0]


def trained(told: job.Asked, link: Link, steps: int) -> tuple[list[Step], float]:
    """So many steps over a link; the last loss."""
    torch.manual_seed(told.seed)
    layers = [part for _ in range(_LAYERS) for part in (nn.Linear(_WIDTH, _WIDTH), nn.ReLU())]
    megabytes = 1000.0 if told.wrong("reduces_at_the_end") else 1.0
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=megabytes)

    def hook(_: object, bucket: Any) -> Any:
        return link.taken(bucket)

    hook.__annotations__.clear()  # DDP compares them with its own classes, and these are text
    model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batch = torch.randn(_BATCH, _WIDTH, generator=torch.Generator().manual_seed(dist.get_rank()))
    made, loss = list[Step](), torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        dist.barrier()
        link.step = Step(time.perf_counter_ns())
        loss.backward()
        link.step.over = time.perf_counter_ns()
        optimizer.step()
        made.append(link.step)
    return [_last_of_all(step) for step in made[job.WARM :] or made], float(loss.detach())


def _last_of_all(step: Step) -> Step:
    """A bucket is ready when the last rank has it; the ranks of one machine have one clock."""
    ready: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(ready, step.ready)
    moments = [max(moment for moment, _ in each) for each in zip(*ready)]
    return Step(step.begun, step.over, [(moment, size) for moment, (_, size) in zip(moments, step.ready)])


def main() -> None:
    parser = job.parser("overlap", __doc__, PLANTS, 16)
    parser.add_argument("--megabytes-per-s", type=_positive, default=50.0, help="of the link, in each direction")
    given = parser.parse_args()
    told = job.asked("overlap", given)
    if "RANK" not in os.environ:
        raise SystemExit("several ranks make this job: torchrun --nproc-per-node 2 -m npulens.collectors.jobs.overlap")
    if told.device != "cpu":
        raise SystemExit("the link of this job is one between processors: leave --device out")
    dist.init_process_group("gloo")
    bandwidth = given.megabytes_per_s * 1e6
    link = Link(bandwidth)
    with_link, loss = trained(told, link, told.steps)
    link.bandwidth = None
    without, _ = trained(told, link, told.steps)
    backward = statistics.median(step.ready[-1][0] - step.begun for step in without)
    measured = statistics.median(step.over - step.ready[-1][0] for step in with_link)
    own, before = (
        statistics.median(predicted_ns(step.ready, bandwidth) for step in steps) for steps in (with_link, without)
    )
    size = sum(each for _, each in with_link[-1].ready)
    if dist.get_rank() == 0:
        job.say(told, [step.over - step.begun for step in with_link], loss, {
            "buckets": len(with_link[-1].ready), "link_ns": size / bandwidth * 1e9, "backward_ns": backward,
            "exposed_ns": measured, "predicted_ns": own, "predicted_without_link_ns": before,
        })  # fmt: skip
    dist.barrier()
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

"""Two stages of a pipeline and one batch: each waits while the other works. The fix splits the batch into eight."""

import torch
import torch.distributed as dist

from tests.loop.jobs.steps import FIXED, model, run

ROWS, WIDTH = 1024, 512


def first_stage(parts: int) -> None:
    sent = []
    for _ in range(parts):
        sent.append(net(torch.randn(ROWS // parts, WIDTH)))
        dist.send(sent[-1].detach(), 1)
    for out in sent:
        gradient = torch.empty_like(out)
        dist.recv(gradient, 1)
        out.backward(gradient)


def last_stage(parts: int) -> None:
    for _ in range(parts):
        got = torch.empty(ROWS // parts, WIDTH)
        dist.recv(got, 0)
        got.requires_grad_()
        net(got).square().mean().backward()
        dist.send(got.grad, 0)


def step(_: int) -> None:
    (first_stage, last_stage)[dist.get_rank()](8 if FIXED else 1)
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    net = model(WIDTH)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    run(step)
    dist.destroy_process_group()

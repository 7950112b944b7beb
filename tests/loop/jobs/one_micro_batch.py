"""Two stages of a pipeline and one batch: each waits while the other works. The fix splits the batch into eight."""

import torch
import torch.distributed as dist

from tests.loop.jobs.steps import FIXED, model, run

ROWS, WIDTH = 1024, 512


def first_stage(parts: int) -> None:
    made, sent = [], []
    for _ in range(parts):
        made.append(net(torch.randn(ROWS // parts, WIDTH)))
        sent.append(dist.isend(made[-1].detach(), 1))
    for out in made:
        gradient = torch.empty_like(out)
        dist.recv(gradient, 1)
        out.backward(gradient)
    for request in sent:
        request.wait()


def last_stage(parts: int) -> None:
    sent = []
    for _ in range(parts):
        got = torch.empty(ROWS // parts, WIDTH)
        dist.recv(got, 0)
        got.requires_grad_()
        net(got).square().mean().backward()
        sent.append(dist.isend(got.grad, 0))
    for request in sent:
        request.wait()


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

"""A batch goes through the network one row at a time; the fix takes it at once."""

import torch

from tests.loop.jobs.steps import FIXED, model, run


class Rows(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = model(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x) if FIXED else torch.cat([self.net(row) for row in x.split(1)])


def step(_: int) -> None:
    with torch.no_grad():
        rows(torch.randn(256, 32))


if __name__ == "__main__":
    rows = Rows()
    run(step)

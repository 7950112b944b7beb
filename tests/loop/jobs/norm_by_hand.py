"""Layer normalisation written out; the fix is the operator."""

import torch
from torch.nn import functional

from tests.loop.jobs.steps import FIXED, run


class Norm(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.ones(width)), torch.nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if FIXED:
            return functional.layer_norm(x, x.shape[-1:], self.weight, self.bias)
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-5) * self.weight + self.bias


def step(_: int) -> None:
    with torch.no_grad():
        net(torch.randn(1024, 1024))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(part for _ in range(3) for part in (Norm(1024), torch.nn.Linear(1024, 1024))))
    run(step)

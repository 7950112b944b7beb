"""GELU written out; the fix is the operator."""

import math

import torch
from torch.nn import functional

from tests.loop.jobs.steps import FIXED, run


def gelu(x: torch.Tensor) -> torch.Tensor:
    if FIXED:
        return functional.gelu(x, approximate="tanh")
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))))


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = [(256, 2048), (2048, 2048), (2048, 256)]
        self.layers = torch.nn.ModuleList([torch.nn.Linear(*size) for size in sizes])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = gelu(layer(x))
        return x


def step(_: int) -> None:
    with torch.no_grad():
        net(torch.randn(256, 256))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Network()
    run(step)

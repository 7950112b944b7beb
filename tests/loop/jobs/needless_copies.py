"""Every layer gets copies of its input, made for debugging; the fix does without."""

import torch

from tests.loop.jobs.steps import FIXED, run


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(512, 512) for _ in range(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if not FIXED:
                x = x.clone().clone().t().contiguous().t().contiguous()
            x = torch.relu(layer(x))
        return x


def step(_: int) -> None:
    with torch.no_grad():
        net(torch.randn(4096, 512))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Network()
    run(step)

"""An LSTM learns how a measured series goes on."""

from __future__ import annotations

import torch
from torch import nn

from npulens.collectors.jobs import job
from npulens.collectors.jobs.job import Plant

PLANTS = {
    "gate_by_gate": Plant(
        "every gate of every moment is a product of its own", "nn.LSTM", ("launch_overhead", "host_late"),
        ("merge_linears", "compile"),
    ),
}  # fmt: skip
_INPUTS, _WIDTH, _LENGTH, _BATCH = 16, 64, 48, 8


class Series(nn.Module):
    """What is expected next, for every moment."""

    def __init__(self, gate_by_gate: bool = False) -> None:
        super().__init__()
        self.gate_by_gate = gate_by_gate
        self.lstm, self.head = nn.LSTM(_INPUTS, _WIDTH, batch_first=True), nn.Linear(_WIDTH, _INPUTS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self._by_gates(x) if self.gate_by_gate else self.lstm(x)[0])

    def _by_gates(self, x: torch.Tensor) -> torch.Tensor:
        """The same weights as nn.LSTM: input, forget, new, output gate, one below another."""
        parts = [each.chunk(4) for each in (self.lstm.weight_ih_l0, self.lstm.weight_hh_l0, self.lstm.bias_ih_l0,
                                            self.lstm.bias_hh_l0)]  # fmt: skip
        told = kept = torch.zeros(x.shape[0], _WIDTH, device=x.device)
        found = list[torch.Tensor]()
        for moment in range(x.shape[1]):
            taken, forgotten, new, given = (
                nn.functional.linear(x[:, moment], w, b) + nn.functional.linear(told, v, c)
                for w, v, b, c in zip(*parts)
            )
            kept = torch.sigmoid(forgotten) * kept + torch.sigmoid(taken) * torch.tanh(new)
            told = torch.sigmoid(given) * torch.tanh(kept)
            found.append(told)
        return torch.stack(found, 1)


def main() -> None:
    told = job.asked("lstm", job.parser("lstm", __doc__, PLANTS, 16).parse_args())
    model = Series(told.wrong("gate_by_gate")).to(told.device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    waves = torch.arange(_LENGTH + 1)[:, None] * (torch.arange(_INPUTS) + 1) / 20

    def step(_: int) -> float:
        series = (torch.sin(waves + torch.rand(_BATCH, 1, _INPUTS)) + 0.1 * torch.randn(_BATCH, 1, 1)).to(told.device)
        loss = nn.functional.mse_loss(model(series[:, :-1]), series[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    job.say(told, *job.run(told, step))


if __name__ == "__main__":
    main()

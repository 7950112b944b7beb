"""A training step of a small network: two linear layers with ReLU between, cross entropy, SGD, 32 samples.

Every kernel of it is over before the host has prepared the next one, so the device waits for the host. The reference
works out its gradients by hand. ``unfused`` is the loop as it is usually written, where SGD visits one parameter after
another. ``fused`` has SGD in one kernel, ``compiled`` the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npulens.collectors.workloads._parts import Numbers, compiled, item_bytes, kind
from npulens.collectors.workloads.workload import Case, NotHere

SHOWS = ("host_late", "launch_overhead")
SHAPES = {
    "small": {"batch": 8, "inputs": 64, "hidden": 128, "classes": 32},
    "mlp": {"batch": 32, "inputs": 1024, "hidden": 2048, "classes": 512},
}
DTYPES = ("float32",)
VARIANTS = ("reference", "unfused", "fused", "compiled")
BATCH = "batch"
RATE = 0.01


def build(variant: str, shape: Mapping[str, int], dtype: str, device: str, seed: int = 0) -> Case:
    """The network before its first step; a step gives its loss and the four gradients."""
    numbers = Numbers(seed, dtype, device)
    batch, inputs, hidden, classes = (shape[name] for name in ("batch", "inputs", "hidden", "classes"))
    samples, targets = numbers.normal(batch, inputs), numbers.integers(classes, batch)
    parameters = [
        numbers.normal(hidden, inputs, scale=inputs**-0.5), numbers.normal(hidden, scale=0.1),
        numbers.normal(classes, hidden, scale=hidden**-0.5), numbers.normal(classes, scale=0.1),
    ]  # fmt: skip
    if variant == "reference":
        step = _by_hand(samples, targets, parameters)
    elif variant in VARIANTS:
        step = _by_torch(variant, samples, targets, parameters, device)
    else:
        raise ValueError(f"train_step has no variant {variant!r}")
    return Case(step, *_counted(batch, inputs, hidden, classes, item_bytes(dtype)))


def _by_hand(samples: Any, targets: Any, parameters: list[Any]) -> Callable[[], Any]:
    """Forward, backward and update in plain formulas."""
    import torch

    first, first_bias, second, second_bias = parameters
    rows = torch.arange(len(targets), device=targets.device)

    def step() -> Any:
        before = samples @ first.T + first_bias
        after = before.clamp(min=0)
        scores = torch.log_softmax(after @ second.T + second_bias, dim=1)
        loss = -scores[rows, targets].mean()
        wrong = scores.exp()
        wrong[rows, targets] -= 1
        wrong /= len(targets)
        back = (wrong @ second) * (before > 0)
        gradients = back.T @ samples, back.sum(0), wrong.T @ after, wrong.sum(0)
        for parameter, gradient in zip(parameters, gradients):
            parameter -= RATE * gradient
        return (loss, *gradients)

    return step


def _by_torch(variant: str, samples: Any, targets: Any, parameters: list[Any], device: str) -> Callable[[], Any]:
    """The loop of a training script."""
    import torch
    from torch import nn

    first, first_bias, second, second_bias = (nn.Parameter(each) for each in parameters)
    held = [first, first_bias, second, second_bias]

    def forward(batch: Any) -> Any:
        hidden = nn.functional.relu(nn.functional.linear(batch, first, first_bias))
        return nn.functional.cross_entropy(nn.functional.linear(hidden, second, second_bias), targets)

    network = compiled(forward, device) if variant == "compiled" else forward
    optimizer = _fused_sgd(held, device) if variant == "fused" else torch.optim.SGD(held, lr=RATE, foreach=False)

    def step() -> Any:
        optimizer.zero_grad()  # the NPU's fused optimiser refuses set_to_none, which is the default elsewhere
        loss = network(samples)
        loss.backward()
        optimizer.step()
        return (loss.detach(), *(each.grad for each in held))

    return step


def _fused_sgd(parameters: list[Any], device: str) -> Any:
    """SGD that updates everything in one kernel."""
    import torch

    if kind(device) == "npu":
        from torch_npu.optim import NpuFusedSGD

        return NpuFusedSGD(parameters, lr=RATE)
    try:
        return torch.optim.SGD(parameters, lr=RATE, fused=True)
    except (TypeError, RuntimeError) as error:  # no such argument before torch 2.3; not every device has it
        raise NotHere(f"torch {torch.__version__} has no fused SGD on {kind(device)}: {error}") from error


def _counted(batch: int, inputs: int, hidden: int, classes: int, item: int) -> tuple[int, int]:
    """Floating-point operations of one step, and the bytes it moves at least."""
    first, second = hidden * (inputs + 1), classes * (hidden + 1)
    # Two products forward, three back: nobody wants the gradient of the samples. An update is a product and a sum.
    flops = 2 * batch * (2 * inputs * hidden + 3 * hidden * classes) + 2 * (first + second)
    # Parameters are read forward, the second layer's back as well. Gradients are written and read. Parameters are read
    # and written by the update. Samples are read twice, what lies between is written once and read twice.
    parameters = 5 * (first + second) + second
    return flops, (parameters + batch * (2 * inputs + 6 * hidden + 5 * classes)) * item

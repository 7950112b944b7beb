"""The Triton kernels at sizes that fill no block evenly, interpreted, against float64; and what else they promise."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from npulens.collectors import kernels
from npulens.collectors.workloads.workload import NotHere

there = {name: importlib.util.find_spec(name) is not None for name in ("torch", "triton")}
needs_triton = pytest.mark.skipif(not all(there.values()), reason="triton, and torch with it, is not installed")


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.INTERPRET, "1")


def away(found: Any, wanted: Any) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


def drawn(*sizes: int, seed: int = 5) -> Any:
    import torch

    return torch.randn(*sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@needs_triton
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(
    ("queries", "keys", "size"), [(197, 77, 80), (1, 1, 16), (65, 33, 17), (3, 64, 128), (64, 5, 80)]
)
def test_attention_is_softmax_times_value(queries: int, keys: int, size: int) -> None:
    import torch

    joined = kernels.load("cross_attention", "cpu")
    query, key, value = drawn(2, 2, queries, size), drawn(2, 2, keys, size, seed=6), drawn(2, 2, keys, size, seed=7)
    # Scores of some tens: without a running maximum exp would overflow in float32 here and there.
    wanted = torch.softmax(query @ key.transpose(-1, -2) * 4, -1) @ value
    found = joined.cross_attention(query.float(), key.float(), value.float(), 4.0)
    assert away(found, wanted) < 1e-5


@needs_triton
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(("rows", "inner", "width"), [(1, 1, 1), (17, 33, 65), (3, 100, 300), (70, 16, 16)])
def test_the_epilogue_and_the_whole_are_the_same_layer(rows: int, inner: int, width: int) -> None:
    import torch
    from torch.nn import functional

    joined = kernels.load("layernorm_gelu", "cpu")
    a, b, bias, gain, shift = (
        drawn(*sizes, seed=seed)
        for seed, sizes in enumerate(((rows, inner), (inner, width), (width,), (width,), (width,)))
    )
    wanted = functional.gelu(functional.layer_norm(a @ b + bias, (width,), gain, shift, 1e-5), approximate="tanh")
    given = [each.float() for each in (a, b, bias, gain, shift)]
    assert away(joined.whole(*given, 1e-5), wanted) < 1e-5
    assert away(joined.epilogue(torch.mm(*given[:2]), *given[2:], 1e-5), wanted) < 1e-5


@needs_triton
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 5, 7), (1, 2, 40, 33), (3, 1, 1, 9)])
def test_the_depthwise_convolution_stays_inside_its_image(shape: tuple[int, ...]) -> None:
    from torch.nn import functional

    joined = kernels.load("depthwise_conv_relu", "cpu")
    image, weight, bias = drawn(*shape), drawn(shape[1], 1, 3, 3, seed=6), drawn(shape[1], seed=7).abs() + 1
    wanted = functional.relu(functional.conv2d(image, weight, bias, padding=1, groups=shape[1]))
    assert wanted.norm() > 0
    assert away(joined.depthwise_conv_relu(image.float(), weight.float(), bias.float()), wanted) < 1e-5


@needs_triton
@pytest.mark.usefixtures("interpreted")
def test_sums_of_rows_and_the_padding_that_gets_none() -> None:
    import torch

    joined = kernels.load("embedding_grad", "cpu")
    tokens = torch.tensor([4, 0, 4, 2, 4, 1, 0, 4])
    gradient = drawn(8, 5).float()
    wanted = torch.zeros(6, 5)
    for place, token in enumerate(tokens.tolist()):
        if token != 2:
            wanted[token] += gradient[place]
    for sums in (joined.atomic, joined.by_row):
        assert torch.allclose(sums(gradient, tokens, 6, 2), wanted, atol=1e-6)
    again = [joined.by_row(gradient, tokens, 6, 2) for _ in range(2)]
    assert torch.equal(*again)


@needs_triton
@pytest.mark.usefixtures("interpreted")
def test_more_work_than_programs_is_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An NPU's grid has 65,535 places; with three, every kernel goes round several times."""
    import torch
    from torch.nn import functional

    for name in ("cross_attention", "depthwise_conv_relu", "embedding_grad"):
        monkeypatch.setattr(kernels.load(name, "cpu"), "PROGRAMS", 3)
    image, weight, bias = drawn(2, 4, 3, 3), drawn(4, 1, 3, 3), drawn(4)
    found = kernels.load("depthwise_conv_relu", "cpu").depthwise_conv_relu(image.float(), weight.float(), bias.float())
    assert away(found, functional.relu(functional.conv2d(image, weight, bias, padding=1, groups=4))) < 1e-5
    query, key = drawn(2, 2, 70, 16), drawn(2, 2, 9, 16)
    found = kernels.load("cross_attention", "cpu").cross_attention(query.float(), key.float(), key.float(), 1.0)
    assert away(found, torch.softmax(query @ key.transpose(-1, -2), -1) @ key) < 1e-5
    tokens, gradient = torch.arange(10) % 7, drawn(10, 4).float()
    wanted = torch.zeros(7, 4).index_add_(0, tokens, gradient)
    for sums in ("atomic", "by_row"):
        assert torch.allclose(getattr(kernels.load("embedding_grad", "cpu"), sums)(gradient, tokens, 7, -1), wanted)


def test_a_kernel_that_cannot_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kernels.INTERPRET, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NotHere, match="triton is not installed: pip install"):
        kernels.load("cross_attention", "cuda:0")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    with pytest.raises(NotHere, match="only interprets, for correctness: set TRITON_INTERPRET=1"):
        kernels.load("cross_attention", "cpu")
    monkeypatch.setenv(kernels.INTERPRET, "1")
    with pytest.raises(NotHere, match="nothing would run on the device"):
        kernels.load("cross_attention", "npu:0")

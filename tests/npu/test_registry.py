"""The registry read from the wheels, against what the dispatcher of the imported torch_npu does with every overload."""

from __future__ import annotations

import pytest

from npulens.analysis.compat.registry import ABSENT, registry
from tests.npu.conftest import Torch
from tests.npu.figures import FIGURES

pytestmark = pytest.mark.npu_contract
#: No yaml of torch's tells them: registered by hand in C++, or generated for what is made of others after all.
UNTOLD = {
    "get_gradients", "adaptive_avg_pool1d.out", "avg_pool1d.out", "upsample_bilinear2d.vec_out",
    "upsample_nearest2d.vec_out", *(f"quantized_{kind}.{of}{old}" for kind in ("gru", "lstm")
                                    for of in ("data", "input") for old in ("", "_legacy")),
}  # fmt: skip
#: torch_npu's own: in aten:: they have a kernel, which makes them of others.
MADE = {
    "empty_with_format", "empty_with_swapped_memory", "npu_dropout_gen_mask", "obfuscation_initialize",
    "unsafe_empty_with_format",
}  # fmt: skip


def test_the_dispatcher_does_what_the_wheels_say(stubbed: Torch) -> None:
    told = stubbed.told("-m", "tests.npu.dispatch")
    known = registry()
    at = known.place(told["version"])
    same = {"w": "k", "m": "e", "d": "e", "n": "f"}  # the dispatcher tells these apart no further
    mine = {name: same.get(word[at], word[at]) for name in told["letters"] for word in [known.word(name)]}
    apart = {name for name, letter in told["letters"].items() if mine[name] != letter}
    assert {name for name in apart if mine[name] == ABSENT} == UNTOLD
    assert {name for name in apart if mine[name] != ABSENT} == MADE
    assert len(told["letters"]) == 3529
    FIGURES["overloads of aten:: whose dispatch the wheels' yaml tells"] = len(told["letters"]) - len(apart)


def test_no_overload_of_torchs_is_told_that_is_not_there(stubbed: Torch) -> None:
    told = stubbed.told("-m", "tests.npu.dispatch")
    at = registry().place(told["version"])
    assert {name for name, word in registry().torch.items() if word[at] != ABSENT} <= told["letters"].keys()


def test_the_host_has_what_is_said_to_run_there(stubbed: Torch) -> None:
    """An f has a kernel for the CPU where torch_npu's fallback goes; an n has none."""
    told = stubbed.told("-m", "tests.npu.dispatch")
    at = registry().place(told["version"])
    words = {name: word[at] for name, word in registry().torch.items()}
    assert {name for name, letter in words.items() if letter == "f"} <= set(told["on_cpu"])
    assert {name for name, letter in words.items() if letter == "n"} & set(told["on_cpu"]) == set()

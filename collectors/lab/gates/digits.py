"""Top-1 on the handwritten digits that scikit-learn ships, for a program that was trained on them.

The last fifth of the pictures is asked for, as 64 numbers, as 8 by 8, or with a channel, whatever the job gives. A loss
of 0.3 points is allowed.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from npulens.collectors.lab.gates.gate import Batches, NotForThis, Program

_SHAPES = ((64,), (8, 8), (1, 8, 8))
_CLASSES = 10


def at_least(original: float) -> float:
    """0.3 points below the original."""
    return original - 0.003


def score(program: Program, batches: Batches) -> float:
    """The share of pictures that are told right."""
    inputs, expected = batches[0]
    pictures, labels = _data()
    shape = tuple(inputs[0].shape[1:])
    if len(inputs) != 1 or shape not in _SHAPES or expected[0].dim() != 2 or expected[0].shape[-1] != _CLASSES:
        raise NotForThis("it does not take pictures of 8 by 8 and give ten classes")
    scale = 1.0 / 16.0 if float(max(each[0][0].abs().max() for each in batches)) <= 1.0 else 1.0
    size, right = len(inputs[0]), 0
    for start in range(0, len(pictures) - size + 1, size):
        some = (pictures[start : start + size] * scale).reshape(size, *shape).to(inputs[0])
        found = program((some,))[0].argmax(-1).cpu()
        right += int((found == labels[start : start + size]).sum())
    return right / (len(pictures) // size * size)


def _data() -> tuple[Any, Any]:
    import torch

    if importlib.util.find_spec("sklearn") is None:
        raise NotForThis("scikit-learn, which has the digits, is not installed")
    pictures, labels = importlib.import_module("sklearn.datasets").load_digits(return_X_y=True)
    begin = len(pictures) - len(pictures) // 5
    return torch.from_numpy(pictures[begin:]), torch.from_numpy(labels[begin:])

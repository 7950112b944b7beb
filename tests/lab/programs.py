"""Modules as captured programs, and rewrites on them, for tests."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites import rewrite
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply

EVAL = Asked(False, False, False, "cpu", True)


def made(module: nn.Module, *batch: Any) -> Any:
    """The module as a captured program."""
    return graph.clean(torch.export.export(module.eval(), batch).module())


def applied(name: str, program: Any, asked: Asked = EVAL) -> Any:
    return rewrite.rewrite(name).apply(graph.copied(program), asked)


def refused(name: str, program: Any, asked: Asked = EVAL) -> str:
    with pytest.raises(DoesNotApply) as reason:
        applied(name, program, asked)
    return reason.value.name

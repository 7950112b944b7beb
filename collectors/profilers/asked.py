"""Calls a function that takes other arguments in other releases: it is asked, and gets only what it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

#: What an argument of torch_npu was called before.
FORMER = {"mstx": "msprof_tx"}  # until CANN 8.3.RC1


def asked(
    function: Callable[..., Any], wanted: Mapping[str, Any], left_out: list[str], without: tuple[str, ...] = ()
) -> Any:
    """Calls a function with what it takes of what is wanted; None is not wanted.

    What it does not take is named in ``left_out``, except what nothing is lost ``without``.
    """
    taken = set(inspect.signature(function).parameters)
    given: dict[str, Any] = {}
    for name, value in wanted.items():
        place = name if name in taken else FORMER.get(name)
        if value is None:
            continue
        if place in taken:
            given[str(place)] = value
        elif name not in without:
            left_out.append(name)
    return function(**given)

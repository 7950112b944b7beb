"""How the call of a module is named, by torch's profiler and by `npulens collect --modules`."""

from __future__ import annotations

import re

#: "nn.Module: Linear_3" by torch's profiler, which numbers modules by class, and "nn.Module: Linear (layers.0.up)" by
#: `npulens collect --modules`, which knows the path. A root's path is ".".
MODULE = "nn.Module: "
_HOOKED = re.compile(rf"{MODULE}(.+) \((\S*)\)", re.DOTALL)


def spoken(name: str) -> tuple[str, str | None]:
    """Class and path of a module from the name of its call; None: only a number was recorded."""
    told = _HOOKED.fullmatch(name)
    if told:
        return told[1], told[2]
    plain = name.removeprefix(MODULE)
    return plain.rstrip("0123456789").rstrip("_") or plain, None

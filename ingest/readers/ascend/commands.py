"""Commands that carry a raw or half analysed capture on: to be run on the NPU host, beside the directory."""

from __future__ import annotations

import re
from pathlib import Path

#: A name that a shell and Python take as it stands. Any other is not put into a command that people paste.
_PLAIN = re.compile(r"^[0-9A-Za-z_.+=][0-9A-Za-z_.+=-]*$")
#: Where a directory holds what the framework's profiler recorded, until it is analysed.
FRAMEWORK = "FRAMEWORK"
_SET_ENV = "source /usr/local/Ascend/cann/set_env.sh"
_MODULE = {"pt": "torch_npu.profiler.profiler", "ms": "mindspore.profiler.profiler"}


def shown(*parts: str) -> str:
    """A path for a command; a placeholder where one of its names could be more than a name."""
    return "/".join(parts) if all(_PLAIN.match(part) for part in parts) else "DIRECTORY"


def analyse(directory: Path) -> str:
    """Analyses a directory of torch_npu or MindSpore (again)."""
    module = _MODULE["ms" if directory.name.endswith("_ascend_ms") else "pt"]
    return f"`{_SET_ENV} && python -c \"from {module} import analyse; analyse('{shown(directory.name)}')\"`"


def export(*parts: str, interrupted: bool = False) -> str:
    """Exports a PROF directory; one whose collection was interrupted is parsed first."""
    where = shown(*parts)
    parse = f"msprof --parse=on --output={where} && " if interrupted else ""
    return f"`{parse}msprof --export=on --output={where}`"

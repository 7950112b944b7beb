"""The collectors of ``npulens collect`` where the stub counts as a device, which the product itself refuses.

Only the answer to "which device is there" is another; everything that follows is the product's. With ``app`` as the
first word it is the command line, which starts these collectors with the interpreter that has torch_npu.

    python -m tests.npu.collect app collect -o DIRECTORY -- python train.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace


def command_line(python: Path) -> None:
    """``npulens``, run by the interpreter that has it."""
    from npulens.app import cli, run_collectors

    run_collectors.COLLECTORS = Path(__file__)
    # Only there: the load starts processes of its own, with the interpreter that has DuckDB.
    vars(run_collectors)["sys"] = SimpleNamespace(**{**vars(sys), "executable": str(python)})
    cli.main()


def collectors() -> int:
    """``python -m npulens.collectors``, run by the interpreter that has torch_npu."""
    from importlib.metadata import version

    from npulens.collectors import __main__ as theirs
    from npulens.collectors.backends.probe import Capability, Choice

    versions = {"torch": version("torch"), "torch_npu": version("torch_npu")}
    stub = Capability("npu", True, device="a stub", count=1, stub=True, versions=versions)
    vars(theirs)["choose"] = lambda requested: Choice(requested, "npu", (stub,))
    return theirs.main()


if __name__ == "__main__":
    if sys.argv[1] == "app":
        del sys.argv[1]
        from tests.npu.conftest import PYTHON

        command_line(PYTHON)
    else:
        sys.exit(collectors())

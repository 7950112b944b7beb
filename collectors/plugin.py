"""Recording switched on from within a process, for frameworks that call plugins in each of theirs.

vLLM calls what stands in its group ``vllm.general_plugins``. Nothing happens in a process whose environment asks for no
recording, nor in one that records already.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

from npulens.collectors.steps.stepping import VARIABLE, Stepping
from npulens.collectors.steps.training import Training

_LISTENING: list[Stepping] = []


def listen(late: bool = False) -> None:
    """Listens for steps from now on, as the environment says. torch is imported; ``late``: and may have been used."""
    if not _LISTENING:
        _LISTENING.append(Stepping.from_environment())
        optimizer = importlib.import_module("torch.optim.optimizer")
        _LISTENING[0].watch(optimizer, late)
        told = json.loads(os.environ[VARIABLE])
        if told["settings"].get("training"):
            Training(Path(told["directory"])).watch(optimizer)


def record() -> None:
    """The plugin itself. What goes wrong is said, and the framework goes on."""
    if not os.environ.get(VARIABLE):
        return
    try:
        listen(late=True)
    except (ImportError, KeyError, OSError, RuntimeError, ValueError) as error:
        sys.stderr.write(f"npulens: the job is not recorded: {type(error).__name__}: {error}\n")

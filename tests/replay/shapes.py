"""What torch's own profiler records of replay scripts: `python -m tests.replay.shapes SCRIPT...`, a line of JSON each.

The script is read as data, its call is made on the CPU and profiled. The profiler knows nothing of the capture.
"""

from __future__ import annotations

import json
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

from npulens.collectors.replay.run import prepared
from npulens.collectors.replay.schema import CannotReplay

KEYS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


def profiled(script: Path) -> dict[str, Any]:
    """The operator that ran, and what was recorded of it."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    held = runpy.run_path(str(script), run_name="replayed")
    try:
        call = prepared(held["OPERATOR"], held["INPUTS"], "cpu")
    except CannotReplay as error:
        return {"script": script.name, "error": str(error)}
    step = call.call()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        seen.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    mine = [one for one in events if one.get("cat") == "cpu_op" and one["name"] == call.chosen.name]
    args = min(mine, key=lambda one: float(one["ts"]))["args"] if mine else {}
    return {
        "script": script.name, "asked": held["OPERATOR"], "runs": call.chosen.name, "torch": torch.__version__,
        **{key: args.get(key) for key in KEYS},
    }  # fmt: skip


def main() -> None:
    for name in sys.argv[1:]:
        print(json.dumps(profiled(Path(name))), flush=True)


if __name__ == "__main__":
    main()

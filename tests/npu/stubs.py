"""Libraries that only pretend to be CANN, so that the real torch_npu can be imported where there is none.

They are made anew in a directory that goes away, from what the installed wheel itself asks for. Each carries the symbol
by which the probe knows them, so nobody takes them for a device.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from npulens.collectors.backends.probe import STUB_SYMBOL

#: The libraries that torch_npu is linked to and that only CANN has.
LIBRARIES = ("ascendcl", "hccl", "acl_op_compiler", "ge_runner", "graph", "acl_tdt_channel")
#: What it opens by itself once there is a device.
LATER = ("ascend_hal", "msprofiler")
#: How the names of CANN's C functions begin. That there are no others shows at the import: the wheel is linked so
#: that one missing symbol makes it fail.
CANN = re.compile(r"acl[a-z]*[A-Z]|Msprof|rt[A-Z]|Hccl")
DEVICE = Path(__file__).with_name("device.c")


def asked_for(site: Path) -> list[str]:
    """The C functions of CANN that the wheel below ``site`` wants when it is loaded."""
    libraries = [*site.glob("torch_npu/_C.*.so"), *(site / "torch_npu/lib").glob("lib*.so")]
    loaded = [library for library in libraries if library.name != "libop_plugin_atb.so"]  # not at import
    names = {name for library in loaded for name in _undefined(library)}
    return sorted(name for name in names if CANN.match(name))


def _undefined(library: Path) -> list[str]:
    shown = subprocess.run(
        ["nm", "--dynamic", "--undefined-only", str(library)], capture_output=True, text=True, check=True
    )
    return [line.split()[-1] for line in shown.stdout.splitlines()]


def make(directory: Path, names: list[str], device: bool = False) -> Path:
    """Compiles the libraries; with ``device``, one that keeps its memory on the host and computes nothing."""
    directory.mkdir(parents=True)
    done = set(re.findall(r"^\w[\w ]* \*?(\w+)\(", DEVICE.read_text(), re.MULTILINE)) if device else set()
    answers = "".join(f"int {name}(void) {{ return 0; }}\n" for name in names if name not in done)
    body = directory / "stub.c"
    body.write_text(f"int {STUB_SYMBOL} = 1;\n{answers}" + (DEVICE.read_text() if device else ""))
    compiler = ["cc", "-shared", "-fPIC", "-w", "-o"]
    first, *others = (directory / f"lib{library}.so" for library in LIBRARIES + (LATER if device else ()))
    subprocess.run([*compiler, str(first), str(body)], check=True)
    for library in others:  # a look-up in one of these finds what the first has
        subprocess.run([*compiler, str(library), "-Wl,--no-as-needed", str(first)], check=True)
    return directory

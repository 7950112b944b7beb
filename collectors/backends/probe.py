"""Which device is there: asked in a process of its own, because asking may spoil the process that asks.

A failed import of torch_npu leaves its half-registered operators behind, and torch cannot be imported a second time.
So every backend is tried by a child, and the process that measures imports only what the child has shown to work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

#: The order in which backends are tried.
BACKENDS = ("npu", "cuda", "mps", "cpu")
PATIENCE_S = 180  # the first use of a device compiles and waits for its driver
#: A library that only pretends to be CANN says so with this symbol.
STUB_SYMBOL = "npulens_stub_cann"

_HEAD = """
import json, sys
def say(name, available=False, **more):
    print("\\n" + json.dumps(dict(more, name=name, available=available))); sys.stdout.flush()
def first(error):
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
"""
#: The first looks before it imports torch: most machines have no torch_npu, and torch takes seconds.
_NPU = """
import ctypes, glob, importlib.util
def look():
    if importlib.util.find_spec("torch_npu") is None:
        return say("npu", reason="torch_npu is not installed")
    try:
        import torch, torch_npu
    except Exception as error:
        return say("npu", reason="torch_npu cannot be imported: " + first(error))
    versions = {"torch": torch.__version__, "torch_npu": torch_npu.__version__}
    try:
        stub = hasattr(ctypes.CDLL("libascendcl.so"), "STUB")
    except OSError:
        stub = False
    if stub:
        return say("npu", versions=versions, stub=True,
                   reason="CANN is a stub here: libraries that only pretend to be a device")
    if not glob.glob("/dev/davinci[0-9]*"):
        return say("npu", versions=versions,
                   reason="there is no /dev/davinci*: no NPU, or none was passed into this container")
    if not torch.npu.is_available():
        return say("npu", versions=versions, reason="torch_npu finds no NPU (torch.npu.is_available() is False)")
    say("npu", True, versions=versions, count=torch.npu.device_count(), device=torch.npu.get_device_name(0))
look()
""".replace("STUB", STUB_SYMBOL)
_OTHERS = """
import platform
def look():
    try:
        import torch
    except Exception as error:
        why = "torch is not installed" if isinstance(error, ModuleNotFoundError) and error.name == "torch" \
            else "torch cannot be imported: " + first(error)
        return [say(name, reason=why) for name in ("cuda", "mps", "cpu")]
    versions = {"torch": torch.__version__}
    built = torch.version.hip or torch.version.cuda
    if built:
        versions["hip" if torch.version.hip else "cuda"] = built
    if torch.cuda.is_available():
        say("cuda", True, versions=versions, count=torch.cuda.device_count(), device=torch.cuda.get_device_name(0))
    else:
        why = "torch finds no GPU" if built else "this torch is built without CUDA and ROCm"
        say("cuda", versions=versions, reason=why)
    if hasattr(torch.backends, "mps") and torch.backends.mps.is_available():
        say("mps", True, versions=versions, count=1, device="Apple GPU")
    else:
        say("mps", versions=versions, reason="torch finds no Apple GPU")
    say("cpu", True, versions=versions, count=1, device=platform.processor() or platform.machine())
look()
"""


@dataclass(frozen=True)
class Capability:
    """What a child found out about one backend."""

    name: str
    available: bool
    reason: str | None = None  # why not
    device: str | None = None
    count: int = 0
    stub: bool = False
    versions: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Choice:
    """The backend that is used, the one that was wanted, and what the others said."""

    requested: str | None
    actual: str
    tried: tuple[Capability, ...]

    @property
    def capability(self) -> Capability:
        return self.tried[-1]

    @property
    def reason(self) -> str | None:
        """Why it is not a better one, in one line."""
        passed = [f"{tried.name}: {tried.reason}" for tried in self.tried[:-1]]
        return "; ".join(passed) or None


class Unavailable(Exception):
    """The backend that was asked for is not there, or none is."""


def probe(name: str, python: str = sys.executable, patience_s: float = PATIENCE_S) -> Capability:
    """Tries one backend in a child."""
    return next(each for each in _ask(name, python, patience_s) if each.name == name)


def survey(python: str = sys.executable, patience_s: float = PATIENCE_S) -> list[Capability]:
    """What every backend says, in the order in which they are tried."""
    return _ask("npu", python, patience_s) + _ask("cpu", python, patience_s)


def choose(requested: str | None = None, python: str = sys.executable, patience_s: float = PATIENCE_S) -> Choice:
    """The first backend that is there; one that was asked for by name is used or the answer is no."""
    if requested is not None:
        tried = [probe(requested, python, patience_s)]
    else:
        tried = _ask("npu", python, patience_s)
        if not tried[0].available:
            tried += _ask("cpu", python, patience_s)
    for place, each in enumerate(tried):
        if each.available:
            return Choice(requested, each.name, tuple(tried[: place + 1]))
    raise Unavailable("; ".join(f"{each.name}: {each.reason}" for each in tried))


def _ask(name: str, python: str, patience_s: float) -> list[Capability]:
    """What a child says: torch_npu has one to itself, the others share one."""
    names, script = (["npu"], _NPU) if name == "npu" else (["cuda", "mps", "cpu"], _OTHERS)
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    try:
        child = subprocess.run(
            [python, "-c", _HEAD + script], env=environment, capture_output=True, text=True, timeout=patience_s
        )
    except subprocess.TimeoutExpired:
        return [Capability(each, False, f"asking for it took longer than {patience_s:.0f} s") for each in names]
    said = [json.loads(line) for line in child.stdout.splitlines() if line.startswith('{"')]
    if sorted(each.get("name", "") for each in said) == sorted(names):
        return [Capability(**each) for each in said]
    last = (child.stderr.strip().splitlines() or ["no word"])[-1][:300]
    return [Capability(each, False, f"asking for it ended with status {child.returncode}: {last}") for each in names]

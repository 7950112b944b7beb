"""The samples of sample_traces/ that were recorded: ``python -m npulens.collectors.samples --cpu sample_traces``.

No two recordings are alike, so the command makes new ones, never the same bytes; their manifests say so. Names of the
host and places on its disk are taken out before anything is kept.
"""

from __future__ import annotations

import getpass
import gzip
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = "python -m npulens.collectors.samples --cpu sample_traces"
LARGEST = 300_000  # bytes of a trace
HOST = "host"
#: What a manifest keeps of the machine: the rest says who owns it, or how busy it was.
_KEPT = ("python", "versions", "cann", "driver", "variables")
_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Recorded:
    """One capture: a workload, and how it is collected."""

    name: str
    what: str
    workload: str
    options: tuple[str, ...]


SAMPLES = (
    Recorded(
        "cpu_train_step",
        "Kineto trace of torch.profiler on a CPU: 3 training steps of a small network, with call stacks and memory",
        "train_step",
        ("--shape", "batch=8,inputs=256,hidden=512,classes=128", "--stacks", "--memory", "--modules"),
    ),
    Recorded(
        "cpu_conv_unfused",
        "Kineto trace of torch.profiler on a CPU: convolution, batch normalisation, ReLU: three operators, 5 times",
        "conv_bn_relu",
        ("--variant", "unfused", "--shape", "image", "--active", "5"),
    ),
    Recorded(
        "cpu_conv_folded",
        "Kineto trace of torch.profiler on a CPU: the same convolution with the normalisation in its weights, 5 times",
        "conv_bn_relu",
        ("--variant", "folded", "--shape", "image", "--active", "5"),
    ),
)


def make(directory: Path) -> None:
    """Records the samples anew and puts them in the place of the old ones."""
    for sample in SAMPLES:
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "out"
            command = [sys.executable, "-m", "npulens.collectors", "workload", sample.workload, "--backend", "cpu"]
            command += [*sample.options, "-o", str(out)]
            subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.DEVNULL)
            _keep(sample, out, directory / sample.name)


def _keep(sample: Recorded, out: Path, home: Path) -> None:
    """The one trace and its manifest, without what names the machine."""
    (trace,) = out.glob("*.pt.trace.json.gz")
    told = json.loads((out / "manifest.json").read_text("utf-8"))
    home.mkdir(parents=True, exist_ok=True)
    for old in home.iterdir():
        old.unlink()
    kept = home / trace.name.replace(socket.gethostname(), HOST, 1)
    # No time and no name within, so that the file depends on what it holds only.
    kept.write_bytes(gzip.compress(redacted(gzip.decompress(trace.read_bytes()).decode()).encode(), 9, mtime=0))
    if kept.stat().st_size > LARGEST:
        raise ValueError(f"{kept} has {kept.stat().st_size:,} bytes: too much for a sample")
    text = json.dumps(_manifest(sample, told, kept), indent=2, ensure_ascii=False)
    (home / "manifest.json").write_text(text + "\n", encoding="utf-8")


def _manifest(sample: Recorded, told: dict[str, Any], trace: Path) -> dict[str, Any]:
    environment = {name: told["environment"][name] for name in _KEPT}
    environment["cpu"] = {name: told["environment"]["cpu"][name] for name in ("model", "cores", "governor")}
    content = trace.read_bytes()
    return {
        "what": sample.what,
        "evidence": told["evidence"],
        "how": "recorded on a CPU by torch.profiler; the command records another one, never the same bytes",
        "command": COMMAND,
        "made_at": told["made_at"],
        **{name: told[name] for name in ("workload", "variant", "shape", "dtype", "seed", "status", "settings")},
        "environment": environment,
        "redacted": ["host name", "user name", "paths"],
        "licence": "Apache-2.0",
        "files": {trace.name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}},
    }


def redacted(text: str) -> str:
    """A trace without the name of its host and user, and with paths that begin at a package."""
    places = {str(_ROOT), tempfile.gettempdir(), os.getcwd(), sys.prefix, sys.base_prefix, str(Path.home())}
    places |= {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    for place in sorted(places - {"/"}, key=len, reverse=True):
        text = text.replace(place + "/", "")
    text = re.sub(r'("(?:host_name|hostname)": )"[^"]*"', rf'\1"{HOST}"', text)
    return re.sub(rf"\b{re.escape(getpass.getuser())}\b", "user", text)

"""Makes sample_traces/ again: ``python -m npulens.collectors.samples DIR``.

These samples come from the simulated backend, so they are the same bytes wherever they are made. Each says so in its
manifest. Two of four ranks are kept, because captures with missing ranks are the rule. Those of a CPU are recorded
(below): ``python -m npulens.collectors.samples --cpu DIR``.
"""

from __future__ import annotations

import argparse
import getpass
import gzip
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from npulens.collectors.planting.plant import Options, plan, write
from npulens.collectors.simulator.simulated import (
    AscendOptions,
    Job,
    SimConfig,
    simulate,
    write_db,
    write_kineto,
    write_text,
)

COMMAND = "python -m npulens.collectors.samples sample_traces"
MADE_WITH = "0.1.0"  # the version of npulens that last changed what a sample holds


@dataclass(frozen=True)
class Sample:
    name: str
    what: str
    config: SimConfig
    kept: tuple[int, ...]
    write: Callable[[Job, Path, tuple[int, ...]], object]


def _text(job: Job, directory: Path, ranks: tuple[int, ...]) -> None:
    write_text(job, directory, AscendOptions("Level1"), ranks)


def _db(job: Job, directory: Path, ranks: tuple[int, ...]) -> None:
    write_db(job, directory, AscendOptions("Level2"), ranks)


def _kineto(job: Job, directory: Path, ranks: tuple[int, ...]) -> None:
    write_kineto(job, directory, "cuda", gz=True, ranks=ranks)


SAMPLES = (
    Sample(
        "torch_npu_text",
        "torch_npu text export, Level1: 2 of 4 data-parallel ranks, 2 steps of a small transformer",
        SimConfig(seed=11, ranks=4, steps=2, layers=2, devices=(0, 1, 4, 5)),
        (0, 2),
        _text,
    ),
    Sample(
        "torch_npu_db",
        "torch_npu db export, Level2: 2 of 4 ranks, tensor parallel by 2 and data parallel by 2, 2 steps",
        SimConfig(seed=12, ranks=4, steps=2, layers=1, tensor_parallel=2),
        (0, 1),
        _db,
    ),
    Sample(
        "kineto",
        "Kineto trace as torch.profiler writes it for CUDA: 1 of 2 data-parallel ranks, 3 steps",
        SimConfig(seed=13, ranks=2, steps=3, layers=2, task_queue=False),
        (0,),
        _kineto,
    ),
)


#: A job with faults planted in it; truth.json beside the capture says what they cost.
FAULTY = "late_rank"
FAULTS = ("late_rank", "dataloader")
FAULTY_SEED = 118
FAULTY_OPTIONS = Options(ranks=4, steps=2, level=1, format="db", missing_ranks=2, skew_ns=0)
FAULTY_COMMAND = (
    f"npulens simulate {','.join(FAULTS)} --seed {FAULTY_SEED} --ranks 4 --steps 2 --level 1 --format db "
    f"--missing-ranks 2 --skew 0 -o sample_traces/{FAULTY}"
)


def make(directory: Path) -> None:
    """Replaces the samples in ``directory``; whatever else lies there stays."""
    for sample in SAMPLES:
        home = _emptied(directory / sample.name)
        sample.write(simulate(sample.config), home, sample.kept)
        _describe(home, sample.what, COMMAND, sample.config, sample.kept)
    home, case = _emptied(directory / FAULTY), plan(FAULTS, FAULTY_SEED, FAULTY_OPTIONS)
    write(case, home)
    what = "torch_npu db export, Level1: 2 of 4 ranks; another one is late and all wait for their input"
    _describe(home, what, FAULTY_COMMAND, case.config, case.capture.ranks)


def _emptied(home: Path) -> Path:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    return home


def _describe(home: Path, what: str, command: str, config: SimConfig, kept: tuple[int, ...]) -> None:
    manifest = json.dumps(_manifest(home, what, command, config, kept), indent=2, ensure_ascii=False)
    (home / "manifest.json").write_text(manifest + "\n", encoding="utf-8")


def _manifest(home: Path, what: str, command: str, simulated: SimConfig, kept: tuple[int, ...]) -> dict[str, object]:
    config = asdict(simulated)
    for field in fields(simulated):
        if field.name == "perturb" or "later" in field.metadata:
            del config[field.name]
    return {
        "what": what,
        "evidence": "simulated",
        "how": "made by collectors/simulator/simulated.py from a seed; it ran on no device",
        "command": command,
        "npulens": MADE_WITH,
        "seed": simulated.seed,
        "config": config,
        "ranks": list(kept),
        "licence": "Apache-2.0",
        "files": {
            path.relative_to(home).as_posix(): {
                "bytes": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for path in sorted(home.rglob("*"))
            if path.is_file()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path, help="where the samples go, e.g. sample_traces")
    parser.add_argument("--cpu", action="store_true", help="record those of a CPU anew instead; needs torch")
    arguments = parser.parse_args()
    (make_recorded if arguments.cpu else make)(arguments.directory)


# The samples of sample_traces/ that were recorded: ``python -m npulens.collectors.samples --cpu sample_traces``.
#
# No two recordings are alike, so the command makes new ones, never the same bytes; their manifests say so. Names of the
# host and places on its disk are taken out before anything is kept.
RECORDING_COMMAND = "python -m npulens.collectors.samples --cpu sample_traces"
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


RECORDED = (
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


def make_recorded(directory: Path) -> None:
    """Records the samples anew and puts them in the place of the old ones."""
    for sample in RECORDED:
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
    text = json.dumps(_recorded_manifest(sample, told, kept), indent=2, ensure_ascii=False)
    (home / "manifest.json").write_text(text + "\n", encoding="utf-8")


def _recorded_manifest(sample: Recorded, told: dict[str, Any], trace: Path) -> dict[str, Any]:
    environment = {name: told["environment"][name] for name in _KEPT}
    environment["cpu"] = {name: told["environment"]["cpu"][name] for name in ("model", "cores", "governor")}
    content = trace.read_bytes()
    return {
        "what": sample.what,
        "evidence": told["evidence"],
        "how": "recorded on a CPU by torch.profiler; the command records another one, never the same bytes",
        "command": RECORDING_COMMAND,
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


if __name__ == "__main__":
    main()

"""Makes sample_traces/ again: ``python -m npulens.collectors.samples DIR``.

These samples come from the simulated backend, so they are the same bytes wherever they are made; each says so in its
manifest. Two of four ranks are kept, because captures with missing ranks are the rule.
Those of a CPU are recorded (collectors/recorded_samples.py): ``python -m npulens.collectors.samples --cpu DIR``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from npulens.collectors import recorded_samples
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
    (recorded_samples.make if arguments.cpu else make)(arguments.directory)


if __name__ == "__main__":
    main()

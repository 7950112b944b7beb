"""The files of a commit, laid out beside the night: the repository that is worked in stays as it is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PATIENCE = 600


def sha(directory: Path, commit: str = "HEAD") -> str | None:
    """The full name of a commit; None where there is none."""
    try:
        found = _git(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.decode().strip() or None if found.returncode == 0 else None


def tree(directory: Path, commit: str, folder: Path) -> tuple[str, Path]:
    """A commit's full name, and the place of ``directory`` in its files. ValueError where that cannot be had."""
    name = sha(directory, commit)
    if name is None:
        raise ValueError(f"{commit} is no commit of the repository in {directory}")
    top = Path(os.fsdecode(_git(directory, "rev-parse", "--show-toplevel").stdout.rstrip(b"\n")))
    target = folder / name
    if not target.is_dir():
        aside = folder / f".{name}.{os.getpid()}"
        aside.mkdir(parents=True)
        packed = aside / ".tar"
        done = _git(top, "archive", "--format=tar", f"--output={packed}", name)
        if done.returncode == 0:
            done = subprocess.run(["tar", "-xf", str(packed), "-C", str(aside)], capture_output=True, timeout=_PATIENCE)
        if done.returncode:
            raise ValueError(f"cannot lay out {commit}: {done.stderr.decode(errors='replace').strip()[-200:]}")
        packed.unlink()
        os.rename(aside, target)
    return name, target / directory.resolve().relative_to(top.resolve())


def _git(directory: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(directory), *arguments], capture_output=True, timeout=_PATIENCE)

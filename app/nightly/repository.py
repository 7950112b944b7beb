"""What the git repository of a task's directory says: names of commits, and their files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PATIENCE = 600


def sha(directory: Path, commit: str = "HEAD") -> str | None:
    """The full name of a commit; None where there is none."""
    found = printed(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    return found.strip() or None if found is not None else None


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


def printed(directory: Path, *arguments: str) -> str | None:
    """What git prints; None where it fails."""
    try:
        done = _git(directory, *arguments)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _git(directory: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(directory), *arguments], capture_output=True, timeout=_PATIENCE)

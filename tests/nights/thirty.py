"""A small program and thirty commits after it, one of which makes it 5 % slower, and noise in every session.

The cost of a commit is a file of it. A session reads it and writes what a measurement would have said: the cost times
noise. What varies between sessions is drawn from the seed, the commit and a count of the sessions, so that a run of
everything comes out the same each time, and no two sessions do.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

#: The first and thirty after it.
COMMITS = 31
#: Which of the thirty is slower.
PLANTED = 17
BEFORE, AFTER = 1000, 1050
#: Standard deviation of a session, as a share.
NOISE = 0.015

JOB = '''import json, os, random
count_file = os.path.join(os.environ["SESSIONS"], "count")
count = int(open(count_file).read()) + 1 if os.path.exists(count_file) else 1
open(count_file + ".new", "w").write(str(count))
os.replace(count_file + ".new", count_file)
loops = int(open("loops").read())
if loops < 0:
    raise SystemExit("it does not build")
drawn = random.Random(f"{os.environ['SEED']} {count}")
work = sum(i * i for i in range(loops))  # something to do, and no clock
value = loops * (1 + float(os.environ["NOISE"]) * drawn.gauss(0, 1))
json.dump({"metrics": {"step": {"value": value, "unit": "ms"}}, "hardware": "simulated"},
          open(os.environ["NPULENS_RESULT"], "w"))
'''


@dataclass(frozen=True)
class Repository:
    """Where it lies, and its commits from the oldest to the newest."""

    folder: Path
    commits: tuple[str, ...]

    @property
    def config(self) -> Path:
        return self.folder / "npulens.toml"


def made(folder: Path, loops: tuple[int, ...], seed: int = 1, noise: float = NOISE, job: str = JOB) -> Repository:
    """A repository with one commit for each cost; a cost below 0 does not run."""
    folder.mkdir(parents=True)
    (folder / "sessions").mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "job.py").write_text(job)
    (folder / ".gitignore").write_text("sessions\n")
    (folder / "npulens.toml").write_text(_job(folder, seed, noise))
    names = []
    for number, cost in enumerate(loops):
        (folder / "loops").write_text(str(cost))
        (folder / "notes").write_text(f"commit {number}\n")
        names.append(committed(folder, f"Change {number}"))
    return Repository(folder, tuple(names))


def thirty(folder: Path, seed: int, noise: float = NOISE) -> Repository:
    """The repository with the planted commit."""
    return made(folder, tuple(AFTER if number >= PLANTED else BEFORE for number in range(COMMITS)), seed, noise)


def committed(folder: Path, subject: str) -> str:
    """The name of a commit of everything as it lies there."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


def sessions(repository: Repository) -> int:
    """How often the program has run."""
    count = repository.folder / "sessions" / "count"
    return int(count.read_text()) if count.is_file() else 0


def _job(folder: Path, seed: int, noise: float) -> str:
    env = f'env = {{ SEED = "{seed}", NOISE = "{noise}", SESSIONS = "{folder / "sessions"}" }}'
    return (
        '[[job]]\nname = "work"\ncommand = ["{python}", "-S", "-E", "job.py"]\n'
        f'measure = "result"\nhead = {{ {env} }}\n'
    )


def git(folder: Path, *arguments: str) -> str:
    """What git prints, as one author on one day."""
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "Mei Lin"), ("EMAIL", "mei@example.org"), ("DATE", "2026-04-20T12:00:00Z"))}
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True,
                          env={**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull})  # fmt: skip
    return done.stdout.strip()

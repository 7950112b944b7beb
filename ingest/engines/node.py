"""What a node of a cluster does of a load: it reads a few ranks, or writes a table.

A process that an engine started has threads, and no fork survives those. So a task starts an interpreter of its own,
`python -m npulens.ingest.engines.node`. Its children read the ranks, within the same limits as on one machine. It ends
with the process that started it.
"""

from __future__ import annotations

import os
import pickle
import secrets
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import sandbox
from npulens.ingest.loading.capture import RankSource
from npulens.ingest.loading.parsing import Desks, task
from npulens.ingest.messages import Message, dumped, loaded
from npulens.ingest.tables import schema
from npulens.ingest.tables.concatenate import concatenate

#: What a node says of a rank: its part, or why it could not be read.
Answer = dict[str, Any]


@dataclass(frozen=True)
class Ranks:
    """Ranks for one node to read, one after the other."""

    sources: tuple[RankSource, ...]
    scratch: Path  # a directory that every node sees
    packed: bool  # their tables will be put to those of others
    made_by: str  # the version that asks


def this_version() -> str:
    """Parts of one run are made by one version."""
    return f"{version('npulens')}/{schema.version()}"


def read(ranks: Ranks) -> str:
    """Read ranks on this node; a JSON list with an answer for each, or an object that says what is wrong here."""
    if wrong := _unfit(ranks):
        return dumped({"unfit": vars(wrong)})
    command = [sys.executable, "-P", "-m", "npulens.ingest.engines.node"]
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    done = subprocess.run(command, input=pickle.dumps(ranks), capture_output=True, env=environment, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-400:]
        wrong = IngestError(
            "crashed", Message("loading_process_ended_with_status", {"status": done.returncode, "error": said})
        )
        return dumped({"unfit": vars(wrong)})
    return done.stdout.decode()


def write(table: str, parts: Sequence[tuple[str, int]], staged: str) -> None:
    """Write one table of a run; done twice, it is the same."""
    target = Path(staged) / f"{table}.parquet"
    aside = target.with_name(f".{table}.{secrets.token_hex(4)}")
    try:
        concatenate(table, [(Path(directory), shift) for directory, shift in parts], aside)
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)


def _unfit(ranks: Ranks) -> IngestError | None:
    """Why this node can do nothing for the load."""
    if ranks.made_by != this_version():
        said = {"host": socket.gethostname(), "found": this_version(), "wanted": ranks.made_by}
        return IngestError("engine", Message("node_has_another_version", said))
    for place in (ranks.scratch, *(file for source in ranks.sources for file in source.files)):
        if not place.exists():
            return IngestError("engine", Message("node_does_not_see", {"host": socket.gethostname()}), str(place))
    return None


def _answers(ranks: Ranks) -> list[Answer]:
    """Read ranks in children. A node may be lost, and another does it again: each try has a directory of its own."""
    scratch = ranks.scratch / f"node{secrets.token_hex(6)}"
    scratch.mkdir()
    desks = Desks(scratch, packed=ranks.packed)
    tasks = [
        (task(source, scratch / f"part{i}", desks), sandbox.Limits.for_input(source.size))
        for i, source in enumerate(ranks.sources)
    ]
    answers: list[Answer] = [{} for _ in tasks]
    for said in sandbox.run(tasks, 1, batches=[range(len(tasks))]):
        if said.error is not None:
            answers[said.task] = {"error": vars(said.error)}
        elif said.result is not None:
            answers[said.task] = {"part": said.result}
    return answers


def main() -> None:
    """Answer one request on standard input and output."""
    answer = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints goes to standard error
    sandbox.die_with_parent()
    ranks: Ranks = pickle.load(sys.stdin.buffer)
    with os.fdopen(answer, "w") as out:
        out.write(dumped(_answers(ranks)))


def understood(said: str) -> list[Answer]:
    """The answers of a node, messages restored; raises what is wrong with it."""
    found = loaded(said)
    if isinstance(found, dict):
        raise IngestError(**found["unfit"])
    return list(found)


if __name__ == "__main__":
    main()

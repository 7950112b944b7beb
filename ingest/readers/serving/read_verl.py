"""What verl leaves of a training step: the figures of its log, and the spans of its roles that RL-Insight collects."""

from __future__ import annotations

import re
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import Found, real, stamp, text, whole
from npulens.ingest.readers.serving.lines import beginning, document, lines, several
from npulens.ingest.tables.draft import Draft

TITLE = "verl steps, roles"

_STEP = re.compile(rb"(?:^|\n|[ )])step:\d+ - [\w/@.-]+:")
_LINE = re.compile(r"(?:^|[ )])step:(\d{1,15}) - (.*)$")
_FIGURE = re.compile(r"^([^:\s][^:]{0,200}):(?:np\.float64\()?(-?[\d.]+(?:e[+-]?\d+)?)\)?$")
_ROLES = re.compile(rb'^\[\s*\{(?=[^}]{0,2000}"role"\s*:)(?=[^}]{0,2000}"start_time_ms"\s*:)')
#: A replica that generates, by the name of its role.
REPLICA = re.compile(r"replica_(\d{1,6})")
_MS = 10**6
#: What a role's name says that it does. The first that fits counts.
_DOES = (
    ("log_prob", "log_prob"), ("update_weights", "weights"), ("weight", "weights"), ("sync", "weights"),
    ("rollout", "rollout"), ("generate", "rollout"), ("reward", "reward"), ("rm_", "reward"), ("update", "update"),
    ("train", "update"),
)  # fmt: skip


def sniff(path: Path) -> Claim | None:
    """A line of a step's figures, or an array of role spans."""
    head = beginning(path)
    if _ROLES.match(head) or (b"\0" not in head and _STEP.search(head)):
        return Claim("verl", path, (path,))
    return None


def read(claim: Claim, draft: Draft) -> None:
    """Figures by step, or stages."""
    path = claim.files[0]
    found = Found(draft, "verl", path)
    spans = bool(_ROLES.match(beginning(path)))
    if spans:
        _spans(path, draft, found)
    else:
        _log(path, draft, found)
    if not sum(found.counts.values()):
        raise IngestError("empty", Message("serving_file_holds_nothing", {"file": path.name}), str(path))
    found.done("unix" if spans else "none")


def _log(path: Path, draft: Draft, found: Found) -> None:
    """Each figure of each step once: a step that is logged again counts as it was logged last."""
    steps: dict[int, dict[str, float]] = {}
    for line in lines(path, draft):
        match = _LINE.search(line[: 1 << 20].decode("utf-8", "replace").rstrip())
        if match is None:
            continue
        figures = steps[int(match[1])] = {}
        for piece in match[2].split(" - "):
            if figure := _FIGURE.match(piece.strip()):
                value = real(figure[2])
                if value is not None:
                    figures[figure[1]] = value
    for step, figures in steps.items():
        for name, value in figures.items():
            found.sample(name, value, None, step=step)


def _spans(path: Path, draft: Draft, found: Found) -> None:
    for said in several(document(path, draft)):
        begin = stamp(said.get("start_time_ms"), _MS) if isinstance(said, dict) else None
        end = stamp(said.get("end_time_ms"), _MS) if isinstance(said, dict) else None
        name = text(said.get("name") or said.get("role")) if isinstance(said, dict) else None
        if begin is None or end is None or end < begin or name is None:
            found.lost(Message("serving_span_without_stamp"), table="stage")
            continue
        replica = REPLICA.search(name)
        found.add("stage", {
            "ts_ns": begin, "dur_ns": end - begin, "name": name, "role": role(name),
            "replica": None if replica is None else int(replica[1]), "role_rank": whole(said.get("rank_id")),
            "step": whole(said.get("step")), "source": "role spans",
        })  # fmt: skip


def role(name: str) -> str:
    """What a stage does, by its name."""
    low = name.lower()
    return next((kind for part, kind in _DOES if part in low), "other")

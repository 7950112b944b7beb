"""A subject on disk: one module of a job as a program, its weights, a few batches of it, and where it ran.

A directory of three files: subject.json, program.pt2 and batches.pt. Nothing leaves the disk it is written to.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from npulens.collectors.lab import engines, graph

#: What the processes of a job that is heard are told by whoever started it, and where each says what it heard.
VARIABLE = "NPULENS_HEARING"
HEARD = ".heard"
NAME = "subject.json"
PROGRAM = "program.pt2"
BATCHES = "batches.pt"
FORMAT = 1
#: What a file of somebody's, or a class that is no longer there, may raise.
_UNREADABLE = (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, EOFError, ImportError)


class NoSubject(ValueError):
    """A directory that holds no subject, or one that cannot be read."""


@dataclass(frozen=True)
class Shape:
    """One class of calls: the shapes of all tensors that came in, and how often."""

    shapes: tuple[tuple[int, ...], ...]
    calls: int


@dataclass(frozen=True)
class About:
    """What is known of a subject besides its program and batches."""

    module: str  # the class
    engine: str  # which way it was captured
    training: bool
    gradients: bool
    device: str
    threads: int
    dtypes: tuple[str, ...]  # of the tensors that come in
    shapes: tuple[Shape, ...]  # the first ones are those of the batches
    calls: int
    parameters: int
    weight_bytes: int
    dynamic: bool  # whether the program takes other shapes than one
    autocast: str | None
    left_out: tuple[str, ...] = ()  # kinds of outputs that are no tensors
    environment: Mapping[str, Any] = field(default_factory=dict)
    tried: tuple[str, ...] = ()  # ways of capturing that failed first, each with its reason
    error_of_replay: float | None = None  # against what the job itself got; None: not compared
    why_not_compared: str | None = None
    optimizer: Mapping[str, Any] | None = None  # of its parameters: optimizing.py says what is told of one


@dataclass(frozen=True)
class Subject:
    """A subject in memory: ``program`` takes the tensors of a batch and returns a tuple of tensors."""

    place: Path
    about: About
    program: Any
    batches: tuple[tuple[Any, ...], ...]
    outputs: tuple[Any, ...]  # what the job got for each batch; None where it was not kept

    def calls_of(self, batch: Sequence[Any]) -> int:
        """How often the job made calls of a batch's shapes."""
        shapes = tuple(tuple(each.shape) for each in batch)
        return next((shape.calls for shape in self.about.shapes if shape.shapes == shapes), 1)


def write(place: Path, about: About, save: Any, batches: Sequence[Sequence[Any]], outputs: Sequence[Any]) -> None:
    """Writes a subject; ``save`` writes the program to a path. subject.json comes last: without it there is none."""
    import torch

    place.mkdir(parents=True, exist_ok=True)
    save(place / PROGRAM)
    torch.save({"batches": [list(each) for each in batches], "outputs": list(outputs)}, place / BATCHES)
    half = place / f".{NAME}.half"
    half.write_text(json.dumps({"format": FORMAT, **asdict(about)}, indent=1) + "\n", encoding="utf-8")
    half.replace(place / NAME)


def amend(place: Path, more: Mapping[str, Any]) -> None:
    """Says anew what was found out since."""
    told = json.loads((place / NAME).read_text(encoding="utf-8"))
    half = place / f".{NAME}.half"
    half.write_text(json.dumps({**told, **more}, indent=1) + "\n", encoding="utf-8")
    half.replace(place / NAME)


def found(place: Path) -> list[Path]:
    """The subjects in a directory: itself, or those below it."""
    if (place / NAME).is_file():
        return [place]
    return sorted(path.parent for path in place.glob(f"*/{NAME}"))


def only(place: Path) -> Path:
    """The one subject that a directory is or holds."""
    there = found(place)
    if not there:
        raise NoSubject(f"{place} holds no subject: npulens lab -o DIR -- python serve.py makes one")
    if len(there) > 1:
        raise NoSubject(f"{place} holds {len(there)} subjects; name one: {', '.join(map(str, there))}")
    return there[0]


def on(read: Subject, device: str) -> Subject:
    """The subject on the device where something is tried on it."""
    batches = tuple(tuple(each.to(device) for each in batch) for batch in read.batches)
    program = read.program.to(device)
    if graph.is_graph(program) and read.about.device != device:
        program = graph.on_device(program, device)
    return Subject(read.place, read.about, program, batches, read.outputs)


def about(place: Path) -> About:
    """What a subject says of itself, without loading it."""
    try:
        told = json.loads((place / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NoSubject(f"{place} holds no subject that can be read") from error
    if not isinstance(told, dict) or told.pop("format", None) != FORMAT:
        raise NoSubject(f"{place} is a subject of another release")
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    try:
        given["shapes"] = tuple(Shape(tuple(map(tuple, each["shapes"])), each["calls"]) for each in told["shapes"])
        return About(**given)
    except (KeyError, TypeError) as error:
        raise NoSubject(f"{place} is no whole subject: {error}") from error


def read(place: Path) -> Subject:
    """A subject from its directory."""
    import torch

    told = about(place)
    try:
        kept = torch.load(place / BATCHES, weights_only=True)
        program = engines.load(place / PROGRAM, told.engine, told.training)
    except (*_UNREADABLE, pickle.UnpicklingError) as error:
        raise NoSubject(f"{place} cannot be read: {(str(error).splitlines() or [type(error).__name__])[0]}") from error
    batches = tuple(tuple(each) for each in kept["batches"])
    return Subject(place, told, program, batches, tuple(kept["outputs"]))

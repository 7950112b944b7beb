"""What is communication, as data: names of kernels and of host operators, read from comm_facts.toml.

A name is one witness. The other is the host operator that launched the work (ingest/readers/kineto/witness.py). What
speaks of communication and is told by neither is of kind 'unknown'.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from npulens.ingest.tables.sqltext import literal

FILE = Path(__file__).with_suffix(".toml")
#: The kind of collective by letters that a name holds; longer words first because they contain shorter.
NAMED = (
    ("alltoall", "alltoall"), ("allreduce", "allreduce"), ("allgather", "allgather"),
    ("reducescatter", "reducescatter"), ("batchsendrecv", "batchsendrecv"), ("sendrecv", "sendrecv"),
    ("broadcast", "broadcast"), ("barrier", "barrier"), ("recv", "receive"), ("receive", "receive"), ("send", "send"),
    ("gather", "gather"), ("scatter", "scatter"), ("reduce", "reduce"),
)  # fmt: skip
#: The same in SQL: the cases of a CASE over ``word``.
WORDS = " ".join(f"WHEN word LIKE '%{letters}%' THEN '{kind}'" for letters, kind in NAMED)


@dataclass(frozen=True)
class Fact:
    """One line of the file: names of one library."""

    match: str
    library: str
    source: str
    collective: str | None = None  # where the name does not hold the usual word
    fused: bool = False  # it computes as well


@dataclass(frozen=True)
class Facts:
    """The whole file, and the questions to it in SQL, each about a name."""

    kernel: tuple[Fact, ...]
    operator: tuple[Fact, ...]
    computing: tuple[str, ...]
    speaks: str

    @property
    def names(self) -> str:
        """Of what name a library of the file has work, as a regular expression."""
        return _one(fact.match for fact in self.kernel)

    def known(self, name: str) -> str:
        """SQL: whether a library of the file has work of this name."""
        return _matches(name, self.names)

    @property
    def fuses(self) -> str:
        """Of what name it has work that computes as well, where `pure` does not name it."""
        return _one(fact.match for fact in self.kernel if fact.fused)

    @property
    def pure(self) -> str:
        """Of what name it has work that only communicates."""
        return _one(fact.match for fact in self.kernel if not fact.fused)

    @property
    def arithmetic(self) -> str:
        """Of what name work computes, whoever launched it."""
        return _one(self.computing)

    @property
    def launching(self) -> str:
        """Of what name a host operator launches communication."""
        return _one(fact.match for fact in self.operator)

    def fused(self, name: str) -> str:
        """SQL: whether work of this name computes and communicates at once."""
        return f"({_matches(name, self.fuses)} AND NOT {_matches(name, self.pure)})"

    def collective(self, name: str) -> str:
        """SQL: the kind of collective that the file gives for a name; NULL: its words say it."""
        told = (fact for fact in self.kernel if fact.collective)
        cases = " ".join(f"WHEN {_matches(name, fact.match)} THEN {literal(fact.collective or '')}" for fact in told)
        return f"CASE {cases} END"

    def operators(self, tasks: str, name: str) -> str:
        """SQL: rows of comm for tasks that are operators of their own; ``tasks`` gives span_id, stream and ``name``."""
        return f"""SELECT span_id, span_id AS op_span_id, coalesce(told, CASE {WORDS} END) AS collective, stream FROM (
            SELECT span_id, stream, {self.collective(name)} AS told,
                regexp_replace(lower({name}), '[^a-z]', '', 'g') AS word FROM ({tasks}))"""

    def launches(self, name: str) -> str:
        """SQL: whether a host operator of this name launches communication."""
        return _matches(name, self.launching)

    def computes(self, name: str) -> str:
        """SQL: whether work of this name computes, whoever launched it."""
        return _matches(name, self.arithmetic)

    def suspected(self, name: str) -> str:
        """SQL: whether a name speaks of communication and no line of the file tells what it is."""
        speaks = f"regexp_matches({name}, {literal(self.speaks)})"
        return f"({speaks} AND NOT {self.known(name)} AND NOT {self.computes(name)})"


def _matches(name: str, pattern: str) -> str:
    return f"regexp_matches({name}, {literal(pattern)})"


def _one(patterns: Iterable[str]) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns)


def facts() -> Facts:
    """The facts of the file."""
    return _read(FILE)


def of(*libraries: str) -> Facts:
    """Those of some libraries only."""
    return replace(facts(), kernel=tuple(fact for fact in facts().kernel if fact.library in libraries))


@cache
def _read(file: Path) -> Facts:
    told = tomllib.loads(file.read_text("utf-8"))
    return Facts(
        tuple(Fact(**one) for one in told["kernel"]), tuple(Fact(**one) for one in told["operator"]),
        tuple(told["computing"]), told["speaks"],
    )  # fmt: skip

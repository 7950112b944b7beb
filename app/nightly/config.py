"""What a night does, as one TOML file says it. A mistake in it is one sentence with its line and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

_NAME = re.compile(r"[\w][\w .+-]{0,63}")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600}
_HEAD = re.compile(r"\s*(\[\[?)\s*([\w.\"' -]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")


class Side(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of two things to measure in turns: an interpreter, a commit, variables, or several of them."""

    python: str = ""
    commit: str = ""
    env: dict[str, str] = {}


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of ours, measured by ``npulens bench`` or recorded by ``npulens collect``."""

    run: str
    name: str = ""
    directory: str = "."  # whose commits base and head may name
    measure: Literal["bench", "profile"] = "bench"
    options: tuple[str, ...] = ()  # of npulens bench or collect
    rounds: int | None = None
    timeout: str = "30m"
    base: Side | None = None
    head: Side = Side()

    @property
    def title(self) -> str:
        return self.name or self.run


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command of the user's own."""

    name: str
    command: tuple[str, ...]
    measure: Literal["profile", "capture", "result", "time"] = "profile"
    directory: str = "."
    options: tuple[str, ...] = ()  # of npulens collect, where it is profiled
    rounds: int | None = None
    timeout: str = "2h"
    base: Side | None = None
    head: Side = Side()

    @property
    def title(self) -> str:
        return self.name


class Watch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder into which somebody else puts captures."""

    name: str
    path: str
    settle: float = 10.0  # seconds without a change after which a capture counts as whole

    @property
    def title(self) -> str:
        return self.name


class Notify(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whom to tell."""

    urls: tuple[str, ...] = ()
    when: Literal["always", "changed", "regressed"] = "always"
    tries: int = 3
    attach: bool = False  # the HTML report, where the service takes files
    wait: float = 5.0  # seconds before the second try, twice that before the third


class Night(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What holds for the whole night."""

    name: str = "nightly"
    out: str = ""
    budget: str = "8h"
    rounds: int = 10
    dashboard: str = ""
    lang: Literal["en", "zh", "both"] = "both"
    redact: bool = False


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    night: Night = Night()
    workload: tuple[Workload, ...] = ()
    job: tuple[Job, ...] = ()
    watch: tuple[Watch, ...] = ()
    machine: dict[str, str] = {}
    software: dict[str, str] = {}
    notify: Notify = Notify()

    @property
    def tasks(self) -> tuple[Workload | Job | Watch, ...]:
        return (*self.watch, *self.workload, *self.job)


def read(path: Path) -> Config:
    """The configuration in a file."""
    try:
        text = path.read_text("utf-8")
        known = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else Message("no_utf_8_text")
        raise IngestError(
            "nightly_config", Message("cannot_read_the_configuration", {"why": why}), str(path)
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise IngestError("nightly_config", Message("this_is_no_toml", {"error": error}), str(path)) from error
    try:
        config = msgspec.convert(known, Config)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at ")
        raise _wrong(path, text, _unquoted(where), message) from error
    for where, message in _mistakes(config):
        raise _wrong(path, text, where, message)
    return config


def alone(config: Config, name: str, base: Sequence[str], head: Sequence[str]) -> Config:
    """One task of a configuration with other sides, as nights of a name of their own."""
    task = next((task for task in config.tasks if task.title == name), None)
    if task is None:
        known = ", ".join(task.title for task in config.tasks)
        raise IngestError("nightly_config", Message("there_is_no_task", {"name": repr(name), "known": known}))
    if base or head:
        if isinstance(task, Watch):
            raise IngestError("nightly_config", Message("is_a_watched_folder", {"name": name}))
        task = replace(task, base=_side(base), head=_side(head))
    kind = type(task).__name__.lower()
    tasks: dict[str, Any] = {"workload": (), "job": (), "watch": (), kind: (task,)}
    night = replace(config.night, name=f"{config.night.name} only {name}"[:64])
    return replace(config, night=night, **tasks)


def _side(words: Sequence[str]) -> Side:
    """commit=..., python=... or NAME=VALUE for the environment."""
    known = {name: value for name, _, value in (word.partition("=") for word in words)}
    if lost := [word for word in words if "=" not in word]:
        raise IngestError("nightly_config", Message("is_no_name_value", {"word": repr(lost[0])}))
    return Side(known.pop("python", ""), known.pop("commit", ""), known)


def seconds(text: str) -> float:
    """A length of time: 90s, 30m, 8h."""
    found = _LENGTH.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no length of time such as 90s, 30m or 8h")
    return float(found[1]) * _SECONDS[found[2]]


def day(text: str) -> date:
    """A night's date."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise IngestError("night", Message("is_no_date", {"text": repr(text)})) from error


def _mistakes(config: Config) -> Iterator[tuple[str, str]]:
    """What TOML's types cannot say: where, and the sentence."""
    if not config.tasks:
        yield "", "there is nothing to do: add a [[workload]], a [[job]] or a [[watch]]"
    if not _NAME.fullmatch(config.night.name):
        yield "night.name", f"{config.night.name!r} is no name: letters, digits, spaces, . + - and _, at most 64"
    yield from _lengths("night.budget", config.night.budget)
    yield from _counts("night.rounds", config.night.rounds)
    seen: set[str] = set()
    for kind in ("workload", "job", "watch"):
        for place, task in enumerate(getattr(config, kind)):
            where = f"{kind}[{place}]"
            if not _NAME.fullmatch(task.title):
                yield f"{where}.name", f"{task.title!r} is no name"
            if task.title in seen:
                yield f"{where}.name", f"two tasks are called {task.title!r}; give one another name"
            seen.add(task.title)
            if isinstance(task, Watch):
                if not 0 <= task.settle <= 86_400:
                    yield f"{where}.settle", f"{task.settle:g} is not between 0 and 86400 seconds"
                continue
            yield from _lengths(f"{where}.timeout", task.timeout)
            yield from _counts(f"{where}.rounds", task.rounds)
            if isinstance(task, Job) and not task.command:
                yield f"{where}.command", "the command is empty"
            if task.base is not None and task.base == task.head:
                yield f"{where}.base", "base and head are the same: leave base out, or say how they differ"
    yield from _counts("notify.tries", config.notify.tries)


def _lengths(where: str, text: str) -> Iterator[tuple[str, str]]:
    try:
        if seconds(text) <= 0:
            yield where, "it must be longer than nothing"
    except ValueError as error:
        yield where, str(error)


def _counts(where: str, value: int | None) -> Iterator[tuple[str, str]]:
    if value is not None and not 1 <= value <= 1000:
        yield where, f"{value} is not between 1 and 1000"


def _unquoted(where: str) -> str:
    """``$.job[0].rounds`` as ``job[0].rounds``."""
    return where.strip("`").removeprefix("$").removeprefix(".")


def _wrong(path: Path, text: str, where: str, message: str) -> IngestError:
    message = message[:1].lower() + message[1:]
    lines = {key: number for key, number in reversed(list(_lines(text)))}
    named = re.search(r"unknown field `(.+)`", message)
    if named and (meant := get_close_matches(named[1], _fields(where), n=1)):
        message += f"; did you mean `{meant[0]}`?"
    whole = ".".join(filter(None, [where, named[1] if named else ""]))
    whole = f"{whole}[0]" if f"{whole}[0]" in lines else whole
    while whole and whole not in lines:
        whole = whole.rpartition(".")[0]
    place = where or whole or path.name
    values = {"place": place, "message": message}
    if not whole:
        return IngestError("nightly_config", Message("of", {"name": place, "said": message}), str(path))
    return IngestError("nightly_config", Message("on_line", {**values, "line": lines[whole]}), str(path))


def _fields(where: str) -> tuple[str, ...]:
    """The keys that a place such as ``job[1].base`` may have."""
    tables: dict[str, type[msgspec.Struct]] = {
        "": Config, "night": Night, "workload": Workload, "job": Job, "watch": Watch, "notify": Notify,
        "base": Side, "head": Side,
    }  # fmt: skip
    table = tables.get(re.sub(r"\[\d+\]$", "", where).rpartition(".")[2])
    return table.__struct_fields__ if table else ()


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Every key as msgspec calls it (``job[1].command``), and its line."""
    table, seen = "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), 1):
        if head := _HEAD.match(line):
            table = head[2].replace('"', "").replace(" ", "")
            first, dot, rest = table.partition(".")
            if head[1] == "[[":
                seen[table] = seen.get(table, -1) + 1
                table = f"{table}[{seen[table]}]"
            elif first in seen and dot:
                table = f"{first}[{seen[first]}].{rest}"
            yield table, number
        elif key := _KEY.match(line):
            yield f"{table}.{key[1]}" if table else key[1], number

"""A window as a file that Perfetto or speedscope opens.

Stamps count from the window's start, because a date in microseconds loses its nanoseconds in a viewer that keeps
doubles. Processes, threads and arrows get small numbers of their own. Spans of one track that overlap without
nesting get a thread each, because both viewers put what overlaps onto a stack. A span that reaches over an edge of
the window is cut there; its own start and length stay in its arguments.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from npulens.analysis.intervals import Ints
from npulens.analysis.timeline.window import Row

#: Tracks are told apart by number; the gap track of a rank has a negative one.
Names = Mapping[int, tuple[int, str]]  # track -> rank, text to show


@dataclass(frozen=True)
class Placed:
    """Where exported spans went, by span id: for the arrows."""

    ids: Ints
    pid: Ints
    tid: Ints
    ts: Ints


class Stacks:
    """The threads that one track needs: on each, a span lies within the one below it or after it."""

    def __init__(self) -> None:
        self.open: list[list[int]] = []

    def place(self, start: int, end: int) -> int:
        """The thread on which a span fits; spans come by start, the longest first."""
        for number, ends in enumerate(self.open):
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                return number
        self.open.append([end])
        return len(self.open) - 1


@dataclass
class Perfetto:
    """A Chrome trace in pieces of text, and afterwards where its spans are."""

    begin: int
    end: int
    names: Names

    def __post_init__(self) -> None:
        self._where: tuple[array[int], ...] = tuple(array("q") for _ in range(4))
        self._tids = 0
        self._pids: dict[int, int] = {}

    def spans(self, rows: Iterable[Row]) -> Iterator[str]:
        """Every span, its threads named as they come up."""
        track, stacks, tids = None, Stacks(), dict[int, int]()
        for number, start, stop, name, kind, span in rows:
            if number != track:
                track, stacks, tids = number, Stacks(), {}
            begin, end = max(start, self.begin), min(stop, self.end)
            lane = stacks.place(begin, end)
            if lane not in tids:
                tids[lane] = self._tids = self._tids + 1
                yield from self._thread(number, tids[lane], lane)
            pid = self._pids[self.names[number][0]]
            args = {"span_id": str(span), "ts_ns": str(start), "dur_ns": str(stop - start)}
            yield _event({
                "ph": "X", "name": name, "cat": kind, "pid": pid, "tid": tids[lane], "args": args,
            }, begin - self.begin, end - begin)  # fmt: skip
            if span >= 0:
                for column, value in zip(self._where, (span, pid, tids[lane], begin), strict=True):
                    column.append(value)

    def _thread(self, track: int, tid: int, lane: int) -> Iterator[str]:
        rank, text = self.names[track]
        if rank not in self._pids:
            pid = self._pids[rank] = len(self._pids) + 1
            yield _meta("process_name", pid, 0, {"name": f"rank {rank}"})
            yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
        yield _meta("thread_name", self._pids[rank], tid, {"name": text if not lane else f"{text} ({lane + 1})"})
        yield _meta("thread_sort_index", self._pids[rank], tid, {"sort_index": tid})

    def placed(self) -> Placed:
        """Where the spans went, by id."""
        columns = [np.frombuffer(column, np.int64) for column in self._where]
        order = np.argsort(columns[0], kind="stable")
        return Placed(*(column[order] for column in columns))

    def arrows(self, placed: Placed, links: Iterable[tuple[int, int, str]]) -> Iterator[str]:
        """Both ends of every arrow; a number of its own each."""
        for number, (source, target, route) in enumerate(links, 1):
            for ph, at in (("s", source), ("f", target)):
                said = {"ph": ph, "name": route, "cat": "link", "id": number, "pid": int(placed.pid[at]),
                        "tid": int(placed.tid[at])}  # fmt: skip
                yield _event(said | ({"bp": "e"} if ph == "f" else {}), int(placed.ts[at]) - self.begin, None)


def _event(said: dict[str, object], ts_ns: int, dur_ns: int | None) -> str:
    """Stamps are written as decimals of a microsecond with all their nanoseconds, never through a float."""
    times = f',"ts":{_us(ts_ns)}' + (f',"dur":{_us(dur_ns)}' if dur_ns is not None else "")
    return json.dumps(said, separators=(",", ":"))[:-1] + times + "}"


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _meta(name: str, pid: int, tid: int, args: dict[str, object]) -> str:
    return json.dumps({"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}, separators=(",", ":"))


def perfetto(
    writer: Perfetto, title: str, rows: Iterable[Row], links: Callable[[Ints], Iterable[tuple[int, int, str]]]
) -> Iterator[str]:
    """A whole file; ``links`` gives the arrows among spans."""
    yield '{"displayTimeUnit":"ns","otherData":' + json.dumps({"source": title}) + ',"traceEvents":[\n'
    comma = ""
    for event in chain(writer.spans(rows), _late(writer, links)):
        yield comma + event
        comma = ",\n"
    yield "\n]}\n"


def _late(writer: Perfetto, links: Callable[[Ints], Iterable[tuple[int, int, str]]]) -> Iterator[str]:
    """The arrows: only when every span has its place."""
    placed = writer.placed()
    yield from writer.arrows(placed, links(placed.ids))


def speedscope(begin: int, end: int, names: Names, title: str, rows: Iterable[Row]) -> Iterator[str]:
    """A speedscope file: one evented profile a track, or a thread of it."""
    frames: dict[str, int] = {}
    yield '{"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"npulens","name":'
    yield json.dumps(title) + ',"activeProfileIndex":0,"profiles":['
    comma = ""
    for track, mine in _by_track(rows):
        for lane, events in enumerate(_evented(mine, begin, end, frames)):
            rank, text = names[track]
            label = f"rank {rank}: {text}" + (f" ({lane + 1})" if lane else "")
            head = {"type": "evented", "name": label, "unit": "nanoseconds", "startValue": 0, "endValue": end - begin}
            yield comma + json.dumps(head)[:-1] + ',"events":[' + ",".join(events) + "]}"
            comma = ",\n"
    yield '],"shared":{"frames":[' + ",".join(json.dumps({"name": name}) for name in frames) + "]}}\n"


def _by_track(rows: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
    held: list[Row] = []
    for row in rows:
        if held and row[0] != held[0][0]:
            yield held[0][0], held
            held = []
        held.append(row)
    if held:
        yield held[0][0], held


def _evented(rows: list[Row], begin: int, end: int, frames: dict[str, int]) -> list[list[str]]:
    """Openings and closings of one track, thread by thread, each closing before what opens at the same time."""
    stacks, threads = Stacks(), list[list[str]]()
    open_: list[list[tuple[int, int]]] = []  # per thread: end and frame of what is open
    for _, start, stop, name, _, _ in rows:
        start, stop = max(start, begin) - begin, min(stop, end) - begin
        lane = stacks.place(start, stop)
        if lane == len(threads):
            threads.append([])
            open_.append([])
        _close(threads[lane], open_[lane], start)
        frame = frames.setdefault(name, len(frames))
        threads[lane].append(f'{{"type":"O","frame":{frame},"at":{start}}}')
        open_[lane].append((stop, frame))
    for events, left in zip(threads, open_, strict=True):
        _close(events, left, end - begin)
    return threads


def _close(events: list[str], open_: list[tuple[int, int]], until: int) -> None:
    while open_ and open_[-1][0] <= until:
        at, frame = open_.pop()
        events.append(f'{{"type":"C","frame":{frame},"at":{at}}}')

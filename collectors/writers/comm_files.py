"""What msprof makes of the communication tasks: time and bandwidth of each operator, and the matrix of links.

An operator's times come from its master plane (plane 1). Waiting is its Notify_Wait, transit its transfers over a link,
synchronization the waiting before the first transfer. Bandwidth counts the transfers of all planes over links.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from npulens.collectors.simulator.job import CommOp, CommTask, RankRecord, Span
from npulens.collectors.writers.profiler_rules import text_ranges

MB = 1_000_000
_TRANSPORTS = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")
_TRANSFERS = ("Memcpy", "Reduce_Inline")


class Analysis(NamedTuple):
    """One operator, all in ns and bytes; ``sizes``: bytes of a packet -> (packets, ns)."""

    span: Span
    step: int | None
    hash: int
    elapse: int
    transit: int
    wait: int
    synchronization: int
    idle: int
    bytes: int
    link_ns: int
    sizes: dict[int, tuple[int, int]]
    links: dict[tuple[int, int], tuple[int, int]]  # (source, target) in the group -> (bytes, ns)
    whole: bool  # nothing marks the steps

    @property
    def key(self) -> str:
        return f"{self.span.name}@{self.hash}"

    @property
    def collective(self) -> str:
        assert isinstance(self.span.detail, CommOp)
        return self.span.detail.collective

    @property
    def scope(self) -> str:
        return "p2p" if self.collective in ("send", "receive", "batchsendrecv") else "collective"


def analyse(record: RankRecord, hashes: dict[str, int]) -> list[Analysis]:
    tasks: dict[int, list[Span]] = {}
    for span in record.of("comm_task", "unseen"):
        assert isinstance(span.detail, CommTask)
        tasks.setdefault(span.detail.op, []).append(span)
    ranges = text_ranges(record)
    found = []
    for span in record.of("comm_op"):
        assert isinstance(span.detail, CommOp)
        step = next((item.step for item in ranges if item.start <= span.ts_ns <= item.end), None)
        found.append(_analyse(span, step, hashes[span.detail.group], tasks[span.id], not record.steps))
    return found


def _analyse(span: Span, step: int | None, number: int, tasks: list[Span], whole: bool) -> Analysis:
    transit = wait = synchronization = total_bytes = link_ns = 0
    sizes: dict[int, tuple[int, int]] = {}
    links: dict[tuple[int, int], tuple[int, int]] = {}
    for task in tasks:
        detail = task.detail
        assert isinstance(detail, CommTask)
        if detail.plane == 1 and detail.task_type == "Notify_Wait":
            wait += task.dur_ns
            synchronization += 0 if transit else task.dur_ns
        if detail.task_type in _TRANSFERS and detail.dst < 4294967295:
            size, ns = links.get((detail.src, detail.dst), (0, 0))
            links[detail.src, detail.dst] = (size + detail.bytes, ns + task.dur_ns)
        if detail.link == "HCCS":
            transit += task.dur_ns if detail.plane == 1 else 0
            total_bytes, link_ns = total_bytes + detail.bytes, link_ns + task.dur_ns
            packets, ns = sizes.get(detail.bytes, (0, 0))
            sizes[detail.bytes] = (packets + 1, ns + task.dur_ns)
    idle = span.dur_ns - transit - wait
    return Analysis(
        span, step, number, span.dur_ns, transit, wait, synchronization, idle, total_bytes, link_ns, sizes, links, whole
    )


def _ratio(part: int, rest: int) -> float:
    return round(part / (part + rest), 4) if part + rest else 0


def rate(size: int, ns: int) -> float:
    return round(size / ns, 4) if ns else 0


def _times(elapse: int, transit: int, wait: int, synchronization: int, idle: int) -> dict[str, float]:
    return {
        "Elapse Time(ms)": elapse / 1e6,
        "Transit Time(ms)": transit / 1e6,
        "Wait Time(ms)": wait / 1e6,
        "Synchronization Time(ms)": synchronization / 1e6,
        "Idle Time(ms)": idle / 1e6,
        "Wait Time Ratio": _ratio(wait, transit),
        "Synchronization Time Ratio": _ratio(synchronization, transit),
    }


def _bandwidth(size: int, ns: int, sizes: dict[int, tuple[int, int]], total: bool) -> dict[str, Any]:
    info: dict[str, Any] = {}
    for transport in _TRANSPORTS:
        used = transport in ("HCCS", "SDMA")
        entry: dict[str, Any] = {
            "Transit Size(MB)": size / MB if used else 0,
            "Transit Time(ms)": ns / 1e6 if used else 0,
        }
        if not total:
            entry |= {"Bandwidth(GB/s)": rate(size, ns) if used else 0, "Large Packet Ratio": 0}
        spread = {str(key / MB): [count, busy / 1e6] for key, (count, busy) in sizes.items()}
        info[transport] = entry | {"Size Distribution": spread if transport == "HCCS" else {}}
    return info


def communication(analyses: Iterable[Analysis]) -> dict[str, Any]:
    """communication.json."""
    return {
        step: {scope: _operators([one for one in mine if one.scope == scope]) for scope in ("p2p", "collective")}
        for step, mine in by_step(analyses).items()
    }


def _operators(mine: list[Analysis]) -> dict[str, Any]:
    operators: dict[str, Any] = {}
    for one in mine:
        start = {"Start Timestamp(us)": round(one.span.ts_ns / 1000, 1)}
        operators[one.key] = {
            "Communication Time Info": start | _times(*one[3:8]),
            "Communication Bandwidth Info": _bandwidth(one.bytes, one.link_ns, one.sizes, False),
        }
    merged: dict[int, tuple[int, int]] = {}
    for one in mine:
        for size, (count, ns) in one.sizes.items():
            before = merged.get(size, (0, 0))
            merged[size] = (before[0] + count, before[1] + ns)
    if mine:
        sums = [sum(values) for values in zip(*(one[3:10] for one in mine), strict=True)]
        operators["Total Op Info"] = {
            "Communication Time Info": _times(*sums[:5]),
            "Communication Bandwidth Info": _bandwidth(sums[5], sums[6], merged, True),
        }
    return operators


def by_step(analyses: Iterable[Analysis]) -> dict[str, list[Analysis]]:
    steps: dict[str, list[Analysis]] = {}
    for one in analyses:
        if one.step is not None or one.whole:
            steps.setdefault("step" if one.step is None else f"step{one.step}", []).append(one)
    return steps


class Link(NamedTuple):
    """One cell of the matrix: the best, middle and worst operators of a kind over one link, and all together."""

    scope: str
    key: str
    hash: int
    source: int
    target: int
    transport: str
    bytes: int
    ns: int
    operator: str | None


def matrix_links(mine: list[Analysis]) -> list[Link]:
    over: dict[tuple[str, str, int, int, int], list[tuple[int, int, str]]] = {}
    for one in mine:
        for (source, target), (size, ns) in one.links.items():
            key = (one.scope, one.collective, one.hash, source, target)
            over.setdefault(key, []).append((size, ns, one.span.name))
    rows = []
    for (scope, kind, number, source, target), entries in over.items():
        entries.sort(key=lambda entry: -rate(entry[0], entry[1]))
        transport = "LOCAL" if source == target else "HCCS"
        picks = {"top1": 0, "middle": len(entries) // 2, "bottom1": -1, "bottom2": -2, "bottom3": -3}
        for name, index in picks.items():
            if -index <= len(entries):
                size, ns, operator = entries[index]
                rows.append(Link(scope, f"{kind}-{name}", number, source, target, transport, size, ns, operator))
        size, ns = sum(entry[0] for entry in entries), sum(entry[1] for entry in entries)
        rows.append(Link(scope, f"{kind}-total", number, source, target, transport, size, ns, None))
    return rows


def communication_matrix(analyses: Iterable[Analysis]) -> dict[str, Any]:
    """communication_matrix.json."""
    steps: dict[str, Any] = {}
    for step, mine in by_step(analyses).items():
        scopes: dict[str, Any] = {"p2p": {}, "collective": {}}
        for link in matrix_links(mine):
            entry: dict[str, Any] = {
                "Transport Type": link.transport,
                "Transit Size(MB)": link.bytes / MB,
                "Transit Time(ms)": link.ns / 1e6,
                "Bandwidth(GB/s)": rate(link.bytes, link.ns),
            }
            if link.operator is not None:
                entry["Op Name"] = link.operator
            links = scopes[link.scope].setdefault(f"{link.key}@{link.hash}", {})
            links[f"{link.source}-{link.target}"] = entry
        steps[step] = scopes
    return steps

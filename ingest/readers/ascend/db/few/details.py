"""What the spans of a small database were: the same as ../details.py says in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend import helpers
from npulens.ingest.readers.ascend.db import details
from npulens.ingest.readers.ascend.db.few.analysis import Analysed
from npulens.ingest.readers.ascend.db.few.links import Connected, Copies, calls_of
from npulens.ingest.readers.ascend.db.few.spans import All, number, of_kind, small, told
from npulens.ingest.tables.arrays import (
    NONE,
    Rows,
    Texts,
    at,
    between,
    first,
    lookup,
    matches,
    most_frequent,
    nullable,
    pairs,
)
from npulens.ingest.tables.json_text import as_json
from npulens.ingest.tables.steps import Ints

#: What a queue entry's number is more by, since 2025.
_QUEUED = 5 << 28
_COLLECTIVE = re.compile(r"(?:hcom_)?([A-Za-z]+)")


@dataclass(frozen=True)
class Group:
    """A group of communication: its ranks, and what the numbers of its tasks mean."""

    ranks: Sequence[int] | None
    numbers: str | None


def make(made: All, connected: Connected, copies: Copies, analysed: Analysed, groups: Mapping[str, Sequence[int]],
         rank: int) -> None:  # fmt: skip
    """The tables keyed by span_id."""
    _kernels(made)
    peers = _peers(made, groups, rank)
    _operators(made, analysed)
    _parts(made, peers)
    _transfers(made, copies)
    _host(made, connected)
    _stacks(made)
    _arguments(made)


def _kernels(made: All) -> None:
    tasks, info, found = made.tasks, made.raws["COMPUTE_TASK_INFO"], made.found
    rows = np.flatnonzero(of_kind(tasks.kind, "kernel") & tasks.lasting)
    compute, type_ = tasks.compute[rows], tasks.type.take(rows)
    op_type = told(info.texts("opType"))
    typed = np.where(op_type.take(compute).there, compute, -1)
    own = told(info.texts("taskType")).take(compute)
    tensors = {
        ours: told(info.texts(theirs).map(lambda known: pc.utf8_trim(known, '"'))).take(compute)
        for ours, theirs in details.TENSORS.items()
    }
    found.give("kernel", {
        "span_id": tasks.ids[rows], "op_type": op_type.take(compute),
        "core": first(own.map(helpers.cores), type_.map(helpers.cores)), "task_type": type_,
        "stream": tasks.stream[rows], "task_id": tasks.task_id[rows],
        "model_id": number(made.raws["TASK"].ints("modelId"))[rows],
        "context_id": number(made.raws["TASK"].ints("contextId"))[rows],
        "block_num": at(number(info.ints("blockNum")), typed),
        "mix_block_num": at(number(info.ints("mixBlockNum")), typed),
        "op_state": told(info.texts("opState")).take(compute),
        "hf32": told(info.texts("hf32Eligible")).take(compute), **tensors,
    })  # fmt: skip
    _counters(made, rows)


def _counters(made: All, kernels: Ints) -> None:
    counters, ids = made.raws["TASK_PMU_INFO"], made.raws["TASK"].ints("globalTaskId")
    unknown = int((lookup(counters.ints("globalTaskId"), ids) < 0).sum())
    made.found.dropped.append(("pmu", Message("counters_task_that_is_not"), unknown))
    name, value = counters.texts("name"), counters.table["value"].combine_chunks()
    told_of = name.there & np.asarray(pc.is_valid(value).to_numpy(False), bool)
    counter, kernel = pairs(np.where(told_of, counters.ints("globalTaskId"), NONE), ids[kernels])
    chosen = name.take(counter)
    timed = chosen.where(lambda known: pc.ends_with(known, "_time"))
    values = np.asarray(pc.fill_null(value, 0.0).to_numpy(False))[counter]
    made.found.give("pmu", {
        "span_id": made.tasks.ids[kernels[kernel]], "metric": chosen.map(_metrics),
        "value": np.where(timed, values / 1000, values),
    })  # fmt: skip


def _metrics(known: pa.Array) -> pa.Array:
    renamed = {"aic_total_time": "aicore_time(us)", "aiv_total_time": "aiv_time(us)", None: None}
    texts = known.to_pylist()
    return pa.array([renamed.get(text, text + "(us)" if text and text.endswith("_time") else text) for text in texts])


def _peers(made: All, groups: Mapping[str, Sequence[int]], rank: int) -> dict[int, Group]:
    """What the rank numbers of a group's tasks mean in the job."""
    info = made.raws["COMMUNICATION_TASK_INFO"]
    ids, names, own = info.ints("groupId"), info.texts("groupName"), small(info.ints("srcRank"))
    found = {}
    for group in np.unique(ids).tolist():
        rows = ids == group
        called = [
            name for name in names.known.take(pa.array(np.unique(names.codes[rows]))).to_pylist() if name is not None
        ]
        ranks, mine = groups.get(min(called)) if called else None, most_frequent(own[rows])
        found[group] = Group(ranks, _numbers(ranks, mine, rank))
    if any(group.numbers == "global" and group.ranks is None for group in found.values()):
        made.found.notes.append(("comm", Message("no_metadata_lists_ranks_group")))
    return found


def _numbers(ranks: Sequence[int] | None, own: int, rank: int) -> str | None:
    if ranks and (own == NONE or (own < len(ranks) and ranks[own] == rank)):
        return "listed"
    return "global" if own == rank else None


def _operators(made: All, analysed: Analysed) -> None:
    operators, info = made.operators, made.raws["COMMUNICATION_OP"]
    rows = np.flatnonzero(operators.lasting)
    dtype = told(info.texts("dataType")).take(rows)
    size = [details.DTYPE_BYTES.get(one) for one in dtype.known.to_pylist()]
    counts = info.ints("count")[rows]
    sizes = [
        count * bytes_ if count != NONE and (bytes_ := size[code]) is not None else None
        for count, code in zip(counts.tolist(), dtype.codes.tolist(), strict=True)
    ]
    made.found.give("comm", {
        "span_id": operators.ids[rows], "op_span_id": operators.ids[rows],
        "collective": collectives(first(operators.type.take(rows), operators.name.take(rows))),
        "group_name": operators.group.take(rows),
        "bytes": pa.array([None if of is None or not -(2**63) <= of < 2**63 else of for of in sizes], pa.int64()),
        "count": counts, "dtype": dtype, "algorithm": told(info.texts("algType")).take(rows),
        "relay": small(info.ints("relay"))[rows], "retry": small(info.ints("retry"))[rows],
        **{name: at(values, analysed.of_operator[rows]) for name, values in analysed.times.items()},
    })  # fmt: skip


def collectives(names: Texts) -> Texts:
    """hcom_allReduce__586_0_1 and hcom_allReduce_ are an allreduce."""
    found = [_COLLECTIVE.match(name or "") for name in names.known.to_pylist()]
    return Texts(names.codes, pa.array([match and match[1].lower() for match in found], pa.string()))


def _parts(made: All, peers: Mapping[int, Group]) -> None:
    """Tasks of communication operators."""
    tasks, operators, info = made.tasks, made.operators, made.raws["COMMUNICATION_TASK_INFO"]
    rows = np.flatnonzero(of_kind(tasks.kind, "comm_task") & tasks.lasting)
    of = tasks.comm[rows]
    named = at(info.ints("opId"), of)
    operator = lookup(named, made.raws["COMMUNICATION_OP"].ints("opId"))
    operator = np.where(operator < 0, tasks.operator[rows], operator)
    type_ = tasks.type.take(rows)
    says = type_.only(~type_.where(matches(helpers.NAMELESS, any_case=True)))
    here = [peers.get(group, Group(None, None)) for group in at(info.ints("groupId"), of).tolist()]
    ends = {end: at(small(info.ints(end)), of) for end in ("srcRank", "dstRank")}
    notified = at(between(info.ints("notifyId"), 0, 2**63 - 2), of)
    bandwidth = info.table["bandwidth"].combine_chunks().take(pa.array(of, mask=of < 0))
    made.found.give("comm", {
        "span_id": tasks.ids[rows], "op_span_id": at(operators.ids, operator),
        "collective": collectives(first(
            operators.type.take(operator), operators.name.take(operator), info.texts("name").take(of))),
        "group_name": first(told(info.texts("groupName")).take(of), operators.group.take(operator)),
        "plane": at(small(info.ints("planeId")), of), "task_type": first(told(info.texts("taskType")).take(of), says),
        "src_rank": _global(ends["srcRank"], here), "dst_rank": _global(ends["dstRank"], here),
        "src_local": ends["srcRank"], "dst_local": ends["dstRank"],
        "bytes": at(between(info.ints("size"), 0, 2**63 - 1), of), "dtype": told(info.texts("dataType")).take(of),
        "transport": told(info.texts("transportType")).take(of), "link_type": told(info.texts("linkType")).take(of),
        "bandwidth_bytes_per_s": pc.if_else(pc.greater_equal(bandwidth, 0), bandwidth, None),
        "notify_id": nullable(np.where(notified == 4294967295, NONE, notified)).cast(pa.string()),
        "stream": tasks.stream[rows], "task_id": tasks.task_id[rows],
        "by_stream": pa.array(np.ones(len(rows), bool), mask=~tasks.helps[rows]),
    })  # fmt: skip


def _global(ends: Ints, groups: Sequence[Group]) -> Ints:
    """Ranks of the job by their numbers in groups."""
    found = []
    for end, group in zip(ends.tolist(), groups, strict=True):
        listed = group.ranks if group.numbers == "listed" else None
        found.append(
            end if group.numbers == "global" else listed[end] if listed and NONE != end < len(listed) else NONE
        )
    return np.array(found, np.int64)


def _transfers(made: All, copies: Copies) -> None:
    """Copies: way and size as recorded, else the way that the call or the queue entry around it is named by."""
    tasks, info = made.tasks, made.raws["MEMCPY_INFO"]
    rows = np.flatnonzero(of_kind(tasks.kind, "memcpy") & tasks.lasting)
    of = lookup(made.raws["TASK"].ints("globalTaskId")[rows], info.ints("globalTaskId"))
    called: dict[int, tuple[str | None, str | None]] = {}
    for copy, call, entry in calls_of(copies, made):
        calls, entries = called.get(copy, (None, None))
        called[copy] = _least(calls, call), _least(entries, entry)
    names = [called.get(copy, (None, None)) for copy in tasks.ids[rows].tolist()]
    operation = at(info.ints("memcpyOperation"), of).tolist()
    ways = [
        details.DIRECTION.get(told_, next(filter(None, map(_way, pair)), None))
        for told_, pair in zip(operation, names, strict=True)
    ]
    blocking = [
        "async" not in call.lower() if call is not None and "@aclrtmemcpy" in call.lower() else None
        for call, _ in names
    ]
    made.found.give("transfer", {
        "span_id": tasks.ids[rows], "direction": pa.array(ways, pa.string()),
        "bytes": at(between(info.ints("size"), 0, 2**63 - 1), of), "blocking": pa.array(blocking, pa.bool_()),
    })  # fmt: skip


def _least(one: str | None, other: str | None) -> str | None:
    return min((text for text in (one, other) if text is not None), default=None)


def _way(name: str | None) -> str | None:
    lower = (name or "").lower()
    return next((way for parts, way in _WAYS.items() if re.search(parts, lower, re.S)), None)


_WAYS = {like.replace("%", ".*"): way for like, way in details.WAYS.items()}


def _host(made: All, connected: Connected) -> None:
    api, rows_of = made.api, made.raws["PYTORCH_API"]
    rows = np.flatnonzero(of_kind(api.kind, "cpu_op", "step_mark", "annotation") & api.lasting)
    shapes, types = (_flat(rows_of.texts(name).take(rows)) for name in _tensor_columns(made))
    made.found.give("host_op", {
        "span_id": api.ids[rows], "input_shapes": shapes, "input_dtypes": types,
        "sequence": rows_of.ints("sequenceNumber")[rows], "fwd_thread": rows_of.ints("fwdThreadId")[rows],
    })  # fmt: skip
    queued = np.flatnonzero(of_kind(api.kind[connected.call], "enqueue", "dequeue"))
    order = queued[np.lexsort((connected.connection[queued], connected.call[queued]))]
    calls, firsts = np.unique(connected.call[order], return_index=True)
    ids = connected.connection[order][firsts]
    made.found.give("host_op", {
        "span_id": api.ids[calls], "correlation": np.where(ids >= _QUEUED, ids - _QUEUED, ids),
    })  # fmt: skip
    cann = made.cann
    named = np.flatnonzero(cann.lasting & (cann.connection != NONE))
    made.found.give("host_op", {"span_id": cann.ids[named], "correlation": cann.connection[named]})


def _flat(texts: Texts) -> Texts:
    return texts.map(lambda known: pc.replace_substring(pc.replace_substring(known, "\r", ""), "\n", ""))


def _tensor_columns(made: All) -> tuple[str, str]:
    """The columns that hold shapes and types: torch_npu wrote them into each other's in January 2025."""
    rows: Rows = made.raws["PYTORCH_API"]
    shapes, types = (
        int(rows.texts(name).where(matches("[a-z][a-z]"))[:100_000].sum()) for name in ("inputShapes", "inputDtypes")
    )
    if shapes > types:
        made.found.notes.append(("host_op", Message("shapes_and_types_inputs_written")))
        return "inputDtypes", "inputShapes"
    return "inputShapes", "inputDtypes"


def _stacks(made: All) -> None:
    chains, api = made.raws["PYTORCH_CALLCHAINS"], made.api
    depth = chains.ints("stackDepth")
    order = np.lexsort((chains.ints("row"), np.where(depth == NONE, np.iinfo(np.int64).max, depth), chains.ints("id")))
    ids, begins = np.unique(chains.ints("id")[order], return_index=True)
    texts = [text if text is not None else "?" for text in chains.texts("stack").take(order).list]
    bounds = pairwise([*begins.tolist(), len(texts)])
    stacks = pa.array(["\n".join(texts[a:b]) for a, b in bounds], pa.string())
    rows = np.flatnonzero(api.lasting)
    of = lookup(made.raws["PYTORCH_API"].ints("callchainId")[rows], ids)
    had = of >= 0
    made.found.give("stack", {"span_id": api.ids[rows[had]], "frames": stacks.take(pa.array(of[had]))})


def _arguments(made: All) -> None:
    """What no column holds."""
    tasks = made.tasks
    for table, column, key, of in (
        ("COMPUTE_TASK_INFO", "attrInfo", "attrInfo", tasks.compute),
        ("COMMUNICATION_TASK_INFO", "rdmaType", "rdma_type", tasks.comm),
    ):
        texts = told(made.raws[table].texts(column))
        rows = np.flatnonzero(tasks.lasting & texts.take(of).there)
        written = texts.take(of[rows]).map(_each(lambda text, key=key: f'{{"{key}":{text}}}'))  # type: ignore[misc]
        made.found.give("arg", {"span_id": tasks.ids[rows], "args": written})
    rows = np.flatnonzero(of_kind(tasks.kind, "memcpy", "wait", "device_other") & (tasks.compute < 0) & tasks.lasting)
    types = tasks.type.take(rows).map(_each(lambda text: text)).list
    numbers = tasks.task_id[rows].tolist()
    made.found.give("arg", {"span_id": tasks.ids[rows], "args": pa.array([
        f'{{"Task Type":{type_},"Task Id":{"null" if task == NONE else task}}}'
        for type_, task in zip(types, numbers, strict=True)
    ], pa.string())})  # fmt: skip


def _each(write: Callable[[str], str]) -> Callable[[pa.Array], pa.Array]:
    return lambda known: pa.array([None if text is None else write(as_json(text)) for text in known.to_pylist()])

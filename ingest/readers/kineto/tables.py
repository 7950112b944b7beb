"""Raw tables to contract tables, one SELECT each."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from npulens.ingest.readers.kineto import npu, shape
from npulens.ingest.readers.kineto.calls import Calls
from npulens.ingest.readers.kineto.raw import count
from npulens.ingest.tables import comm_facts
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.in_order import stretches
from npulens.ingest.tables.sqltext import literal

#: Bytes of an element, by PyTorch's name of the type.
ELEMENTS = {
    1: "byte char bool int8 uint8 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz fp8",
    2: "half bfloat16 float16 short int16 uint16 fp16 bfp16 bf16",
    4: "float int float32 int32 uint32 complexhalf fp32",
    8: "double long float64 int64 uint64 complexfloat fp64",
    16: "complexdouble",
}
ELEMENT_BYTES = " ".join(
    f"WHEN lower(dtype) IN ({', '.join(map(literal, names.split()))}) THEN {size}" for size, names in ELEMENTS.items()
)

#: The said name where there is one, else the kernel's.
COLLECTIVE = f"CASE {comm_facts.WORDS} ELSE said END"

#: A list on a call, written as `spools.listed` does those of operators and kernels.
_LISTED = r"CASE WHEN s.said[1] = '[' THEN replace(regexp_replace(s.said, '\s*\n\s*', '', 'g'), ', ', ',') END"

#: Tasks that copy, and tasks that communicate.
_COPIES, _TALKS = "t.kind = 'memcpy'", "(t.kind = 'comm_op' OR t.fused)"

ALGORITHM = r"(?i)_((?:ring|tree|nvls(?:_tree)?|collnet\w*?|pat)_(?:ll128|ll|simple))"

#: Spans whose arguments are put together at once, and given back at once; tasks that are joined at once.
_STRETCH, _FEW, _MANY = 300_000, 100_000, 100_000
#: Spans of a device whose arguments are put together at once.
_MOST = 200_000


#: What a collective's event says: its type of data, its group, its plan, its sizes and its ends.
_SAYS = (*npu.DTYPE, *npu.GROUP, *npu.ALGORITHM, "count", "In msg nelems", "Out msg nelems", "Src Rank", "Dst Rank")
#: What a copy's does.
_MOVES = ("size", "direction", "kind")


def _args(keys: Sequence[str]) -> str:
    """SQL: some arguments of an event as a list. Asked one by one, each would be read anew, in room of its own."""
    paths = ", ".join(f"""'$."{key}"'""" for key in keys)
    return f"json_extract_string(rest, [{paths}])"


def _first(keys: Sequence[str], *wanted: str) -> str:
    """SQL: the first of some arguments that such a list ``args`` has."""
    return f"coalesce({', '.join(f'args[{keys.index(key) + 1}]' for key in wanted)})"


def provide(
    draft: Draft, shift_ns: int, seen: Collection[str], unlinked: int, backend: str, calls: Calls | None = None
) -> None:
    """Say how each contract table is made, unless it is written already."""
    device = count(draft, "SELECT count(*) FROM device_raw")

    def apart(which: str) -> bool:
        """Whether tasks are too many to be joined at once."""
        return not draft.straight or (
            device > _MANY and count(draft, f"SELECT count(*) FROM task t WHERE {which}") > _MANY
        )

    draft.provide("span", shape.spans(shift_ns))
    if "host_op" not in draft.ready:
        draft.provide("host_op", _host_op(seen))
    if "Call stack" in seen:
        frames = "SELECT h.row AS span_id, replace(s.text, ';', chr(10)) AS frames"
        draft.provide("stack", f"{frames} FROM host_raw h JOIN strings s ON s.code = h.frames", apart=True)
    lent = count(draft, f"SELECT count(*) FROM ({_SAID_GRID})") > 0
    if calls is None or lent or backend == "npu" or not calls.kernels(draft):
        draft.provide("kernel", _kernel(backend, lent=lent), apart=True)
    draft.provide("transfer", _transfer(), apart=apart(_COPIES))
    draft.provide("comm", _comm(), apart=apart(_TALKS))
    given_back, args = _arguments(draft, unlinked, many=device > _MOST)
    draft.provide("arg", args, apart=given_back > _FEW)


def _host_op(seen: Collection[str]) -> str:
    plain = "SELECT h.row AS span_id, h.sequence, h.fwd_thread, h.external_id, h.correlation"
    if not {"Input Dims", "Input dims", "Input type"} & set(seen):
        return f"{plain} FROM host_raw h"
    return f"{plain}, h.shapes AS input_shapes, h.dtypes AS input_dtypes FROM host_raw h"


_SAID_GRID = "SELECT DISTINCT row FROM stray_raw WHERE key = 'grid'"


def _kernel(backend: str, *, lent: bool) -> str:
    """ROCm before 6.3 wrote the launch geometry on the call, not on the kernel."""
    geometry = f"""SELECT l.dst, max({_LISTED}) FILTER (s.key = 'grid') AS grid,
            max({_LISTED}) FILTER (s.key = 'block') AS block, max(try_cast(s.value AS BIGINT)) AS shared_bytes
        FROM linked l JOIN stray_raw s ON s.row = l.src
        WHERE s.key IN ('grid', 'block', 'shared memory') AND s.row IN ({_SAID_GRID}) GROUP BY l.dst"""
    nothing = "CROSS JOIN (SELECT NULL AS grid, NULL AS block, NULL AS shared_bytes) q"
    join = f"LEFT JOIN ({geometry}) q ON q.dst = t.row" if lent else nothing
    task, rest = "", ""
    if backend == "npu":
        told = npu.told(npu.TASK_TYPE)
        task = f", {told} AS task_type, {npu.core(told)} AS core"
        rest = "LEFT JOIN device_rest_raw r ON r.row = t.row"
    return f"""SELECT t.row AS span_id, o.op AS op_span_id, t.stream, coalesce(t.grid, q.grid) AS grid,
        coalesce(t.block, q.block) AS block, t.registers, coalesce(t.shared_bytes, q.shared_bytes) AS shared_bytes,
        t.occupancy AS occupancy_percent{task}
        FROM task t LEFT JOIN of_operator o ON o.row = t.row {join} {rest}
        WHERE t.kind IN ('kernel', 'memset')"""


def _transfer() -> str:
    """Direction by the task's name, else by what the driver wrote in ``direction``; a call without Async waits."""
    return f"""WITH j AS (
        SELECT t.row, t.text, t.bytes, t.bandwidth, c.text AS call, {_args(_MOVES)} AS args
        FROM task t LEFT JOIN linked l ON l.dst = t.row LEFT JOIN strings c ON c.code = (l.call >> 16) - 1
            LEFT JOIN device_rest_raw r ON r.row = t.row WHERE {_COPIES}
    ), m AS (
        SELECT row, text, bytes, bandwidth, call, try_cast({_first(_MOVES, "size")} AS BIGINT) AS size,
            coalesce({_first(_MOVES, "direction", "kind")}, '') AS told FROM j
    ), w AS (
        SELECT *, upper(text || ' ' || told) AS words FROM m
    ), way AS (SELECT words, CASE
            WHEN words SIMILAR TO '.*(HTOD|HOSTTODEVICE|HOST_TO_DEVICE).*' THEN 'h2d'
            WHEN words SIMILAR TO '.*(DTOH|DEVICETOHOST|DEVICE_TO_HOST).*' THEN 'd2h'
            WHEN words SIMILAR TO '.*(DTOD|DEVICETODEVICE|DEVICE_TO_DEVICE).*' THEN 'd2d'
            WHEN words SIMILAR TO '.*(HTOH|HOSTTOHOST|HOST_TO_HOST).*' THEN 'h2h'
            WHEN words SIMILAR TO '.*(PTOP|PEERTOPEER|PEER_TO_PEER).*' THEN 'p2p' END AS direction
        FROM (SELECT DISTINCT words FROM w)
    )
    SELECT row AS span_id, direction, coalesce(bytes, size) AS bytes,
        CASE WHEN isfinite(bandwidth) THEN bandwidth * 1e9 END AS bandwidth_bytes_per_s,
        CASE WHEN words LIKE '%PAGEABLE%' THEN true
            WHEN call LIKE '%Memcpy%' THEN call NOT LIKE '%Async%' END AS blocking
    FROM w LEFT JOIN way USING (words)"""


def _comm() -> str:
    """The event's own words, else the operator's: of an all-reduce alone its shapes tell what it moves."""
    return f"""WITH j AS (
        SELECT t.row, t.text, t.stream, c.text AS said, t.told, o.team AS of_team, o.dtype AS of_dtype,
            o.elements AS of_elements, o.by_shape, o.peer, {_args(_SAYS)} AS args
        FROM task t LEFT JOIN strings c ON c.code = t.collective LEFT JOIN device_rest_raw r ON r.row = t.row
            LEFT JOIN operator_said o ON o.row = t.row
        WHERE {_TALKS}
    ), m AS (
        SELECT * EXCLUDE (args), {_first(_SAYS, *npu.DTYPE)} AS own_dtype, {_first(_SAYS, *npu.GROUP)} AS team,
            {_first(_SAYS, *npu.ALGORITHM)} AS plan, try_cast({_first(_SAYS, "count")} AS BIGINT) AS counted,
            try_cast({_first(_SAYS, "In msg nelems")} AS BIGINT) AS sent,
            try_cast({_first(_SAYS, "Out msg nelems")} AS BIGINT) AS received,
            try_cast({_first(_SAYS, "Src Rank")} AS INTEGER) AS src_rank,
            try_cast({_first(_SAYS, "Dst Rank")} AS INTEGER) AS dst_rank FROM j
    ), w AS (
        SELECT *, regexp_replace(lower(coalesce(said, told, text)), '[^a-z]', '', 'g') AS word FROM m
    ), k AS (
        SELECT *, {COLLECTIVE} AS kind, coalesce(greatest(sent, received), counted) AS own_elements FROM w
    ), e AS (
        SELECT *, own_elements IS NULL AND (NOT by_shape OR kind = 'allreduce') AS lent FROM k
    ), d AS (
        SELECT *, CASE WHEN lent THEN of_elements ELSE own_elements END AS elements,
            coalesce(own_dtype, CASE WHEN lent THEN of_dtype END) AS dtype FROM e
    )
    SELECT row AS span_id, row AS op_span_id, kind AS collective, coalesce(team, of_team) AS group_name,
        coalesce(src_rank, CASE kind WHEN 'receive' THEN peer END) AS src_rank,
        coalesce(dst_rank, CASE kind WHEN 'send' THEN peer END) AS dst_rank, elements AS count, dtype,
        try_cast(elements::HUGEINT * CASE {ELEMENT_BYTES} END AS BIGINT) AS bytes,
        coalesce(nullif(regexp_extract(text, '{ALGORITHM}', 1), ''), plan) AS algorithm, stream
    FROM d"""


#: What device spans had taken into columns of a table that their kind has no row in.
_GEOMETRY = """concat_ws(', ', '"grid": ' || t.grid_said, '"block": ' || t.block_said,
    '"registers per thread": ' || t.registers,
    '"shared memory": ' || t.shared_bytes, '"est. achieved occupancy %": ' || t.occupancy)"""
_MOVED = """concat_ws(', ', '"bytes": ' || t.bytes, '"memory bandwidth (GB/s)": ' || t.bandwidth)"""
_NO_ROW = f"""SELECT t.row, concat_ws(', ', CASE WHEN t.kind <> 'memset' THEN nullif({_GEOMETRY}, '') END,
        nullif({_MOVED}, ''), '"Collective name": ' || to_json(c.text)::VARCHAR) AS more
    FROM task t LEFT JOIN strings c ON c.code = t.collective WHERE t.kind NOT IN ('kernel', 'memcpy')"""
_IDS = (
    """SELECT d.row, concat_ws(', ', '"correlation": ' || d.correlation, '"External id": ' || d.external_id) AS more"""
)
_NO_TASK = f"""{_IDS} FROM device_raw d JOIN sort s USING (shape)
    WHERE s.kind = 'device_annotation' OR s.cat = 'cuda_profiler_range'"""
_STRAYED = """SELECT row, string_agg(to_json(key)::VARCHAR || ': ' || coalesce(value, CASE
        WHEN text[1] IN ('[', '{{') THEN text ELSE to_json(text)::VARCHAR END), ', ' ORDER BY key) AS more
    FROM (SELECT x.row, x.key, x.value, coalesce(x.said, s.text) AS text
        FROM stray_raw x LEFT JOIN strings s ON s.code = x.code WHERE {side}) GROUP BY row"""


def _arguments(draft: Draft, unlinked: int, *, many: bool) -> tuple[int, str]:
    """The rest of every span, and what a column for another kind took away from it: of how many, and how."""
    took = [_NO_ROW, _NO_TASK, _STRAYED.format(side="x.device"), *([f"{_IDS} FROM unlinked d"] if unlinked else [])]
    if draft.spans is not None:
        parts = iter(draft.spans.stretches("row") if many else ["true"])
    else:
        rows = count(draft, "SELECT count(*) FROM span_raw")
        parts = stretches(draft.con, "span_raw", "row", rows, _STRETCH)
    every = " UNION ALL ".join(f"({part})" for part in took)
    device = draft.keep(
        "taken_device",
        f"SELECT row, string_agg(more, ', ') AS more FROM ({every}) WHERE more <> '' AND {{part}} GROUP BY row",
        parts,
    )
    of_host = draft.keep("taken_host", _STRAYED.format(side="NOT x.device"))
    edges = count(draft, "SELECT count(*) FROM edge_raw")
    if "arg" in draft.ready:
        draft.ready["arg"].few = not many and of_host + edges < _MANY
        changed = f"{_given_back('host')} WHERE t.row IS NOT NULL OR r.row IN (SELECT row FROM edge_raw)"
        changed = f"{changed} UNION ALL {_ONLY_BACK.format(side='host')}"
        unpaired = "ANTI JOIN unpaired ON unpaired.row = span_id" if edges else ""
        return device, f"(FROM ({changed}) {unpaired}) UNION ALL ({_whole_back('device')})"
    host = "SELECT row AS span_id, rest AS args FROM host_rest_raw"
    if of_host:
        host = _whole_back("host")
    if edges:
        host = f"FROM ({host}) ANTI JOIN unpaired ON unpaired.row = span_id"
    return device + of_host, f"({host}) UNION ALL ({_whole_back('device')})"


#: What was given back to spans that have no other arguments.
_ONLY_BACK = "SELECT row, '{{' || more || '}}' FROM taken_{side} ANTI JOIN {side}_rest_raw USING (row)"


def _whole_back(side: str) -> str:
    return f"{_given_back(side)} UNION ALL {_ONLY_BACK.format(side=side)}"


def _given_back(side: str) -> str:
    return f"""SELECT r.row AS span_id, CASE WHEN t.row IS NULL THEN r.rest
            ELSE rtrim(left(r.rest, length(r.rest) - 1)) || ', ' || t.more || '}}' END AS args
        FROM {side}_rest_raw r LEFT JOIN taken_{side} t ON t.row = r.row"""

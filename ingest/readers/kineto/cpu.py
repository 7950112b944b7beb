"""A job that ran on the CPU: what its threads computed becomes work of a device, on a track for each thread.

The profiler records no device there, and operators run where they are called. An operator that no other encloses is a
task, as a kernel is of a GPU; it is its own launch. Gloo runs collectives on threads of its own: those are tasks too.
Old releases list no devices, not even none. There operators of oneDNN and its like, or sends and receives of Gloo, have
to say that it was a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npulens.ingest.readers.kineto import head
from npulens.ingest.readers.kineto.lanes import CATEGORY, NAME
from npulens.ingest.readers.kineto.raw import count
from npulens.ingest.readers.kineto.spans import Spans
from npulens.ingest.tables import comm_facts
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.sqltext import literal

#: Categories of a file that recorded the host alone and no call of a device's driver.
_HOST_ONLY = ("cpu_op", "operator", "user_annotation", "python_function", "cpu_instant_event", "trace", "overhead", "")

#: Operators and collectives of a library, and words in them that only a job with another device has.
_LIBRARY = r"^[A-Za-z_]\w*::?\w"
_ELSEWHERE = (
    "(?i)(^|[^a-z])_?(cuda|cudnn|cublas|nccl|hip|rocm|miopen|npu|hccl|lccl|mtia|xpu|mps|hpu|xla|tpu|musa|mlu)"
    "($|[^a-z])|pin_memory|record_stream"
    "|^aten::linear_backward$"  # of Apple's MPS and the like: on a CPU the products of a linear layer are operators
)

#: Operators of a library that computes on CPUs alone. A file that does not even list devices needs them: of most of
#: its time.
_OF_A_CPU = "(?i)(^|[^a-z])_?(mkldnn|onednn|mkl|nnpack|xnnpack|qnnpack)($|[^a-z])"
_PROOF = f"""SELECT coalesce(sum(e.dur) FILTER (WHERE regexp_matches(n.name, {literal(_OF_A_CPU)}))
    >= 0.5 * (max(e.ts + e.dur) - min(e.ts)), false)::INT
    FROM span_raw e JOIN host_name n USING (shape) WHERE n.cat IN ('cpu_op', 'operator')"""

#: With memory recorded, operators that allocate on the host alone make their results there: allocators of a GPU tell of
#: each block, too. Beside a GPU it proves a CPU where it is so for most of the operators' time.
_PROOF_OF_MEMORY = """
WITH host AS (
    SELECT e.row, e.lane, e.ts, e.ts + e.dur AS til FROM span_raw e JOIN host_name n USING (shape)
    WHERE n.cat IN ('cpu_op', 'operator') AND e.dur > 0
), outermost AS (
    SELECT *, coalesce(ts >= max(til) OVER (PARTITION BY lane ORDER BY ts, til DESC, row
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS opens FROM host
), taken AS (
    SELECT DISTINCT ts FROM memory_raw WHERE bytes > 0 AND device_type = 0
), made AS (
    SELECT o.til - o.ts AS dur, coalesce(t.ts <= o.til, false) AS allocates
    FROM (FROM outermost WHERE opens) o ASOF LEFT JOIN taken t ON o.ts <= t.ts
)
SELECT coalesce(2 * sum(dur) FILTER (WHERE allocates) >= sum(dur), false)::INT FROM made
"""

#: Sends and receives of Gloo have only tensors of the host. They prove a CPU where they fill most of a file whose job
#: communicates by Gloo, and where nothing was converted, as what comes from another device would be.
_SENT = r"^gloo:(send|recv)$"
_CONVERTED = ("aten::to", "aten::_to_copy", "aten::_local_scalar_dense")
_PROOF_OF_GLOO = f"""
WITH host AS (
    SELECT e.ts, e.ts + e.dur AS til, n.name FROM span_raw e JOIN host_name n USING (shape)
    WHERE n.cat IN ('cpu_op', 'operator', 'user_annotation')
), sent AS (
    SELECT ts, til, max(til) OVER (
        ORDER BY ts, til ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM host WHERE regexp_matches(name, {literal(_SENT)})
)
SELECT (coalesce((SELECT sum(greatest(til - greatest(ts, coalesce(before, ts)), 0)) FROM sent), 0)
        >= 0.5 * (SELECT max(til) - min(ts) FROM host)
    AND EXISTS (FROM sent) AND NOT EXISTS (FROM host WHERE name IN {_CONVERTED}))::INT
"""

#: What computes: an operator with a namespace, but for marks of autograd, torch.distributed and the profiler. Also what
#: the compiler made of a graph.
_OPERATOR = r"^[A-Za-z_]\w*::"
_MARK = "^(autograd|torch|profiler)::"
_COMPILED = "^## Call CompiledFxGraph "

#: Operators of aten that make a view, ask or allocate; a copy within one of them is a task of its own.
_MOVE_NOTHING = (
    r"^aten::(alias|as_strided|as_strided_|broadcast_to|chunk|contiguous|data|detach|detach_|diagonal|empty|"
    r"empty_like|empty_permuted|empty_strided|expand|expand_as|flatten|is_nonzero|item|lift_fresh|_local_scalar_dense|"
    r"movedim|narrow|new_empty|new_empty_strided|permute|promote_types|ravel|real|_reshape_alias|reshape|reshape_as|"
    r"resize_|resolve_conj|resolve_neg|result_type|select|set_|size|slice|split|split_with_sizes|squeeze|squeeze_|t|"
    r"t_|tensor_split|to|_to_copy|transpose|transpose_|type_as|unbind|unflatten|unfold|_unsafe_view|unsqueeze|"
    r"unsqueeze_|view|view_as|view_as_complex|view_as_real)$"
)

#: Operators within these are work of the host: the time is the loader's or the compiler's.
_HOST_WORK = r"^enumerate\(DataLoader\)|^entire_(frame|backward)_compile$|^_compile\.compile_inner \(dynamo_timed\)$"
_GLOO = "^gloo:"

_NAMED = f"""
CREATE TABLE host_name AS SELECT shape, n.text AS name, lower(c.text) AS cat
FROM (SELECT DISTINCT shape FROM span_raw) JOIN category_raw k ON k.number = {CATEGORY}
    JOIN strings c ON c.code = k.code JOIN strings n ON n.code = {NAME}
"""
#: Calls of a driver that only ask what there is, or wait for a device that was given nothing.
_ASKS = (
    "^(cuda|hip|cu)(Get|DeviceGet|DriverGet|RuntimeGet|CtxGet|PointerGet|Occupancy|PeekAtLastError$|Init$|"
    "StreamIsCapturing|DeviceSynchronize$|DeviceCanAccessPeer$)"
)
_FOREIGN = f"""SELECT count(*) FROM host_name WHERE cat NOT IN ({", ".join(map(literal, _HOST_ONLY))})
        AND NOT (cat IN ('cuda_runtime', 'cuda_driver') AND regexp_matches(name, {literal(_ASKS)}))
    OR cat <> 'python_function' AND regexp_matches(name, {literal(_LIBRARY)})
        AND regexp_matches(name, {literal(_ELSEWHERE)})"""
_ASKED = "SELECT count(*) FROM host_name WHERE cat IN ('cuda_runtime', 'cuda_driver')"
#: c10::DeviceType 0 is the host.
_FOREIGN_MEMORY = "SELECT count(*) FROM memory_raw WHERE device_type <> 0"

#: A matrix product at more than 400 TFLOP/s was only launched here, and computed elsewhere.
_FLOP_A_NS = 400_000
_TOO_FAST = f"""
WITH product AS (
    SELECT e.dur, try_cast(CASE n.name WHEN 'aten::addmm' THEN json_extract(h.shapes, '$[1]')
            ELSE json_extract(h.shapes, '$[0]') END AS DOUBLE[]) AS a,
        try_cast(CASE n.name WHEN 'aten::addmm' THEN json_extract(h.shapes, '$[2]')
            ELSE json_extract(h.shapes, '$[1]') END AS DOUBLE[]) AS b
    FROM host_text h JOIN span_raw e ON e.row = h.row JOIN host_name n ON n.shape = e.shape
    WHERE n.name IN ('aten::mm', 'aten::bmm', 'aten::addmm') AND json_valid(h.shapes)
)
SELECT count(*) FROM product WHERE len(a) >= 2 AND len(b) = len(a)
    AND 2 * list_product(a) * b[len(b)] > {_FLOP_A_NS} * greatest(dur, 1)
"""

#: What no other of them encloses on its thread, as events of the device's side. A shape and a lane have a twin there.
_TASKS = f"""
WITH role AS (
    SELECT shape, CASE
        WHEN cat IN ('cpu_op', 'operator', 'user_annotation') AND regexp_matches(name, {literal(_GLOO)}) THEN 'comm'
        WHEN cat = 'user_annotation' THEN CASE
            WHEN regexp_matches(name, {literal(_HOST_WORK)}) THEN 'host'
            WHEN regexp_matches(name, {literal(_COMPILED)}) THEN 'work' END
        WHEN cat NOT IN ('cpu_op', 'operator') THEN NULL
        WHEN regexp_matches(name, {literal(_HOST_WORK)}) THEN 'host'
        WHEN {{launches}} THEN NULL
        WHEN regexp_matches(name, {literal(_OPERATOR)}) AND NOT regexp_matches(name, {literal(_MARK)})
            AND NOT regexp_matches(name, {literal(_MOVE_NOTHING)}) THEN 'work' END AS role
    FROM host_name
), opening AS (
    SELECT e.row, e.ts, e.dur, e.shape, e.lane, r.role, coalesce(e.ts >= max(e.ts + e.dur) OVER before, true) AS opens
    FROM span_raw e JOIN role r USING (shape) WHERE r.role IS NOT NULL AND e.dur > 0
    WINDOW before AS (
        PARTITION BY e.lane ORDER BY e.ts, e.dur DESC, e.row ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT (SELECT max(row) FROM span_raw) + row_number() OVER (ORDER BY row) AS row, ts, dur, shape + 1 AS shape,
    lane + 1 AS lane, row AS source, shape AS called
FROM opening WHERE opens AND role <> 'host'
"""
#: Gloo takes collectives of one kind in the order of their calls.
_CALLED = r"""
WITH told AS (
    SELECT e.row, e.ts, e.shape, false AS ran, regexp_extract(name, '^c10d::(\w+)$', 1) AS word
    FROM span_raw e JOIN host_name USING (shape) WHERE name LIKE 'c10d::%'
    UNION ALL SELECT t.row, t.ts, t.called, true, regexp_extract(name, '^gloo:(\w+)$', 1)
    FROM cpu_task t JOIN host_name n ON n.shape = t.called WHERE name LIKE 'gloo:%'
), worded AS (
    SELECT * REPLACE (replace(word, '_', '') AS word) FROM told
), counted AS (
    SELECT *, row_number() OVER (PARTITION BY word, ran ORDER BY ts, row) AS nth,
        count(*) OVER (PARTITION BY word, ran) AS n FROM worded
), pair AS (
    SELECT c.row AS src, r.row AS dst, c.shape AS call, word, r.ts - c.ts AS late
    FROM counted c JOIN counted r USING (word, nth, n) WHERE NOT c.ran AND r.ran
)
SELECT src, dst, call, 'order' AS route, late FROM pair QUALIFY min(late) OVER (PARTITION BY word) >= 0
"""
_OF_OPERATOR = "SELECT row, source AS op FROM task JOIN cpu_task USING (row) WHERE kind = 'kernel'"
#: Old releases record no call of a send or a receive: it is on the thread that called it, and its own launch.
_ITSELF = f"""SELECT c.source AS src, c.row AS dst, c.called AS call, 'itself' AS route, 0::BIGINT AS late
    FROM task t JOIN cpu_task c USING (row) WHERE t.kind = 'kernel'
    OR regexp_matches(t.text, {literal(_SENT)}) AND NOT EXISTS (FROM host_name WHERE name LIKE 'c10d::%')"""
#: Their lanes hold spans now.
_LANES = """(SELECT r.* REPLACE (coalesce(t.spans, r.spans) AS spans, coalesce(t.first_row, r.first_row) AS first_row)
    FROM {lane_raw} r LEFT JOIN (SELECT lane, count(*) AS spans, min(row) AS first_row FROM cpu_task GROUP BY lane) t
    USING (lane))"""

#: What an operator of Gloo says of its tensors. All are of one type, and what it moves except where others' parts come
#: in. A send and a receive are called with their peer. A job with one group has no other to mean.
_SAID = """
WITH tensor AS (
    SELECT t.row, unnest(json_extract(h.shapes, '$[*]')) AS dims, lower(json_extract_string(h.dtypes, '$[0]')) AS dtype
    FROM cpu_task t JOIN host_text h ON h.row = t.source WHERE json_valid(h.shapes) AND json_valid(h.dtypes)
), said AS (
    SELECT row, any_value(replace(dtype, 'c10::', '')) AS dtype,
        try_cast(sum(list_product(try_cast(dims AS BIGINT[]))) AS BIGINT) AS elements FROM tensor GROUP BY row
)
SELECT t.row, {team} AS team, s.dtype, s.elements,
    t.text NOT IN ('gloo:send', 'gloo:recv', 'gloo:broadcast') AS by_shape,
    CASE WHEN t.text IN ('gloo:send', 'gloo:recv')
        THEN try_cast(json_extract_string(r.rest, '$."Concrete Inputs"[2]') AS INTEGER) END AS peer
FROM task t LEFT JOIN said s USING (row) LEFT JOIN linked_1 l ON l.dst = t.row
    LEFT JOIN host_rest_raw r ON r.row = l.src
WHERE t.kind = 'comm_op'
"""


def tasks(draft: Draft, header: Mapping[str, Any], spans: Spans | None) -> int:
    """Make ``cpu_task``, the device's side of a job that ran on a CPU.

    Returns the number of its rows: 0 of any other job.
    """
    listed = header.get("deviceProperties")
    if spans is not None:
        spans.whole(draft)
    draft.make(_NAMED)
    foreign = any(count(draft, of) for of in (_FOREIGN, _FOREIGN_MEMORY, _TOO_FAST))
    if foreign or listed != [] and not _proved(draft, header):
        return 0
    made = draft.keep("cpu_task", _TASKS.format(launches=comm_facts.facts().launches("name")))
    mine = "SELECT row, ts, shape, lane FROM cpu_task"
    draft.show("device_raw", f"(FROM {draft.raw['device_raw']} UNION ALL BY NAME {mine})")
    draft.show("lane_raw", _LANES.format(lane_raw=draft.raw["lane_raw"]))
    return made


def _proved(draft: Draft, header: Mapping[str, Any]) -> bool:
    """Whether only CPUs run or send most of a file, or its calls of a driver launch nothing.

    Or whether most of its results lie on the host.

    It lists no devices at all, as old releases do, or a GPU that the job did not use.
    """
    job = header.get("distributedInfo")
    by_gloo = isinstance(job, Mapping) and job.get("backend") == "gloo"
    if count(draft, _PROOF) > 0 or count(draft, _ASKED) > 0 or by_gloo and count(draft, _PROOF_OF_GLOO) > 0:
        return True
    return bool(header.get("deviceProperties")) and count(draft, _PROOF_OF_MEMORY) > 0


def link(draft: Draft) -> None:
    """Make ``linked`` and ``of_operator`` of these tasks."""
    draft.keep("of_operator", _OF_OPERATOR)
    draft.keep("linked_1", f"({_ITSELF}) UNION ALL ({_CALLED})")


def said(draft: Draft, header: Mapping[str, Any]) -> None:
    """Make ``operator_said`` of its collectives."""
    groups = head.groups(header["distributedInfo"]) if isinstance(header.get("distributedInfo"), Mapping) else []
    only = literal(str(groups[0]["pg_name"])) if len(groups) == 1 else "NULL"
    draft.keep("operator_said", _SAID.format(team=f"{only}::VARCHAR"))

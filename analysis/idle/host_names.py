"""What a host span does, by its name: synchronise, allocate, compile, collect garbage, load data, profile.

Names come from torch, torch_npu, CANN, CUDA and ROCm as their profilers print them. A prefix such as 'AscendCL@' tells
the layer and nothing else. What no pattern knows is ordinary host work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: The names that spans of each kind have, once for each: patterns are matched against these, not against every span.
NAMES = "span_name"

HOST_KINDS = (
    "cpu_op", "python", "annotation", "step_mark", "runtime", "enqueue", "dequeue", "gc", "host_other",
)  # fmt: skip

#: A layer's prefix.
LAYER = r"^(?:\w+@)?"

_COMPILE_CALLS = (
    r"opCompile|aclopCompile(?:AndExecute(?:V2)?)?|aclGenGraphAndDumpForOp|aclopUpdateParams|BuildGraph|CompileGraph|"
    r"cu(?:ModuleLoad|LibraryLoad|Link)\w*|nvrtcCompileProgram|hipModuleLoad\w*|hiprtcCompileProgram"
)
#: Functions that compile. The same files hold the wrappers that run finished code (`run`, `__call__`, `call`,
#: `copy_misaligned_inputs`, `__getattribute__`). Those are on the path of every compiled call and compile nothing.
_COMPILE_FRAMES = (
    r"torch/_dynamo/convert_frame\.py\(\d+\): (?:_?compile\w*|__call__)|"
    r"torch/_inductor/compile_fx\.py\(\d+\): \w*(?:compile|codegen|partition|freez)\w*|"
    r"torch/_inductor/codecache\.py\(\d+\): \w*(?:load|compile|write|lookup|save|build)\w*|"
    r"torch/_inductor/async_compile\.py\(\d+\): \w+|"
    r"torch/_inductor/(?:graph|scheduler|lowering|codegen/\w+)\.py\(\d+\): \w+|"
    r"torch/_inductor/runtime/\w+\.py\(\d+\): (?:precompile|autotune\w*|benchmark\w*)|"
    r"triton/compiler/(?:code_generator|semantic|make_launcher)\.py\(\d+\): \w+|"
    r"triton/compiler/compiler\.py\(\d+\): (?:compile|parse\w*|make_\w+|\w+_to_\w+|_init_handles)|"
    r"triton/runtime/(?:autotuner\.py\(\d+\): (?:_bench|benchmark)|jit\.py\(\d+\): _do_compile)|"
    r"tilelang/\S*\.py\(\d+\): (?:jit_)?compile(?:_\w+|r_?\w*)?|"
    r"torchair/\S*\.py\(\d+\): _?compile(?:_\w+|r_?\w*)?"
)
#: torch.compile's own marks, which are there without Python frames.
_COMPILE_MARKS = r"_compile\.compile_inner \(dynamo_timed\)|entire_backward_compile"
ALLOC_CALLS = (
    r"aclrt(?:Malloc|Free|MapMem|UnmapMem|ReserveMem|ReleaseMem)\w*|(?:rt|Dev|Host)(?:Malloc|Free)\w*|"
    r"MemAlloc\w*|MemFree\w*|(?:cuda|hip)(?:Malloc|Free|Host(?:Alloc|Malloc|Free))\w*|"
    r"(?:cu|hip)Mem(?:Create|Map|Unmap|Release|SetAccess|Address\w+|Alloc\w*|Free\w*)(?:_v2)?"
)
#: Those of them that give memory back.
FREE_CALLS = (
    r"aclrt(?:Free|UnmapMem|ReleaseMem)\w*|(?:rt|Dev|Host)Free\w*|MemFree\w*|(?:cuda|hip)(?:Free|HostFree)\w*|"
    r"(?:cu|hip)Mem(?:Unmap|Release|AddressFree|Free\w*)(?:_v2)?"
)
#: Memory of the host that the device can reach.
PINNED_CALLS = r"(?:cuda|hip)(?:HostAlloc|MallocHost|HostMalloc)\w*|cuMem(?:AllocHost|HostAlloc)\w*|aclrtMallocHost\w*"
PINNED_FREES = r"cudaFreeHost|hipHostFree|hipFreeHost|cuMemFreeHost|aclrtFreeHost\w*"
#: What CUPTI records of code that is loaded onto the device when it is first called, on no thread.
LOADING = ("Runtime Triggered Module Loading", "Lazy Function Loading")
_SYNC_CALLS = (
    r"(?:aclrt|cuda|hip|cu|Runtime)?(?:Ctx|Context|Stream|Device|Event)Synchronize(?:WithTimeout)?|"
    r"aclrtSynchronize(?:Device|Stream|Event)\w*|synchronizeStream|aclrtMemcpy|MemCopySync|"
    r"(?:cuda|hip)Memcpy(?:2D|3D|Peer|ToSymbol|FromSymbol)?|hipMemcpyWithStream|cuMemcpy(?:[HD]to[HD])?(?:_v2)?"
)
_PROFILER_FRAMES = (
    r"torch(?:_npu)?/profiler/profiler\.py\(\d+\): (?:step|start|stop|_transit_action|\w*_trace\w*)|"
    r"torch/autograd/profiler\.py\(\d+\): \w+|torch_npu/profiler/\S+\.py\(\d+\): \w+"
)

#: cause -> pattern of the names (RE2); in the order of who owns a moment that several claim.
PATTERNS: dict[str, str] = {
    "gc": r"^<built-in function collect>$",
    "compile": rf"{LAYER}(?:{_COMPILE_CALLS})$|^(?:{_COMPILE_MARKS})$|(?:^|/)(?:{_COMPILE_FRAMES})$|"
    r"^Driver Compiler$",
    "memory_alloc": rf"{LAYER}(?:{ALLOC_CALLS})$|(?:^|/)torch(?:_npu)?/(?:npu|cuda)/memory\.py\(\d+\): empty_cache$",
    "profiler_overhead": rf"^(?:Activity Buffer Request|Buffer Flush|Instrumentation|Command Buffer Full|Resource)$|"
    rf"{LAYER}(?:aclprof|Msprof|cupti|roctracer)\w*$|(?:^|/)(?:{_PROFILER_FRAMES})$",
    "sync_stall": rf"{LAYER}(?:{_SYNC_CALLS})$",
    "dataloader": r"DataLoader\w*#?\S*\.__next__$|"
    r"(?:^|/)torch/utils/data/dataloader\.py\(\d+\): (?:__next__|__iter__|_get_iterator|_shutdown_workers|__del__)$|"
    r"(?:^|/)mindspore/dataset/\S+\.py\(\d+\): __next__$",
}



def owners(cause: str) -> tuple[str, ...]:
    """The causes that own a moment which this one claims as well."""
    return tuple(PATTERNS)[: tuple(PATTERNS).index(cause)]


#: Operators of the framework that end in a synchronising call, for ranks whose runtime calls were not recorded. On a
#: CPU there is nothing that they could wait for.
SYNC_OPS = r"^aten::(?:_local_scalar_dense|nonzero)$"

#: These stop the whole process (garbage) or run beside its threads (the profiler's own lanes).
ANY_THREAD = ("gc", "profiler_overhead")


@dataclass(frozen=True)
class Special:
    """Host spans of one rank that do something of their own, by start."""

    ids: Ints
    tracks: Ints
    starts: Ints
    ends: Ints
    causes: NDArray[np.str_]

    def of(self, cause: str) -> NDArray[np.bool_]:
        return np.asarray(self.causes == cause)


#: Ranks whose device is the CPU: their tasks are operators themselves.
ON_CPU = """SELECT DISTINCT s.rank FROM link l JOIN span s ON s.span_id = l.dst_span_id WHERE l.route = 'itself'"""
#: Operators there, as against what ranges of the job are called.
OPERATORS = r"^[A-Za-z_]\w*::"

#: A copy call this long that ends after its copy has waited for it. A shorter one may only have been as slow as it.
_BLOCKING_NS = 40_000

_SPECIAL = """
    WITH named AS (
        SELECT kind, name, CASE WHEN kind = 'gc' THEN 'gc' {cases}
            WHEN kind = 'cpu_op' AND regexp_matches(name, '{sync_ops}') THEN 'sync_op' END AS cause
        FROM {names} WHERE list_contains(?, kind)
    ), traced AS (
        SELECT DISTINCT rank FROM span WHERE kind = 'runtime' UNION {on_cpu}
    ), blocking AS (
        SELECT DISTINCT h.span_id FROM link l JOIN span c ON c.span_id = l.dst_span_id AND c.kind = 'memcpy'
        JOIN span h ON h.span_id = l.src_span_id AND h.kind IN ('runtime', 'cpu_op')
        WHERE l.route <> 'fwdbwd' AND h.dur_ns >= {blocking_ns} AND h.ts_ns + h.dur_ns >= c.ts_ns + c.dur_ns
            AND (h.kind = 'runtime' OR h.rank NOT IN (FROM traced))
    ), found AS (
        SELECT s.rank, s.span_id, s.track, s.ts_ns, s.dur_ns, n.cause
        FROM span s JOIN named n ON n.kind = s.kind AND n.name = s.name AND n.cause IS NOT NULL
        UNION ALL
        SELECT s.rank, s.span_id, s.track, s.ts_ns, s.dur_ns, 'sync_stall' AS cause
        FROM blocking JOIN span s USING (span_id)
        WHERE NOT EXISTS (FROM named n WHERE n.kind = s.kind AND n.name = s.name AND n.cause IS NOT NULL)
    )
    SELECT rank, span_id, track, ts_ns, ts_ns + dur_ns AS end_ns, replace(cause, 'sync_op', 'sync_stall') AS cause
    FROM found WHERE cause <> 'sync_op' OR rank NOT IN (FROM traced) ORDER BY rank, ts_ns, dur_ns DESC
"""

#: Calls that compile an operator and then launch it. A launch takes microseconds, and the whole call is the slow way to
#: launch. A launch that takes milliseconds loads something first: that is none of compiling.
_BOTH = rf"{LAYER}aclopCompileAndExecute(?:V2)?$"
_LOADS_NS = 1_000_000
_LAUNCHED = f"""
    SELECT c.span_id, max(h.ts_ns) AS at_ns FROM span c
    JOIN span h ON h.track = c.track AND h.ts_ns >= c.ts_ns AND h.ts_ns < c.ts_ns + c.dur_ns
    WHERE c.kind = 'runtime' AND h.kind = 'runtime' AND h.span_id <> c.span_id
        AND c.name IN (SELECT name FROM {NAMES} WHERE kind = 'runtime' AND regexp_matches(name, '{_BOTH}'))
        AND h.dur_ns >= {_LOADS_NS} AND h.span_id IN (SELECT src_span_id FROM link WHERE route <> 'fwdbwd')
    GROUP BY c.span_id ORDER BY c.span_id
"""


def names(run: Run) -> str:
    """Makes the table of names and says what it is called."""
    run.con.execute(f"CREATE OR REPLACE TEMP TABLE {NAMES} AS SELECT DISTINCT kind, name FROM span")
    return NAMES


def span_kinds(run: Run) -> frozenset[str]:
    """The kinds of spans that there are: a statement about others need not be asked."""
    return frozenset(kind for (kind,) in run.con.execute(f"SELECT DISTINCT kind FROM {run.get(names)}").fetchall())


def special(run: Run) -> dict[int, Special]:
    """rank -> all host spans but ordinary work."""
    cases = " ".join(f"WHEN regexp_matches(name, '{pattern}') THEN '{cause}'" for cause, pattern in PATTERNS.items())
    sql = _SPECIAL.format(cases=cases, sync_ops=SYNC_OPS, blocking_ns=_BLOCKING_NS, names=run.get(names),
                          on_cpu=ON_CPU)  # fmt: skip
    columns = run.columns(sql, [list(HOST_KINDS)])
    columns["end_ns"] = _until_launched(run, columns["span_id"], columns["end_ns"])
    ranks, first = np.unique(columns["rank"], return_index=True)
    last = np.append(first, len(columns["rank"]))[1:]
    return {
        int(rank): Special(
            columns["span_id"][a:b].astype(np.int64), columns["track"][a:b].astype(np.int64),
            columns["ts_ns"][a:b].astype(np.int64), columns["end_ns"][a:b].astype(np.int64),
            columns["cause"][a:b].astype(np.str_),
        )
        for rank, a, b in zip(ranks, first, last, strict=True)
    }  # fmt: skip


def _until_launched(run: Run, ids: Ints, ends: Ints) -> Ints:
    """The ends of spans; of calls that compile and launch where a long launch begins."""
    both = f"SELECT count(*) FROM {run.get(names)} WHERE kind = 'runtime' AND regexp_matches(name, '{_BOTH}')"
    if run.con.execute(both).fetchall() == [(0,)]:
        return ends
    found = run.columns(_LAUNCHED)
    begun = dict(zip(found["span_id"].tolist(), found["at_ns"].tolist(), strict=True))
    return np.array([begun.get(span, end) for span, end in zip(ids.tolist(), ends.tolist(), strict=True)], np.int64)

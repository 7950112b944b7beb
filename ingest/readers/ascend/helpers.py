"""Streams on which communication operators do a part of their work, told by what runs on them.

HCCL works on several streams and the profiler names the operator on the first only. Tasks of the others have no launch
and no operator, and old versions call all of them Other. Such a stream is told by evidence. None of its tasks computes
or has a launch. It holds tasks that only communication has, or none that says what it is. Its tasks begin while
operators of one group run.
"""

from __future__ import annotations

import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.sqltext import whens

#: A stream belongs to communication if at least so many of its tasks begin while operators of one group run.
HELPS = 0.95
NAMELESS = "^((other|unknown|invalid|n/?a) ?)*$"
ONLY_COMM = "(^| )(NOTIFY|REDUCE_?(ASYNC|INLINE)|RDMA|WRITE_?VALUE)"


#: Entry points by which operators schedule themselves on the AI CPU: they hand out work and poll, and compute nothing.
#: The last kind drives the transfers of a kernel that computes and communicates (MatmulAllReduceAicpu).
SCHEDULES = r"TileFwkBackendKernel|AicpuKernel$|(AllReduce|AllGather|ReduceScatter|All[tT]oAll)\w*Aicpu$"


#: The core of a kernel by the type that CANN gives its task, where nothing else says it (Level0).
CORES = {
    "KERNEL_AICORE": "AI_CORE", "KERNEL_AIVEC": "AI_VECTOR_CORE", "KERNEL_AICPU": "AI_CPU",
    "KERNEL_MIX_AIC": "MIX_AIC", "KERNEL_MIX_AIV": "MIX_AIV",
}  # fmt: skip


def core(task_type: str) -> str:
    """SQL: the core that a task's type means; any other type as it stands."""
    return f"CASE {task_type} {whens(CORES)} ELSE {task_type} END"


def cores(types: pa.Array) -> pa.Array:
    """The same of the texts of a column."""
    return pa.array([CORES.get(one, one) for one in types.to_pylist()], pa.string())


def schedules(name: str, core: str) -> str:
    """SQL: whether a task of the AI CPU only schedules an operator of the AI cores."""
    by_name = f"regexp_matches(coalesce({name}, ''), '{SCHEDULES}')"
    return f"(regexp_matches(coalesce({core}, ''), 'AI_?CPU', 'i') AND {by_name})"


def nameless(text: str) -> str:
    """SQL: whether a name or a type says nothing of what its task does."""
    return f"regexp_matches(coalesce({text}, ''), '{NAMELESS}', 'i')"


def said(*texts: str) -> str:
    """SQL: the first text that says what a task does; NULL if none does."""
    return f"CASE {' '.join(f'WHEN NOT {nameless(text)} THEN {text}' for text in texts)} END"


def find(draft: Draft, tasks: str, operators: str) -> None:
    """Make the view ``helped``: the tasks of such streams, and the operator that each lies in.

    ``tasks`` gives row, stream, ts, till, says (type and name) and own. The last holds for tasks that compute, have a
    launch or belong to an operator. ``operators`` gives row, ts, till and named (the group, never NULL). A wait for the
    next operator lies within none: its operator is not known.
    """
    draft.keep(
        "quiet",
        f"""WITH task AS ({tasks})
        SELECT row, stream, ts, till FROM task WHERE stream IN (SELECT stream FROM task GROUP BY stream
            HAVING NOT bool_or(own)
            AND (bool_or(regexp_matches(says, '{ONLY_COMM}', 'i')) OR bool_and({nameless("says")})))""",
    )
    draft.keep(
        "helped",
        f"""WITH operator AS ({operators}), of_group AS (
            SELECT q.stream, mode(o.named) AS named FROM quiet q ASOF JOIN operator o ON q.ts >= o.ts
            WHERE q.ts <= o.till GROUP BY q.stream
        ), begun AS (
            SELECT q.row, q.stream, coalesce(q.ts <= o.till, false) AS inside,
                CASE WHEN q.till <= o.till THEN o.row END AS op
            FROM (SELECT * FROM quiet JOIN of_group USING (stream)) q
            ASOF LEFT JOIN operator o ON o.named = q.named AND q.ts >= o.ts
        )
        SELECT row, op FROM begun QUALIFY avg(inside::INTEGER) OVER (PARTITION BY stream) >= {HELPS}""",
    )
    if found := count(draft, "SELECT count(*) FROM helped"):
        draft.note("comm", Message("tasks_that_nothing_launches_run", {"n": found}))

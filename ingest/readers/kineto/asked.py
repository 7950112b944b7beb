"""What is asked of the events of a trace to tell its backend, its groups and what it lacks."""

from __future__ import annotations

from typing import Protocol

from npulens.ingest.readers.kineto import npu
from npulens.ingest.readers.kineto.raw import count
from npulens.ingest.tables.draft import Draft, union

_NPU_LABELS = (
    "SELECT count(*) FROM meta JOIN lane ON meta.pid = lane.pid_text WHERE label LIKE 'NPU%' AND lane.spans > 0"
)
_HIP_CALLS = "SELECT count(*) FROM sort WHERE kind = 'runtime' AND text LIKE 'hip%'"
_CANN_CALLS = f"SELECT count(*) FROM sort WHERE kind = 'runtime' AND regexp_matches(text, '{npu.CALLS}')"
_HCCL = f"SELECT count(*) FROM sort WHERE kind = 'comm_op' AND regexp_matches(text, '{npu.HCCL}')"
_MOST_USED = "SELECT device_id FROM device_raw WHERE device_id >= 0 GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1"
_BUSIEST = """SELECT pid_text FROM lane WHERE NOT device AND NOT profiler
    GROUP BY pid_text ORDER BY sum(spans) DESC, pid_text LIMIT 1"""
_GROUPS_SAID = """SELECT DISTINCT json_extract_string(r.rest, '$."Process Group Name"') AS group_name,
    json_extract_string(r.rest, '$."Process Group Description"') AS description,
    json_extract_string(r.rest, '$."Process Group Ranks"') AS ranks
    FROM task t JOIN device_rest_raw r ON r.row = t.row WHERE t.kind = 'comm_op'"""
_SUSPECTED = "SELECT count(*) FROM sort WHERE kind = 'unknown'"
_SIZED = "SELECT count(*) FROM ({}) WHERE bytes IS NOT NULL AND group_name IS NOT NULL"

#: Kinds of spans that are work of the device. Without any nothing is known of it, whatever waits for it.
WORK = ("kernel", "memset", "memcpy", "comm_op", "unknown")
#: Names of calls that begin the capture of a graph, of CUDA, ROCm and CANN.
CAPTURE = r"^((cuda|hip|cu)StreamBeginCapture\w*|aclmdlRICaptureBegin)$"
_CAPTURES = f"""SELECT count(*) FROM marked JOIN sort s USING (shape) WHERE s.kind = 'runtime'
    AND regexp_matches(s.text, '{CAPTURE}')"""


#: Calls that launch kernels or graphs, of CUDA and ROCm. PyTorch records them with the host's activities too.
LAUNCH = r"^(cuda|cu|hip)(Graph|Ext|Module|Cooperative)*Launch"
_LAUNCHING = f"SELECT max(text) FROM sort WHERE kind = 'runtime' AND regexp_matches(text, '{LAUNCH}')"


class Asked(Protocol):
    """Answers, by statements or by arrays."""

    def cats(self) -> set[str]:
        """Categories of events, in small letters."""

    def is_npu(self) -> bool:
        """Whether a label, a call or a collective is Ascend's."""

    def is_hip(self) -> bool:
        """Whether calls are ROCm's."""

    def most_used(self) -> object:
        """The device that most of the device's events name."""

    def busiest(self) -> object:
        """The process of the host that has most spans."""

    def groups(self) -> list[tuple[str | None, str | None, str | None]]:
        """Name, description and ranks of groups that communication kernels name."""

    def works(self) -> bool:
        """Whether the device did anything: marks of waits for it are no work."""

    def talks(self) -> bool:
        """Whether device work communicates."""

    def computes(self) -> bool:
        """Whether device work does anything but communicate."""

    def suspected(self) -> int:
        """Kinds of events of which nothing tells whether they communicate."""

    def unknown(self) -> int:
        """Tasks of which nothing tells whether they communicate."""

    def sized(self) -> bool:
        """Whether a collective has both size and group."""

    def captures(self) -> int:
        """How often a graph is captured."""

    def launching(self) -> object:
        """A call that launches device work, if there is one."""

    def ranges(self) -> bool:
        """Whether there are ranges of a hardware profiler."""

    def frames(self) -> bool:
        """Whether there are spans of Python frames."""

    def steps(self) -> bool:
        """Whether a step is marked."""


class InSql:
    """Answers by statements over the views of a draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def cats(self) -> set[str]:
        return {row[0] for row in self._draft.con.execute("SELECT DISTINCT cat FROM sort").fetchall()}

    def is_npu(self) -> bool:
        return any(count(self._draft, of) for of in (_NPU_LABELS, _CANN_CALLS, _HCCL))

    def is_hip(self) -> bool:
        return count(self._draft, _HIP_CALLS) > 0

    def most_used(self) -> object:
        return self._first(_MOST_USED)

    def busiest(self) -> object:
        return self._first(_BUSIEST)

    def groups(self) -> list[tuple[str | None, str | None, str | None]]:
        return self._draft.con.execute(_GROUPS_SAID).fetchall()

    def works(self) -> bool:
        return count(self._draft, f"SELECT count(*) FROM task WHERE kind IN {WORK}") > 0

    def talks(self) -> bool:
        return count(self._draft, "SELECT count(*) FROM task WHERE kind = 'comm_op' OR fused") > 0

    def computes(self) -> bool:
        return count(self._draft, "SELECT count(*) FROM task WHERE kind <> 'comm_op'") > 0

    def suspected(self) -> int:
        return count(self._draft, _SUSPECTED)

    def unknown(self) -> int:
        return count(self._draft, "SELECT count(*) FROM task WHERE kind = 'unknown'")

    def sized(self) -> bool:
        return count(self._draft, _SIZED.format(union(self._draft.selects["comm"]))) > 0

    def captures(self) -> int:
        return count(self._draft, _CAPTURES)

    def launching(self) -> object:
        return self._first(_LAUNCHING)

    def ranges(self) -> bool:
        return count(self._draft, "SELECT count(*) FROM sort WHERE cat = 'cuda_profiler_range'") > 0

    def frames(self) -> bool:
        return count(self._draft, "SELECT count(*) FROM sort WHERE kind = 'python'") > 0

    def steps(self) -> bool:
        return count(self._draft, "SELECT count(*) FROM steps") > 0

    def _first(self, select: str) -> object:
        row = self._draft.con.execute(select).fetchone()
        return row[0] if row else None

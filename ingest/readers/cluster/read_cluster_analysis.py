"""Sums of a whole cluster by msprof-analyze (cluster_analysis_output), and analysis.db where it lies alone.

They give each rank's step times and communication and no spans, so a run made of them has the profiler's own split and
nothing that could be drawn. One analysis is as many claims as it names ranks.
"""

from __future__ import annotations

from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, joined
from npulens.ingest.readers import Claim, Facts
from npulens.ingest.readers.ascend import rankdir
from npulens.ingest.readers.cluster import files
from npulens.ingest.readers.cluster.tables import Tables
from npulens.ingest.readers.sqlite import is_sqlite, side_files
from npulens.ingest.tables.draft import Draft

TITLE = "msprof-analyze cluster sums"

_NO_SPANS = Message("spans_were_not_recorded_here")
_HAVE = ("profiler_step", "summary", "comm_link", "parallel_group")


def sniff(path: Path) -> Claim | tuple[Claim, ...] | None:
    """Any one of the files stands for the analysis, and that for every rank it names."""
    told = files.role(path.name)
    if told is None or not path.is_file():
        return None
    if told == files.ANALYSIS and (rankdir.rank_root(path.parent) or not is_sqlite(path)):
        return None
    found = files.beside(path)
    if set(found) == {files.GROUPS}:  # rank directories have one of this name too
        return None
    lead = next(iter(found.values()))
    read = tuple(sorted({part for file in found.values() for part in (file, *_logs(file))}))
    ranks = files.ranks(found)
    claims = tuple(
        Claim("cluster_analysis", lead / f"rank {rank}", read, Facts(rank, "database" if found.keys() <= {
            files.DATABASE} else "metadata")) for rank in ranks
    )  # fmt: skip
    return claims or Claim("cluster_analysis", lead, read)


def read(claim: Claim, draft: Draft) -> None:
    """Fill a draft with what the analysis says of one rank."""
    found = {told: path for path in claim.files if (told := files.role(path.name))}
    whose = claim.facts.rank
    ranks = files.ranks(found)
    tables = Tables(draft, whose, lowest=whose is None or whose == ranks[0])
    for told, path in found.items():
        tables.read(told, path)
    tables.provide()
    if not any((tables.steps, tables.sums, tables.links)):
        why = [reason for cover in draft.covers.values() for reason in cover.partial]
        raise IngestError("empty", joined(why or [Message("cluster_analysis_without_row_that")]), str(claim.root))
    _tell(draft, tables)


def _logs(path: Path) -> tuple[Path, ...]:
    return side_files(path) if path.suffix == ".db" else ()


def _tell(draft: Draft, tables: Tables) -> None:
    """No spans, no stamps; and the unit that was taken."""
    draft.fact("backend", "npu")
    draft.fact("clock", "none")
    draft.partial(None, joined([Message("only_sums_of_a_cluster_analysis"), _NO_SPANS]))
    for table, cover in draft.covers.items():
        if table not in _HAVE and cover.absent is None:
            draft.absent(table, _NO_SPANS, Message("rank_directories"))
    if tables.steps:
        draft.note("profiler_step", Message("times_are_taken_as_us"))
    else:
        draft.absent("profiler_step", Message("analysis_holds_no_step_times"), "msprof-analyze cluster -m all")
    if not tables.links:
        draft.absent("comm_link", Message("no_communication_matrix_in_analysis"), "msprof-analyze cluster -m all")

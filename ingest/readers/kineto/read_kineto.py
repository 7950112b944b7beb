"""Chrome traces of torch.profiler (Kineto), plain or gzipped, 2020 to 2026.

CUDA, ROCm, MTIA, XPU, CPU, and torch_npu through PrivateUse1 (ingest/readers/kineto/npu.py).

Events are read once, column-wise, into raw tables; what they mean is SQL over those. Stamps are microseconds
with up to three decimals, since 1970 or, from 2024 on, since ``baseTimeNanoseconds``.
"""

from __future__ import annotations

from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.events import Scan, scan
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.kineto import head, merged
from npulens.ingest.readers.kineto.about import about
from npulens.ingest.readers.kineto.columns import COLUMNS
from npulens.ingest.readers.kineto.coverage import cover
from npulens.ingest.readers.kineto.links import link
from npulens.ingest.readers.kineto.raw import count
from npulens.ingest.readers.kineto.series import series
from npulens.ingest.readers.kineto.shape import shape
from npulens.ingest.readers.kineto.spools import Spools
from npulens.ingest.readers.kineto.tables import provide
from npulens.ingest.readers.kineto.witness import witness
from npulens.ingest.tables.draft import Draft, give_back

TITLE = "torch.profiler trace (Kineto)"


def sniff(path: Path) -> Claim | None:
    """A file whose first bytes look like Kineto's."""
    begin = peek.head(path)
    text = begin.lstrip(head.BLANK)
    if not begin or (text and not text.startswith((b"{", b"[", head.GZIP))):
        return None
    first, last = head.peek(path)
    if not head.is_kineto(first):
        return None
    facts = head.facts(path, first, last)
    return Claim("kineto", path, (path,), facts, merged.ranks(path, first, facts))


def read(claim: Claim, draft: Draft) -> None:
    """Fill a draft from one trace file."""
    path = claim.files[0]
    trace, spools = scan(path, COLUMNS), Spools(draft, claim.device)
    done, batch = 0, None
    for batch in trace:
        spools.add(batch)
        draft.advance(trace.file_bytes - done)
        done = trace.file_bytes
    spools.close()
    del batch
    give_back()
    if not spools.rows["span_raw"] + spools.rows["edge_raw"]:
        why = trace.truncated or Message("it_holds_no_events_with")
        raise IngestError("empty", Message("nothing_to_show_in_this", {"reason": why}), str(path))
    shift = _shift(draft, trace, spools.typical_ns)
    rows = spools.rows
    shape(draft, paired=rows["edge_raw"] > 0)
    unlinked = link(draft, flows=rows["flow_raw"] > 0)
    witness(draft)
    series(draft, shift, memory=rows["memory_raw"] > 0, counters=rows["count_raw"] + rows["count_rest_raw"] > 0)
    if claim.device is not None:  # the header is of the first rank alone
        draft.fact("world_size", claim.facts.world_size)
    backend = about(draft, trace.header)
    provide(draft, shift, spools.seen, unlinked, backend)
    cover(draft, spools, backend)
    _losses(draft, trace, spools)


def _shift(draft: Draft, trace: Scan, typical_ns: int | None) -> int:
    """What to add to the file's stamps: nothing if they are wall clock already, else the base time."""
    if typical_ns is None or head.is_unix(typical_ns):
        draft.fact("clock", "unix")
        return 0
    base = trace.header.get("baseTimeNanoseconds")
    shift = base if isinstance(base, int) and not isinstance(base, bool) and abs(base) < 2**62 else 0
    told = head.is_unix(typical_ns + shift)
    draft.fact("clock", "unix" if told else "monotonic")
    return shift if told else 0


def _losses(draft: Draft, trace: Scan, spools: Spools) -> None:
    """Account for everything that was met and is in no table."""
    for reason, times in spools.lost.items():
        draft.drop("span", reason, times)
    if spools.rows["edge_raw"]:
        alone = "SELECT count(*) FROM unpaired ANTI JOIN edge ON edge.end_row = unpaired.row"
        draft.drop("span", Message("begin_or_end_without_its"), count(draft, alone))
    if trace.truncated:
        draft.partial(None, trace.truncated)
        draft.partial("span", trace.truncated)

"""CSV tables of msServiceProfiler: tx_data_df.csv, request.csv, batch.csv, request_status.csv."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving import msservice
from npulens.ingest.readers.serving.found import Found
from npulens.ingest.readers.serving.lines import lines
from npulens.ingest.readers.serving.msservice import LONGEST, Cells
from npulens.ingest.tables.draft import Draft

TITLE = "msServiceProfiler tables"

#: Columns that tell a table.
_TX = frozenset(("message", "domain", "rid", "name", "start_time", "end_time", "event_type"))
_REQUEST = frozenset(("http_rid", "recv_token_size", "reply_token_size", "start_time(ms)"))
_BATCH = frozenset(("name", "res_list", "batch_type", "during_time(ms)"))
_STATUS = frozenset(("time", "metrics"))


def sniff(path: Path) -> Claim | None:
    """A table with the columns of one of them."""
    if not peek.at(path).is_file:
        return None
    columns = _columns(peek.head(path))
    told = any(wanted <= columns for wanted in (_TX, _REQUEST, _BATCH)) or (
        columns >= _STATUS and any(column.startswith(("=", "+")) for column in columns)
    )
    return Claim("msserviceprofiler", path, (path,)) if told else None


def read(claim: Claim, draft: Draft) -> None:
    """Requests, events, iterations and figures, as far as the table has them."""
    path = claim.files[0]
    columns = _columns(peek.head(path))
    found = Found(draft, "msserviceprofiler", path)
    take: Callable[[Iterator[Cells], Found], None] = (
        msservice.spans
        if columns >= _TX
        else msservice.requests
        if columns >= _REQUEST
        else msservice.batches
        if columns >= _BATCH
        else msservice.figures
    )
    take(_rows(path, draft), found)
    if not sum(found.counts.values()):
        raise IngestError("empty", Message("serving_file_holds_nothing", {"file": path.name}), str(path))
    found.done()


def _columns(head: bytes) -> frozenset[str]:
    first = head.lstrip(b"\xef\xbb\xbf").split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    return frozenset(cell.strip().strip('"') for cell in first.split(","))


def _rows(path: Path, draft: Draft) -> Iterator[Cells]:
    """Rows as texts; a quoted cell may hold commas and line breaks."""
    raw = (line[:LONGEST].decode("utf-8-sig", "replace").replace("\0", "") + "\n" for line in lines(path, draft))
    csv.field_size_limit(LONGEST)
    try:
        for row in csv.DictReader(raw):
            yield {key: value for key, value in row.items() if isinstance(key, str) and isinstance(value, str)}
    except csv.Error as error:
        draft.partial(None, Message("serving_table_damaged", {"error": str(error)[:200]}))

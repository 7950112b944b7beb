"""Files that people take for captures, told by their first bytes or their name, each with what to do instead.

A row is a kind (stable, for scripts and the screen's own words), what has to be true of the file, and the sentence.
The first row that fits names the file, so what is certain stands before what is likely.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.readers.sqlite import MAGIC, Database


@dataclass(frozen=True)
class Sign:
    """What a kind of file looks like. All that is given must fit; a name fits anywhere, magic at the beginning."""

    kind: str
    text: str
    magic: tuple[bytes, ...] = ()
    inside: bytes | None = None  # a pattern searched in the first bytes
    name: str | None = None  # a pattern searched in the name

    def fits(self, name: str, head: bytes) -> bool:
        return (
            (not self.magic or head.startswith(self.magic))
            and (self.inside is None or self._inside.search(head) is not None)
            and (self.name is None or self._name.search(name) is not None)
        )

    @cached_property
    def _inside(self) -> re.Pattern[bytes]:
        return re.compile(self.inside or b"", re.DOTALL)

    @cached_property
    def _name(self) -> re.Pattern[str]:
        return re.compile(self.name or "", re.IGNORECASE)


_UNPACK = Message.of("archives.unpack_it_and_load_what")
_RECORD = Message.of("archives.record_job_with_torch_profiler")
_PART = (
    "one part of an archive of several; join them (`zip -s 0 last.zip --out whole.zip`, or `cat whole.* > whole` for "
    "parts that `split` made) and load the whole"
)
_NO_TIMES = Message.of("archives.operators_and_their_order_without")

SIGNS = (
    Sign("git_lfs", Message.of("archives.git_lfs_pointer_not_file"),
         (b"version https://git-lfs.github.com/spec/",)),
    Sign("html", Message.of("archives.web_page_perhaps_error_or"),
         inside=rb"(?i)^(?:\xef\xbb\xbf)?\s*(?:<!--.{0,400}?-->\s*)?<(?:!doctype\s+html|html|head)\b"),
    Sign("xml", Message.of("archives.xml_perhaps_error_message_storage"),
         inside=rb"^(?:\xef\xbb\xbf)?\s*<(?:\?xml|Error>)"),
    Sign("utf16", "UTF-16 text; profilers write UTF-8, convert it with `iconv -f UTF-16 -t UTF-8`",
         (b"\xff\xfe", b"\xfe\xff")),
    Sign("foreign_archive", f"a 7z archive, which is not opened here; {_UNPACK}", (b"7z\xbc\xaf\x27\x1c",)),
    Sign("foreign_archive", f"a rar archive, which is not opened here; {_UNPACK}", (b"Rar!\x1a\x07",)),
    Sign("foreign_archive", f"a cpio archive, which is not opened here; {_UNPACK}",
         (b"070701", b"070702", b"070707", b"\xc7\x71\x00", b"\x71\xc7")),
    Sign("foreign_archive", f"an LZ4 file, which is not opened here; {_UNPACK}", (b"\x04\x22\x4d\x18",)),
    Sign("foreign_archive", f"a lzip or .Z file, which is not opened here; {_UNPACK}", (b"LZIP\x01", b"\x1f\x9d")),
    Sign("foreign_archive", f"a .lzma file, which is not opened here; {_UNPACK}", (b"\x5d\x00\x00",), name=r"\.lzma$"),
    Sign("foreign_archive", f"a package or disk image, which is not opened here; {_UNPACK}",
         (b"!<arch>\n", b"hsqs", b"MSCF\0\0\0\0", b"\xed\xab\xee\xdb")),
    Sign("multi_volume", _PART, (b"PK\x07\x08",)),
    Sign("multi_volume", _PART,
         name=r"\.(?:z\d\d|r\d\d|part\d+\.rar|(?:zip|7z|tar|gz|tgz|xz|zst)\.(?:\d{3}|(?!gz|xz|sh|py|md)[a-z]{2}))$"),
    Sign("zip_archive", Message.of("archives.zip_archive_whose_beginning_is"), (b"PK\x03\x04", b"PK\x05\x06")),
    Sign("core_dump", Message.of("archives.core_dump_program_that_crashed"), (b"\x7fELF",),
         rb"^.{16}(?:\x04\x00|\x00\x04)"),
    Sign("program", Message.of("archives.program_or_library_no_capture"),
         (b"\x7fELF", b"MZ\x90", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")),
    Sign("pickle", Message.of("archives.python_pickle_memory_snapshot_which"), inside=rb"^\x80[\x02-\x05]"),
    Sign("nsight_systems", f"an Nsight Systems report; {_RECORD}", (b"QDSTRM",)),
    Sign("nsight_systems", f"an Nsight Systems report; {_RECORD}", name=r"\.(?:nsys-rep|qdrep|qdstrm)$"),
    Sign("nsight_compute", f"an Nsight Compute report: single kernels, no time line; {_RECORD}",
         name=r"\.(?:ncu-rep|ncu-repz)$"),
    Sign("tensorboard", "a TensorBoard event file: curves, no trace; load the *.pt.trace.json beside it, which "
         "torch.profiler's tensorboard_trace_handler writes", inside=rb"^.{0,24}brain\.Event:\d"),
    Sign("tensorboard", "a TensorBoard event file: curves, no trace; load the *.pt.trace.json beside it",
         name=r"tfevents"),
    Sign("xplane", f"an XLA profile (xplane.pb), which npulens does not read yet; {_RECORD}", name=r"\.xplane\.pb$"),
    Sign("chakra", Message.of("archives.pytorch_or_chakra_execution_trace", {"reason": _NO_TIMES}),
         inside=rb'^\s*\{\s*"schema"\s*:\s*"[^"]{1,64}"\s*,.*"nodes"\s*:\s*\['),
    Sign("chakra", f"a Chakra execution trace (protobuf): {_NO_TIMES}", name=r"\.et$"),
    Sign("rocprofiler", f"the JSON of rocprofv3 (rocprofiler-sdk), which npulens does not read; {_RECORD}",
         inside=rb'"rocprofiler-sdk(?:-json)?-tool"'),
    Sign("old_ascend", Message.of("archives.json_ascend_tool_2020_status"), inside=rb'^\s*\{\s*"status"\s*:.{0,300}"info"\s*:.{0,600}"data"\s*:'),
    Sign("memory_snapshot", Message.of("archives.snapshot_pytorch_s_memory_allocator"),
         inside=rb'^\s*\{.{0,2000}"(?:device_traces|allocator_settings|segments)"\s*:\s*[\[{]'),
    Sign("speedscope", f"a speedscope profile of a CPU sampler; {_RECORD}", inside=rb"www\.speedscope\.app"),
    Sign("cpu_profile", f"a CPU profile of a JavaScript engine; {_RECORD}",
         inside=rb'^\s*\{\s*"nodes"\s*:\s*\[.{0,600}"callFrame"'),
    Sign("perfetto", f"a Perfetto trace (protobuf), which npulens does not read; {_RECORD}",
         name=r"\.(?:perfetto-trace|pftrace|perfetto)$"),
    Sign("insight_project", Message.of("archives.file_mindstudio_insight_s_own"),
         name=r"^mindstudio_insight_data\.db|\.mindstudio$"),
    Sign("picture", Message.of("archives.picture_or_pdf_no_capture"), (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF")),
    Sign("arrays", Message.of("archives.arrays_or_tables_another_program"),
         (b"PAR1", b"\x93NUMPY", b"\x89HDF", b"ARROW1", b"ORC")),
    Sign("unknown_json", Message.of("refused.json_but_no_trace_torch"),
         inside=rb"^(?:\xef\xbb\xbf)?\s*[{\[]"),
    Sign("report", Message.of("archives.table_csv_that_no_profiler"), name=r"\.(?:csv|tsv)$"),
)  # fmt: skip

#: Databases by a table that only they have.
_TABLES: tuple[tuple[Callable[[str], bool], str, str], ...] = (
    (lambda table: table.startswith(("CUPTI_ACTIVITY", "TARGET_INFO_")), "nsight_systems",
     f"an Nsight Systems export, which npulens does not read; {_RECORD}"),
    (lambda table: table.startswith("rocpd_"), "rocprofiler",
     f"a database of rocprofv3 (rocpd), which npulens does not read; {_RECORD}"),
)  # fmt: skip


def named(entry: Path, head: bytes) -> IngestError:
    """What a file is that begins like this and that no reader took."""
    where = str(entry)
    if not head:
        return IngestError("empty", Message.of("refused.file_is_empty"), where)
    if head.startswith(MAGIC):
        return _database(entry)
    for sign in SIGNS:
        if sign.fits(entry.name, head):
            return IngestError(sign.kind, sign.text, where)
    if not head.strip(b"\0"):
        return IngestError("zeros", Message.of("archives.nothing_but_zeros_copy_that"), where)
    return IngestError(
        "unknown_format", Message.of("refused.no_capture_that_npulens_knows"), where
    )


def _database(entry: Path) -> IngestError:
    for sign in SIGNS:
        if sign.kind == "insight_project" and sign.fits(entry.name, b""):
            return IngestError(sign.kind, sign.text, str(entry))
    try:
        with Database(entry) as database:
            tables = sorted(database.tables)
    except IngestError as error:
        return error
    for is_theirs, kind, text in _TABLES:
        if any(map(is_theirs, tables)):
            return IngestError(kind, text, str(entry))
    shown = f" ({', '.join(tables[:5])}{', ...' if len(tables) > 5 else ''})" if tables else ", without any table"
    return IngestError(
        "unknown_database", f"an SQLite database without profiler tables that npulens knows{shown}", str(entry)
    )

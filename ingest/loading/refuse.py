"""What a walk found and no reader took: raw directories and strange files, each with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.loading.renamed_files import ROCM_PROFILE_DATA
from npulens.ingest.messages import Message, joined
from npulens.ingest.readers.ascend.states import outermost, state
from npulens.ingest.readers.mindspore import raw as mindspore_raw
from npulens.ingest.readers.sqlite import MAGIC, Database

#: Files of these endings look like captures; others beside a capture (logs, notes) are passed over in silence.
_LOOKS = re.compile(
    r"\.(json|gz|db|dat|sqlite|nsys-rep|qdrep|ncu-rep|pb|et|pftrace|perfetto-trace|zip|tar|t?[gx]z|t?zst|t?bz2?|7z|rar"
    r"|pickle|pkl|bin)$|tfevents",
    re.I,
)
#: Files that stand beside captures and describe them.
_BESIDE = ("manifest.json", "truth.json")
#: Refusals listed one by one for one path; the rest is summed up.
_LISTED = 20


def looks(entry: Path) -> bool:
    """Whether a file beside a capture has to be named, because people may take it for one."""
    return _LOOKS.search(entry.name) is not None and entry.name not in _BESIDE


def name_all(
    path: Path, unclaimed: list[Path], claimed: Collection[Path], nothing_else: bool, said: bool = False
) -> list[IngestError]:
    """Refusals for what a walk found and nobody claimed; a directory that holds a capture is no raw one.

    ``said``: something of it was refused already, so there is no need to call it empty.
    """
    above = {place for root in claimed for place in (root, *root.parents)}
    bare = [e for e in unclaimed if e not in above and peek.at(e).is_dir]
    states = outermost(error for entry in bare if (error := _raw_state(entry)))
    raw = {Path(error.path) for error in states if error.path}
    files = [e for e in unclaimed if (not raw or raw.isdisjoint((e, *e.parents))) and e.is_file()]
    if not nothing_else:
        files = [entry for entry in files if looks(entry)]
    files.sort(key=lambda entry: not looks(entry))  # what people take for a capture, before its sources and notes
    found = states + [name_file(entry) for entry in files[:_LISTED]]
    if len(files) > _LISTED:
        found.append(
            IngestError("unknown_format", Message("more_files_are_no_capture", {"n": len(files) - _LISTED}), str(path))
        )
    if nothing_else and not found and not said:
        found.append(IngestError("empty", Message("nothing_to_load_here_no"), str(path)))
    return found


def _raw_state(entry: Path) -> IngestError | None:
    """Directories that hold raw data somebody has yet to parse, or nothing of a capture at all."""
    try:
        children = peek.at(entry).names
    except OSError:  # the walk has said so
        return None
    return state(entry) or mindspore_raw.directory(entry, children)


def name_file(entry: Path) -> IngestError:
    """What a file is that nobody reads."""
    try:
        head = peek.at(entry).head
    except OSError as error:
        return IngestError("unreadable", Message("cannot_be_read", {"error": error.strerror}), str(entry))
    return mindspore_raw.file(entry) or named(entry, head)


# Files that people take for captures, told by their first bytes or their name, each with what to do instead.
#
# A row is a kind, what has to be true of the file, and the sentence. Kinds are stable, for scripts and the screen's own
# words. The first row that fits names the file, so what is certain stands before what is likely.
@dataclass(frozen=True)
class Sign:
    """What a kind of file looks like. All that is given must fit; a name fits anywhere, magic at the beginning."""

    kind: str
    text: Message
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


_UNPACK = Message("unpack_it_and_load_what")
_RECORD = Message("record_job_with_torch_profiler")
_PART = Message("one_part_archive_several_join")
_NSYS = Message("nsight_systems_report")


def _unopened(what: str) -> Message:
    return joined([Message("which_is_not_opened_here", {"what": Message(what)}), _UNPACK])


def _unread(what: str) -> Message:
    return joined([Message("which_npulens_does_not_read", {"what": Message(what)}), _RECORD])


def _not_torch(what: str) -> Message:
    """Of a job that torch.profiler cannot record."""
    unread = Message("which_npulens_does_not_read_yet", {"what": Message(what)})
    return joined([unread, Message("it_reads_profiles_of_pytorch")])


_NO_TIMES = Message("operators_and_their_order_without")

_TENSORBOARD = Message("tensorboard_event_file_curves_no")

SIGNS = (
    Sign("git_lfs", Message("git_lfs_pointer_not_file"),
         (b"version https://git-lfs.github.com/spec/",)),
    Sign("html", Message("web_page_perhaps_error_or"),
         inside=rb"(?i)^(?:\xef\xbb\xbf)?\s*(?:<!--.{0,400}?-->\s*)?<(?:!doctype\s+html|html|head)\b"),
    Sign("xml", Message("xml_perhaps_error_message_storage"),
         inside=rb"^(?:\xef\xbb\xbf)?\s*<(?:\?xml|Error>)"),
    Sign("utf16", Message("utf_16_text_profilers_write", {"command": "`iconv -f UTF-16 -t UTF-8`"}),
         (b"\xff\xfe", b"\xfe\xff")),
    Sign("foreign_archive", _unopened("a_7z_archive"), (b"7z\xbc\xaf\x27\x1c",)),
    Sign("foreign_archive", _unopened("a_rar_archive"), (b"Rar!\x1a\x07",)),
    Sign("foreign_archive", _unopened("a_cpio_archive"),
         (b"070701", b"070702", b"070707", b"\xc7\x71\x00", b"\x71\xc7")),
    Sign("foreign_archive", _unopened("an_lz4_file"), (b"\x04\x22\x4d\x18",)),
    Sign("foreign_archive", _unopened("a_lzip_or_z_file"), (b"LZIP\x01", b"\x1f\x9d")),
    Sign("foreign_archive", _unopened("a_lzma_file"), (b"\x5d\x00\x00",), name=r"\.lzma$"),
    Sign("foreign_archive", _unopened("a_package_or_disk_image"),
         (b"!<arch>\n", b"hsqs", b"MSCF\0\0\0\0", b"\xed\xab\xee\xdb")),
    Sign("multi_volume", _PART, (b"PK\x07\x08",)),
    Sign("multi_volume", _PART,
         name=r"\.(?:z\d\d|r\d\d|part\d+\.rar|(?:zip|7z|tar|gz|tgz|xz|zst)\.(?:\d{3}|(?!gz|xz|sh|py|md)[a-z]{2}))$"),
    Sign("zip_archive", Message("zip_archive_whose_beginning_is"), (b"PK\x03\x04", b"PK\x05\x06")),
    Sign("core_dump", Message("core_dump_program_that_crashed"), (b"\x7fELF",),
         rb"^.{16}(?:\x04\x00|\x00\x04)"),
    Sign("program", Message("program_or_library_no_capture"),
         (b"\x7fELF", b"MZ\x90", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")),
    Sign("pickle", Message("python_pickle_for_memory"), inside=rb"^\x80[\x02-\x05]"),
    Sign("nsight_systems", joined([_NSYS, _RECORD]), (b"QDSTRM",)),
    Sign("nsight_systems", joined([_NSYS, _RECORD]), name=r"\.(?:nsys-rep|qdrep|qdstrm)$"),
    Sign("nsight_compute", joined([Message("nsight_compute_report_single_kernels"), _RECORD]),
         name=r"\.(?:ncu-rep|ncu-repz)$"),
    Sign("tensorboard", _TENSORBOARD, inside=rb"^.{0,24}brain\.Event:\d"),
    Sign("tensorboard", _TENSORBOARD,
         name=r"tfevents"),
    Sign("xplane", _not_torch("an_xla_profile"), name=r"\.xplane\.pb$"),
    Sign("xla_trace", _not_torch("a_trace_of_an_xla_profile"),
         inside=rb'"process_name".{0,200}"name"\s*:\s*"/(?:host:CPU|device:[A-Z]{1,20}:\d{1,4})"'),
    Sign("tf_timeline", _not_torch("a_timeline_of_tensorflow"),
         inside=rb'"name"\s*:\s*"/job:\w{1,40}/replica:\d{1,6}/task:\d{1,6}/[\w:]{1,40} (?:Compute|Tensors)"'),
    Sign("horovod_timeline", _unread("a_timeline_of_horovod"),
         inside=rb'^\s*\[.*"name"\s*:\s*"(?:CYCLE_START|NEGOTIATE_[A-Z]{4,20})"'),
    Sign("chakra", Message("pytorch_or_chakra_execution_trace", {"reason": _NO_TIMES}),
         inside=rb'^\s*\{\s*"schema"\s*:\s*"[^"]{1,64}"\s*,.*"nodes"\s*:\s*\['),
    Sign("chakra", Message("chakra_execution_trace_protobuf", {"reason": _NO_TIMES}), name=r"\.et$"),
    Sign("rocprofiler", _unread("json_of_rocprof"),
         inside=rb'^\s*\{\s*"traceEvents"\s*:\s*\[\s*\{\s*\}.*'
                rb'"(?:BeginNs"\s*:\s*"\d|name"\s*:\s*"(?:\d{1,4} )?(?:CPU H(?:IP|SA) API|Markers and Ranges)")'),
    Sign("rocm_profile_data", _unread("a_trace_of_rocm_profile_data"), inside=ROCM_PROFILE_DATA),
    Sign("rocprofiler", _unread("json_of_rocprofv3"),
         inside=rb'"rocprofiler-sdk(?:-json)?-tool"'),
    Sign("old_ascend", Message("json_ascend_tool_2020_status"),
         inside=rb'^\s*\{\s*"status"\s*:\s*\d{1,3}\s*,\s*"(?:info"\s*:\s*"|data"\s*:)'),
    Sign("memory_snapshot", Message("snapshot_pytorch_s_memory_allocator"),
         inside=rb'^\s*\{.{0,2000}"(?:device_traces|allocator_settings|segments)"\s*:\s*[\[{]'),
    Sign("speedscope", joined([Message("speedscope_profile_cpu_sampler"), _RECORD]),
         inside=rb"www\.speedscope\.app"),
    Sign("viztracer", joined([Message("viztracer_profile_of_python"), _RECORD]),
         inside=rb'(?i)"viztracer_metadata"|"cat"\s*:\s*"fee"'),
    Sign("cpu_profile", joined([Message("cpu_profile_javascript_engine"), _RECORD]),
         inside=rb'^\s*\{\s*"nodes"\s*:\s*\[.{0,600}"callFrame"'),
    Sign("perfetto", _unread("a_perfetto_trace"),
         name=r"\.(?:perfetto-trace|pftrace|perfetto)$"),
    Sign("insight_project", Message("file_mindstudio_insight_s_own"),
         name=r"^mindstudio_insight_data\.db|\.mindstudio$"),
    Sign("service_drawing", Message("msserviceprofiler_drawing"), inside=rb'"traceEvents"',
         name=r"^chrome_tracing\.json$"),
    Sign("picture", Message("picture_or_pdf_no_capture"), (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF")),
    Sign("arrays", Message("arrays_or_tables_another_program"),
         (b"PAR1", b"\x93NUMPY", b"\x89HDF", b"ARROW1", b"ORC")),
    Sign("autograd_profiler", joined([Message("chrome_export_autograd_profiler"), _RECORD]),
         inside=rb'^\s*\[\s*\{.{0,2000}"pid"\s*:\s*"(?:CPU|CUDA) functions"'),
    Sign("unknown_json", Message("chrome_trace_of_another_program"),
         inside=rb'^\s*[{\[].*"ph"\s*:\s*"[A-Za-z]".*"ts"\s*:|^\s*[{\[].*"ts"\s*:.*"ph"\s*:\s*"[A-Za-z]"'),
    Sign("unknown_json", Message("json_but_no_trace_torch"),
         inside=rb"^(?:\xef\xbb\xbf)?\s*[{\[]"),
    Sign("rocprofiler", _unread("csv_of_rocprof"),
         inside=rb'^(?:\xef\xbb\xbf)?(?:"Guid",)?'
                rb'"(?:Kind","(?:Agent_Id|Source_Agent_Id|Function|Operation|Agent_Type)"|Domain","Function"|'
                rb'Name","Calls","TotalDurationNs"|Index","KernelName"|Correlation_Id","Dispatch_Id")'),
    Sign("part_of_opprof", Message("table_of_msprof_op_alone"), inside=rb"^(?:\xef\xbb\xbf)?block_id,",
         name=r"^(?:PipeUtilization|ArithmeticUtilization|Memory|MemoryL0|MemoryUB|MemoryAccess|L2Cache"
              r"|ResourceConflictRatio)[^/]*\.csv$"),
    Sign("report", Message("table_csv_that_no_profiler"), name=r"\.(?:csv|tsv)$"),
)  # fmt: skip

#: Databases by a table that only they have.
_TABLES: tuple[tuple[Callable[[str], bool], str, Message], ...] = (
    (lambda table: table.startswith(("CUPTI_ACTIVITY", "TARGET_INFO_")), "nsight_systems",
     _unread("an_nsight_systems_export")),
    (lambda table: table in ("rocpd_api", "rocpd_op"), "rocm_profile_data",
     _unread("a_database_of_rocm_profile_data")),
    (lambda table: table.startswith("rocpd_"), "rocprofiler",
     _unread("a_database_of_rocprofv3")),
    (lambda table: table == "KERN", "rocprofiler", _unread("a_database_of_rocprof")),
)  # fmt: skip


def named(entry: Path, head: bytes) -> IngestError:
    """What a file is that begins like this and that no reader took."""
    where = str(entry)
    if not head:
        return IngestError("empty", Message("file_is_empty"), where)
    if head.startswith(MAGIC):
        return _database(entry)
    for sign in SIGNS:
        if sign.fits(entry.name, head):
            return IngestError(sign.kind, sign.text, where)
    if not head.strip(b"\0"):
        return IngestError("zeros", Message("nothing_but_zeros_copy_that"), where)
    return IngestError("unknown_format", Message("no_capture_that_npulens_knows"), where)


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
    if not tables:
        return IngestError("unknown_database", Message("sqlite_database_without_any_table"), str(entry))
    shown = ", ".join([*tables[:5], *(["..."] if len(tables) > 5 else [])])
    text = Message("sqlite_database_without_profiler_tables", {"tables": shown})
    return IngestError("unknown_database", text, str(entry))

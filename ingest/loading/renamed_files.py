"""Renamed files: recognised by their first bytes, and linked under the name that a profiler gives them.

People rename files, and readers recognise files by name. So a file with an unknown name is recognised by its first
bytes. Those tell the processes and stamps of a trace, a table's header, the keys of JSON, the tables of a database. Its
directory then gets a stand-in, a directory of links in which the file has the profiler's name. The output directory of
a rank is recognised by the files in it and beside it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.readers.ascend import prof_dir, rankdir, small_json
from npulens.ingest.readers.ascend.db.tables import ANALYSIS, KNOWN
from npulens.ingest.readers.ascend.text import exports
from npulens.ingest.readers.cluster import files as cluster
from npulens.ingest.readers.mindspore import files as mindspore
from npulens.ingest.readers.sqlite import Database, is_sqlite

#: Directories of a rank whose files belong to it.
_WITHIN = (rankdir.OUTPUT, rankdir.MSPROF_OUTPUT, "timeline", "summary")
_NAMED = re.compile(
    r"^(ascend_(pytorch|mindspore)_profiler(_\d+)?|msprof_\d+|msmonitor_\d+_\d+_-?\d+)\.db$|^profiler_(info|metadata).*"
    r"|^(info\.json|start_info|end_info)(\.\d+)?(\.done)?$|^OPPROF_|^(manifest|samples|result)\.json$|\.(log|md|py|sh)$"
)
#: What tells about a rank, beside the directory of its output.
_ABOUT = re.compile(r"^profiler_(info(_\d+)?|metadata)\.json$")
#: What tells about a device, beside the directories of an old export, and the highest number of one.
_ABOUT_DEVICE, _LAST_DEVICE = re.compile(r"^info\.json(\.\d{1,4})?$"), 9999
#: What lies in the output of a rank and is no text export.
_OUTPUT_DATABASE = re.compile(r"^(ascend_(pytorch|mindspore)_profiler(_\d+)?|analysis)\.db$")
#: No profiler leaves more files than this in one directory.
_MOST = 2_000
#: Parents whose names a stand-in keeps: they may name the rank.
_ABOVE = 3

#: Header of a table -> its name. All the columns must be there; the first that fits counts.
_TABLES: tuple[tuple[frozenset[str], str], ...] = tuple(
    (frozenset(columns.split("|")), name)
    for columns, name in (
        ("Step|Type|Index|Computing|Free", "cluster_step_trace_time.csv"),
        ("Step|Computing|Communication|Free", "step_trace_time.csv"),
        ("Op Name|Task Start Time(us)|Task Duration(us)", "op_summary_0.csv"),
        ("Name|Start Time(us)|Duration(us)|Wait Time(us)", "kernel_details.csv"),
        ("kernel_name|kernel_type|task_time(us)", "task_time_0.csv"),
        ("OP Type|Core Type|Count|Total Time(us)", "op_statistic.csv"),
        ("API Name|Level|Time(us)|Count", "api_statistic.csv"),
        ("OP Type|Count|Total Time(us)", "communication_statistic.csv"),
        ("Name|Input Shapes|Host Self Duration(us)", "operator_details.csv"),
        ("Name|Size(KB)|Allocation Time(us)", "operator_memory.csv"),
        ("Component|Timestamp(us)|Total Allocated(MB)", "memory_record.csv"),
        ("Component|Timestamp(us)|Total Reserved(MB)", "npu_module_mem.csv"),
        ("Stream Id|Task Id|Hit Rate|Victim Rate", "l2_cache.csv"),
        ("Iteration ID|Iteration End(us)|Iteration Time(us)", "step_trace.csv"),
        ("full_kernel_name|execution_time|execution_frequency", "aicore_intermediate_0_detail.csv"),
        ("full_op_name|execution_time", "aicore_intermediate_0_detail.csv"),
        ("kernel_type|total_time|execution_frequency", "aicore_intermediate_0_type.csv"),
        ("task_id|stream_id|full_kernel_name|kernel_type", "framework_raw_0.csv"),
        ("op_id|op_type|num_workers|output_queue_size", "minddata_pipeline_raw_0.csv"),
        ("step_num|start_point|end_point|fp_point", "step_trace_raw_0_detail_time.csv"),
        ("op_name|stream_id|start_time(ms)|duration(ms)", "output_timeline_data_0.txt"),
        ("full_kernel_name|FLOPs|FLOPS", "flops_0.txt"),
    )
)
#: One of the traces that old versions of msprof write for each iteration: device and number are filled in.
_ITERATION = "msprof_{device}_0_{number}.json"
#: Beginning of JSON -> its name; a pattern searched in the first bytes. The first that fits counts.
_JSON: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), name)
    for pattern, name in (
        (rb'^\[.*"fullname"\s*:.*"ts"\s*:\s*\d', "timeline_display_0.json"),
        (rb'^\[.*"ts"\s*:\s*"\d', "trace_view.json"),
        (rb'^\[.*"Ascend Hardware".*"Step Trace\(', _ITERATION),
        (rb'^\[.*"name"\s*:\s*"(?:CANN|Overlap Analysis)"', "trace_view.json"),
        (rb'^\{\s*"step\w*"\s*:.*"Communication Time Info"', "communication.json"),
        (rb'^\{\s*"step\w*"\s*:.*"Transport Type"', "communication_matrix.json"),
        (rb'^\{.*"common_config"\s*:.*"experimental_config"', "profiler_info.json"),
        (rb'^\{.*"(?:ENV_VARIABLES|parallel_group_info|distributed_args)"\s*:\s*\{', "profiler_metadata.json"),
        (rb'^\{.*"collectionTimeEnd"\s*:\s*"\d', "end_info.{device}"),
        (rb'^\{.*"collectionTimeBegin"\s*:\s*"\d', "start_info.{device}"),
        (rb'^\{.*"DeviceInfo"\s*:', "info.json.{device}"),
        (rb'^\{\s*"sampling_interval"\s*:.*"op_info"', "pipeline_profiling_0.json"),
        (rb'^\{\s*"fp_start"\s*:\s*"[^"]*"\s*,\s*"bp_end"', "step_trace_point_info.json"),
        (rb'^\{\s*"p2p"\s*:\s*\[.*"collective"\s*:\s*\[|^\{\s*"collective"\s*:\s*\[.*"p2p"\s*:\s*\[',
         "communication_group.json"),
        (rb'^\{\s*"\(.*"Communication Time Info"', "cluster_communication.json"),
        (rb'^\{\s*"\(.*"Transport Type"', "cluster_communication_matrix.json"),
        (rb'^\{\s*"subject"\s*:\s*"[^"]*"\s*,\s*"module"\s*:', "result.json"),
    )
)  # fmt: skip
#: How rpd2tracing.py of rocmProfileData begins: an empty event, then names of devices and threads; stamps are texts.
ROCM_PROFILE_DATA = rb'^\s*(?:\{\s*"traceEvents"\s*:\s*)?\[\s*\{\s*\}\s*,.{0,400}"name"\s*:\s*"(?:GPU|Hip )\d{1,19}"'
_FOREIGN = re.compile(ROCM_PROFILE_DATA, re.DOTALL)
#: Text that begins like this.
_TEXTS = (
    (re.compile(rb"^=+op compute time=+\s*op_name"), "output_op_compute_time_0.txt"),
    (re.compile(rb"^=+op compute time=+\s*optype_name"), "output_op_compute_time_detail_0.txt"),
    (re.compile(rb"^\d{5,18}\.\d+\s*$"), "min_cycle_counter_0.txt"),
)


def known(name: str) -> bool:
    """Whether a reader goes by this name."""
    told = exports.name(name) or mindspore.role(name) or cluster.role(name)
    return told is not None or _NAMED.search(name) is not None


def role(path: Path) -> str | None:
    """The name that a profiler gives to a file which begins like this one; None for what it is not told by."""
    if known(path.name) or not peek.at(path).is_file:
        return None
    if is_sqlite(path):
        return _database(path)
    head = peek.head(path).lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] in (b"[", b"{"):
        if _FOREIGN.search(head):
            return None
        return next((name for pattern, name in _JSON if pattern.search(head)), None)
    if b"\0" in head or not head:
        return None
    columns = {cell.strip().strip('"') for cell in head.partition(b"\n")[0].decode("utf-8", "replace").split(",")}
    found = (name for wanted, name in _TABLES if wanted <= columns)
    return next(found, None) or next((name for pattern, name in _TEXTS if pattern.search(head)), None)


def _database(path: Path) -> str | None:
    try:
        with Database(path) as database:
            tables = set(database.tables)
    except IngestError:
        return None
    if not KNOWN.isdisjoint(tables):
        return "ascend_pytorch_profiler.db" if "PYTORCH_API" in tables else "msprof_0.db"
    if any(name.startswith(("ClusterStepTraceTime", "ClusterCommAnalyzer")) for name in tables):
        return "cluster_analysis.db"
    return "analysis.db" if not ANALYSIS.keys().isdisjoint(tables) else None


@dataclass
class StandIns:
    """The stand-ins of one load, below a directory of its own."""

    scratch: Path
    _real: dict[Path, Path] = field(default_factory=dict)

    def of(self, entry: Path) -> Path:
        """What readers are asked about in place of a file or directory: mostly itself."""
        try:
            if not peek.at(entry).is_dir:
                name = (role(entry) or "").format(device=0, number=0)
                return entry if not name else self._make(entry, {entry: Path(name)}) / name
            links = dict(self._links(entry))
            strange = any(path.name != place.name for path, place in links.items())
            return self._make(entry, links) if strange else entry
        except OSError:  # not readable, or no room for links: readers get what is there
            return entry

    def real(self, path: Path) -> Path:
        """The file or directory that a path in a stand-in stands for."""
        if not self._real or self.scratch not in path.parents:
            return path
        for place in (path, *path.parents):
            if place in self._real:
                return self._real[place] / path.relative_to(place)
        return path

    def _links(self, directory: Path) -> Iterator[tuple[Path, Path]]:
        """Everything of a directory, and of those in it that hold a rank's files: path -> its place in the stand-in."""
        hidden = _hidden(directory)
        device = _device(directory)
        for child in _children(directory):
            name = hidden.get(child, child.name)
            if name in _WITHIN and child.is_dir():
                yield from ((path, Path(name) / place) for path, place in _told(child, device))
        yield from ((path, Path(hidden.get(path, place))) for path, place in _told(directory, device))

    def _make(self, entry: Path, links: dict[Path, Path]) -> Path:
        alone = next(iter(links)) == entry
        above = entry.parent.parts[-_ABOVE:] if not alone else ()
        parts = [part for part in above if part not in (entry.anchor, os.pardir)]
        called = entry.name
        if any(inner.parts[0] in prof_dir.OLD_EXPORT for inner in links.values()):
            device = _device(entry)
            called = entry.name if device is None else f"device_{device}"
        place = self.scratch.joinpath(str(len(self._real)), *parts, called)
        place.mkdir(parents=True)
        self._real[place] = entry
        for path, inner in links.items():
            if path.is_dir() and inner.name in _WITHIN:
                self._real[place / inner] = path
                continue
            target = place / inner
            target.parent.mkdir(exist_ok=True)
            _link(path, target)
            self._real[target] = path
        return place


def _hidden(directory: Path) -> dict[Path, str]:
    """Directories of output whose names say nothing -> what a profiler calls them: each is the only one it can be.

    Beside the output of a rank lies what tells about the rank, beside those of a device what tells about the device.
    """
    children = _children(directory)
    folders = [child for child in children if child.is_dir() and not prof_dir.NAME.match(child.name)]
    if not folders or len(children) > _MOST or any(folder.name in _WITHIN for folder in folders):
        return {}
    beside = [_goes_by(child) for child in children if child.is_file()]
    if any(map(_ABOUT.match, beside)):
        wanted = {rankdir.OUTPUT: [folder for folder in folders if _holds(folder, _of_output)]}
    elif any(map(_ABOUT_DEVICE.match, beside)):
        wanted = {name: [folder for folder in folders if _holds(folder, of)]
                  for name, of in zip(prof_dir.OLD_EXPORT, (_of_timeline, _of_summary), strict=True)}  # fmt: skip
    else:
        return {}
    return {found[0]: name for name, found in wanted.items() if len(found) == 1}


def _holds(folder: Path, wanted: Callable[[str], bool]) -> bool:
    """Whether it holds such files, nothing about a rank of its own, and no directories."""
    children = _children(folder)
    if len(children) > _MOST or not all(child.is_file() for child in children):
        return False
    names = [_goes_by(child) for child in children]
    return any(map(wanted, names)) and not any(map(_ABOUT.match, names))


def _of_output(name: str) -> bool:
    return exports.name(name) is not None or _OUTPUT_DATABASE.match(name) is not None


def _of_timeline(name: str) -> bool:
    return exports.name(name) is not None and name.endswith(".json")


def _of_summary(name: str) -> bool:
    return exports.name(name) is not None and name.endswith(".csv")


def _device(directory: Path) -> int | None:
    """The device that a directory belongs to, by its name or by the one file about a device that lies in it."""
    if named := prof_dir.DEVICE.match(directory.name) or prof_dir.DEVICE.match(directory.parent.name):
        return int(named[1])
    children = _children(directory)
    if len(children) > _MOST or all(child.is_file() for child in children):
        return None
    told = [child for child in children if child.is_file() and _ABOUT_DEVICE.match(_goes_by(child))]
    listed = small_json.read(told[0])[0].get("DeviceInfo") if len(told) == 1 else None
    if not isinstance(listed, list) or len(listed) != 1:
        return None
    device = small_json.whole(small_json.mapping(listed[0]).get("id"))
    return device if device is not None and 0 <= device <= _LAST_DEVICE else None


def _children(directory: Path) -> list[Path]:
    with os.scandir(directory) as found:  # which knows links without asking for each
        names = sorted(child.name for child in found if not child.is_symlink())
    return [directory / name for name in names]


def _goes_by(file: Path) -> str:
    """The name that readers go by, whichever the device."""
    told = role(file)
    return file.name if told is None else told.format(device=0, number=0)


def _told(directory: Path, device: int | None) -> Iterator[tuple[Path, Path]]:
    """Each child with the name it goes by; of several that would go by one name none does."""
    children = _children(directory)
    if len(children) > _MOST:
        yield from ((child, Path(child.name)) for child in children)
        return
    roles = {
        child: name.format(device=device or 0, number=number)
        for number, child in enumerate(children) if child.is_file() and (name := role(child))
    }  # fmt: skip
    taken = Counter([child.name for child in children if child not in roles] + list(roles.values()))
    for child in children:
        name = roles.get(child, child.name)
        yield child, Path(name if taken[name] == 1 else child.name)


def _link(path: Path, target: Path) -> None:
    """A second name for a file; a symbolic one for directories and across file systems."""
    make: Callable[[Path, Path], None] = os.symlink if path.is_dir() else os.link
    try:
        make(path, target)
    except OSError:
        os.symlink(path, target)

"""A rank directory of torch_npu or msprof: whose it is, and what its small JSON files say.

Both readers of such a directory use this, so that a rank is the same rank whichever export it holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from npulens.ingest.loading import peek
from npulens.ingest.messages import Message, joined
from npulens.ingest.readers import Facts
from npulens.ingest.readers.ascend import commands, completeness, prof_dir
from npulens.ingest.readers.ascend.profiler_log import last_errors
from npulens.ingest.readers.ascend.small_json import mapping, number, read, text, whole
from npulens.ingest.tables.draft import Draft

_METADATA = "profiler_metadata.json"
OUTPUT = "ASCEND_PROFILER_OUTPUT"
MSPROF_OUTPUT = prof_dir.EXPORT

RANK_DIR = re.compile(r"_ascend_(pt|ms)$")
_INFO = re.compile(r"^profiler_info(?:_(\d+))?\.json$")
_RANK_IN_NAME = re.compile(r"(?:^|[^0-9A-Za-z])rank[-_]?(\d+)(?!\d)", re.I)
_WORKER = re.compile(r"^(?P<host>.+)_(?P<pid>\d+)_\d{14,17}_ascend_(?:pt|ms)$")
_GROUP_HASH = re.compile(rb'@(\d{6,20})"')

#: Names of the group that holds every rank of the job.
_WORLD_GROUPS = ("default_group", "hccl_world_group")
#: MindSpore jobs put rank_N several directories above what the profiler writes.
_ABOVE = 3
#: Enough of communication.json to meet every group it names; it repeats them throughout.
_HEAD_BYTES = 1 << 18

_CLOCK = pa.schema(
    [
        ("host_start_monotonic_ns", pa.int64()),
        ("device_start_count", pa.int64()),
        ("device_freq_mhz", pa.float64()),
        ("collection_end_unix_ns", pa.int64()),
        ("collection_end_monotonic_ns", pa.int64()),
    ]
)
_GROUP = pa.schema(
    [("group_name", pa.string()), ("kind", pa.string()), ("ranks", pa.list_(pa.int32())), ("source", pa.string())]
)


def rank_root(path: Path) -> Path | None:
    """The rank directory that ``path`` is, or is the output of; None if it is neither."""
    if path.name in (OUTPUT, MSPROF_OUTPUT):
        return path.parent
    seen = peek.at(path)
    if not seen.is_dir:
        return None
    if RANK_DIR.search(path.name) or prof_dir.NAME.match(path.name) or prof_dir.is_old_export(path):
        return path
    outputs = (path / name for name in (OUTPUT, MSPROF_OUTPUT) if name in seen.names)
    return path if any(output.is_dir() for output in outputs) or info_file(path) else None


def output_dir(root: Path) -> Path:
    """Where the exported files of a rank directory lie; the directory itself if nowhere else."""
    return output_dirs(root)[0]


def output_dirs(root: Path) -> list[Path]:
    """The same, with both directories of an old msprof export."""
    if prof_dir.is_old_export(root):
        return [found for name in prof_dir.OLD_EXPORT if (found := root / name).is_dir()]
    candidates = [root / OUTPUT, root / MSPROF_OUTPUT]
    if RANK_DIR.search(root.name) or info_file(root):  # in any other folder each PROF directory is a rank
        candidates += sorted(root.glob(f"PROF_*/{MSPROF_OUTPUT}"))
    return [next((found for found in candidates if found.is_dir()), root)]


def info_file(root: Path) -> Path | None:
    """profiler_info_{rank}.json, which names the rank, before profiler_info.json, which does not."""
    named = sorted(name for name in _names(root) if _INFO.match(name))
    found = [path for name in named if (path := root / name).is_file()]  # a pipe of that name would never end
    return max(found, key=lambda path: len(path.name), default=None)


def _names(directory: Path) -> Iterable[str]:
    try:
        return peek.at(directory).names
    except OSError:
        return ()


def small_files(root: Path) -> tuple[Path, ...]:
    """What this module reads of a rank directory: to be hashed with the rest."""
    metadata = root / _METADATA
    own = tuple(path for path in (info_file(root), metadata if metadata.is_file() else None) if path)
    return own or prof_dir.small_files(root)


def double_hash(group: str) -> str:
    """The number that communication.json and operator names put for a group's name."""
    high = low = 0
    for letter in group:
        high = (high * 29 + ord(letter)) & 0xFFFFFFFF
        low = (low * 131 + ord(letter)) & 0xFFFFFFFF
    return str(high << 32 | low)


def facts(root: Path, device: int | None = None) -> Facts:
    """What can be told about the rank without parsing its traces. ``device``: which one of a PROF directory."""
    info, metadata = _info(root), _metadata(root)
    rank, source = _rank(root, info, metadata)
    groups = _parallel_groups(metadata)
    begin, end = _window(info)
    if prof := prof_dir.find(root, device):
        begin, end = prof.about.begin_unix, prof.about.end_unix
        if rank is None or prof.rank_source == "metadata":
            rank, source = prof.rank, prof.rank_source
    hashes = {double_hash(name) for name in groups} | _hashes(output_dir(root) / "communication.json")
    return Facts(rank, source, _world_size(metadata, groups), tuple(sorted(hashes)), begin, end)


#: What msprof calls its exports, and what the profilers of frameworks call theirs.
_OF_MSPROF = re.compile(r"^((op_summary|task_time|msprof)_.*|(op|api)_statistic_\d{14}.*)\.(csv|json|db)(\.gz)?$")
_OF_A_FRAMEWORK = re.compile(r"^(trace_view\.json|kernel_details\.csv|ascend_)")


def by_msprof(names: Iterable[str]) -> bool:
    """Whether msprof alone wrote files of these names."""
    every = list(names)
    return any(map(_OF_MSPROF.match, every)) and not any(map(_OF_A_FRAMEWORK.match, every))


def describe(root: Path, draft: Draft, device: int | None = None, files: Iterable[Path] = ()) -> bool:
    """Fill in what the small files say about the rank; whether they tell of its clock. Done once."""
    if "rankdir_clock" in draft.raw:
        return False
    info, metadata = _info(root), _metadata(root)
    groups = _parallel_groups(metadata)
    config = mapping(info.get("config"))
    draft.fact("backend", "npu")
    if not config and by_msprof(path.name for path in files):
        config = {"profiler": "msprof"}
    draft.fact("versions", _text({key: info[key] for key in info if key.endswith("_version")}))
    draft.fact("environment", _text(mapping(metadata.get("ENV_VARIABLES"))))
    draft.fact("profiler_level", text(mapping(config.get("experimental_config")).get("_profiler_level")))
    draft.fact("world_size", _world_size(metadata, groups))
    draft.fact("device_id", _device(root) if device is None else device)
    start, end = mapping(info.get("start_info")), mapping(info.get("end_info"))
    clock = {
        "host_start_monotonic_ns": whole(start.get("start_monotonic")),
        "device_start_count": whole(start.get("start_cnt")),
        "device_freq_mhz": number(start.get("freq")),
        "collection_end_unix_ns": whole(end.get("collectionTimeEnd")),
        "collection_end_monotonic_ns": whole(end.get("MonotonicTimeEnd")),
    }
    if prof := prof_dir.find(root, device):
        clock |= prof_dir.clock(prof.about)
        config = {**config, **prof.about.chip}
        draft.fact("device_id", prof.device)
        draft.fact("host", prof.about.host)
        draft.fact("pid", prof.about.pid)
    draft.fact("settings", _text(config))
    known = [clock] if any(value is not None for value in clock.values()) else []
    draft.give("clock", "rankdir_clock", known, _CLOCK)
    _say_groups(groups, draft)
    _say_damage(root, info, draft)
    return bool(known)


def worker(root: Path) -> tuple[str, int] | None:
    """Host and process id where the directory still has the name the profiler gave it."""
    match = _WORKER.match(root.name)
    return (match["host"], int(match["pid"])) if match and len(match["pid"]) <= 18 else None


def groups_of(root: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Hash of a group -> its name and its global ranks in group order."""
    return {double_hash(name): (name, ranks) for name, (_, ranks) in _parallel_groups(_metadata(root)).items()}


def level(root: Path) -> str | None:
    """The profiler level the rank was recorded with, e.g. Level1."""
    return text(setting(root, "experimental_config", "_profiler_level"))


def setting(root: Path, section: str, key: str) -> object:
    """One value of profiler_info's config."""
    return mapping(mapping(_info(root).get("config")).get(section)).get(key)


def records_device(root: Path) -> bool:
    """Whether the profiler was told to record the device at all."""
    activities = setting(root, "common_config", "activities")
    return isinstance(activities, list) and any("NPU" in str(name) for name in activities)


def stopped(root: Path) -> bool:
    """Whether the profiler stopped in order, as far as profiler_info can say."""
    info = _info(root)
    return not info or not records_device(root) or bool(mapping(info.get("end_info")))


def _info(root: Path) -> Mapping[str, object]:
    path = info_file(root)
    return read(path)[0] if path else {}


def _metadata(root: Path) -> Mapping[str, object]:
    path = root / _METADATA
    return read(path)[0] if path.is_file() else {}


def _rank(root: Path, info: Mapping[str, object], metadata: Mapping[str, object]) -> tuple[int | None, str | None]:
    path = info_file(root)
    named = _INFO.match(path.name) if path else None
    if named and named[1]:
        return int(named[1]), "file name"
    told = whole(info.get("rank_id"))
    if told is not None and told >= 0:
        return told, "metadata"
    for name in (root.name, *(parent.name for parent in list(root.parents)[:_ABOVE])):
        if match := _RANK_IN_NAME.search(name):
            return int(match[1]), "directory name"
    told = _rank_in_job(metadata)
    return told, None if told is None else "metadata"


def _rank_in_job(metadata: Mapping[str, object]) -> int | None:
    """The rank as the job's own numbers tell it, its rank and its place in every group; None unless they agree."""
    job = mapping(metadata.get("distributed_args"))
    world, said = whole(job.get("world_size")), whole(job.get("rank"))
    told: set[int | None] = set() if said is None else {said}
    for group in map(mapping, mapping(metadata.get("parallel_group_info")).values()):
        place, listed = whole(group.get("group_rank")), group.get("global_ranks")
        if place is not None and isinstance(listed, list) and 0 <= place < len(listed):
            told.add(whole(listed[place]))
    rank = told.pop() if len(told) == 1 else None
    return rank if rank is not None and rank >= 0 and (world is None or rank < world) else None


def _window(info: Mapping[str, object]) -> tuple[int | None, int | None]:
    """Begin and end of the collection in Unix time: only the end is stamped with both clocks."""
    end = mapping(info.get("end_info"))
    end_unix, end_monotonic = whole(end.get("collectionTimeEnd")), whole(end.get("MonotonicTimeEnd"))
    begin_monotonic = whole(mapping(info.get("start_info")).get("start_monotonic"))
    if end_unix is None or end_monotonic is None or begin_monotonic is None or begin_monotonic > end_monotonic:
        return None, end_unix
    return end_unix - (end_monotonic - begin_monotonic), end_unix


def _parallel_groups(metadata: Mapping[str, object]) -> dict[str, tuple[str | None, tuple[int, ...]]]:
    """Group name -> its kind (tp, dp...) and its global ranks."""
    found = {}
    for name, group in mapping(metadata.get("parallel_group_info")).items():
        told = mapping(group)
        listed = told.get("global_ranks")
        ranks = tuple(rank for rank in map(whole, listed if isinstance(listed, list) else []) if rank is not None)
        found[name] = (text(told.get("group_name")), ranks)
    return found


def _world_size(metadata: Mapping[str, object], groups: Mapping[str, tuple[str | None, tuple[int, ...]]]) -> int | None:
    told = whole(mapping(metadata.get("distributed_args")).get("world_size"))
    if told is not None and told > 0:
        return told
    return max((len(ranks) for kind, ranks in groups.values() if kind in _WORLD_GROUPS and ranks), default=None)


def _hashes(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    try:
        with path.open("rb") as file:
            return {found.decode() for found in _GROUP_HASH.findall(file.read(_HEAD_BYTES))}
    except OSError:
        return set()


def _device(root: Path) -> int | None:
    """The device of the only device_{id} directory."""
    found = {path.name for path in root.glob("PROF_*/device_*")} | {path.name for path in root.glob("device_*")}
    numbers = {int(name[7:]) for name in found if name[7:].isdecimal()}
    return numbers.pop() if len(numbers) == 1 else None


def _say_groups(groups: Mapping[str, tuple[str | None, tuple[int, ...]]], draft: Draft) -> None:
    rows = [
        {"group_name": name, "kind": kind, "ranks": list(ranks), "source": "profiler_metadata.json"}
        for name, (kind, ranks) in groups.items()
    ]
    draft.give("parallel_group", "rankdir_group", rows, _GROUP)
    if not rows:
        draft.absent("parallel_group", Message("profiler_metadata_json_names_no"), Message("distributed_job"))


def _say_damage(root: Path, info: Mapping[str, object], draft: Draft) -> None:
    for path in small_files(root):
        if reason := read(path)[1]:
            draft.partial(None, reason)
    if (root / commands.FRAMEWORK).is_dir() and not (root / OUTPUT).is_dir():
        again = Message("analyse_it_on_npu_host", {"command": commands.analyse(root)})
        draft.partial(None, joined([Message("only_the_device_s_export_is_here"), again]))
    if not stopped(root):
        draft.partial(None, Message("profiler_info_has_no_end"))
    if lacking := completeness.missing(mapping(info.get("config")), root, output_dir(root)):
        draft.partial(None, lacking)
    if errors := last_errors(root):
        draft.partial(None, Message("profiler_s_log_has_errors", {"errors": " | ".join(errors)}))


def _text(value: Mapping[str, object]) -> str | None:
    return json.dumps(value, ensure_ascii=False) if value else None

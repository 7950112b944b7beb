"""What the file says of itself and the job: backend, device, versions, groups."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.readers.kineto import head, npu
from npulens.ingest.readers.kineto.asked import Asked
from npulens.ingest.tables.draft import Draft

_VERSION_KEYS = re.compile(r"_version$|^schemaVersion$")
_LOG_KEYS = ("INFO", "WARNING", "ERROR", "STAGE")
_OWN_KEYS = ("deviceProperties", "distributedInfo", "traceEvents", "host_name", *_LOG_KEYS)
_GROUP_KINDS = ("tp", "pp", "dp", "ep", "cp", "sp", "mp", "fsdp", "hsdp", "ddp")
_GROUPS = pa.schema(
    {"group_name": pa.string(), "kind": pa.string(), "ranks": pa.list_(pa.int32()), "source": pa.string()}
)
_CUDA = {
    "kernel",
    "gpu_memcpy",
    "memcpy",
    "gpu_memset",
    "memset",
    "cuda_runtime",
    "cuda_driver",
    "runtime",
    "cuda_sync",
}

def about(draft: Draft, header: Mapping[str, Any], asked: Asked, on_cpu: bool) -> str:
    """Tell the facts of the rank; returns the backend. `on_cpu`: the job computed on the CPU, whatever is listed."""
    backend = "cpu" if on_cpu else backend_of(header, asked)
    draft.fact("backend", backend)
    device_id = asked.most_used()
    draft.fact("device_id", head.whole(device_id))
    card = {} if backend == "cpu" else _card(header, device_id)  # a file may list a GPU that the job did not use
    draft.fact("device_name", _text(card.get("name")))
    draft.fact("host", _text(header.get("host_name")))
    pid = asked.busiest()
    number = re.fullmatch(r"(?:\[[^\]]+\] ?)?(\d{1,18})", pid) if isinstance(pid, str) else None
    draft.fact("pid", int(number[1]) if number else None)
    job = _mapping(header.get("distributedInfo"))
    draft.fact("world_size", head.whole(job.get("world_size")))
    draft.fact("talks_on_host", head.on_host(job))
    versions = {key: value for key, value in [*header.items(), *job.items()] if _VERSION_KEYS.search(key)}
    settings = {key: value for key, value in header.items() if key not in _OWN_KEYS and key not in versions}
    if job:
        settings["distributedInfo"] = {k: v for k, v in job.items() if k != "pg_config" and k not in versions}
    for name in ("totalGlobalMem", "numSms"):  # of the device that the rank ran on
        if isinstance(number := card.get(name), int) and 0 < number < 2**53:
            settings[name] = number
    if on_cpu and (unused := sorted({str(card["name"]) for card in _cards(header) if card.get("name")})):
        settings["unused_devices"] = unused
    draft.fact("versions", json.dumps(versions, ensure_ascii=False) if versions else None)
    draft.fact("settings", json.dumps(settings, ensure_ascii=False) if settings else None)
    errors = header.get("ERROR")
    if isinstance(errors, list) and errors:
        draft.note("span", Message("profiler_logged_errors_first", {"n": len(errors), "error": _text(errors[0])}))
    _groups(draft, job, asked)
    return backend


def backend_of(header: Mapping[str, Any], asked: Asked) -> str:
    """By categories that only one backend writes, then by names of devices, calls and header keys."""
    cats = asked.cats()
    names = " ".join(str(card.get("name")) for card in _cards(header))
    for prefix, backend in (("mtia_", "mtia"), ("privateuse1_", "npu"), ("xpu_", "xpu")):
        if any(cat.startswith(prefix) for cat in cats):
            return backend
    if re.search(r"(?i)ascend|\bnpu\b", names) or cats & {*npu.DEVICE, *npu.HOST}:
        return "npu"
    if asked.is_npu():
        return "npu"
    hip = any(key.startswith(("hip_", "roctracer")) for key in header) or asked.is_hip()
    if hip or re.search(r"(?i)\bamd\b|radeon|instinct|gfx\d", names):
        return "rocm"
    return "cuda" if cats & _CUDA else "cpu"


def _cards(header: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = header.get("deviceProperties")
    return [card for card in listed if isinstance(card, Mapping)] if isinstance(listed, list) else []


def _card(header: Mapping[str, Any], device_id: object) -> Mapping[str, Any]:
    """What the header says of a device; nothing where it does not tell which of several is meant.

    Where a container hides devices, tasks may have numbers that the header does not list: then all that are alike do.
    """
    cards = {head.whole(card.get("id")): card for card in _cards(header)}
    models = {tuple(str(card.get(of)) for of in ("name", "totalGlobalMem", "numSms")) for card in cards.values()}
    return cards.get(head.whole(device_id)) or (cards.popitem()[1] if len(models) == 1 else {})


def _groups(draft: Draft, job: Mapping[str, Any], asked: Asked) -> None:
    """Process groups of the header, then those that only communication kernels name, or name with other ranks.

    The header of a file of several ranks is of one of them. Others may have given its names to other groups.
    """
    every = [
        _group(name, description, head.ranks_of({"ranks": ranks}), "communication kernels")
        for name, description, ranks in asked.groups()
        if name is not None
    ]
    said: dict[str, set[tuple[int, ...]]] = {}
    for row in every:
        said.setdefault(row["group_name"], set()).add(tuple(sorted(row["ranks"] or ())))
    told = [
        _group(str(group["pg_name"]), _text(group.get("pg_desc")), head.ranks_of(group), "distributedInfo")
        for group in head.groups(job)
        if not _contradicted(head.ranks_of(group), said.get(str(group["pg_name"]), set()))
    ]
    known = {row["group_name"] for row in told}
    met = [row for row in every if row["group_name"] not in known]
    draft.give("parallel_group", "groups", [*told, *met], _GROUPS)
    draft.fact("groups", sorted(f"{group['group_name']} {group['ranks']}" for group in met if group["ranks"]))
    if not told and not met:
        draft.absent(
            "parallel_group",
            Message("file_names_no_process_groups"),
            Message("torch_distributed_initialised_before_profiling"),
        )


def _contradicted(listed: list[int] | None, said: set[tuple[int, ...]]) -> bool:
    """Whether all kernels of a group name the same ranks, and not those that the header lists."""
    return listed is not None and len(said) == 1 and said.isdisjoint({(), tuple(sorted(listed))})


def _group(name: str, description: str | None, ranks: list[int] | None, source: str) -> dict[str, Any]:
    return {"group_name": name, "kind": _group_kind(description), "ranks": ranks, "source": source}


def _group_kind(description: str | None) -> str | None:
    """tp, pp, dp... where the description says so as a word of its own."""
    if description in (None, "", "undefined"):
        return None
    if description == "default_pg":
        return "default_group"
    words = re.split(r"[^a-z0-9]+", str(description).lower())
    return next((word for word in words if word in _GROUP_KINDS), str(description))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None

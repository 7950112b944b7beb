"""Which arguments become columns, which raw tables they go to, and what a category says about a span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from npulens.ingest.events import Column
from npulens.ingest.readers.kineto import npu

Args = Mapping[str, tuple[Sequence[str], str]]

#: Columns made of arguments: column -> (keys, newest first; scanner type).
SPAN_ARGS: Args = {
    "correlation": (("correlation", "correlationId"), "i"),
    "external_id": (("External id", "external id"), "i"),
}
HOST_ARGS: Args = {
    "shapes": (("Input Dims", "Input dims"), "t"),
    "dtypes": (("Input type",), "t"),
    "sequence": (("Sequence number",), "i"),
    "fwd_thread": (("Fwd thread id",), "i"),
    "frames": (("Call stack",), "s"),
}
DEVICE_ARGS: Args = {
    "stream": (npu.STREAM, "i"),
    "device_id": (npu.DEVICE_ID, "i"),
    "grid": (("grid",), "t"),
    "block": (("block",), "t"),
    "grid_said": (("grid",), "t"),
    "block_said": (("block",), "t"),
    "registers": (("registers per thread",), "i"),
    "shared_bytes": (("shared memory",), "i"),
    "occupancy": (("est. achieved occupancy %",), "f"),
    "bytes": (("bytes",), "i"),
    "bandwidth": (("memory bandwidth (GB/s)",), "f"),
    "collective": (("Collective name",), "s"),
}
MEMORY_ARGS: Args = {
    "bytes": (("Bytes",), "i"),
    "address": (("Addr",), "i"),
    "allocated": (("Total Allocated",), "i"),
    "reserved": (("Total Reserved",), "i"),
    "device_type": (("Device Type",), "i"),
    "device_id": (("Device Id",), "i"),
}
META_ARGS: Args = {"text": (("name",), "s"), "label": (("labels",), "s"), "sort": (("sort_index",), "i")}
_GROUPS = (SPAN_ARGS, HOST_ARGS, DEVICE_ARGS, MEMORY_ARGS, META_ARGS)

#: What to ask the scanner for.
COLUMNS = tuple(dict.fromkeys(Column(key, kind) for of in _GROUPS for keys, kind in of.values() for key in keys))
TYPES = {column.key: column.type for column in COLUMNS}
#: Columns of texts as they were written. In the others a list is written the same however the file was indented.
AS_WRITTEN = ("grid_said", "block_said")

#: Categories of spans on the host and on the device, as 2021 and later versions write them.
HOST_CATEGORIES = (
    "cpu_op", "Operator", "operator", "user_annotation", "python_function", "cpu_instant_event",
    "cuda_runtime", "cuda_driver", "Runtime", "runtime", "mtia_runtime", "xpu_runtime", "xpu_driver", "glow_runtime",
    "privateuse1_runtime", "privateuse1_driver", "Trace", "overhead", "external_correlation",
    *npu.HOST,
)  # fmt: skip
DEVICE_CATEGORIES = (
    "kernel", "Kernel", "concurrent_kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset", "gpu_user_annotation",
    "cuda_sync", "xpu_sync", "collective_comm", "cuda_profiler_range", "mtia_ccp_events", "hpu_op",
    *npu.DEVICE,
)  # fmt: skip

_PARQUET = {"i": pa.int64(), "f": pa.float64(), "s": pa.int32(), "t": pa.string()}
_CODE, _NS = pa.int32(), pa.int64()
_EVENT = {"row": _NS, "ts": _NS}
_PLACED = {"shape": pa.int64(), "lane": _CODE}
_REST = {"row": _NS, "rest": pa.string()}

#: Arguments of each raw table that has columns of them.
TABLE_ARGS: Mapping[str, Args] = {
    "host_raw": {**SPAN_ARGS, **HOST_ARGS}, "device_raw": {**SPAN_ARGS, **DEVICE_ARGS},
    "memory_raw": MEMORY_ARGS, "meta_raw": META_ARGS,
}  # fmt: skip


#: Columns of other tables that not every row has.
_MAY_LACK = ("value", "code", "said")


def _schema(table: str, columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """Columns that every row has, then those of arguments. Saying which is which makes Parquet a third cheaper."""
    fields = [pa.field(name, kind, name in _MAY_LACK) for name, kind in columns.items()]
    return pa.schema(
        [*fields, *(pa.field(name, _PARQUET[kind]) for name, (_, kind) in TABLE_ARGS.get(table, {}).items())]
    )


_TABLES: Mapping[str, Mapping[str, pa.DataType]] = {
    "strings_raw": {"code": _CODE, "text": pa.string()},
    "span_raw": {**_EVENT, "dur": _NS, **_PLACED},
    "host_raw": {**_EVENT, "shape": pa.int64()},
    "device_raw": {**_EVENT, **_PLACED},
    "memory_raw": _EVENT,
    "meta_raw": {"row": _NS, "name": _CODE, "pid": _CODE, "tid": _CODE},
    "flow_raw": {"ts": _NS, "ph": pa.uint8(), "lane": _CODE, "cat": _CODE, "id": pa.int64()},
    "edge_raw": {**_EVENT, "ph": pa.uint8(), **_PLACED},
    "count_raw": {**_EVENT, "name": _CODE, "key": pa.string(), "value": pa.float64()},
    "count_rest_raw": {**_EVENT, "name": _CODE, "rest": pa.string()},
    "host_rest_raw": _REST,
    "device_rest_raw": _REST,
    "stray_raw": {
        "row": _NS,
        "device": pa.bool_(),
        "key": pa.string(),
        "value": pa.string(),
        "code": _CODE,
        "said": pa.string(),
    },
}

#: The raw tables. ``shape`` is name, category, side and whether a collective is named, in one number; ``lane`` is
#: process, thread and side.
SCHEMAS: Mapping[str, pa.Schema] = {table: _schema(table, columns) for table, columns in _TABLES.items()}

"""The tables of ascend_pytorch_profiler.db and analysis.db, as the tools of either generation create them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from npulens.collectors.writers.ascend import AscendOptions

Value = str | int | float | None

_ENUM = "id INTEGER PRIMARY KEY,name TEXT"
_COMPUTE = (
    "name INTEGER,globalTaskId INTEGER PRIMARY KEY,{block} INTEGER,{mix} INTEGER,taskType INTEGER,opType INTEGER,"
    "inputFormats INTEGER,inputDataTypes INTEGER,inputShapes INTEGER,outputFormats INTEGER,outputDataTypes INTEGER,"
    "outputShapes INTEGER,attrInfo INTEGER"
)
_COMM_TASK = (
    "name INTEGER,globalTaskId INTEGER,taskType INTEGER,planeId INTEGER,groupName INTEGER,notifyId INTEGER,"
    "rdmaType INTEGER,srcRank INTEGER,dstRank INTEGER,transportType INTEGER,size INTEGER,dataType INTEGER,"
    "linkType INTEGER,opId INTEGER"
)
_COMM_OP = (
    "opName INTEGER,startNs INTEGER,endNs INTEGER,connectionId INTEGER,groupName INTEGER,opId INTEGER PRIMARY KEY,"
    "relay INTEGER,retry INTEGER,dataType INTEGER,algType INTEGER,count NUMERIC,opType INTEGER"
)
_STEP_TRACE = (
    "step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC, communication NUMERIC,"
    " free NUMERIC, stage NUMERIC, bubble NUMERIC, communication_not_overlapped_and_exclude_receive NUMERIC,"
    " preparing NUMERIC"
)
_ALWAYS = {
    "SESSION_TIME_INFO": "startTimeNs INTEGER,endTimeNs INTEGER",
    "NPU_INFO": "id INTEGER,name TEXT",
    "HOST_INFO": "hostUid TEXT,hostName TEXT",
    "ENUM_HCCL_RDMA_TYPE": _ENUM,
    "ENUM_MSTX_EVENT_TYPE": _ENUM,
    "ENUM_HCCL_LINK_TYPE": _ENUM,
    "ENUM_HCCL_TRANSPORT_TYPE": _ENUM,
    "ENUM_HCCL_DATA_TYPE": _ENUM,
    "ENUM_MODULE": _ENUM,
    "ENUM_API_TYPE": _ENUM,
    "NPU_MEM": "type INTEGER,ddr NUMERIC,hbm NUMERIC,timestampNs INTEGER,deviceId INTEGER",
    "CANN_API": "startNs INTEGER,endNs INTEGER,type INTEGER,globalTid INTEGER,connectionId INTEGER PRIMARY KEY,"
    "name INTEGER",
    "TASK": "startNs INTEGER,endNs INTEGER,deviceId INTEGER,connectionId INTEGER,globalTaskId INTEGER,"
    "globalPid INTEGER,taskType INTEGER,contextId INTEGER,streamId INTEGER,taskId INTEGER,modelId INTEGER",
    "NPU_MODULE_MEM": "moduleId INTEGER,timestampNs INTEGER,totalReserved NUMERIC,deviceId INTEGER",
    "HBM": "deviceId INTEGER,timestampNs INTEGER,bandwidth NUMERIC,hbmId INTEGER,type INTEGER",
    "LLC": "deviceId INTEGER,llcId INTEGER,timestampNs INTEGER,hitRate REAL,throughput INTEGER,mode INTEGER",
    "META_DATA": "name TEXT,value TEXT",
    "STRING_IDS": "id INTEGER PRIMARY KEY,value TEXT",
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "PYTORCH_API": "startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER,"
    " sequenceNumber INTEGER, fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER,"
    " type INTEGER",
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "MEMORY_RECORD": "component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER,"
    " totalActive INTEGER, streamPtr INTEGER, deviceId INTEGER",
    "OP_MEMORY": "name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER, activeReleaseTime INTEGER,"
    " duration INTEGER, activeDuration INTEGER, allocationTotalAllocated INTEGER, allocationTotalReserved INTEGER,"
    " allocationTotalActive INTEGER, releaseTotalAllocated INTEGER, releaseTotalReserved INTEGER,"
    " releaseTotalActive INTEGER, streamPtr INTEGER, deviceId INTEGER",
    "PYTORCH_CALLCHAINS": "id INTEGER, stack INTEGER, stackDepth INTEGER",
}
GC_RECORD = "startNs INTEGER,endNs INTEGER,globalTid INTEGER"  # only where collections are looked for
API_TYPES = {
    5000: "runtime",
    5500: "communication",
    10000: "node",
    15000: "model",
    20000: "acl",
    50001: "op",
    50002: "queue",
    50003: "trace",
    50004: "mstx",
}
_DATA_TYPES = "INT8 INT16 INT32 FP16 FP32 INT64 UINT64 UINT8 UINT16 UINT32 FP64 BFP16 INT128"
DATA_TYPES = dict(enumerate(_DATA_TYPES.split(" ")))
LINK_TYPES = dict(enumerate(["ON_CHIP", "HCCS", "PCIE", "ROCE", "SIO", "HCCS_SW", "STANDARD_ROCE"]))
TRANSPORTS = dict(enumerate(["SDMA", "RDMA", "LOCAL"]))
MEMCPY = {0: "host to host", 1: "host to device", 2: "device to host", 3: "device to device", 65535: "other"}
UNKNOWN = {65534: "N/A", 65535: "INVALID_TYPE"}
_ENUMS: dict[str, dict[int, str]] = {
    "ENUM_HCCL_RDMA_TYPE": {0: "RDMA_SEND_NOTIFY", 1: "RDMA_SEND_PAYLOAD", **UNKNOWN},
    "ENUM_MSTX_EVENT_TYPE": {0: "marker", 1: "push/pop", 2: "start/end", 3: "marker_ex"},
    "ENUM_HCCL_LINK_TYPE": LINK_TYPES | UNKNOWN,
    "ENUM_HCCL_TRANSPORT_TYPE": TRANSPORTS | UNKNOWN,
    "ENUM_HCCL_DATA_TYPE": DATA_TYPES | UNKNOWN,
    "ENUM_MEMCPY_OPERATION": MEMCPY,
}
ANALYSIS = {
    "CommAnalyzerBandwidth": "hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC,"
    " transit_time NUMERIC, bandwidth NUMERIC, large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC,"
    " total_duration NUMERIC, step TEXT, type TEXT",
    "CommAnalyzerMatrix": "hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, transport_type TEXT,"
    " transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT",
    "CommAnalyzerTime": "hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC,"
    " transit_time NUMERIC, wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT",
}


def tables(options: AscendOptions) -> dict[str, str]:
    """The tables of ascend_pytorch_profiler.db that the options make."""
    found = dict(_ALWAYS)
    old = options.old
    block, mix = ("blockDim", "mixBlockDim") if old else ("blockNum", "mixBlockNum")
    found["COMPUTE_TASK_INFO"] = _COMPUTE.format(block=block, mix=mix)
    found["COMMUNICATION_TASK_INFO"] = _COMM_TASK + ("" if old else ",isMaster INTEGER,bandwidth NUMERIC")
    found["COMMUNICATION_OP"] = _COMM_OP + ("" if old else ",deviceId INTEGER,rankSize INTEGER")
    if not options.first:
        found["AICORE_FREQ"] = "deviceId INTEGER,timestampNs NUMERIC,freq INTEGER" + ("" if old else ",dieId NUMERIC")
    if not old:
        found["COMPUTE_TASK_INFO"] += ",opState INTEGER,hf32Eligible INTEGER,gridDim INTEGER,blockDim INTEGER"
        found["ENUM_MEMCPY_OPERATION"] = _ENUM
        if options.transfers:
            found["MEMCPY_INFO"] = "globalTaskId NUMERIC,size NUMERIC,memcpyOperation NUMERIC"
    if options.api:
        found["TASK_PMU_INFO"] = "globalTaskId INTEGER,name INTEGER,value NUMERIC"
    return found


def enums(options: AscendOptions) -> dict[str, dict[int, str]]:
    found = dict(_ENUMS)
    types = dict(API_TYPES)
    if options.old:
        types[5500] = "hccl"
        del found["ENUM_MEMCPY_OPERATION"]
    return found | {"ENUM_API_TYPE": types}


def analysis_tables(options: AscendOptions) -> dict[str, str]:
    found = {"StepTraceTime": _STEP_TRACE if options.old else "deviceId INTEGER, " + _STEP_TRACE}
    return found | (ANALYSIS if options.api else {})


class Database:
    """A SQLite file whose bytes depend on nothing but what is put into it."""

    def __init__(self, path: Path, schema: Mapping[str, str], indexes: Sequence[str] = ()) -> None:
        path.unlink(missing_ok=True)
        self._path = path
        self._con = sqlite3.connect(path, isolation_level=None)
        self._con.execute("PRAGMA page_size = 4096")
        self._con.execute("PRAGMA journal_mode = OFF")
        self._con.execute("BEGIN")
        for name, columns in schema.items():
            self._con.execute(f"CREATE TABLE {name} ({columns})")
        for index in indexes:
            self._con.execute(f"CREATE INDEX {index}")
        self._widths = {name: columns.count(",") + 1 for name, columns in schema.items()}

    def __contains__(self, table: str) -> bool:
        return table in self._widths

    def insert(self, table: str, rows: Iterable[Sequence[Value]]) -> None:
        marks = ",".join("?" * self._widths[table])
        self._con.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def close(self) -> None:
        """Commits, and overwrites the version of the SQLite library, which the header would otherwise give away."""
        self._con.execute("COMMIT")
        self._con.close()
        with self._path.open("r+b") as file:
            file.seek(96)
            file.write((3_045_003).to_bytes(4, "big"))

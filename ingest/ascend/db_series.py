"""What a database recorded over time: counters, memory, steps.

Counters carry the names and units of the text export: bytes/s become MB/s (of 2^20 bytes), bytes become KB.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingest.ascend.db_raw import named, words
from ingest.draft import Draft, literal

_MIB = 1 << 20
_IO = ("bandwidth", "rxPacketRate", "rxByteRate", "rxPackets", "rxBytes", "rxErrors", "rxDropped", "txPacketRate",
       "txByteRate", "txPackets", "txBytes", "txErrors", "txDropped")  # fmt: skip
_PCIE = ("txPost", "txNonpost", "txCpl", "txNonpostLatency", "rxPost", "rxNonpost", "rxCpl")
_NETDEV = ("macTxPfcPkt", "macRxPfcPkt", "macTxByte", "macTxBandwidth", "macRxByte", "macRxBandwidth", "macTxBadByte",
           "macRxBadByte", "roceTxPkt", "roceRxPkt", "roceTxErrPkt", "roceRxErrPkt", "roceTxCnpPkt", "roceRxCnpPkt",
           "roceNewPktRty", "nicTxByte", "nicTxBandwidth", "nicRxByte", "nicRxBandwidth")  # fmt: skip
_SIO = (("req_rx", "rxReq"), ("rsp_rx", "rxRsp"), ("snp_rx", "rxSnp"), ("dat_rx", "rxDat"),
        ("req_tx", "txReq"), ("rsp_tx", "txRsp"), ("snp_tx", "txSnp"), ("dat_tx", "txDat"))  # fmt: skip
#: Read or write, as the counters of the text export write it.
_WAY = "upper(told(t.value)[1]) || told(t.value)[2:]"

#: Columns that say by a string id what a row counts.
_NAMED = ("raw_NPU_MEM.type", "raw_HBM.type", "raw_LLC.mode", "raw_QOS.eventName", "raw_SIO.name",
          "raw_NPU_OP_MEM.type", "raw_SAMPLE_PMU_TIMELINE.coreType")  # fmt: skip
#: Table, joins, counter, series, value: each a piece of SQL.
_Counter = tuple[str, str, str, str, str]


def _plain(table: str, counter: str, series: str, value: str, join: str = "") -> _Counter:
    return table, join, counter, literal(series), value


_COUNTERS: tuple[_Counter, ...] = (
    _plain("AICORE_FREQ", "'AI Core Freq' || coalesce(' ' || number(r.dieId), '')", "MHz", "freq"),
    *(
        _plain("NPU_MEM", f"CASE t.value WHEN 'app' THEN 'APP' WHEN 'device' THEN 'Device' END || '/{what}'", "KB",
               f"({value})::DOUBLE / 1024", "JOIN words_series t ON t.id = r.type")
        for what, value in (("DDR", "ddr"), ("HBM", "hbm"), ("Memory", "TRY(ddr + hbm)"))
    ),
    ("HBM", "JOIN words_series t ON t.id = r.type", f"'HBM ' || r.hbmId || '/' || {_WAY}", f"{_WAY} || '(MB/s)'",
     f"bandwidth / {_MIB}"),
    _plain("DDR", "'DDR/Read'", "Read(MB/s)", f"read / {_MIB}"),
    _plain("DDR", "'DDR/Write'", "Write(MB/s)", f"write / {_MIB}"),
    _plain("LLC", f"'LLC ' || r.llcId || ' ' || {_WAY} || '/Hit Rate'", "Hit Rate(%)", "hitRate / 100",
           "JOIN words_series t ON t.id = r.mode"),
    _plain("LLC", f"'LLC ' || r.llcId || ' ' || {_WAY} || '/Throughput'", "Throughput(MB/s)", f"throughput / {_MIB}",
           "JOIN words_series t ON t.id = r.mode"),
    ("QOS", "JOIN words_series t ON t.id = r.eventName", "'QoS ' || t.value",
     "CASE WHEN r.dieId >= 0 THEN 'die ' || r.dieId ELSE 'value' END", f"bandwidth / {_MIB}"),
    *(
        _plain("ACC_PMU", f"'Acc PMU ' || r.accId || '/{name}'", "value", column)
        for name, column in (("read_bandwidth", "readBwLevel"), ("write_bandwidth", "writeBwLevel"),
                             ("read_ost", "readOstLevel"), ("write_ost", "writeOstLevel"))
    ),
    _plain("SOC_BANDWIDTH_LEVEL", "'L2 Buffer Bw Level'", "L2 Buffer Bw Level", "l2BufferBwLevel"),
    _plain("SOC_BANDWIDTH_LEVEL", "'Mata Bw Level'", "Mata Bw Level", "mataBwLevel"),
    *(
        _plain(table, f"'{name} Port ' || coalesce(r.funcId, 0)", column, column)
        for table, name in (("NIC", "NIC"), ("ROCE", "RoCE")) for column in _IO
    ),
    *(_plain("PCIE", f"'PCIe {lane}'", way, f"{lane}{way}") for lane in _PCIE for way in ("Min", "Max", "Avg")),
    _plain("HCCS", "'HCCS/Rx'", "Rx(MB/s)", f"rxThroughput / {_MIB}"),
    _plain("HCCS", "'HCCS/Tx'", "Tx(MB/s)", f"txThroughput / {_MIB}"),
    _plain("UB", "'UB Port' || r.portId", "rxUdmaBind", "rxUdmaBind"),
    _plain("UB", "'UB Port' || r.portId", "txUdmaBind", "txUdmaBind"),
    *(
        _plain("SIO", f"'SIO ' || coalesce(t.value, r.name::VARCHAR) || '/{name}'", "value", column,
               "LEFT JOIN words_series t ON t.id = r.name")
        for name, column in _SIO
    ),
    *(_plain("NETDEV_STATS", "'Network device'", name, name) for name in _NETDEV),
    *(
        _plain("SAMPLE_PMU_TIMELINE", "coalesce(t.value, 'Core') || ' ' || r.coreId", series, column,
               "LEFT JOIN words_series t ON t.id = r.coreType")
        for series, column in (("cycles", "totalCycle"), ("usage(%)", "usage"), ("MHz", "freq"))
    ),
    _plain("CPU_USAGE", "'CPU ' || r.cpuId", "Usage(%)", "usage"),
    _plain("HOST_MEM_USAGE", "'Memory Usage'", "Usage(%)", "usage"),
    _plain("HOST_DISK_USAGE", "'Disk Usage'", "Usage(%)", "usage"),
    _plain("HOST_DISK_USAGE", "'Disk Read'", "bytes/s", "readRate"),
    _plain("HOST_DISK_USAGE", "'Disk Write'", "bytes/s", "writeRate"),
    _plain("HOST_NETWORK_USAGE", "'Network Usage'", "Usage(%)", "usage"),
    _plain("HOST_NETWORK_USAGE", "'Network'", "bytes/s", "speed"),
)  # fmt: skip


def provide(draft: Draft, rows: Mapping[str, int]) -> None:
    """The tables of things that have a time and no span."""
    words(draft, "series", *_NAMED)
    for table, join, counter, series, value in _COUNTERS:
        if rows[table]:
            what = f"{counter} AS counter, {series} AS series, stamp(r.timestampNs) AS ts_ns, {value} AS value"
            draft.provide(
                "sample",
                f"SELECT * FROM (SELECT {what} FROM raw_{table} r {join}) "
                "WHERE counter IS NOT NULL AND ts_ns IS NOT NULL AND value IS NOT NULL",
            )
    _memory_samples(draft)
    _memory_events(draft, operators=rows["OP_MEMORY"] > 0)
    if rows["OP_MEMORY"] and rows["NPU_OP_MEM"]:
        draft.note("memory_event", f"{rows['NPU_OP_MEM']} rows of NPU_OP_MEM repeat what OP_MEMORY says")
    _steps(draft, marked=rows["STEP_TIME"] > 0)


def _memory_samples(draft: Draft) -> None:
    sizes = "totalAllocated AS allocated_bytes, totalReserved AS reserved_bytes, totalActive AS active_bytes"
    draft.provide(
        "memory_sample",
        f"""SELECT component_.value AS component, stamp(r.timestamp) AS ts_ns, {sizes},
        r.streamPtr AS stream_ptr, 'NPU:' || r.deviceId AS device
        FROM raw_MEMORY_RECORD r {named(draft, "MEMORY_RECORD", "component")}
        WHERE component_.value IS NOT NULL AND stamp(r.timestamp) IS NOT NULL""",
    )
    draft.provide(
        "memory_sample",
        """SELECT 'APP' AS component, stamp(r.timestampNs) AS ts_ns, TRY(ddr + hbm) AS reserved_bytes,
        'NPU:' || r.deviceId AS device FROM raw_NPU_MEM r JOIN words_series t ON t.id = r.type AND t.value = 'app'
        WHERE stamp(r.timestampNs) IS NOT NULL""",
    )
    draft.provide(
        "memory_sample",
        """SELECT m.name AS component, stamp(r.timestampNs) AS ts_ns, r.totalReserved AS reserved_bytes,
        'NPU:' || r.deviceId AS device FROM raw_NPU_MODULE_MEM r
        JOIN (SELECT id, min(name) AS name FROM raw_ENUM_MODULE GROUP BY id) m ON m.id = r.moduleId
        WHERE stamp(r.timestampNs) IS NOT NULL""",
    )


def _memory_events(draft: Draft, *, operators: bool) -> None:
    if not operators:
        draft.provide(
            "memory_event",
            f"""SELECT stamp(r.timestampNs) AS ts_ns, operatorName_.value AS name,
            CASE WHEN t.value = 'release' THEN -r.size ELSE r.size END AS bytes, r.addr::VARCHAR AS address,
            r.totalAllocate AS allocated_bytes, r.totalReserve AS reserved_bytes, 'NPU:' || r.deviceId AS device
            FROM raw_NPU_OP_MEM r LEFT JOIN words_series t ON t.id = r.type
            {named(draft, "NPU_OP_MEM", "operatorName")}
            WHERE r.size BETWEEN 0 AND 9000000000000000000""",
        )
        return
    draft.provide(
        "memory_event",
        f"""SELECT stamp(r.allocationTime) AS ts_ns,
        coalesce(r.duration, stamp(r.releaseTime) - stamp(r.allocationTime)) AS dur_ns,
        coalesce(r.activeDuration, stamp(r.activeReleaseTime) - stamp(r.allocationTime)) AS active_dur_ns,
        name_.value AS name, r.size AS bytes, r.allocationTotalAllocated AS allocated_bytes,
        r.allocationTotalReserved AS reserved_bytes, r.allocationTotalActive AS active_bytes,
        r.releaseTotalAllocated AS release_allocated_bytes, r.releaseTotalReserved AS release_reserved_bytes,
        r.releaseTotalActive AS release_active_bytes, r.streamPtr::VARCHAR AS stream_ptr, 'NPU:' || r.deviceId AS device
        FROM raw_OP_MEMORY r {named(draft, "OP_MEMORY", "name")} WHERE r.size IS NOT NULL""",
    )


def _steps(draft: Draft, *, marked: bool) -> None:
    if marked:
        draft.provide(
            "step",
            """SELECT id AS step, stamp(startNs) AS ts_ns, stamp(endNs) - stamp(startNs) AS host_dur_ns,
            'STEP_TIME' AS source FROM raw_STEP_TIME WHERE id IS NOT NULL AND stamp(endNs) >= stamp(startNs)""",
        )
    else:
        draft.provide(
            "step",
            """SELECT TRY_CAST(regexp_extract(name, '#(\\d+)$', 1) AS BIGINT) AS step, ts_ns,
            end_ns - ts_ns AS host_dur_ns, 'ProfilerStep' AS source FROM db_api
            WHERE kind = 'step_mark' AND end_ns >= ts_ns""",
        )

"""What a database recorded over time: counters, memory, steps.

Counters carry the names and units of the text export: bytes/s become MB/s (of 2^20 bytes), bytes become KB.
"""

from __future__ import annotations

from collections.abc import Mapping

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.marks import ENGINE_STEP, PROFILER_STEP, engine_steps
from npulens.ingest.tables.sqltext import literal

_MIB = 1 << 20
_IO = ("bandwidth", "rxPacketRate", "rxByteRate", "rxPackets", "rxBytes", "rxErrors", "rxDropped", "txPacketRate",
       "txByteRate", "txPackets", "txBytes", "txErrors", "txDropped")  # fmt: skip
_PCIE = ("txPost", "txNonpost", "txCpl", "txNonpostLatency", "rxPost", "rxNonpost", "rxCpl")
_NETDEV = ("macTxPfcPkt", "macRxPfcPkt", "macTxByte", "macTxBandwidth", "macRxByte", "macRxBandwidth", "macTxBadByte",
           "macRxBadByte", "roceTxPkt", "roceRxPkt", "roceTxErrPkt", "roceRxErrPkt", "roceTxCnpPkt", "roceRxCnpPkt",
           "roceNewPktRty", "nicTxByte", "nicTxBandwidth", "nicRxByte", "nicRxBandwidth")  # fmt: skip
_SIO = {"req_rx": "rxReq", "rsp_rx": "rxRsp", "snp_rx": "rxSnp", "dat_rx": "rxDat",
        "req_tx": "txReq", "rsp_tx": "txRsp", "snp_tx": "txSnp", "dat_tx": "txDat"}  # fmt: skip
_ACC = {"read_bandwidth": "readBwLevel", "write_bandwidth": "writeBwLevel", "read_ost": "readOstLevel",
        "write_ost": "writeOstLevel"}  # fmt: skip
#: A die is named only where there are several.
_DIE = "CASE WHEN (SELECT count(DISTINCT dieId) FROM raw_AICORE_FREQ) > 1 THEN ' ' || dieId ELSE '' END"


def _way(column: str) -> str:
    """read or write as the counters of the text export write it."""
    return f"upper(told({column})[1]) || told({column})[2:]"


#: Table, counter, series, value: the last three are SQL.
COUNTERS: tuple[tuple[str, str, str, str], ...] = (
    ("AICORE_FREQ", f"'AI Core Freq' || {_DIE}", "'MHz'", "freq"),
    *(
        ("NPU_MEM", f"CASE type WHEN 'app' THEN 'APP' WHEN 'device' THEN 'Device' END || '/{what}'", "'KB'",
         f"({value})::DOUBLE / 1024")
        for what, value in (("DDR", "ddr"), ("HBM", "hbm"), ("Memory", "TRY(ddr + hbm)"))
    ),
    ("HBM", f"'HBM ' || hbmId || '/' || {_way('type')}", f"{_way('type')} || '(MB/s)'", f"bandwidth / {_MIB}"),
    ("DDR", "'DDR/Read'", "'Read(MB/s)'", f"read / {_MIB}"),
    ("DDR", "'DDR/Write'", "'Write(MB/s)'", f"write / {_MIB}"),
    ("LLC", f"'LLC ' || llcId || ' ' || {_way('mode')} || '/Hit Rate'", "'Hit Rate(%)'", "hitRate / 100"),
    ("LLC", f"'LLC ' || llcId || ' ' || {_way('mode')} || '/Throughput'", "'Throughput(MB/s)'", f"throughput / {_MIB}"),
    ("QOS", "'QoS ' || eventName", "CASE WHEN dieId >= 0 THEN 'die ' || dieId ELSE 'value' END", f"bandwidth / {_MIB}"),
    *(("ACC_PMU", f"'Acc PMU ' || accId || '/{name}'", "'value'", column) for name, column in _ACC.items()),
    ("SOC_BANDWIDTH_LEVEL", "'L2 Buffer Bw Level'", "'L2 Buffer Bw Level'", "l2BufferBwLevel"),
    ("SOC_BANDWIDTH_LEVEL", "'Mata Bw Level'", "'Mata Bw Level'", "mataBwLevel"),
    *(
        (table, f"'{name} Port ' || coalesce(funcId, 0)", literal(column), column)
        for table, name in (("NIC", "NIC"), ("ROCE", "RoCE")) for column in _IO
    ),
    *(
        ("PCIE", f"'PCIe {lane}'", literal(way), f"{lane}{way}")
        for lane in _PCIE for way in ("Min", "Max", "Avg")
    ),
    ("HCCS", "'HCCS/Rx'", "'Rx(MB/s)'", f"rxThroughput / {_MIB}"),
    ("HCCS", "'HCCS/Tx'", "'Tx(MB/s)'", f"txThroughput / {_MIB}"),
    *(("UB", "'UB Port' || portId", literal(column), column) for column in ("rxUdmaBind", "txUdmaBind")),
    *(("SIO", f"'SIO ' || coalesce(name, '') || '/{name}'", "'value'", column) for name, column in _SIO.items()),
    *(("NETDEV_STATS", "'Network device'", literal(name), name) for name in _NETDEV),
    *(
        ("SAMPLE_PMU_TIMELINE", "coalesce(coreType, 'Core') || ' ' || coreId", literal(series), column)
        for series, column in (("cycles", "totalCycle"), ("usage(%)", "usage"), ("MHz", "freq"))
    ),
    ("CPU_USAGE", "'CPU ' || cpuId", "'Usage(%)'", "usage"),
    ("HOST_MEM_USAGE", "'Memory Usage'", "'Usage(%)'", "usage"),
    ("HOST_DISK_USAGE", "'Disk Usage'", "'Usage(%)'", "usage"),
    ("HOST_DISK_USAGE", "'Disk Read'", "'bytes/s'", "readRate"),
    ("HOST_DISK_USAGE", "'Disk Write'", "'bytes/s'", "writeRate"),
    ("HOST_NETWORK_USAGE", "'Network Usage'", "'Usage(%)'", "usage"),
    ("HOST_NETWORK_USAGE", "'Network'", "'bytes/s'", "speed"),
)  # fmt: skip


def provide(draft: Draft, rows: Mapping[str, int]) -> None:
    """The tables of things that have a time and no span."""
    for table, counter, series, value in COUNTERS:
        if rows[table]:
            what = f"{counter} AS counter, {series} AS series, stamp(timestampNs) AS ts_ns, {value} AS value"
            draft.provide(
                "sample",
                f"SELECT * FROM (SELECT {what} FROM raw_{table}) "
                "WHERE counter IS NOT NULL AND ts_ns IS NOT NULL AND value IS NOT NULL",
            )
    _memory_samples(draft)
    _memory_events(draft, operators=rows["OP_MEMORY"] > 0)
    if rows["OP_MEMORY"] and rows["NPU_OP_MEM"]:
        draft.note("memory_event", Message("rows_npu_op_mem_repeat", {"n": rows["NPU_OP_MEM"]}))
    _steps(draft, marked=rows["STEP_TIME"] > 0)


def _memory_samples(draft: Draft) -> None:
    for component, table, stamp, sizes in (
        (
            "component",
            "MEMORY_RECORD",
            "timestamp",
            "totalAllocated AS allocated_bytes, totalReserved AS reserved_bytes, totalActive AS active_bytes, "
            "streamPtr AS stream_ptr",
        ),
        ("CASE type WHEN 'app' THEN 'APP' END", "NPU_MEM", "timestampNs", "TRY(ddr + hbm) AS reserved_bytes"),
        ("moduleId", "NPU_MODULE_MEM", "timestampNs", "totalReserved AS reserved_bytes"),
    ):
        draft.provide(
            "memory_sample",
            f"""SELECT {component} AS component, stamp({stamp}) AS ts_ns, {sizes}, 'NPU:' || deviceId AS device
            FROM raw_{table} WHERE {component} IS NOT NULL AND stamp({stamp}) IS NOT NULL""",
        )


def _memory_events(draft: Draft, *, operators: bool) -> None:
    if not operators:
        draft.provide(
            "memory_event",
            """SELECT stamp(timestampNs) AS ts_ns, operatorName AS name,
            CASE WHEN type = 'release' THEN -size ELSE size END AS bytes, addr AS address,
            totalAllocate AS allocated_bytes, totalReserve AS reserved_bytes, 'NPU:' || deviceId AS device
            FROM raw_NPU_OP_MEM WHERE size BETWEEN 0 AND 9000000000000000000""",
        )
        return
    draft.provide(
        "memory_event",
        """SELECT stamp(allocationTime) AS ts_ns,
        coalesce(duration, stamp(releaseTime) - stamp(allocationTime)) AS dur_ns,
        coalesce(activeDuration, stamp(activeReleaseTime) - stamp(allocationTime)) AS active_dur_ns, name,
        size AS bytes, allocationTotalAllocated AS allocated_bytes, allocationTotalReserved AS reserved_bytes,
        allocationTotalActive AS active_bytes, releaseTotalAllocated AS release_allocated_bytes,
        releaseTotalReserved AS release_reserved_bytes, releaseTotalActive AS release_active_bytes,
        streamPtr AS stream_ptr, 'NPU:' || deviceId AS device FROM raw_OP_MEMORY WHERE size IS NOT NULL""",
    )


def _steps(draft: Draft, *, marked: bool) -> None:
    if marked:
        draft.provide(
            "step",
            """SELECT id AS step, stamp(startNs) AS ts_ns, stamp(endNs) - stamp(startNs) AS host_dur_ns,
            'STEP_TIME' AS source FROM raw_STEP_TIME WHERE id IS NOT NULL AND stamp(endNs) >= stamp(startNs)""",
        )
        return
    draft.keep(
        "step_mark",
        f"""SELECT TRY_CAST(regexp_extract(name, '#(\\d+)$', 1) AS BIGINT) AS step, ts_ns,
        end_ns - ts_ns AS host_dur_ns, 'ProfilerStep' AS source FROM db_api
        WHERE kind = 'step_mark' AND regexp_matches(name, '{PROFILER_STEP}') AND end_ns >= ts_ns""",
    )
    if not count(draft, "SELECT count(*) FROM step_mark"):
        draft.keep(
            "step_engine",
            engine_steps(
                f"""SELECT row, name AS text, ts_ns AS ts, end_ns - ts_ns AS dur, false AS device, x AS track,
                NULL::BIGINT AS id FROM db_api
                WHERE kind = 'step_mark' AND regexp_matches(name, '{ENGINE_STEP}') AND end_ns >= ts_ns"""
            ),
        )
        draft.provide("step", "FROM step_engine")
    draft.provide("step", "FROM step_mark")

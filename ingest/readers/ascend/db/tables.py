"""The tables of a torch_npu or msprof database over all versions, levels and tools that add columns.

One line a table. First the contract table that suffers where it is damaged, then its name (older names after a bar).
Then its columns with their type. i: whole number, f: number, s: text. t: text that STRING_IDS holds under a number.
@ENUM_X: name that this table holds under a number. Older names of a column stand after a bar; ours=theirs gives it
another name here. Times are ns since 1970, sizes bytes, bandwidths bytes/s. Columns that MindStudio Insight adds
(depth, waitNs) are not listed, so they are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from npulens.ingest.readers.sqlite import Wanted


@dataclass(frozen=True)
class Column:
    """A column as it is fetched, and the table that turns its numbers into texts."""

    wanted: Wanted
    lookup: str | None


@dataclass(frozen=True)
class Raw:
    """A table to be read."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    into: str


def _column(word: str) -> Column:
    names, _, kind = word.partition(":")
    ours, _, theirs = names.rpartition("=")
    sources = tuple(theirs.split("|"))
    lookup = "STRING_IDS" if kind == "t" else kind[1:] if kind.startswith("@") else None
    return Column(Wanted(ours or sources[0], "i" if lookup else kind, sources), lookup)


def _tables(text: str) -> Mapping[str, Raw]:
    found = {}
    for line in re.sub(r"\n\s+", " ", text.strip()).splitlines():
        into, names, columns = line.split(None, 2)
        found[names.partition("|")[0]] = Raw(tuple(names.split("|")), tuple(map(_column, columns.split())), into)
    return found


MAIN = _tables("""
span ENUM_OVERLAP_ANALYSIS_TYPE id:i name:s
span TASK startNs:i endNs:i deviceId:i connectionId:i globalTaskId:i globalPid:i taskType:t contextId:i streamId:i
  taskId:i modelId:i
kernel COMPUTE_TASK_INFO name:t globalTaskId:i blockNum|blockDim:i mixBlockNum|mixBlockDim:i taskType:t opType:t
  inputFormats:t inputDataTypes:t inputShapes:t outputFormats:t outputDataTypes:t outputShapes:t attrInfo:t opState:t
  hf32Eligible:t
span COMMUNICATION_SCHEDULE_TASK_INFO name:t globalTaskId:i
comm COMMUNICATION_OP opName:t startNs:i endNs:i connectionId:i groupName:t groupId=groupName:i opId:i relay:i retry:i
  dataType:@ENUM_HCCL_DATA_TYPE algType:t count:i opType:t deviceId:i
comm COMMUNICATION_TASK_INFO name:t globalTaskId:i taskType:t planeId:i groupName:t groupId=groupName:i notifyId:i
  rdmaType:@ENUM_HCCL_RDMA_TYPE srcRank:i dstRank:i transportType:@ENUM_HCCL_TRANSPORT_TYPE size:i
  dataType:@ENUM_HCCL_DATA_TYPE linkType:@ENUM_HCCL_LINK_TYPE opId:i bandwidth:f
transfer MEMCPY_INFO globalTaskId:i size:i memcpyOperation:i
pmu TASK_PMU_INFO globalTaskId:i name:t value:f
span CANN_API|API startNs:i endNs:i type:@ENUM_API_TYPE globalTid:i connectionId:i name:t
span PYTORCH_API startNs:i endNs:i globalTid:i connectionId:i name:t sequenceNumber:i fwdThreadId:i inputDtypes:t
  inputShapes:t callchainId:i type:@ENUM_API_TYPE
link CONNECTION_IDS id:i connectionId:i
stack PYTORCH_CALLCHAINS id:i stack:t stackDepth:i
span MSTX_EVENTS startNs:i endNs:i eventType:@ENUM_MSTX_EVENT_TYPE category:i message:t globalTid:i domainId:t
  connectionId:i
span GC_RECORD startNs:i endNs:i globalTid:i
span OSRT_API name:t globalTid:i startNs:i endNs:i
span OVERLAP_ANALYSIS startNs:i endNs:i deviceId:i type:i
step STEP_TIME id:i startNs:i endNs:i
memory_sample MEMORY_RECORD component:t timestamp:i totalAllocated:i totalReserved:i totalActive:i streamPtr:i
  deviceId:i
memory_sample NPU_MODULE_MEM moduleId:@ENUM_MODULE timestampNs:i totalReserved:i deviceId:i
memory_event OP_MEMORY name:t size:i allocationTime:i releaseTime:i activeReleaseTime:i duration:i activeDuration:i
  allocationTotalAllocated:i allocationTotalReserved:i allocationTotalActive:i releaseTotalAllocated:i
  releaseTotalReserved:i releaseTotalActive:i streamPtr:i deviceId:i
memory_event NPU_OP_MEM operatorName:t addr:i type:t size:i timestampNs:i totalAllocate:i totalReserve:i deviceId:i
sample NPU_MEM type:t ddr:i hbm:i timestampNs:i deviceId:i
sample AICORE_FREQ deviceId:i timestampNs:i freq:f dieId:i
sample HBM deviceId:i timestampNs:i bandwidth:f hbmId:i type:t
sample DDR deviceId:i timestampNs:i read:f write:f
sample LLC deviceId:i llcId:i timestampNs:i hitRate:f throughput:f mode:t
sample QOS deviceId:i eventName:t bandwidth:f timestampNs:i dieId:i
sample ACC_PMU accId:i readBwLevel:f writeBwLevel:f readOstLevel:f writeOstLevel:f timestampNs:i deviceId:i
sample SOC_BANDWIDTH_LEVEL l2BufferBwLevel:f mataBwLevel:f timestampNs:i deviceId:i
sample NIC deviceId:i timestampNs:i funcId:i bandwidth:f rxPacketRate:f rxByteRate:f rxPackets:f rxBytes:f rxErrors:f
  rxDropped:f txPacketRate:f txByteRate:f txPackets:f txBytes:f txErrors:f txDropped:f
sample ROCE deviceId:i timestampNs:i funcId:i bandwidth:f rxPacketRate:f rxByteRate:f rxPackets:f rxBytes:f rxErrors:f
  rxDropped:f txPacketRate:f txByteRate:f txPackets:f txBytes:f txErrors:f txDropped:f
sample PCIE deviceId:i timestampNs:i txPostMin:f txPostMax:f txPostAvg:f txNonpostMin:f txNonpostMax:f txNonpostAvg:f
  txCplMin:f txCplMax:f txCplAvg:f txNonpostLatencyMin:f txNonpostLatencyMax:f txNonpostLatencyAvg:f rxPostMin:f
  rxPostMax:f rxPostAvg:f rxNonpostMin:f rxNonpostMax:f rxNonpostAvg:f rxCplMin:f rxCplMax:f rxCplAvg:f
sample HCCS deviceId:i timestampNs:i txThroughput:f rxThroughput:f
sample UB deviceId:i portId:i timestampNs:i rxUdmaBind:f txUdmaBind:f
sample SIO deviceId:i name:t timestampNs:i rxReq:f rxRsp:f rxSnp:f rxDat:f txReq:f txRsp:f txSnp:f txDat:f
sample NETDEV_STATS deviceId:i timestampNs:i macTxPfcPkt:f macRxPfcPkt:f macTxByte:f macTxBandwidth:f macRxByte:f
  macRxBandwidth:f macTxBadByte:f macRxBadByte:f roceTxPkt:f roceRxPkt:f roceTxErrPkt:f roceRxErrPkt:f roceTxCnpPkt:f
  roceRxCnpPkt:f roceNewPktRty:f nicTxByte:f nicTxBandwidth:f nicRxByte:f nicRxBandwidth:f
sample SAMPLE_PMU_TIMELINE deviceId:i timestampNs:i totalCycle:f usage:f freq:f coreId:i coreType:t
sample CPU_USAGE timestampNs:i cpuId:i usage:f
sample HOST_MEM_USAGE timestampNs:i usage:f
sample HOST_DISK_USAGE timestampNs:i readRate:f writeRate:f usage:f
sample HOST_NETWORK_USAGE timestampNs:i usage:f speed:f
parallel_group META_DATA name:s value:s
span HOST_INFO hostUid:s hostName:s
span NPU_INFO id:i name:s
span RANK_DEVICE_MAP rankId:i deviceId:i
span SESSION_TIME_INFO startTimeNs:i endTimeNs:i
""")

ANALYSIS = _tables("""
comm CommAnalyzerTime hccl_op_name:s group_name:s start_timestamp:f elapse_time:f transit_time:f wait_time:f
  synchronization_time:f idle_time:f step:s type:s
arg CommAnalyzerBandwidth hccl_op_name:s group_name:s transport_type:s transit_size:f transit_time:f bandwidth:f
  large_packet_ratio:f package_size:f count:f total_duration:f step:s type:s
comm_link CommAnalyzerMatrix hccl_op_name:s group_name:s src_rank:i dst_rank:i transport_type:s transit_size:f
  transit_time:f bandwidth:f step:s type:s op_name:s
profiler_step StepTraceTime deviceId:i step:s computing:f communication_not_overlapped:f overlapped:f communication:f
  free:f stage:f bubble:f communication_not_overlapped_and_exclude_receive:f preparing:f
""")

#: What the numbers of ENUM_API_TYPE mean where a database lacks it.
API_TYPES = {
    5000: "runtime", 5500: "hccl", 10000: "node", 15000: "model", 20000: "acl",
    50001: "op", 50002: "queue", 50003: "trace", 50004: "mstx",
}  # fmt: skip

#: Tables that only turn numbers into texts.
LOOKUPS = ("STRING_IDS", *sorted({
    column.lookup for raw in MAIN.values() for column in raw.columns if column.lookup and column.lookup != "STRING_IDS"
}), "ENUM_MEMCPY_OPERATION")  # fmt: skip

#: Any of these makes a database one of ours.
KNOWN = frozenset(("TASK", "PYTORCH_API", "CANN_API", "COMPUTE_TASK_INFO", "COMMUNICATION_OP"))

#: What MindStudio Insight adds to a database that it opens, and lists of names for numbers that no column here holds.
ADDED = re.compile(r"^(connectionCats|status_info|_.+_old_\d+|ENUM_\w+)$")

"""The tables of a torch_npu or msprof database over all versions, levels and tools that add columns.

One line a table: the contract table that suffers where it is damaged, its name (older names after a bar), its
columns with their type (i whole number, f number, s text; older names after a bar). Times are ns since 1970,
sizes bytes, bandwidths bytes/s; a whole number that is a name is an id of STRING_IDS or of an ENUM table.
Columns that MindStudio Insight adds (depth, waitNs) are not listed, so they are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ingest.sqlite import Wanted, wanted


@dataclass(frozen=True)
class Raw:
    """A table to be read."""

    names: tuple[str, ...]
    columns: tuple[Wanted, ...]
    into: str


def _tables(text: str) -> Mapping[str, Raw]:
    found = {}
    for line in re.sub(r"\n\s+", " ", text.strip()).splitlines():
        into, names, columns = line.split(None, 2)
        found[names.partition("|")[0]] = Raw(tuple(names.split("|")), wanted(columns), into)
    return found


MAIN = _tables("""
span STRING_IDS id:i value:s
span ENUM_API_TYPE id:i name:s
comm ENUM_HCCL_DATA_TYPE id:i name:s
comm ENUM_HCCL_LINK_TYPE id:i name:s
comm ENUM_HCCL_TRANSPORT_TYPE id:i name:s
comm ENUM_HCCL_RDMA_TYPE id:i name:s
span ENUM_MSTX_EVENT_TYPE id:i name:s
memory_sample ENUM_MODULE id:i name:s
transfer ENUM_MEMCPY_OPERATION id:i name:s
span ENUM_OVERLAP_ANALYSIS_TYPE id:i name:s
span TASK startNs:i endNs:i deviceId:i connectionId:i globalTaskId:i globalPid:i taskType:i contextId:i streamId:i
  taskId:i modelId:i
kernel COMPUTE_TASK_INFO name:i globalTaskId:i blockNum|blockDim:i mixBlockNum|mixBlockDim:i taskType:i opType:i
  inputFormats:i inputDataTypes:i inputShapes:i outputFormats:i outputDataTypes:i outputShapes:i attrInfo:i opState:i
  hf32Eligible:i
span COMMUNICATION_SCHEDULE_TASK_INFO name:i globalTaskId:i taskType:i opType:i
comm COMMUNICATION_OP opName:i startNs:i endNs:i connectionId:i groupName:i opId:i relay:i retry:i dataType:i algType:i
  count:i opType:i deviceId:i
comm COMMUNICATION_TASK_INFO name:i globalTaskId:i taskType:i planeId:i groupName:i notifyId:i rdmaType:i srcRank:i
  dstRank:i transportType:i size:i dataType:i linkType:i opId:i bandwidth:f
transfer MEMCPY_INFO globalTaskId:i size:i memcpyOperation:i
pmu TASK_PMU_INFO globalTaskId:i name:i value:f
span CANN_API|API startNs:i endNs:i type:i globalTid:i connectionId:i name:i
span PYTORCH_API startNs:i endNs:i globalTid:i connectionId:i name:i sequenceNumber:i fwdThreadId:i inputDtypes:i
  inputShapes:i callchainId:i type:i
link CONNECTION_IDS id:i connectionId:i
stack PYTORCH_CALLCHAINS id:i stack:i stackDepth:i
span MSTX_EVENTS startNs:i endNs:i eventType:i rangeId:i category:i message:i globalTid:i domainId:i connectionId:i
span GC_RECORD startNs:i endNs:i globalTid:i
span OSRT_API name:i globalTid:i startNs:i endNs:i
span OVERLAP_ANALYSIS startNs:i endNs:i deviceId:i type:i
step STEP_TIME id:i startNs:i endNs:i
memory_sample MEMORY_RECORD component:i timestamp:i totalAllocated:i totalReserved:i totalActive:i streamPtr:i
  deviceId:i
memory_sample NPU_MODULE_MEM moduleId:i timestampNs:i totalReserved:i deviceId:i
memory_event OP_MEMORY name:i size:i allocationTime:i releaseTime:i activeReleaseTime:i duration:i activeDuration:i
  allocationTotalAllocated:i allocationTotalReserved:i allocationTotalActive:i releaseTotalAllocated:i
  releaseTotalReserved:i releaseTotalActive:i streamPtr:i deviceId:i
memory_event NPU_OP_MEM operatorName:i addr:i type:i size:i timestampNs:i totalAllocate:i totalReserve:i component:i
  deviceId:i
sample NPU_MEM type:i ddr:i hbm:i timestampNs:i deviceId:i
sample AICORE_FREQ deviceId:i timestampNs:i freq:f dieId:i
sample HBM deviceId:i timestampNs:i bandwidth:f hbmId:i type:i
sample DDR deviceId:i timestampNs:i read:f write:f
sample LLC deviceId:i llcId:i timestampNs:i hitRate:f throughput:f mode:i
sample QOS deviceId:i eventName:i bandwidth:f timestampNs:i dieId:i
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
sample SIO deviceId:i name:i timestampNs:i rxReq:f rxRsp:f rxSnp:f rxDat:f txReq:f txRsp:f txSnp:f txDat:f
sample NETDEV_STATS deviceId:i timestampNs:i macTxPfcPkt:f macRxPfcPkt:f macTxByte:f macTxBandwidth:f macRxByte:f
  macRxBandwidth:f macTxBadByte:f macRxBadByte:f roceTxPkt:f roceRxPkt:f roceTxErrPkt:f roceRxErrPkt:f roceTxCnpPkt:f
  roceRxCnpPkt:f roceNewPktRty:f nicTxByte:f nicTxBandwidth:f nicRxByte:f nicRxBandwidth:f
sample SAMPLE_PMU_TIMELINE deviceId:i timestampNs:i totalCycle:f usage:f freq:f coreId:i coreType:i
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

#: Any of these makes a database one of ours.
KNOWN = frozenset(("TASK", "PYTORCH_API", "CANN_API", "COMPUTE_TASK_INFO", "COMMUNICATION_OP"))

#: What MindStudio Insight adds to a database that it opens.
ADDED = re.compile(r"^(connectionCats|status_info|_.+_old_\d+)$")

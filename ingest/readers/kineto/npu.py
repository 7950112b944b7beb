"""Ascend in a Kineto trace: what torch_npu writes through PyTorch's own profiler (MSPTI, from 2.12.0.post3 on).

No such file was at hand. What is taken for one follows Kineto's names for a private device and MSPTI's names for its
records. It also follows the names that CANN gives its tasks everywhere else. Whatever else a file calls them, its
events stay.
"""

from __future__ import annotations

#: Categories on the device beside Kineto's own, by what they hold.
KERNELS = ("privateuse1_kernel", "npu_kernel", "npu_op", "ascend_hardware")
COPIES = ("privateuse1_memcpy", "npu_memcpy")
FILLS = ("privateuse1_memset", "npu_memset")
COLLECTIVES = ("hccl", "npu_communication", "privateuse1_communication", "npu_hccl")
NOTES = ("privateuse1_user_annotation", "npu_user_annotation")
DEVICE = (*KERNELS, *COPIES, *FILLS, *COLLECTIVES, *NOTES)
#: And on the host.
HOST = ("npu_runtime", "npu_driver", "acl_runtime", "cann_runtime", "mspti_runtime")

#: Tasks that CANN's own files call waits and marks: no work, whatever category they were filed under.
WAITS = r"^(EVENT_WAIT|NOTIFY_WAIT|Notify[ _]Wait)"
MARKS = r"^(EVENT_RECORD|NOTIFY_RECORD|Notify[ _]Record|PLACE_HOLDER_SQE|PROFILING_(EN|DIS)ABLE)"
#: Calls that only CANN has, as MSPTI names them.
CALLS = r"^(aclrt|aclnn|aclop|AscendCL@|Node@launch|Hccl[A-Z])"
#: Collectives of HCCL.
HCCL = r"(?i)^hcom_|^hccl"

#: The same said otherwise: MSPTI's records beside Kineto's arguments.
STREAM = ("stream", "streamId", "stream id", "Stream Id")
DEVICE_ID = ("device", "deviceId", "device id")
GROUP = ("Process Group Name", "commName", "comm name", "group name", "groupName")
DTYPE = ("dtype", "dataType", "data type", "data_type")
ALGORITHM = ("algType", "alg type", "alg_type")
TASK_TYPE = ("Task Type", "task type", "taskType", "kernel type", "type")
_CORES = {
    "KERNEL_AICORE": "AI_CORE", "KERNEL_AIVEC": "AI_VECTOR_CORE", "KERNEL_AICPU": "AI_CPU",
    "KERNEL_MIX_AIC": "MIX_AIC", "KERNEL_MIX_AIV": "MIX_AIV",
}  # fmt: skip


def told(keys: tuple[str, ...]) -> str:
    """SQL: the first of these arguments that an event carries."""
    said = ", ".join(f"json_extract_string(r.rest, '$.\"{key}\"')" for key in keys)
    return f"coalesce({said})"


def core(task_type: str) -> str:
    """SQL: the core of a task type, as every other Ascend file names it."""
    cases = " ".join(f"WHEN '{theirs}' THEN '{ours}'" for theirs, ours in _CORES.items())
    return f"CASE {task_type} {cases} ELSE {task_type} END"

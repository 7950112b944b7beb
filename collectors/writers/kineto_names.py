"""How the same work is called under CUDA, ROCm and, through MSPTI, on an NPU in a Kineto trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from npulens.collectors.simulator.job import CommOp, Copy, Kernel, Runtime, Span

Device = Literal["cuda", "rocm", "npu"]

STREAMS = {0: 0, 2: 7, 3: 13, 4: 20, 5: 24, 6: 28, 7: 32, 8: 36}
_CALLS = {
    "aclrtMemcpyAsync": ("MemcpyAsync", 41),
    "aclrtRecordEvent": ("EventRecord", 135),
    "aclrtStreamWaitEvent": ("StreamWaitEvent", 147),
    "aclrtSynchronizeStreamWithTimeout": ("StreamSynchronize", 131),
    "aclrtSynchronizeDevice": ("DeviceSynchronize", 165),
    "aclrtMallocAlign32": ("Malloc", 20),
    "aclrtFree": ("Free", 22),
    "aclmdlRIExecuteAsync": ("GraphLaunch", 311),
}
_COPIES = {
    "h2d": "Memcpy HtoD (Pageable -> Device)",
    "d2h": "Memcpy DtoH (Device -> Pageable)",
    "d2d": "Memcpy DtoD (Device -> Device)",
}
_GEMM = {
    "cuda": "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
    "rocm": "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x224x64_MI16x16x1_SN_LDSB0_AFC1_AFEM1",
}
_COLLECTIVE = {
    "cuda": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "rocm": "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
}
_EXCHANGE = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
_ON_NPU_ONLY = ("acl", "Hccl", "record_event", "wait_event")


@dataclass(frozen=True)
class Spelling:
    device: Device

    @property
    def runtime_category(self) -> str:
        return "privateuse1_runtime" if self.device == "npu" else "cuda_runtime"

    @property
    def backend(self) -> str:
        return "hccl" if self.device == "npu" else "nccl"

    def shows(self, span: Span) -> bool:
        """The commands torch_npu wraps around each launch exist nowhere else."""
        return self.device == "npu" or not (span.kind == "cpu_op" and span.name.startswith(_ON_NPU_ONLY))

    def stream(self, number: int) -> int:
        return number if self.device == "npu" else STREAMS[number]

    def call(self, call: Runtime) -> tuple[str, int] | None:
        """Name and callback id of a runtime call; None for what only CANN has."""
        if call.level == "node":
            name, number = ("LaunchKernelExC", 430) if call.item.startswith("hcom") else ("LaunchKernel", 211)
        elif call.item in _CALLS and call.level == "acl":
            name, number = _CALLS[call.item]
        else:
            return None
        if self.device == "npu":
            return ("Node@launch" if call.level == "node" else f"AscendCL@{call.item}"), number
        return ("hip" if self.device == "rocm" else "cuda") + name, number

    def task(self, span: Span) -> tuple[str, str] | None:
        """Category and name of a device task; None for what this kind of trace does not show."""
        detail = span.detail
        if isinstance(detail, Copy):
            return "gpu_memcpy", _COPIES[detail.direction]
        if isinstance(detail, CommOp):
            if self.device == "npu":
                return "kernel", span.name
            return "kernel", _COLLECTIVE[self.device] if detail.collective == "allreduce" else _EXCHANGE
        if not isinstance(detail, Kernel):
            return None
        if span.kind == "memset":
            return "gpu_memset", "Memset (Device)"
        return "kernel", self._kernel(span, detail)

    def _kernel(self, span: Span, kernel: Kernel) -> str:
        if self.device == "npu":
            return span.name
        if kernel.op_type == span.name:
            return span.name
        if kernel.op_type == "MatMulV2":
            return _GEMM[self.device]
        if kernel.op_type == "TensorMove":
            functor = "at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda>"
            return f"void at::native::elementwise_kernel<128, 4, {functor}>(int, {functor})"
        functor = f"at::native::{kernel.op_type}Functor<c10::BFloat16>"
        return f"void at::native::vectorized_elementwise_kernel<8, {functor}, std::array<char*, 2ul> >(int, {functor})"

    def properties(self, devices: int) -> list[dict[str, Any]]:
        facts: dict[str, Any] = {"name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 84_990_623_744, "computeMajor": 8}
        facts |= {"computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048}
        facts |= {"regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 108}
        if self.device == "rocm":
            facts |= {"name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992, "warpSize": 64, "numSms": 304}
            facts |= {"sharedMemPerBlock": 65536, "computeMinor": 4}
        if self.device == "npu":
            facts = {"name": "Ascend910B2", "totalGlobalMem": 65_787_658_240}
        return [{"id": number, **facts} for number in range(devices)]

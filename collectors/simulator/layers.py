"""The layers of the simulated network: what each has the host call and the device run, forward and backward."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from npulens.collectors.simulator.config import SimConfig
from npulens.collectors.simulator.items import KernelSpec
from npulens.collectors.simulator.kernels import (
    BF16,
    CUBE_FLOP_PER_NS,
    EMPTY,
    dims,
    matmul,
    tensors,
    traffic_ns,
    vector,
)
from npulens.collectors.simulator.script import Script

LINEAR = "torch/nn/modules/linear.py(125): forward"
HEAD = 128  # width of an attention head
_ADD_LAYER_NORM = ("AddLayerNorm", "npu::npu_add_layer_norm")


class Layers:
    def __init__(self, config: SimConfig) -> None:
        self.config = config
        self.script = Script(frames=config.frames, shapes=config.shapes)
        self.tokens, self.hidden, self.tp = config.tokens, config.hidden, config.tensor_parallel

    def _add_and_norm(self, add: str, norm: str) -> None:
        """The residual and the norm behind it: one kernel where the script uses torch_npu's."""
        if not self.config.fused:
            self._simple(add, "aten::add", "aclnnAdd", "Add", 2)
            self._norm(norm)
            return
        shape = (self.tokens, self.hidden)
        kind, op = ("AddRmsNorm", "npu::npu_add_rms_norm") if self.config.llama else _ADD_LAYER_NORM
        sides = (shape, shape, shape[1:]) if self.config.llama else (shape, shape, shape[1:], shape[1:])
        kernel = replace(
            vector(f"aclnn{kind}", kind, 3, shape), inputs=tensors(*sides), outputs=tensors(shape, shape)
        )
        types = ("c10::BFloat16",) * len(sides)
        with self.script.module(kind, "model.py(31): forward"), self.script.op(op, dims(*sides), types, norm):
            self.script.allocate(norm, op, 2 * BF16 * shape[0] * shape[1])
            self.script.launch(f"aclnn{kind}", (kernel,))

    def _norm(self, key: str) -> None:
        if self.config.llama:
            self._simple(key, "npu::npu_rms_norm", "aclnnRmsNorm", "RmsNorm", 1)
            return
        with self.script.module("LayerNorm", "torch/nn/modules/normalization.py(201): forward"):
            self._simple(key, "aten::layer_norm", "aclnnLayerNorm", "LayerNormV3", 1)

    def _simple(
        self, key: str, op: str, api: str, op_type: str, inputs: int, core: str = "", width: int | None = None
    ) -> None:
        shape = (self.tokens, width or self.hidden)
        with self.script.op(op, dims(*([shape] * inputs)), ("c10::BFloat16",) * inputs, key):
            self.script.allocate(key, op, BF16 * shape[0] * shape[1])
            self.script.launch(api, (vector(api, op_type, inputs, shape, core),))

    def narrow(self, width: int) -> int:
        """SwiGLU halves what it is given."""
        return width // 2 if self.config.llama else width

    def _activation(self, key: str, width: int) -> None:
        if not self.config.llama:
            with self.script.module("GELU", "torch/nn/modules/activation.py(704): forward"):
                self._simple(key, "aten::gelu", "aclnnGelu", "Gelu", 1, width=width)
            return
        wide, half = (self.tokens, width), (self.tokens, width // 2)
        kernel = replace(vector("aclnnSwiGlu", "SwiGlu", 2, half), inputs=tensors(wide))
        with self.script.op("npu::npu_swiglu", (*dims(wide), ""), ("c10::BFloat16", "Scalar"), key):
            self.script.allocate(key, "npu::npu_swiglu", BF16 * half[0] * half[1])
            self.script.launch("aclnnSwiGlu", (kernel,))

    def _activation_grad(self, key: str, width: int) -> None:
        if not self.config.llama:
            self._grad(key, "Gelu", ("aclnnGeluBackward", "GeluGrad"), 3, width=width)
            return
        wide, half = (self.tokens, width), (self.tokens, width // 2)
        kernel = replace(vector("aclnnSwiGluGrad", "SwiGluGrad", 4, half), inputs=tensors(half, wide))
        with self._node(key, "NpuSwigluBackward0", (half,)):
            self.script.launch("aclnnSwiGluGrad", (replace(kernel, outputs=tensors(wide)),))

    def _rotary(self, key: str) -> None:
        """Queries and keys turned by their position."""
        shape, table = (self.tokens, self.hidden // self.tp), (self.tokens, HEAD)
        spec = vector("aclnnRotaryPositionEmbedding", "RotaryPositionEmbedding", 1, shape)
        kernel = replace(spec, inputs=tensors(shape, table, table))
        for name in ("q", "k"):
            with self.script.op("npu::npu_rotary_mul", dims(shape, table, table), ("c10::BFloat16",) * 3, key + name):
                self.script.allocate(key + name, "npu::npu_rotary_mul", BF16 * shape[0] * shape[1])
                self.script.launch("aclnnRotaryPositionEmbedding", (kernel,))

    def _rotary_grad(self, key: str) -> None:
        shape = (self.tokens, self.hidden // self.tp)
        kind = "RotaryPositionEmbeddingGrad"
        for name in ("k", "q"):
            with self._node(key + name, "NpuRotaryMulBackward0", (shape,)):
                self.script.launch(f"aclnn{kind}", (vector(f"aclnn{kind}", kind, 2, shape),))

    def _linear(self, key: str, k: int, n: int) -> None:
        script, m = self.script, self.tokens
        sides, types = dims((m, k), (n, k), (n,)), ("c10::BFloat16",) * 3
        with script.module("Linear", LINEAR), script.op("aten::linear", sides, types, base_ns=2_500):
            with script.op("aten::t", sides[1:2], types[:1], base_ns=1_500):
                pass
            with script.op("aten::addmm", dims((n,), (m, k), (k, n)), types, key):
                script.allocate(key, "aten::addmm", BF16 * m * n)
                script.launch("aclnnAddmm", (self._product(key, "aclnnAddmm", m, k, n),))

    def _product(self, key: str, api: str, m: int, k: int, n: int) -> KernelSpec:
        """A matrix product; those of experts are grouped."""
        found = matmul(api, m, k, n)
        if not self.config.experts or ".fc" not in key:
            return found
        return replace(found, name="aclnnGroupedMatmulV4_GroupedMatmul_GroupedMatmul", op_type="GroupedMatmul")

    def _attention(self, key: str) -> None:
        script, shape = self.script, (self.tokens, self.hidden // self.tp)
        base = 4 * self.tokens * 2_048 * shape[1] // CUBE_FLOP_PER_NS * 2 + 9_000
        kernel = KernelSpec(
            "aclnnFlashAttentionScore_FlashAttentionScore_FlashAttentionScore",
            "FlashAttentionScore",
            "MIX_AIC",
            base,
            tensors(shape, shape, shape),
            tensors(shape),
        )
        with script.op("npu::npu_fusion_attention", dims(shape, shape, shape), ("c10::BFloat16",) * 3, key):
            script.allocate(key, "npu::npu_fusion_attention", BF16 * shape[0] * shape[1])
            script.launch("aclnnFlashAttentionScore", (kernel,))

    def _dropout(self, key: str) -> None:
        """The mask comes from the random number engine on a stream of its own."""
        script, shape = self.script, (self.tokens, self.hidden)
        bits = (shape[0] * shape[1] // 8,)
        mask = KernelSpec(
            "aclnnDropoutGenMaskV2_DSAGenBitMask_DSAGenBitMask",
            "DSAGenBitMask",
            "DSA_SQE",
            3_400,
            EMPTY,
            tensors(bits, dtype="UINT8"),
        )
        with script.op("npu::_npu_dropout", (*dims(shape), ""), ("c10::BFloat16", "Scalar"), key):
            script.allocate(key, "npu::_npu_dropout", bits[0])
            script.launch("aclnnDropoutGenMaskV2", (mask,), "random")
            script.signal("random", "compute")
            script.launch("aclnnDropoutDoMask", (vector("aclnnDropoutDoMask", "DropOutDoMask", 1, shape),))

    def _norm_grad(self, key: str, fused: bool) -> None:
        if self.config.llama:
            name = "NpuAddRmsNorm" if fused else "NpuRmsNorm"
            self._grad(key, name, ("aclnnRmsNormGrad", "RmsNormGrad"), 4 if fused else 2)
        elif fused:
            self._grad(key, "NpuAddLayerNorm", ("aclnnAddLayerNormGrad", "AddLayerNormGrad"), 4)
        else:
            self._grad(key, "NativeLayerNorm", ("aclnnLayerNormBackward", "LayerNormGradV3"), 2)

    def _grad(
        self, key: str, name: str, launch: tuple[str, str], inputs: int, core: str = "", width: int | None = None
    ) -> None:
        shape = (self.tokens, width or self.hidden)
        with self._node(key, f"{name}Backward0", (shape,)):
            if launch[0]:
                self.script.launch(launch[0], (vector(*launch, inputs, shape, core),))

    def _node(self, key: str, name: str, shapes: tuple[tuple[int, ...], ...]) -> ExitStack:
        """The two frames the autograd engine puts around a backward operator; frees what the forward kept."""
        script, opened = self.script, ExitStack()
        opened.callback(script.release, key)
        opened.enter_context(script.op(f"autograd::engine::evaluate_function: {name}", base_ns=2_000))
        opened.enter_context(script.op(name, dims(*shapes), ("c10::BFloat16",) * len(shapes), key))
        return opened

    def _linear_grad(self, key: str, k: int, n: int) -> None:
        script, m = self.script, self.tokens
        with self._node(key, "AddmmBackward0", ((m, n),)):
            for a, b, c in ((m, n, k), (k, m, n)):
                with script.op("aten::mm", dims((a, b), (b, c)), ("c10::BFloat16",) * 2):
                    memset = KernelSpec("aclnnMm_MatMulCommon_MemSet", "MemSet", "AI_VECTOR_CORE", 2_600, EMPTY, EMPTY)
                    kernels = (self._product(key, "aclnnMm", a, b, c),)
                    script.launch("aclnnMm", (memset, *kernels) if a == k else kernels)
            with script.op("aten::sum", dims((m, n)), ("c10::BFloat16",)):
                spec = vector("aclnnReduceSum", "ReduceSum", 1, (m, n), "MIX_AIV")
                kernel = replace(spec, base_ns=traffic_ns((m + 1) * n), outputs=tensors((n,)))
                script.launch("aclnnReduceSum", (kernel,))

    def _attention_grad(self, key: str) -> None:
        shape = (self.tokens, self.hidden // self.tp)
        name = "aclnnFlashAttentionScoreGrad_FlashAttentionScoreGrad_FlashAttentionScoreGrad"
        base = 10 * self.tokens * 2_048 * shape[1] // CUBE_FLOP_PER_NS * 2 + 12_000
        kernel = KernelSpec(
            name, "FlashAttentionScoreGrad", "MIX_AIC", base, tensors(*([shape] * 4)), tensors(*([shape] * 3))
        )
        with self._node(key, "NpuFusionAttentionBackward0", (shape,)):
            self.script.launch("aclnnFlashAttentionScoreGrad", (kernel,))

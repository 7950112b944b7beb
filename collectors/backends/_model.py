"""The network that a simulated job trains: a pre-norm transformer in bfloat16, and one step of its training script."""

from __future__ import annotations

from contextlib import ExitStack

from collectors.backends._job import CommCall, SimConfig, Tensors
from collectors.backends._script import Instruction, KernelSpec, Script

CUBE_FLOP_PER_NS = 280_000  # what a large bfloat16 matrix product reaches
HBM_BYTES_PER_NS = 1_200
BF16 = 2
LINEAR = "torch/nn/modules/linear.py(125): forward"


def build_step(config: SimConfig) -> tuple[Instruction, ...]:
    """One training step: load, copy, forward, loss, backward with bucketed all-reduce, optimizer, read the loss."""
    net = Net(config)
    with net.script.step():
        net.load()
        net.forward()
        net.backward()
        net.optimize()
    return tuple(net.script.items)


def _tensors(*shapes: tuple[int, ...], dtype: str = "DT_BF16") -> Tensors:
    return Tensors(
        ";".join(",".join(map(str, shape)) for shape in shapes),
        ";".join([dtype] * len(shapes)),
        ";".join(["ND"] * len(shapes)),
    )


def _dims(*shapes: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(",".join(map(str, shape)) for shape in shapes)


class Net:
    def __init__(self, config: SimConfig) -> None:
        self.config = config
        self.script = Script(frames=config.frames, shapes=config.shapes)
        self.tokens, self.hidden, self.tp = config.tokens, config.hidden, config.tensor_parallel
        self.dp = config.ranks // config.tensor_parallel

    def matmul(self, api: str, m: int, k: int, n: int) -> KernelSpec:
        return KernelSpec(
            f"{api}_MatMulCommon_MatMulV2",
            "MatMulV2",
            "AI_CORE",
            2 * m * k * n // CUBE_FLOP_PER_NS + 4_000,
            _tensors((m, k), (k, n)),
            _tensors((m, n)),
        )

    def vector(self, api: str, op_type: str, inputs: int, shape: tuple[int, ...], core: str = "") -> KernelSpec:
        size = BF16
        for side in shape:
            size *= side
        return KernelSpec(
            f"{api}_{op_type}AiCore_{op_type}",
            op_type,
            core or "AI_VECTOR_CORE",
            size * (inputs + 1) // HBM_BYTES_PER_NS + 1_800,
            _tensors(*([shape] * inputs)),
            _tensors(shape),
        )

    def load(self) -> None:
        script, samples = self.script, self.tokens
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        loader = "torch/utils/data/dataloader.py"
        with script.python(f"{loader}(630): __next__"), script.annotation(name), script.python(f"{loader}(1327): _get"):
            script.work("dataloader", "next batch", 180_000)
            with script.op("aten::empty", ("", "", ""), ("ScalarList", "Scalar", "None")):
                pass
        for tensor in ("tokens", "labels"):
            with ExitStack() as opened:
                for op in ("aten::to", "aten::_to_copy", "aten::copy_"):
                    opened.enter_context(script.op(op, (f"1,{samples}", ""), ("long int", "Scalar")))
                script.allocate(tensor, "aten::empty_strided", samples * 8)
                script.copy("h2d", samples * 8)

    def forward(self) -> None:
        script = self.script
        model = "model.py(141): forward"
        with script.annotation("DistributedDataParallel.forward"), script.module("GPTModel", model):
            for layer in range(self.config.layers):
                with script.module("Block", "model.py(88): forward"):
                    self._layer(layer)
            self._linear("head", self.hidden, self.hidden)
        with script.module("CrossEntropyLoss", "torch/nn/modules/loss.py(1188): forward"):
            self._simple("loss", "aten::nll_loss_nd", "aclnnNLLLoss", "NLLLoss", 2, "MIX_AIV")

    def _layer(self, layer: int) -> None:
        hidden, tp = self.hidden, self.tp
        self._norm(f"L{layer}.norm1")
        self._linear(f"L{layer}.qkv", hidden, 3 * hidden // tp)
        with self.script.module("Attention", "model.py(52): forward"):
            self._attention(f"L{layer}.attention")
        self._linear(f"L{layer}.proj", hidden // tp, hidden)
        self._reduce_activations()
        with self.script.module("Dropout", "torch/nn/modules/dropout.py(70): forward"):
            self._dropout(f"L{layer}.dropout")
        self._simple(f"L{layer}.add1", "aten::add", "aclnnAdd", "Add", 2)
        self._norm(f"L{layer}.norm2")
        self._linear(f"L{layer}.fc1", hidden, 4 * hidden // tp)
        with self.script.module("GELU", "torch/nn/modules/activation.py(704): forward"):
            self._simple(f"L{layer}.gelu", "aten::gelu", "aclnnGelu", "Gelu", 1, width=4 * hidden // tp)
        self._linear(f"L{layer}.fc2", 4 * hidden // tp, hidden)
        self._reduce_activations()
        self._simple(f"L{layer}.add2", "aten::add", "aclnnAdd", "Add", 2)

    def _norm(self, key: str) -> None:
        with self.script.module("LayerNorm", "torch/nn/modules/normalization.py(201): forward"):
            self._simple(key, "aten::layer_norm", "aclnnLayerNorm", "LayerNormV3", 1)

    def _simple(
        self, key: str, op: str, api: str, op_type: str, inputs: int, core: str = "", width: int | None = None
    ) -> None:
        shape = (self.tokens, width or self.hidden)
        with self.script.op(op, _dims(*([shape] * inputs)), ("c10::BFloat16",) * inputs, key):
            self.script.allocate(key, op, BF16 * shape[0] * shape[1])
            self.script.launch(api, (self.vector(api, op_type, inputs, shape, core),))

    def _linear(self, key: str, k: int, n: int) -> None:
        script, m = self.script, self.tokens
        dims, types = _dims((m, k), (n, k), (n,)), ("c10::BFloat16",) * 3
        with script.module("Linear", LINEAR), script.op("aten::linear", dims, types, base_ns=2_500):
            with script.op("aten::t", dims[1:2], types[:1], base_ns=1_500):
                pass
            with script.op("aten::addmm", dims, types, key):
                script.allocate(key, "aten::addmm", BF16 * m * n)
                script.launch("aclnnAddmm", (self.matmul("aclnnAddmm", m, k, n),))

    def _attention(self, key: str) -> None:
        script, shape = self.script, (self.tokens, self.hidden // self.tp)
        base = 4 * self.tokens * 2_048 * shape[1] // CUBE_FLOP_PER_NS * 2 + 9_000
        kernel = KernelSpec(
            "aclnnFlashAttentionScore_FlashAttentionScore_FlashAttentionScore",
            "FlashAttentionScore",
            "MIX_AIC",
            base,
            _tensors(shape, shape, shape),
            _tensors(shape),
        )
        with script.op("npu::npu_fusion_attention", _dims(shape, shape, shape), ("c10::BFloat16",) * 3, key):
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
            Tensors("", "", ""),
            _tensors(bits, dtype="UINT8"),
        )
        with script.op("npu::_npu_dropout", (*_dims(shape), ""), ("c10::BFloat16", "Scalar"), key):
            script.allocate(key, "npu::_npu_dropout", bits[0])
            script.launch("aclnnDropoutGenMaskV2", (mask,), "random")
            script.signal("random", "compute")
            script.launch("aclnnDropoutDoMask", (self.vector("aclnnDropoutDoMask", "DropOutDoMask", 1, shape),))

    def _reduce_activations(self) -> None:
        """With tensor parallelism the partial products of a group add up before anything else can run."""
        if self.tp > 1:
            self._all_reduce("tp", self.tokens * self.hidden)
            self.script.signal("tp", "compute")

    def _all_reduce(self, kind: str, count: int) -> None:
        script = self.script
        script.signal("compute", kind)
        dims = (str(count),)
        call = CommCall(kind, "allreduce", "BFloat16", count)
        with script.op("c10d::allreduce_", dims, ("TensorList",)), script.op("record_param_comms", call=call):
            script.collect(kind, count, BF16, "BFP16")

    def backward(self) -> None:
        script, config = self.script, self.config
        engine = "torch/autograd/graph.py(825): _engine_run_backward"
        with script.python("torch/_tensor.py(581): backward"), script.python(engine):
            with script.op("aten::ones_like", ("",), ("c10::BFloat16",)):
                script.launch("aclnnInplaceOne", (self.vector("aclnnInplaceOne", "OnesLike", 1, (1,)),))
            with script.backward_thread():
                self._grad("loss", "NllLoss", ("aclnnNLLLossBackward", "NLLLossGrad"), 2, "MIX_AIV")
                self._linear_grad("head", self.hidden, self.hidden)
                pending = 0
                for layer in reversed(range(config.layers)):
                    self._layer_grad(layer)
                    pending += 1
                    if pending == config.bucket_layers or layer == 0:
                        self._bucket(pending)
                        pending = 0

    def _bucket(self, layers: int) -> None:
        if self.dp < 2:
            return
        count = layers * 12 * self.hidden * self.hidden // self.tp
        with self.script.op("torch::distributed::reducer::mul_out", (str(count),), ("c10::BFloat16",)):
            self.script.copy("d2d", count * BF16 // 8)
        self._all_reduce("dp", count)

    def _layer_grad(self, layer: int) -> None:
        hidden, tp = self.hidden, self.tp
        wide = 4 * hidden // tp
        self._grad(f"L{layer}.add2", "Add", ("", ""), 0)
        self._linear_grad(f"L{layer}.fc2", wide, hidden)
        self._grad(f"L{layer}.gelu", "Gelu", ("aclnnGeluBackward", "GeluGrad"), 3, width=wide)
        self._linear_grad(f"L{layer}.fc1", hidden, wide)
        self._grad(f"L{layer}.norm2", "NativeLayerNorm", ("aclnnLayerNormBackward", "LayerNormGradV3"), 2)
        self._grad(f"L{layer}.add1", "Add", ("", ""), 0)
        self._grad(f"L{layer}.dropout", "NpuDropout", ("aclnnDropoutDoMask", "DropOutDoMask"), 1)
        self._linear_grad(f"L{layer}.proj", hidden // tp, hidden)
        self._attention_grad(f"L{layer}.attention")
        self._linear_grad(f"L{layer}.qkv", hidden, 3 * hidden // tp)
        self._grad(f"L{layer}.norm1", "NativeLayerNorm", ("aclnnLayerNormBackward", "LayerNormGradV3"), 2)

    def _grad(
        self, key: str, name: str, launch: tuple[str, str], inputs: int, core: str = "", width: int | None = None
    ) -> None:
        shape = (self.tokens, width or self.hidden)
        with self._node(key, f"{name}Backward0", (shape,)):
            if launch[0]:
                self.script.launch(launch[0], (self.vector(*launch, inputs, shape, core),))

    def _node(self, key: str, name: str, shapes: tuple[tuple[int, ...], ...]) -> ExitStack:
        """The two frames the autograd engine puts around a backward operator; frees what the forward kept."""
        script, opened = self.script, ExitStack()
        opened.callback(script.release, key)
        opened.enter_context(script.op(f"autograd::engine::evaluate_function: {name}", base_ns=2_000))
        opened.enter_context(script.op(name, _dims(*shapes), ("c10::BFloat16",) * len(shapes), key))
        return opened

    def _linear_grad(self, key: str, k: int, n: int) -> None:
        script, m = self.script, self.tokens
        with self._node(key, "AddmmBackward0", ((m, n),)):
            for a, b, c in ((m, n, k), (k, m, n)):
                with script.op("aten::mm", _dims((a, b), (b, c)), ("c10::BFloat16",) * 2):
                    memset = KernelSpec("aclnnMm_MatMulCommon_MemSet", "MemSet", "AI_VECTOR_CORE", 2_600, *_EMPTY)
                    kernels = (self.matmul("aclnnMm", a, b, c),)
                    script.launch("aclnnMm", (memset, *kernels) if a == k else kernels)
            with script.op("aten::sum", _dims((m, n)), ("c10::BFloat16",)):
                script.launch("aclnnReduceSum", (self.vector("aclnnReduceSum", "ReduceSum", 1, (m, n), "MIX_AIV"),))

    def _attention_grad(self, key: str) -> None:
        shape = (self.tokens, self.hidden // self.tp)
        name = "aclnnFlashAttentionScoreGrad_FlashAttentionScoreGrad_FlashAttentionScoreGrad"
        base = 10 * self.tokens * 2_048 * shape[1] // CUBE_FLOP_PER_NS * 2 + 12_000
        kernel = KernelSpec(
            name, "FlashAttentionScoreGrad", "MIX_AIC", base, _tensors(*([shape] * 4)), _tensors(*([shape] * 3))
        )
        with self._node(key, "NpuFusionAttentionBackward0", (shape,)):
            self.script.launch("aclnnFlashAttentionScoreGrad", (kernel,))

    def optimize(self) -> None:
        script, config = self.script, self.config
        if self.dp > 1:
            script.signal("dp", "compute")
        per_layer = 12 * self.hidden * self.hidden // self.tp
        wrapper, step = "torch/optim/optimizer.py(484): wrapper", "torch/optim/adamw.py(198): step"
        with script.python(wrapper), script.annotation("Optimizer.step#AdamW.step"), script.python(step):
            for _ in range(config.layers):
                for op, api, kind in _ADAM:
                    with script.op(op, (str(per_layer),), ("TensorList",)):
                        script.launch(api, (self.vector(api, kind, 2, (per_layer // 4,)),))
        with script.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
            pass
        with ExitStack() as opened:
            opened.enter_context(script.python("main.py(318): log"))
            for op in ("aten::item", "aten::_local_scalar_dense"):
                opened.enter_context(script.op(op, ("",), ("c10::BFloat16",)))
            script.copy("d2h", BF16, blocking=True)
        for tensor in ("tokens", "labels"):
            script.release(tensor)


_EMPTY = (Tensors("", "", ""), Tensors("", "", ""))
_ADAM = (
    ("aten::_foreach_mul_", "aclnnForeachMulScalarV2", "ForeachMulScalar"),
    ("aten::_foreach_lerp_", "aclnnForeachLerpScalar", "ForeachLerpScalar"),
    ("aten::_foreach_addcdiv_", "aclnnForeachAddcdivScalarV2", "ForeachAddcdivScalar"),
)

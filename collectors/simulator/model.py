"""The network that a simulated job trains: a pre-norm transformer in bfloat16, and one step of its training script."""

from __future__ import annotations

from contextlib import ExitStack

from npulens.collectors.simulator.config import SimConfig
from npulens.collectors.simulator.items import CommCall, Item
from npulens.collectors.simulator.kernels import BF16, vector
from npulens.collectors.simulator.layers import Layers


def build_step(config: SimConfig) -> tuple[Item, ...]:
    """One training step: load, copy, forward, loss, backward with bucketed all-reduce, optimizer, read the loss."""
    net = Net(config)
    with net.script.step():
        net.load()
        net.forward()
        net.backward()
        net.optimize()
    return tuple(net.script.items)


class Net(Layers):
    def __init__(self, config: SimConfig) -> None:
        super().__init__(config)
        self.dp = config.ranks // config.tensor_parallel
        self.ends = True  # the loss is computed here; another stage of a pipeline gets a gradient instead
        self.reduces = True  # gradients are complete

    def load(self) -> None:
        script, samples = self.script, self.tokens
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        loader = "torch/utils/data/dataloader.py"
        with script.python(f"{loader}(630): __next__"), script.annotation(name), script.python(f"{loader}(1327): _get"):
            script.work("dataloader", "next batch", self.config.loader_ns)
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
        if not self.ends:
            return
        with script.module("CrossEntropyLoss", "torch/nn/modules/loss.py(1188): forward"):
            self._simple("loss", "aten::nll_loss_nd", "aclnnNLLLoss", "NLLLoss", 2, "MIX_AIV")

    def _layer(self, layer: int) -> None:
        hidden, tp, fused = self.hidden, self.tp, self.config.fused
        if not (fused and layer):
            self._norm(f"L{layer}.norm1")
        self._linear(f"L{layer}.qkv", hidden, 3 * hidden // tp)
        with self.script.module("Attention", "model.py(52): forward"):
            if self.config.llama:
                self._rotary(f"L{layer}.rotary")
            self._attention(f"L{layer}.attention")
        self._linear(f"L{layer}.proj", hidden // tp, hidden)
        self._reduce_activations()
        if not self.config.llama:
            with self.script.module("Dropout", "torch/nn/modules/dropout.py(70): forward"):
                self._dropout(f"L{layer}.dropout")
        self._add_and_norm(f"L{layer}.add1", f"L{layer}.norm2")
        self._linear(f"L{layer}.fc1", hidden, 4 * hidden // tp)
        self._activation(f"L{layer}.gelu", 4 * hidden // tp)
        self._linear(f"L{layer}.fc2", self.narrow(4 * hidden // tp), hidden)
        self._reduce_activations()
        if fused and layer + 1 < self.config.layers:
            self._add_and_norm(f"L{layer}.add2", f"L{layer + 1}.norm1")
        else:
            self._simple(f"L{layer}.add2", "aten::add", "aclnnAdd", "Add", 2)

    def _reduce_activations(self) -> None:
        """With tensor parallelism the partial products of a group add up before anything else can run."""
        if self.tp > 1:
            self._all_reduce("tp", self.tokens * self.hidden)
            self.script.signal("tp", "compute")

    def _all_reduce(self, kind: str, count: int) -> None:
        script = self.script
        script.signal("compute", kind)
        sides = (str(count),)
        call = CommCall(kind, "allreduce", "BFloat16", count)
        with script.op("c10d::allreduce_", sides, ("TensorList",)), script.op("record_param_comms", call=call):
            script.collect(kind, count, BF16, "BFP16")

    def backward(self) -> None:
        script, config = self.script, self.config
        engine = "torch/autograd/graph.py(825): _engine_run_backward"
        with script.python("torch/_tensor.py(581): backward"), script.python(engine):
            if self.ends:
                with script.op("aten::ones_like", ("",), ("c10::BFloat16",)):
                    script.launch("aclnnInplaceOne", (vector("aclnnInplaceOne", "OnesLike", 1, (1,)),))
            with script.backward_thread():
                if self.ends:
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
        if self.dp < 2 or not self.reduces:
            return
        count = layers * 12 * self.hidden * self.hidden // (self.tp * self.config.trained)
        with self.script.op("torch::distributed::reducer::mul_out", (str(count),), ("c10::BFloat16",)):
            self.script.copy("d2d", count * BF16 // 8)
        self._all_reduce("dp", count)

    def _layer_grad(self, layer: int) -> None:
        hidden, tp = self.hidden, self.tp
        wide, fused = 4 * hidden // tp, self.config.fused
        if not fused or layer + 1 == self.config.layers:
            self._grad(f"L{layer}.add2", "Add", ("", ""), 0)
        self._linear_grad(f"L{layer}.fc2", self.narrow(wide), hidden)
        self._activation_grad(f"L{layer}.gelu", wide)
        self._linear_grad(f"L{layer}.fc1", hidden, wide)
        self._norm_grad(f"L{layer}.norm2", fused)
        if not fused:
            self._grad(f"L{layer}.add1", "Add", ("", ""), 0)
        if not self.config.llama:
            self._grad(f"L{layer}.dropout", "NpuDropout", ("aclnnDropoutDoMask", "DropOutDoMask"), 1)
        self._linear_grad(f"L{layer}.proj", hidden // tp, hidden)
        self._attention_grad(f"L{layer}.attention")
        if self.config.llama:
            self._rotary_grad(f"L{layer}.rotary")
        self._linear_grad(f"L{layer}.qkv", hidden, 3 * hidden // tp)
        self._norm_grad(f"L{layer}.norm1", fused and layer > 0)

    def optimize(self) -> None:
        script, config = self.script, self.config
        if self.dp > 1:
            script.signal("dp", "compute")
        per_layer = 12 * self.hidden * self.hidden // (self.tp * self.config.trained)
        wrapper, step = "torch/optim/optimizer.py(484): wrapper", "torch/optim/adamw.py(198): step"
        with script.python(wrapper), script.annotation("Optimizer.step#AdamW.step"), script.python(step):
            for _ in range(config.layers):
                for op, api, kind, inputs in _FUSED_ADAM if config.fused else _ADAM:
                    with script.op(op, (str(per_layer),), ("TensorList",)):
                        script.launch(api, (vector(api, kind, inputs, (per_layer // 4,)),))
        with script.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
            pass
        with ExitStack() as opened:
            opened.enter_context(script.python("main.py(318): log"))
            for op in ("aten::item", "aten::_local_scalar_dense"):
                opened.enter_context(script.op(op, ("",), ("c10::BFloat16",)))
            script.copy("d2h", BF16, blocking=True)
        for tensor in ("tokens", "labels"):
            script.release(tensor)


_ADAM = (
    ("aten::_foreach_mul_", "aclnnForeachMulScalarV2", "ForeachMulScalar", 2),
    ("aten::_foreach_lerp_", "aclnnForeachLerpScalar", "ForeachLerpScalar", 2),
    ("aten::_foreach_addcdiv_", "aclnnForeachAddcdivScalarV2", "ForeachAddcdivScalar", 2),
)
_FUSED_ADAM = (("npu::npu_apply_adam_w", "aclnnApplyAdamWV2", "ApplyAdamWV2", 6),)  # reads 4, writes 3

"""One step of a training script whose layers are split among the stages of a pipeline: one forward, one backward.

Each stage warms up with as many micro batches as there are stages behind it. Then it does one forward and one backward
in turn, and runs empty. In between it sends and receives at once (hcom_batchSendRecv), as Megatron does. Stages compute
alike: each ends with a projection of the same size, and the last one has the loss besides.
"""

from __future__ import annotations

from dataclasses import replace

from npulens.collectors.simulator.config import SimConfig
from npulens.collectors.simulator.items import CommCall, Item
from npulens.collectors.simulator.kernels import BF16
from npulens.collectors.simulator.model import Net, build_step

_CALLS = {"send": "c10d::send", "receive": "c10d::recv_", "batchsendrecv": "c10d::batch_isend_irecv"}
_SITE = "megatron/core/pipeline_parallel/p2p_communication.py(301): _communicate"
SHARDS = 8  # the tensor parallel ranks of a real stage send one each; here one rank stands for all of them


def build(config: SimConfig, stage: int = 0) -> tuple[Item, ...]:
    """One training step of one stage; without a pipeline there is one stage."""
    if config.pipeline == 1:
        return build_step(config)
    net = Stage(config, stage)
    with net.script.step():
        net.load()
        net.schedule()
        net.optimize()
    return tuple(net.script.items)


class Stage(Net):
    def __init__(self, config: SimConfig, stage: int) -> None:
        stages, micro = config.pipeline, config.micro_batches
        layers = config.stage_layers[stage] if config.stage_layers else config.layers // stages
        part = replace(config, layers=layers, ranks=config.ranks // stages, pipeline=1, stage_layers=())
        super().__init__(replace(part, tokens=config.tokens * stages // micro, micro_batches=1))
        self.stage, self.stages, self.micro = stage, stages, micro
        self.ends = stage == stages - 1

    def schedule(self) -> None:
        ahead = min(self.stages - self.stage - 1, self.micro)
        for number in range(ahead):
            self._swap(before=(0, 1))
            self._forward(number)
            self._swap(behind=(1, 0))
        rest = self.micro - ahead
        if rest:
            self._swap(before=(0, 1))
        for number in range(rest):
            self._forward(ahead + number)
            self._swap(behind=(1, 1))
            self._backward(number)
            self._swap(before=(1, 0) if number == rest - 1 else (1, 1))
        for number in range(rest, self.micro):
            self._swap(behind=(0, 1))
            self._backward(number)
            self._swap(before=(1, 0))

    def _forward(self, number: int) -> None:
        self.script.prefix = f"m{number}."
        self.forward()
        self.script.prefix = ""

    def _backward(self, number: int) -> None:
        self.script.prefix = f"m{number}."
        self.reduces = number == self.micro - 1
        self.backward()
        self.script.prefix = ""

    def _swap(self, before: tuple[int, int] = (0, 0), behind: tuple[int, int] = (0, 0)) -> None:
        """(send, receive) with the stage before this one or the stage behind it, where there is one."""
        if before != (0, 0) and self.stage > 0:
            self._exchange(f"pp{self.stage - 1}", *before)
        if behind != (0, 0) and not self.ends:
            self._exchange(f"pp{self.stage}", *behind)

    def _exchange(self, kind: str, send: int, receive: int) -> None:
        if not self.config.coupled:
            return
        script, count = self.script, self.tokens * self.hidden // SHARDS
        collective = "batchsendrecv" if send and receive else "send" if send else "receive"
        if send:
            script.signal("compute", kind)
        call, name = CommCall(kind, collective, "BFloat16", count), _CALLS[collective]
        outer, inner = script.op(name, (str(count),), ("TensorList",)), script.op("record_param_comms", call=call)
        with script.python(_SITE), outer, inner:
            script.exchange(kind, send * count, receive * count, BF16, "BFP16")
        if receive:
            script.signal(kind, "compute")

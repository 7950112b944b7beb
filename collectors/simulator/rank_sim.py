"""One rank: its host, and the streams of its device with copies, kernels, events and its part of collectives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npulens.collectors.simulator.config import RATED_MHZ
from npulens.collectors.simulator.host_sim import TICK, HostSim, Stream
from npulens.collectors.simulator.items import Collect, CopyData, Exchange, KernelSpec, Launch, Replay, Signal
from npulens.collectors.simulator.job import NONE_ID, Copy, Kernel, Link, Task
from npulens.collectors.simulator.pmu import block_num, measure

_HCCL = {
    "allReduce": "HcclAllreduce",
    "send": "HcclSend",
    "receive": "HcclRecv",
    "batchSendRecv": "HcclBatchSendRecv",
}
GRAPH_LAUNCH = "aclmdlRIExecuteAsync"
COPY_BYTES_PER_NS = {"h2d": 24, "d2h": 22, "d2d": 600}


@dataclass
class Pending:
    """A collective that this rank has launched and whose peers are still to come."""

    item: Collect | Exchange
    operator: int  # the host span it came from
    launch: int  # the runtime span
    connection: int
    arrival: int


class RankSim(HostSim):
    def begin(self, stream: Stream, launched: int, task: str = "") -> int:
        """When a task launched at that time starts: after its predecessor, and after it reached the device.

        A few seem to start before they were launched, because the clocks of host and device differ a little.
        """
        latency = self.cost("launch", "device", 9_000, "device")
        if self.random() < self.config.negative_latency_rate:
            latency = -self.cost("clock", "device", 700, "device")
        gap = self.config.gap_ns if task else TICK
        return self.pause(task, stream.free + gap, launched + latency)

    def next_task(self, stream: Stream) -> int:
        stream.task = (stream.task + 1) % 65_535
        return stream.task

    def launch(self, item: Launch) -> None:
        query = self.cost("runtime", f"{item.api}GetWorkspaceSize", 3_200)
        if not item.compile_ns:
            self.runtime(self.thread, "acl", "ACL_NN", f"{item.api}GetWorkspaceSize", self.now, query)
        self.now += query + 200
        costs = [self.cost("runtime", "launch", 4_200, "queue") for _ in item.kernels]
        costs[0] += self._first_use()
        body = sum(costs) + 700 * len(costs) + 2_000 + item.compile_ns
        start = self.now
        number, thread, entered = self.leaf(item.api, item.stack, body)
        if item.compile_ns:
            self._compile(item.compile_ns, thread, entered, body)
        else:
            self.runtime(thread, "acl", "ACL_NN", item.api, entered, body)
        at = entered + 1_500 + item.compile_ns
        stream = self.streams[item.stream]
        for kernel, ns in zip(item.kernels, costs, strict=True):
            node, connection = self.runtime(thread, "node", "launch", kernel.name, at, ns)
            self.runtime(thread, "runtime", "KernelLaunchWithHandle", "KernelLaunchWithHandle", at + 300, ns - 600)
            device = self._kernel(kernel, stream, self.begin(stream, at, kernel.op_type), connection)
            self.link((("host_to_device", node), ("torch_to_npu", number)), device)
            at += ns + 700
        self.leaf_end(item.api, item.stack, number, start, entered + body)

    def _first_use(self) -> int:
        """What the first launch of the script takes longer: once, in the first step."""
        if self.used or self.place < 0 or self.step != self.config.first_step:
            return 0
        self.used = True
        return self.config.first_use_ns

    def replay(self, item: Replay, draw: Callable[[int], None]) -> None:
        """One call for all kernels of a graph; ``draw(place)`` names the noise of each as if it were launched."""
        start = self.now
        self.now += self.cost("runtime", GRAPH_LAUNCH, 9_000 + 40 * len(item.launches)) + self._first_use()
        source, connection = self.runtime(self.thread, "acl", "ACL_RTS", GRAPH_LAUNCH, start, self.now - start)
        stream = self.streams["compute"]
        begin = self.begin(stream, start + (self.now - start) // 2)
        self.graph += 1
        for launch, fault in item.launches:
            draw(launch.place)
            self.place, self.fault = launch.place, fault
            for kernel in launch.kernels:
                begin = self.pause(kernel.op_type, stream.free + self.config.gap_ns, begin)
                device = self._kernel(kernel, stream, begin, connection, self.graph)
                self.links.append(Link(source, device, "host_to_device"))
        self.fault = ""

    def _compile(self, ns: int, thread: str, entered: int, body: int) -> None:
        """An operator that CANN does not have ready is compiled in the call that launches it."""
        self.runtime(thread, "acl", "ACL_OP", "aclopCompileAndExecute", entered, body)
        self.runtime(thread, "acl", "ACL_OP", "opCompile", entered + 1_000, ns)
        if self.fault:
            self.acted(self.fault, entered + 1_000, entered + 1_000 + ns)

    def _kernel(self, spec: KernelSpec, stream: Stream, start: int, connection: int, graph: int = 0) -> int:
        ns = self.cost("kernel", spec.op_type, spec.base_ns, "device")
        stream.free = start + ns
        core, mixed = block_num(spec.core, spec.blocks)
        mhz = self.clock_at(start)
        detail = Kernel(
            stream.number,
            self.next_task(stream),
            connection,
            spec.op_type,
            spec.core,
            core,
            mixed,
            spec.hf32,
            spec.inputs,
            spec.outputs,
            measure(spec.core, ns, core, self.random(), mhz, spec.busy),
            round(0.5 + 0.4 * self.random(), 6),
            0 if spec.core.startswith("MIX") else NONE_ID,
            graph,
            self.place,
        )
        kind = "memset" if spec.op_type == "MemSet" else "kernel"
        return self.record(f"stream {stream.number}", kind, spec.name, start, stream.free, detail)

    def clock_at(self, start: int) -> int:
        """The clock of the AI cores; what the profiler samples is when it changes."""
        mhz = self.config.mhz(self.rank, self.step)
        if mhz != (self.clock[-1][1] if self.clock else RATED_MHZ):
            self.clock.append((start + self.offset, mhz))
        return mhz

    def copy(self, item: CopyData) -> None:
        name = {"h2d": "acl_memcpy_host_to_device", "d2d": "acl_memcpy_device_to_device", "d2h": "aclrtMemcpyAsync"}
        start, call = self.now, self.cost("runtime", "aclrtMemcpyAsync", 5_500)
        stream = self.streams["compute"]
        if item.blocking:
            self.now = max(self.now, self.queue_free) + 800
            number, thread, entered = self._open[-1][0], self.thread, self.now
            self.now += call + 400
        else:
            number, thread, entered = self.leaf(name[item.direction], item.stack, call + 600)
        source, connection = self.runtime(thread, "acl", "ACL_RTS", "aclrtMemcpyAsync", entered, call)
        self.runtime(thread, "runtime", "MemcpyAsync", "MemcpyAsync", entered + 400, call - 800)
        begin = self.begin(stream, entered)
        base = item.bytes // COPY_BYTES_PER_NS[item.direction] + 1_600
        stream.free = begin + self.cost("copy", item.direction, base, "device")
        detail = Copy(stream.number, self.next_task(stream), connection, item.direction, item.bytes, item.blocking)
        track = f"stream {stream.number}"
        device = self.record(track, "memcpy", "MEMCPY_ASYNC", begin, stream.free, detail)
        self.link((("host_to_device", source), ("torch_to_npu", number)), device)
        if item.blocking:
            self.wait_for(stream.free, "aclrtSynchronizeStreamWithTimeout")
        else:
            self.leaf_end(name[item.direction], item.stack, number, start, entered + call)

    def wait_for(self, until: int, api: str) -> None:
        """The host sits in a synchronising call until the device is done."""
        end = max(self.now + 1_000, until + self.cost("runtime", "wake up", 6_000))
        self.runtime(self.thread, "acl", "ACL_RTS", api, self.now, end - self.now)
        self.now = end + 300

    def sync(self) -> None:
        self.now = max(self.now, self.queue_free) + 800
        self.wait_for(max(stream.free for stream in self.streams.values()), "aclrtSynchronizeDevice")

    def signal(self, item: Signal) -> None:
        """An event: recorded behind what one stream has, waited for by the other."""
        source, target = self.streams[item.source], self.streams[item.target]
        start, stack = self.now, item.stack
        number, thread, entered = self.leaf("record_event", stack, 3_000)
        call, connection = self.runtime(thread, "acl", "ACL_RTS", "aclrtRecordEvent", entered, 2_600)
        recorded = self.begin(source, entered)
        self._task(source, "EVENT_RECORD", recorded, recorded + TICK, connection, call)
        self.leaf_end("record_event", stack, number, start, entered + 2_600)
        start = self.now
        number, thread, entered = self.leaf("wait_event", stack, 2_600)
        call, connection = self.runtime(thread, "acl", "ACL_RTS", "aclrtStreamWaitEvent", entered, 2_200)
        waiting = self.begin(target, entered)
        self._task(target, "EVENT_WAIT", waiting, max(waiting, recorded) + TICK, connection, call)
        self.leaf_end("wait_event", stack, number, start, entered + 2_200)

    def _task(self, stream: Stream, name: str, start: int, end: int, connection: int, call: int) -> None:
        stream.free = end
        detail = Task(stream.number, self.next_task(stream), connection, f"{name}_SQE")
        kind = "wait" if name == "EVENT_WAIT" else "device_other"
        device = self.record(f"stream {stream.number}", kind, name, start, end, detail)
        self.links.append(Link(call, device, "host_to_device"))

    def mark(self, name: str) -> None:
        """The profiler's own tasks at either end of the capture."""
        detail = Task(0, self.next_task(self.streams["marks"]), self.new_connection(), "PLACE_HOLDER_SQE")
        self.record("stream 0", "device_other", name, self.now, self.now + TICK, detail)

    def collect(self, item: Collect | Exchange) -> Pending:
        """Launches this rank's part of a collective; it arrives when its stream gets there."""
        start, name, api = self.now, _HCCL[item.collective], f"hcom_{item.collective}_"
        ns = self.cost("runtime", api, 38_000, "queue")
        number, thread, entered = self.leaf(name, item.stack, ns + 500)
        self.runtime(thread, "acl", "HOST_HCCL", api, entered, ns)
        node, connection = self.runtime(thread, "node", "launch", api, entered, ns)
        self.runtime(thread, "hccl", "master", "Launch", entered + ns * 3 // 4, ns // 5)
        self.leaf_end(name, item.stack, number, start, entered + ns)
        arrival = self.begin(self.streams[item.kind], entered + ns) + self.cost("launch", "collective", 1_300, "device")
        return Pending(item, number, node, connection, arrival)

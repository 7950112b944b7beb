"""A whole training job without a device: hosts, queues, streams and collectives of all ranks, from one seed.

The same seed gives the same job, down to the nanosecond. A fault is a ``perturb`` that changes single durations (a
slower host, a late rank, a slow link). It draws no random numbers, so everything else stays as it was. The difference
between the two jobs is the fault's cost.

Modelled on the host: Python with its call stacks, the task queue, CANN calls, and launch latency. A few latencies are
negative, as clocks of host and device differ. Modelled on the device: streams with events, copies, memory, sampled
counters, replayed graphs. Also kernels on AI cores and the AI CPU with shapes, counters and their clock. Modelled
between ranks: data and tensor parallel all-reduce over a mesh of links, and pipelines. Every wait ends when its peer is
ready. Not modelled: other collectives, contention between compute and communication. What another profiler would have
recorded of the same job is a dialect (``collectors/simulator/dialect.py``).
"""

from __future__ import annotations

from npulens.collectors.simulator.config import Cost, SimConfig
from npulens.collectors.simulator.job import Job, Span
from npulens.collectors.simulator.simulate import simulate
from npulens.collectors.writers.ascend import AscendOptions
from npulens.collectors.writers.bench_trace import write_kineto_file, write_trace_view
from npulens.collectors.writers.kineto import write_kineto
from npulens.collectors.writers.torch_npu_db import write_both, write_db
from npulens.collectors.writers.torch_npu_text import write_text

__all__ = [
    "AscendOptions",
    "Cost",
    "Job",
    "SimConfig",
    "Span",
    "simulate",
    "write_both",
    "write_db",
    "write_kineto",
    "write_kineto_file",
    "write_text",
    "write_trace_view",
]

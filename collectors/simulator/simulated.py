"""A whole training job without a device: hosts, queues, streams and collectives of all ranks, from one seed.

The same seed gives the same job, down to the nanosecond. A fault is a ``perturb`` that changes single durations
(a slower host, a late rank, a slow link): it draws no random numbers, so everything it leaves alone stays as it was
and the difference between the two jobs is the fault's cost.

Modelled: a Python host with its call stacks, the task queue, CANN calls, launch latency (a few negative, as clocks
of host and device differ), streams with events, data and tensor parallel all-reduce over a mesh of links and
pipelines, with every wait ending when its peer is ready, kernels on AI cores and the AI CPU with shapes, counters and
their clock, copies, memory, sampled counters, replayed graphs.
Not modelled: other collectives, contention between compute and communication. What another profiler would have
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

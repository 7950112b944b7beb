"""What work costs on a core: the CPU time of the calling thread, while torch computes on that thread alone.

Other processes make the wall clock longer, and this one hardly. It is measured on one thread because several threads
wait for each other by spinning. That counts as CPU time: beside other work it can be nearly all of it. It says what the
work costs, not how long its caller waits. Sleep, input and output and the help of other threads are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from npulens.collectors.backends.backend import Backend


def has_cpu_time(backend: Backend) -> bool:
    """Whether the work is done by the calling thread: on a device its CPU time would be what launching costs."""
    return backend.name == "cpu"


@contextmanager
def on_one_thread() -> Iterator[None]:
    """torch computes on the calling thread alone, and afterwards on as many as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""The jobs, and what is wrong with each: the detector that should say it first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One job of tests/loop/jobs."""

    job: str
    what: str
    causes: tuple[str, ...]  # detectors that name it rightly
    processes: int = 1
    active: int = 10  # steps that are recorded


FAULTS = (
    Fault("loader_sleeps", "the loader reads from a slow disk", ("dataloader",)),
    Fault("loader_decodes", "the loader unpacks each sample again", ("dataloader",)),
    Fault("late_loader", "the loader of one of two ranks is slow", ("dataloader",), 2),
    Fault("garbage", "collections scan 200,000 objects that stay", ("gc",)),
    Fault("recompiles", "sequences of another length are compiled again", ("compile",), active=6),
    Fault("adamw_by_hand", "AdamW as single operators", ("unfused",)),
    Fault("gelu_by_hand", "GELU written out", ("unfused",)),
    Fault("norm_by_hand", "layer normalisation written out", ("unfused",)),
    Fault("double_precision", "float64 by mistake", ("full_precision",)),
    Fault("needless_copies", "inputs are copied and laid out anew", ("device_copies", "layout_conversion")),
    Fault("row_by_row", "a batch is taken row by row", ("launch_overhead", "host_late")),
    Fault("saves_every_step", "weights are saved in every step", ("host_late",)),
    Fault("logs_every_step", "weights are written as text in every step", ("host_late",)),
    Fault("monitor_at_times", "other programs take the processor at times", ("step_jitter", "slow_tail"), active=32),
    Fault("late_rank", "one of two ranks works before each step", ("late_rank", "host_late"), 2),
    Fault("barrier_and_check", "one rank checks its weights, the other waits", ("late_rank", "host_late"), 2),
    Fault("unequal_batches", "one rank has three times the rows", ("imbalance",), 2),
    Fault("reduces_each_gradient", "gradients are reduced after the backward pass", ("comm_exposed",), 2),
    Fault("reduces_every_step", "four reductions where one would do", ("comm_exposed",), 2, 6),
    Fault("one_micro_batch", "a pipeline of one micro-batch", ("pipeline_bubble",), 2),
)

"""The step waits for its input.

## What it measures
Gaps of the device while the host sits in the data loader's `__next__`, as far as nothing else ran on the device.
PyTorch marks that call as `enumerate(DataLoader)#...__next__`. The time of `__next__` that a lead of the host hid is
not counted. With call stacks, starting and ending the workers of an epoch counts too, and is told apart. Python frames
within the call tell where the time goes. The innermost function of the program or its packages with 40 % is named.

## Why it costs
Nothing can be issued before the batch is there. Workers that are too few, too slow or on the wrong cores make every
step wait.

## What to do
Where the loader runs in the process itself (num_workers=0), set num_workers. Where workers start and end with each
epoch, keep them (persistent_workers=True); for few or cheap samples num_workers=0 costs less than starting them.
Otherwise more workers (num_workers), prefetch_factor, persistent_workers, pin_memory with non_blocking copies. Decode
on the device (DVPP on Ascend, DALI on CUDA, rocAL on ROCm), or store the data decoded. Bind worker processes to other
cores than the trainer.

## Limits of the method
Only loaders that mark their `__next__` are seen: PyTorch's DataLoader, MindSpore's dataset iterators, or a
`record_function` with such a name. The copy of the batch to the device is copy_exposed's business.

## References
torch.utils.data documentation; torch.profiler's annotation in torch/utils/data/dataloader.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, NotMeasured, Value, Words
from npulens.analysis.idle.batches import in_process, making
from npulens.analysis.idle.blame import Blame, everywhere
from npulens.analysis.idle.host_names import names, special
from npulens.analysis.idle.pieces import idle
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

NEEDS = ("kernels", "host_ops")

#: PyTorch's frames that start the workers of an epoch, and that end them. Workers that are kept are only reset.
_STARTS, _ENDS, _RESETS = (
    rf"(?:^|/)torch/utils/data/dataloader\.py\(\d+\): (?:{names})$"
    for names in ("_get_iterator", "_shutdown_workers|__del__", "__iter__")
)
#: So much of the time at the begin or end of an epoch is told as that.
MOST = 0.5

_TITLE = (
    "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) until the data loader hands over "
    "the next batch[[, {code_share} of that in {code}]]"
)
_TITLE_ZH = (
    "rank {ranks}：等待数据加载器给出下一批数据，设备每步空闲 {idle_ns}（{idle_share}）"
    "[[，其中 {code_share} 在 {code}]]"
)
_CHEAPER = (
    " Or make a sample cheaper: decode [[npu: on the device (DVPP) or ]][[cuda: on the device (DALI) or ]]"
    "[[rocm: on the device (rocAL) or ]]ahead of time.[[ Look first at {code}[[, called by {caller}]].]]"
)
_CHEAPER_ZH = (
    "或降低单样本开销：[[npu: 在设备上解码（DVPP）或]][[cuda: 在设备上解码（DALI）或]][[rocm: 在设备上解码（rocAL）或]]"
    "提前解码。[[首先查看 {code}[[（由 {caller} 调用）]]。]]"
)

TEXT = {
    "en": {
        "found": Words(
            _TITLE,
            "Give the loader more workers (num_workers, prefetch_factor, persistent_workers=True) on cores of their "
            "own." + _CHEAPER,
        ),
        "single": Words(
            _TITLE,
            "The loader runs in the process itself (num_workers=0): set num_workers. Workers on cores of their own "
            "make batches ahead (keep them: persistent_workers=True)." + _CHEAPER,
        ),
        "epoch": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) for the data loader, most while "
            "workers start or end",
            "{turn_share} of that is at the begin or end of an epoch. Keep the workers from epoch to epoch "
            "(persistent_workers=True), or start fewer. For few or cheap samples load in the process itself "
            "(num_workers=0).",
        ),
    },
    "zh": {
        "found": Words(
            _TITLE_ZH,
            "增加加载进程（num_workers、prefetch_factor、persistent_workers=True）并绑到独立的核，" + _CHEAPER_ZH,
        ),
        "single": Words(
            _TITLE_ZH,
            "数据在训练进程内加载（num_workers=0）：请设置 num_workers，由独立核上的加载进程提前备好数据。"
            "请保留加载进程（persistent_workers=True），" + _CHEAPER_ZH,
        ),
        "epoch": Words(
            "rank {ranks}：设备每步因数据加载器空闲 {idle_ns}（{idle_share}），大多在加载进程启动或退出时",
            "其中 {turn_share} 在 epoch 的开头或结尾。请让加载进程跨 epoch 保留"
            "（persistent_workers=True），或减少进程数。样本少或处理简单时，在进程内加载即可（num_workers=0）。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the ranks that wait most for their input."""
    if not any((spans.causes == "dataloader").any() for spans in run.get(special).values()):
        raise NotMeasured(
            "no call of a data loader was recorded", "未采集到数据加载器的调用",
            "torch.utils.data.DataLoader, or torch.profiler.record_function('DataLoader.__next__') around your own",
        )  # fmt: skip
    if (seen := everywhere(run, "dataloader")) is not None:
        found, change = seen
        alone = in_process(run, found)
        turning = 0.0 if alone else _turning(run, found)
        text = "single" if alone else "epoch" if turning >= MOST else "found"
        numbers: dict[str, Value] = {
            **found.numbers, "turn_share": turning if text == "epoch" else None,
            "code": None, "code_share": None, "caller": None,
        }  # fmt: skip
        if (code := making(run, found)) is not None:
            numbers |= {"code": code.code, "code_share": code.share, "caller": code.caller}
        yield Candidate("dataloader", text, numbers, found.evidence, change, measured_ns=found.measured_ns)


def _turning(run: Run, found: Blame) -> float:
    """Which share of the time the workers of an epoch start or end, as far as Python's frames say."""
    pieces, known = run.get(idle), run.get(special)
    length, calls = (pieces.end - pieces.start)[found.pieces], pieces.host[found.pieces]
    frames = run.columns(
        "SELECT span_id, rank, ts_ns + dur_ns AS end_ns, starts, resets FROM span JOIN ("
        f"SELECT name, regexp_matches(name, $1) AS starts, regexp_matches(name, $3) AS resets FROM {run.get(names)} "
        "WHERE kind = 'python' AND (starts OR resets OR regexp_matches(name, $2))"
        ") USING (name) WHERE kind = 'python' ORDER BY end_ns",
        [_STARTS, _ENDS, _RESETS],
    )
    of_frames = frames["span_id"].astype(np.int64)
    turns = np.isin(calls, of_frames[~frames["resets"].astype(np.bool_)])
    for rank in found.ranks:
        begun = frames["end_ns"][(frames["rank"] == rank) & frames["starts"].astype(np.bool_)].astype(np.int64)
        own = known[rank]
        loads = own.of("dataloader") & ~np.isin(own.ids, of_frames)
        starts, ends = own.starts[loads], np.sort(own.ends[loads])
        first = _latest(begun, starts) > _latest(ends, starts)  # no batch has come since the workers were started
        turns |= np.isin(calls, own.ids[loads][first])
    return float(length[turns].sum() / max(1, length.sum()))


def _latest(moments: Ints, before: Ints) -> Ints:
    """The last of some ordered moments until each of others; the least number where there is none."""
    return np.append(np.iinfo(np.int64).min, moments)[np.searchsorted(moments, before, side="right")]

"""A long prompt keeps everybody else waiting: decoders get their tokens late, new requests queue behind it.

## What it measures
Prompts far longer than the run's median, and the iterations that computed them. What those iterations take beyond an
iteration of their decoders alone is theirs.

## Why it costs
Decoders get a token at the end of an iteration. One that also computes a piece of a prompt takes many times as long.
Requests that arrive meanwhile find the budget of tokens spent.

## What to do
Compute long prompts on an instance of their own (prefill and decode apart). Or take smaller pieces
(`--max-num-batched-tokens`, `--long-prefill-token-threshold`), and let short requests pass them.

## Limits of the method
The saving is a replay in which these prompts are as long as the median: as if they were computed elsewhere. Which
iterations computed them is known from the members of iterations.

## References
vllm#21495, vllm#10235, vllm#33743.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Value, Words
from npulens.analysis.run import Run
from npulens.analysis.serving.replay import Edit
from npulens.analysis.serving.served import enough, prefills, spans, windows

NEEDS = ("requests", "iterations", "members")
_NAMED = 8

TEXT = {
    "en": {
        "found": Words(
            "{prompts} long prompts ({named}; {least} to {most} tokens, the median has {median}) hold everybody up. "
            "Their {iterations} iterations take {excess_ns} more than decoding alone",
            "Compute long prompts on an instance of their own (prefill and decode apart) or in smaller pieces "
            "(--max-num-batched-tokens, --long-prefill-token-threshold). With them elsewhere: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "{prompts} 个长提示（{named}；{least} 到 {most} 个 token，中位数为 {median}）拖慢了所有请求。"
            "它们所在的 {iterations} 次迭代比纯解码多用 {excess_ns}",
            "请把长提示放到单独的实例上（prefill 与 decode 分离），或切成更小的块"
            "（--max-num-batched-tokens、--long-prefill-token-threshold）。移走之后：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """Which prompts are long."""

    longer: float = limits_.limit(4.0, "times the median prompt", "shorter ones fit into one iteration with others")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: all long prompts."""
    found = enough(run)
    tokens = found.load.prompt
    median = int(np.median(tokens))
    long = np.flatnonzero(tokens > limits.longer * max(1, median))
    if not len(long):
        return
    pairs = prefills(run)
    rows = np.unique(pairs.iteration[np.isin(pairs.request, long)])
    alone = np.array([found.model.iteration_ns(0, int(count)) for count in found.rows.decoders[rows]])
    excess = np.maximum(0.0, found.rows.dur_ns[rows] - alone)
    order = long[np.argsort(-tokens[long], kind="stable")]
    names = sorted(found.load.ids[place] for place in order.tolist())
    numbers: dict[str, Value] = {
        "prompts": len(long), "named": names[:_NAMED], "least": int(tokens[long].min()),
        "most": int(tokens[long].max()), "median": median, "iterations": len(rows), "excess_ns": int(excess.sum()),
        "requests": names,
    }  # fmt: skip
    evidence = windows(run, found, rows, excess) or spans(run, found, long, found.ttft_ns[long])
    edit = Edit(prompts=dict.fromkeys(long.tolist(), median))
    yield Candidate("prefill_interference", "found", numbers, evidence, Change(), edit=edit)

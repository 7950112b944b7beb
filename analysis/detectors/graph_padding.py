"""Graphs pad iterations to more tokens than there are, and the padding is computed too.

## What it measures
Tokens that a graph was replayed for beyond those of its decoders, priced by what the fit says of a token.

## Why it costs
The device computes tokens that nobody reads.

## What to do
Capture graphs at closer numbers of requests (`cudagraph_capture_sizes`), at those that the run holds most of the
time.

## Limits of the method
The fit prices a token by the run's own iterations. Where all of them have the same padding it cannot be told.

## References
vllm-ascend#16049, xLLM#1939.
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
from npulens.analysis.serving.served import enough, windows

NEEDS = ("requests", "iterations", "padded_tokens")

TEXT = {
    "en": {
        "found": Words(
            "Graphs pad {padded} tokens to {tokens} decoders' own ({padded_share} more), which takes {padding_ns}",
            "Capture graphs at closer numbers of requests (cudagraph_capture_sizes). Without padding: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "图在 {tokens} 个解码 token 之外填充了 {padded} 个（多 {padded_share}），耗时 {padding_ns}",
            "请在更密的请求数上捕获图（cudagraph_capture_sizes）。没有填充时：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """Only the share of the measure that every detector of serving has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: all padding."""
    found = enough(run)
    rows = found.rows
    more = np.where(rows.context == 0, rows.tokens - rows.decoders, 0.0)
    mine = np.flatnonzero(more > 0)
    if not len(mine) or not found.model.decoder_ns:
        return
    tokens = float(rows.decoders[rows.context == 0].sum())
    numbers: dict[str, Value] = {
        "padded": int(more.sum()), "tokens": int(tokens), "padded_share": float(more.sum() / max(1.0, tokens)),
        "padding_ns": int(more.sum() * found.model.decoder_ns),
    }  # fmt: skip
    evidence = windows(run, found, mine, more[mine])
    yield Candidate("graph_padding", "found", numbers, evidence, Change(), edit=Edit(model={"padded": {}}))

"""Speculative decoding costs more than it gives: drafting and verifying take longer than the accepted tokens save.

## What it measures
Tokens that a decoder gets from the mean iteration, with drafts and without, and how long that takes. A plain
iteration is priced by the fit of the run's own: without drafting, and with one token of each decoder.

## Why it costs
Each token that is verified is computed, and those after the first wrong one are thrown away.

## What to do
Draft fewer tokens (`num_speculative_tokens`), or none where many requests run at once. Look for another draft model,
or for a method that fits what is asked.

## Limits of the method
Where every iteration drafts, the draft's own time cannot be told. It counts as the plain iteration's, and the saving
is too small. Acceptance is that of the whole run. Recomputed tokens cannot be told from verified ones.

## References
vllm-ascend#12890, vllm-ascend#16980.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.run import Run
from npulens.analysis.serving.replay import Edit
from npulens.analysis.serving.served import enough, windows

NEEDS = ("requests", "iterations", "speculation")

TEXT = {
    "en": {
        "found": Words(
            "{accepted} of {drafted} drafted tokens are accepted: {gained} tokens in {with_ns}, where a plain "
            "iteration gives one in {plain_ns}",
            "Draft fewer tokens (num_speculative_tokens), or none at this load; or take another draft. Without: "
            "{gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "平均起草 {drafted} 个 token，接受 {accepted} 个；一次迭代为每个请求产出 {gained} 个 token，耗时 "
            "{with_ns}，普通迭代产出 1 个，耗时 {plain_ns}",
            "请减少草稿 token（num_speculative_tokens），在此负载下关闭投机解码，或更换草稿模型。关闭之后：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """Only the share of the measure that every detector of serving has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the run without drafting."""
    found = enough(run)
    rows, model = found.rows, found.model
    decoding = (rows.context == 0) & (rows.decoders > 0)
    mine = np.flatnonzero(rows.drafting & decoding)
    if not len(mine):
        raise NotMeasured(
            "no iteration says how many tokens it verified", "没有迭代记录验证了多少 token",
            "--enable-logging-iteration-details",
        )  # fmt: skip
    plain = model.base_ns + model.decoder_ns * rows.decoders
    with_ns, plain_ns = float(found.said_ns[decoding].mean()), float(plain[decoding].mean())
    if with_ns <= model.gained * plain_ns:
        return
    numbers: dict[str, Value] = {
        "drafted": round(model.drafted, 1), "accepted": round(model.gained - 1, 2), "gained": round(model.gained, 2),
        "with_ns": round(with_ns), "plain_ns": round(plain_ns),
    }  # fmt: skip
    edit = Edit(model={"gained": 1.0, "drafted": 0.0, "draft_ns": 0.0})
    evidence = windows(run, found, mine, found.said_ns[mine])
    yield Candidate("speculation_loss", "found", numbers, evidence, Change(), edit=edit)

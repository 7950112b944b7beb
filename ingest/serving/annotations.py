"""The iterations that a trace's annotations tell: what vLLM and SGLang put around each step of theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.readers.serving.read_vllm_log import kind
from npulens.ingest.tables.concatenate import columns_of

#: Plain: execute_context_2(512)_generation_3(3). Detailed: execute_515_context_2(sq512sk900...)_generation_3(sq3...).
_VLLM = re.compile(
    r"^execute_(?:\d+_)?context_(\d{1,9})\((?:sq)?(\d{0,12})[^)]*\)_generation_(\d{1,9})\((?:sq)?(\d{0,12})[^)]*\)"
)
_SGLANG = re.compile(r"^step\[([A-Z_]+)(?: bs=(\d{1,9}))?(?: toks=(\d{1,12}))?")
_GENERATES = ("DECODE", "TARGET_VERIFY", "VERIFY", "DRAFT_EXTEND", "IDLE")
_ANNOTATED = ("engine annotation", "device annotation")


@dataclass(frozen=True)
class Annotated:
    """An iteration with its recorded time."""

    rank: int
    step: int
    ts_ns: int
    dur_ns: int
    kind: str
    ctx_requests: int | None
    ctx_tokens: int | None
    gen_requests: int | None
    gen_tokens: int | None

    @property
    def counts(self) -> tuple[int | None, int | None, int | None, int | None]:
        return self.ctx_requests, self.ctx_tokens, self.gen_requests, self.gen_tokens


def annotated(parts: Sequence[tuple[int, Path, int]]) -> list[list[Annotated]]:
    """The iterations of each engine, from parts: rank, directory, origin. Ranks that work together are one engine."""
    engines: list[list[Annotated]] = []
    for rank, directory, origin in sorted(parts, key=lambda part: part[0]):
        found = list(_of_rank(rank, directory, origin))
        if found and not any(_together(found, other) for other in engines):
            engines.append(found)
    return engines


def _together(one: Sequence[Annotated], other: Sequence[Annotated]) -> bool:
    """Whether two ranks ran the same batches: as many, with the same counts."""
    same = sum(a.counts == b.counts for a, b in zip(one, other, strict=False))
    return same >= 0.9 * max(len(one), len(other))


def _of_rank(rank: int, directory: Path, origin: int) -> Iterator[Annotated]:
    steps = pa.concat_tables(columns_of(directory, "step", ("step", "ts_ns", "dur_ns", "host_dur_ns", "source")))
    steps = steps.filter(pc.is_in(steps["source"], value_set=pa.array(_ANNOTATED)))
    if not len(steps):
        return
    names = _names(directory, np.asarray(steps["ts_ns"].to_numpy(), np.int64))
    for row in steps.to_pylist():
        name = names.get(row["ts_ns"])
        length = row["host_dur_ns"] if row["host_dur_ns"] is not None else row["dur_ns"]
        counts = None if name is None else annotated_counts(name)
        if counts is not None:
            yield Annotated(rank, row["step"], row["ts_ns"] + origin, length, *counts)


def _names(directory: Path, stamps: np.ndarray[tuple[int], np.dtype[np.int64]]) -> dict[int, str]:
    """The annotation that begins at each of some moments."""
    wanted, found = pa.array(np.unique(stamps)), dict[int, str]()
    for spans in columns_of(directory, "span", ("name", "ts_ns")):
        spans = spans.filter(pc.is_in(spans["ts_ns"], value_set=wanted))
        for row in spans.to_pylist():
            if _VLLM.match(row["name"]) or _SGLANG.match(row["name"]):
                found[row["ts_ns"]] = row["name"]
    return found


def annotated_counts(name: str) -> tuple[str, int | None, int | None, int | None, int | None] | None:
    """What an annotation says: class, requests and tokens of prompts, requests and tokens that generate."""
    if match := _VLLM.match(name):
        context, tokens, generating, generated = (int(part or 0) for part in match.groups())
        return kind(context, generating), context, tokens, generating, generated
    match = _SGLANG.match(name)
    if match is None:
        return None
    mode, size, worked = match[1], int(match[2] or 0), match[3]
    if mode == "IDLE":
        return "dummy", 0, 0, 0, 0
    if mode in _GENERATES:
        return "decode", 0, 0, size, size if mode == "DECODE" else None
    return "mixed" if mode == "MIXED" else "prefill", size, None if worked is None else int(worked), None, None

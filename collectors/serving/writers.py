"""A run of the engine as the files that vLLM and a client leave: spans, the log of iterations, and what the client saw.

With `traced` a window of a profiler lies beside them, with an annotation for each iteration.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from npulens.collectors.serving.engine import Iteration, Recorded, Served, Setup

#: When a run begins, in ns since 1970: a fixed moment, so that the same seed gives the same files.
BEGIN_NS = 1_795_000_000_000_000_000
#: A request's name in the spans of vLLM's completions.
_SPAN_NAME = "cmpl-{}-0"
#: Spans that one export holds.
_EXPORTED = 8


def write(recorded: Recorded, folder: Path, traced: bool = False) -> None:
    """The files of a run, in a folder that is made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "client.json").write_text(json.dumps([_client(one, recorded) for one in recorded.requests]))
    (folder / "otlp.jsonl").write_text("".join(each + "\n" for each in _spans(recorded)))
    (folder / "iterations.log").write_text("".join(line(one) for one in recorded.iterations))
    if recorded.setup.drafted:
        (folder / "metrics.prom").write_text(_speculation(recorded))
    if traced:
        (folder / "rank0.pt.trace.json").write_text(json.dumps(trace(recorded.iterations)))


def _away(recorded: Recorded) -> int:
    return recorded.setup.front_ns - recorded.setup.front_ns // 2


def _client(one: Served, recorded: Recorded) -> dict[str, Any]:
    tokens = [BEGIN_NS + ns + _away(recorded) for ns in one.tokens_ns]
    return {
        "id": one.asked.name, "prompt": one.asked.prompt, "max_tokens": one.asked.output,
        "cached": one.asked.cached, "send_ns": BEGIN_NS + one.asked.send_ns, "tok_ns": tokens,
        "end_ns": tokens[-1] + 300_000,
    }  # fmt: skip


def _spans(recorded: Recorded) -> Iterator[str]:
    """One export a line, as a collector writes them."""
    done = sorted(recorded.requests, key=lambda one: one.tokens_ns[-1])
    draw = random.Random(0)
    for begin in range(0, len(done), _EXPORTED):
        yield json.dumps(export(done[begin : begin + _EXPORTED], recorded.setup, draw))


def export(served: Sequence[Served], setup: Setup, draw: random.Random, begin_ns: int = BEGIN_NS) -> dict[str, Any]:
    """The spans of some requests; their times count from a moment."""
    resource = {"attributes": [_text("service.name", "npulens.serving"), _text("vllm.process_id", "1")]}
    spans = [_span(one, setup, draw, begin_ns) for one in served]
    scope = {"scope": {"name": "vllm.tracing.otel"}, "spans": spans}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _span(one: Served, setup: Setup, draw: random.Random, begin_ns: int) -> dict[str, Any]:
    arrival = one.asked.send_ns + setup.front_ns // 4
    first, last = one.tokens_ns[0], one.tokens_ns[-1]
    away = setup.front_ns - setup.front_ns // 2
    seen = first + away // 2  # the front end has the token before the client does
    seconds = {
        "time_to_first_token": seen - arrival, "e2e": last + away // 2 - arrival,
        "time_in_queue": one.scheduled_ns - one.queued_ns, "time_in_model_prefill": first - one.scheduled_ns,
        "time_in_model_decode": last - first, "time_in_model_inference": last - one.scheduled_ns,
    }  # fmt: skip
    counts = {
        "gen_ai.usage.prompt_tokens": one.asked.prompt, "gen_ai.usage.completion_tokens": len(one.tokens_ns),
        "gen_ai.request.max_tokens": one.asked.output, "gen_ai.request.n": 1,
    }  # fmt: skip
    attributes: list[dict[str, Any]] = [
        {"key": f"gen_ai.latency.{name}", "value": {"doubleValue": ns / 1e9}} for name, ns in seconds.items()
    ]
    attributes += [{"key": name, "value": {"intValue": str(count)}} for name, count in counts.items()]
    attributes.append(_text("gen_ai.request.id", _SPAN_NAME.format(one.asked.name)))
    return {
        "traceId": f"{draw.getrandbits(128):032x}", "spanId": f"{draw.getrandbits(64):016x}", "name": "llm_request",
        "kind": "SPAN_KIND_SERVER", "startTimeUnixNano": str(begin_ns + arrival),
        "endTimeUnixNano": str(begin_ns + last + away), "attributes": attributes, "status": {},
    }  # fmt: skip


def _text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def line(one: Iteration, begin_ns: int = BEGIN_NS) -> str:
    """As vLLM's logger writes it: a stamp of whole seconds, and the elapsed time to 10 us."""
    stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime((begin_ns + one.ts_ns + one.dur_ns) / 1e9))
    context, again = (sum(tokens for _, tokens in part) for part in (one.context, one.again))
    generated = len(one.decoders) + one.drafted + again
    return (
        f"INFO {stamp} [loggers.py:199] Engine {one.engine:03d}: Iteration({one.number}): {len(one.context)} context "
        f"requests, {context} context tokens, {len(one.decoders) + len(one.again)} generation requests, "
        f"{generated} generation tokens, iteration elapsed time: {one.dur_ns / 1e6:.2f} ms, "
        f"CPU KV cache usage: {100 * one.kv_used:.1f}%\n"
    )


def speculated(iterations: Sequence[Iteration]) -> dict[str, int]:
    """What vLLM counts of drafted tokens, from its start."""
    names = {"num_drafts": "drafts", "num_draft_tokens": "drafted", "num_accepted_tokens": "accepted"}
    return {name: sum(getattr(one, of) for one in iterations) for name, of in names.items()}


def _speculation(recorded: Recorded) -> str:
    """As two scrapes of its figures, before and after."""
    text, end = "", max(one.ts_ns + one.dur_ns for one in recorded.iterations)
    for at, counts in ((0, dict.fromkeys(speculated(()), 0)), (end, speculated(recorded.iterations))):
        text += f"# scraped_at_ns {BEGIN_NS + at}\n"
        for name, count in counts.items():
            whole = f"vllm:spec_decode_{name}_total"
            text += f'# TYPE {whole} counter\n{whole}{{engine="0"}} {count}\n'
    return text


def trace(iterations: Sequence[Iteration], begin_ns: int = BEGIN_NS) -> dict[str, Any]:
    """A profiler's window over these iterations, with nothing in it but the annotations of the engine."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},
    ]  # fmt: skip
    for number, one in enumerate(iterations):
        context, again = (sum(tokens for _, tokens in part) for part in (one.context, one.again))
        name = (
            f"execute_context_{len(one.context)}({context})_generation_{len(one.decoders) + len(one.again)}"
            f"({len(one.decoders) + one.drafted + again})"
        )
        events.append({
            "ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": one.ts_ns / 1e3,
            "dur": one.dur_ns / 1e3, "args": {"External id": number + 1},
        })  # fmt: skip
    return {
        "schemaVersion": 1, "deviceProperties": [], "distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 1},
        "baseTimeNanoseconds": begin_ns, "traceEvents": events, "traceName": "rank0.pt.trace.json",
    }  # fmt: skip

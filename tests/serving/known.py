"""Every known value of the real serving captures beside what npulens says: `python -m tests.serving.known [CAPTURES]`.

Five runs of a real vLLM (A to E), one request on MindIE, and what verl left of its steps. What is expected was counted
in the files themselves, or planted, before npulens read them. Ends with 1 where a value differs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from npulens import ingest
from npulens.analysis.engine import Check, check
from npulens.analysis.run import Run
from npulens.analysis.serving.exported import exports, hurt
from npulens.analysis.serving.parts import KINDS, goodput, parts
from npulens.analysis.serving.recorded import clocks, iterations, members, requests
from npulens.analysis.serving.served import Served, served
from npulens.app.console import table
from npulens.ingest.store import runs as stores

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "traces_serving"
#: Requests of each run, and those within 200 ms to the first token and 25 ms a token after it.
RUNS = {"A_baseline": (80, 80), "B_long_prompts": (80, 33), "C_engine_stalls": (80, 62), "D_small_kv": (50, None),
        "E_profiled": (60, 24)}  # fmt: skip
#: By how much a replay may miss means and P99 of TTFT and TPOT, and goodput as a share of all requests.
REPLAYED = {"A_baseline": (0.15, 0.05), "B_long_prompts": (0.15, 0.05), "C_engine_stalls": (0.15, 0.05),
            "D_small_kv": (0.25, 0.25)}  # fmt: skip
MEASURES = ("ttft_mean_ns", "ttft_p99_ns", "tpot_mean_ns", "tpot_p99_ns")


@dataclass(frozen=True)
class Value:
    """One value: what it is, what it has to be, what was said."""

    run: str
    what: str
    expected: str
    said: str
    right: bool


def exactly(run: str, what: str, expected: object, said: object) -> Value:
    return Value(run, what, str(expected), str(said), expected == said)


def within(run: str, what: str, expected: float, said: float, share: float) -> Value:
    near = abs(said - expected) <= share * abs(expected)
    return Value(run, what, f"{expected:,.2f} ± {100 * share:g} %", f"{said:,.2f}", near)


def at_most(run: str, what: str, most: float, said: float) -> Value:
    return Value(run, what, f"at most {most:g}", f"{said:.3g}", said <= most)


def at_least(run: str, what: str, least: float, said: float) -> Value:
    return Value(run, what, f"at least {least:g}", f"{said:.4g}", said >= least)


@dataclass(frozen=True)
class Loaded:
    """One run of a load, open."""

    name: str
    con: duckdb.DuckDBPyConnection
    client: list[dict[str, Any]]


def opened(path: Path, store: Path) -> duckdb.DuckDBPyConnection:
    """The one run of a load; what lies beside it is refused."""
    (run_id,) = [run.run_id for run in ingest.load(path, store).runs if run.run_id]
    return stores.open_run(store, run_id)


def kept_chunks(client: list[dict[str, Any]]) -> int:
    """Requests within both objectives as the client counts: a token is a chunk that came."""
    good = 0
    for one in client:
        ttft, several = one["tok_ns"][0] - one["send_ns"], len(one["tok_ns"]) - 1
        tpot = (one["tok_ns"][-1] - one["tok_ns"][0]) / several if several else 0.0
        good += ttft <= 200e6 and tpot <= 25e6
    return good


def of_tokens(one: Loaded) -> int:
    """The same with the engine's own count of tokens: one that came together with another is its own."""
    counted = {row.id: row.output_tokens for row in requests(one.con)}
    good = 0
    for each in one.client:
        end = max(each["end_ns"], each["tok_ns"][-1])
        ttft, several = each["tok_ns"][0] - each["send_ns"], (counted[each["id"]] or 1) - 1
        good += ttft <= 200e6 and (end - each["tok_ns"][0]) / max(1, several) <= 25e6
    return good


def loading(one: Loaded, store: Path) -> Iterator[Value]:
    """Shown by 1 and 2: every request, iteration and member; parts that add up."""
    name, found, con = one.name, parts(one.con), one.con
    count, good = RUNS[name]
    yield exactly(name, "requests of client and engine", count, len(found.requests))
    ends = {each["id"]: max(each["end_ns"], each["tok_ns"][-1]) - each["send_ns"] for each in one.client}
    first = {each["id"]: each["tok_ns"][0] - each["send_ns"] for each in one.client}
    sums = [
        (int(whole.sum()), int(ttft.sum())) == (ends[each.id], first[each.id])
        for each, whole, ttft in zip(found.requests, found.whole, found.ttft, strict=True)
    ]
    yield exactly(name, "requests whose parts add up to the ns", count, sum(sums))
    usual = [KINDS.index(kind) for kind in ("decode", "own_prefill", "send")]
    excess = int(found.whole.sum() - found.whole[:, usual].sum())
    yield at_most(name, "unexplained, % of what is above own work", 5,
                  100 * int(found.whole[:, KINDS.index("unexplained")].sum()) / excess)  # fmt: skip
    said = members(con)
    yield at_least(name, "iterations whose members agree with its counts, %", 99, 100 * said.confidence)
    with opened(CAPTURES / "made+vllm-0.32.0-cpu" / name / "client.json", store) as alone:
        yield exactly(name, "goodput of the client alone: a token is a chunk", good or kept_chunks(one.client),
                      goodput(parts(alone), 200e6, 25e6).good)  # fmt: skip
    joined = replace(found, excluded=np.zeros(len(found.requests), bool))
    yield exactly(
        name, "goodput of both: tokens as the engine counts them", of_tokens(one), goodput(joined, 200e6, 25e6).good
    )


def of_c(one: Loaded) -> Iterator[Value]:
    found = one.con.execute(
        "SELECT dur_ns / 1e6 FROM iteration WHERE dur_ns > 250000000 AND ctx_tokens < 200 ORDER BY 1"
    ).fetchall()
    yield exactly(one.name, "iterations above 250 ms without a prompt", 6, len(found))
    yield exactly(one.name, "the shortest and the longest, ms", (312.18, 402.81),
                  (round(found[0][0], 2), round(found[-1][0], 2)))  # fmt: skip


def of_d(one: Loaded) -> Iterator[Value]:
    again = one.con.execute(
        "SELECT sum(gen_tokens - gen_requests), count(*), sum(dur_ns) FROM iteration WHERE gen_tokens > gen_requests"
    ).fetchall()[0]
    whole = one.con.execute("SELECT sum(dur_ns) FROM iteration").fetchall()[0][0]
    yield exactly(one.name, "recomputed tokens, in iterations", (4930, 33), (int(again[0]), again[1]))
    yield exactly(one.name, "of ms of iterations", (2052.5, 13698.3), (round(again[2] / 1e6, 1), round(whole / 1e6, 1)))
    times = one.con.execute("SELECT count(*) FROM member WHERE phase = 'recompute'").fetchall()[0][0]
    yield exactly(one.name, "preemptions, as the server counted", 49, times)


def of_e(one: Loaded, store: Path) -> Iterator[Value]:
    annotated = [row for row in iterations(one.con) if row.step is not None]
    yield exactly(one.name, "iterations of the trace", 120, len(annotated))
    (token,) = [each for each in clocks(one.con) if each.source == "token"]
    yield at_most(one.name, "a token after the end of its iteration, median ms", 5, (token.median_ns or 0) / 1e6)
    ((begin, end),) = exports(one.con)
    yield within(one.name, "the export stopped the engine, s", 10.2, (end - begin) / 1e9, 0.01)
    yield exactly(one.name, "requests open then", 22, len(hurt(one.con)))
    found = parts(one.con)
    left = np.sort(found.ttft_ns[~found.excluded])
    yield exactly(one.name, "without them: requests, TTFT P50 and P99 in ms", (38, 44, 1315),
                  (len(left), round(left[18] / 1e6), round(left[-1] / 1e6)))  # fmt: skip
    folder = CAPTURES / "made+vllm-0.32.0-cpu" / one.name
    (run_id,) = [run.run_id for run in ingest.load([folder / "rank0.pt.trace.json.gz", folder / "otlp.jsonl"],
                                                   store).runs]  # fmt: skip
    with stores.open_run(store, str(run_id)) as con:
        agree = con.execute(
            "SELECT count(*), count(*) FILTER (gen_requests = coalesce(n, 0)) FROM iteration LEFT JOIN (SELECT "
            "iteration, count(*) AS n FROM member WHERE phase = 'decode' GROUP BY ALL) USING (iteration)"
        ).fetchall()[0]
    yield exactly(one.name, "decoders counted back equal the annotation, without the log", (120, 120), agree)


def judged(one: Loaded) -> Iterator[Value]:
    """Shown by 3 and 4: what is said first, and how near the replay comes."""
    said, found = check(one.con), Run(one.con).get(served)
    assert found is not None
    causes = [each.cause for each in said.findings if each.measure != "step"]
    first = {"A_baseline": None, "B_long_prompts": "prefill_interference", "C_engine_stalls": "engine_stall",
             "D_small_kv": "kv_pressure"}  # fmt: skip
    if one.name in first:
        yield exactly(one.name, "check says first", first[one.name], causes[0] if causes else None)
    yield from _said(one.name, said, causes)
    if one.name in REPLAYED:
        yield from _replayed(one.name, found)


def _said(name: str, said: Check, causes: list[str]) -> Iterator[Value]:
    numbers = said.findings[0].numbers if said.findings else {}
    if name == "B_long_prompts":
        yield exactly(name, "prompts it names", ["b0016", "b0032", "b0048", "b0064"], numbers["requests"])
    elif name == "C_engine_stalls":
        yield exactly(name, "stalls", 6, numbers["stalls"])
        yield within(name, "a stall, ms", 300, float(str(numbers["stall_ns"])) / 1e6, 0.15)
    elif name == "D_small_kv":
        yield exactly(name, "recomputed tokens it says, in ms", (4930, 2052.5),
                      (numbers["recomputed"], round(float(str(numbers["recompute_ns"])) / 1e6, 1)))  # fmt: skip
    elif name == "E_profiled" and said.serving is not None:
        yield exactly(name, "left out, percentiles of", (22, 38), (said.serving.left_out, said.serving.real.requests))
        yield within(name, "export it says, s", 10.2, said.serving.export_ns / 1e9, 0.01)
        yield exactly(name, "the export counts as a stall", False, "engine_stall" in causes)


def _replayed(name: str, found: Served) -> Iterator[Value]:
    share, of_all = REPLAYED[name]
    for measure in MEASURES:
        what = "replay: " + measure.removesuffix("_ns").replace("_", " ") + ", ms"
        yield within(name, what, getattr(found.real, measure) / 1e6, getattr(found.base, measure) / 1e6, share)
    miss = abs(found.base.good - found.real.good) / found.real.requests
    yield at_most(name, f"replay: goodput {found.base.good:.1f} for {found.real.good:.0f}, % of requests off",
                  100 * of_all, 100 * miss)  # fmt: skip


def elsewhere(store: Path) -> Iterator[Value]:
    """One request on MindIE; spans and figures of verl."""
    with opened(CAPTURES / "Cztk5380+msserviceprofiler" / "output", store) as con:
        (one,) = requests(con)
        yield exactly("MindIE", "tokens of the answer, first token in ms", (250, 80.327),
                      (one.output_tokens, round((one.ttft_ns or 0) / 1e6, 3)))  # fmt: skip
        apart = np.diff([row.ts_ns for row in iterations(con)]) / 1e6
        said = (len(apart), *(round(float(each), 3) for each in (apart[0], np.median(apart[1:]), apart.max())))
        yield exactly("MindIE", "distances of submissions: count, first, median, max", (249, 54.253, 20.187, 68.826),
                      said)  # fmt: skip
    data = CAPTURES / "verl-project+rl-insight" / "data"
    with opened(data / "summary_event_data", store) as con:
        ends, pause = con.execute(
            "SELECT (max(e) FILTER (role = 'rollout') - min(e) FILTER (role = 'rollout')) / 1e6, "
            "(min(ts_ns) FILTER (role = 'log_prob') - max(e) FILTER (role = 'rollout')) / 1e6 "
            "FROM (SELECT *, ts_ns + dur_ns AS e FROM stage)"
        ).fetchall()[0]
        yield exactly(
            "verl", "replicas end apart, until log_prob, ms", (167.6, 7950.1), (round(ends, 1), round(pause, 1))
        )
    with opened(data / "verl_data_step870.txt", store) as con:
        told = dict(con.execute("SELECT name, value FROM serving_sample WHERE step = 870").fetchall())
        yield exactly("verl", "step 870 took, s", 46.61404647491872, told["timing_s/step"])


def values(store: Path) -> Iterator[Value]:
    """All of them, run by run."""
    for name in RUNS:
        folder = CAPTURES / "made+vllm-0.32.0-cpu" / name
        with opened(folder, store) as con:
            one = Loaded(name, con, json.loads((folder / "client.json").read_text()))
            yield from loading(one, store)
            if name == "C_engine_stalls":
                yield from of_c(one)
            elif name == "D_small_kv":
                yield from of_d(one)
            elif name == "E_profiled":
                yield from of_e(one, store)
            yield from judged(one)
    yield from elsewhere(store)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="npulens-known-") as store:
        found = list(values(Path(store)))
    rows = [[each.run, each.what, each.expected, each.said, "ok" if each.right else "DIFFERS"] for each in found]
    print(table(["run", "what", "known", "npulens", ""], rows, 2))
    wrong = sum(not each.right for each in found)
    print(f"\n{len(found)} values, {len(found) - wrong} as known, {wrong} not.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        CAPTURES = Path(sys.argv[1])
    main()

"""Real captures of serving engines and RL jobs: everything that is known of them beforehand comes out of a load."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis.serving.exported import exports, hurt
from npulens.analysis.serving.parts import goodput, parts, pieces
from npulens.analysis.serving.recorded import iterations, members, requests
from npulens.app.cli import main
from npulens.ingest.store import runs
from tests.conftest import SHARED

SERVING = SHARED.parent / "traces_serving"
VLLM = SERVING / "made+vllm-0.32.0-cpu"
COUNTS = re.compile(
    r"Iteration\((\d+)\): (\d+) context requests, (\d+) context tokens, (\d+) generation requests, (\d+)"
)
pytestmark = pytest.mark.skipif(not VLLM.is_dir(), reason="the shared captures of serving engines are not here")

#: Requests, and those within 200 ms and 25 ms a token as the client counts tokens that came.
RUNS = {"A_baseline": 80, "B_long_prompts": 80, "C_engine_stalls": 80, "D_small_kv": 50, "E_profiled": 60}


@dataclass(frozen=True)
class Loaded:
    """Five folders of vLLM loaded at once, and where."""

    store: Path
    ids: dict[str, str]

    def open(self, name: str) -> duckdb.DuckDBPyConnection:
        return runs.open_run(self.store, self.ids[name])


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    store = tmp_path_factory.mktemp("serving")
    found = ingest.load([VLLM / name for name in RUNS], store).runs
    ids: dict[str, str] = {}
    for run in found:
        assert run.run_id is not None, run.reason
        first = requests(runs.open_run(store, run.run_id))[0].id[0]
        ids[next(name for name in RUNS if name[0].lower() == first)] = run.run_id
    return Loaded(store, ids)


def client(name: str) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = json.loads((VLLM / name / "client.json").read_text())
    return said


def log(name: str) -> list[tuple[int, ...]]:
    found = (COUNTS.search(line) for line in (VLLM / name / "iterations.log").read_text().splitlines())
    return [tuple(int(part) for part in match.groups()) for match in found if match]


@pytest.mark.parametrize("name", RUNS)
def test_every_request_is_one_of_client_and_server(loaded: Loaded, name: str) -> None:
    con = loaded.open(name)
    found = {one.id: one for one in requests(con)}
    assert len(found) == RUNS[name]
    origin = con.execute("SELECT origin_ns FROM run").fetchall()[0][0]
    for said in client(name):
        one = found[said["id"]]
        assert one.source == "otlp, client"
        assert one.send_ns == said["send_ns"] - origin and one.client_first_ns == said["tok_ns"][0] - origin
        assert one.prompt_tokens == said["prompt"] and one.max_tokens == said["max_tokens"]
    ((offset, how),) = con.execute("SELECT offset_ns, how FROM clock_join WHERE source = 'client'").fetchall()
    assert (offset, how) == (0, "unix")


@pytest.mark.parametrize("name", RUNS)
def test_members_give_every_token_of_every_request(loaded: Loaded, name: str) -> None:
    """Counted from the engine's log, and checked against the answers' lengths and the client's own order of tokens."""
    con = loaded.open(name)
    said, known = members(con), requests(con)
    assert said.how == "counts" and said.confidence >= 0.99
    for one in known:
        own = np.sort(said.token[(said.request == one.key) & (said.token >= 0)])
        assert own.tolist() == list(range(one.output_tokens or 0)), one.id
    every = iterations(con)
    order = {one.key: place for place, one in enumerate(every)}
    assert [one.number for one in every if one.number is not None] == [number for number, *_ in log(name)]
    decoders = np.bincount([order[key] for key in said.iteration[said.phase > 0].tolist()], minlength=len(every))
    covered = np.flatnonzero(decoders)
    counted = [one.gen_requests for one in every]
    same = [decoders[at] == counted[at] for at in range(covered[0], covered[-1] + 1)]
    assert np.mean(same) >= 0.99


@pytest.mark.parametrize("name", RUNS)
def test_parts_add_up_to_each_request_to_the_ns(loaded: Loaded, name: str) -> None:
    con = loaded.open(name)
    found = parts(con)
    assert len(found.requests) == RUNS[name] and not (found.whole < 0).any()
    sent = {said["id"]: said for said in client(name)}
    for one, whole, ttft in zip(found.requests, found.whole, found.ttft, strict=True):
        said = sent[one.id]
        assert int(whole.sum()) == max(said["end_ns"], said["tok_ns"][-1]) - said["send_ns"]
        assert int(ttft.sum()) == said["tok_ns"][0] - said["send_ns"]
    unexplained = found.whole[:, -1].sum()
    assert unexplained <= 0.05 * found.whole.sum()
    slow = max(range(len(found.requests)), key=lambda at: int(found.ttft[at].sum()))
    way = pieces(con, found.requests[slow].key)
    ends = [way[0].ts_ns, *(piece.ts_ns + piece.dur_ns for piece in way)]
    assert [piece.ts_ns for piece in way] == ends[:-1]  # each begins where the one before ends
    assert sum(piece.dur_ns for piece in way) == int(found.whole[slow].sum())


def test_goodput_is_what_the_client_says(loaded: Loaded) -> None:
    for name, good in (("A_baseline", 80), ("B_long_prompts", 33)):
        assert goodput(parts(loaded.open(name)), 200e6, 25e6).good == good


def test_six_stalls_of_the_engine(loaded: Loaded) -> None:
    con = loaded.open("C_engine_stalls")
    found = con.execute(
        "SELECT dur_ns, ts_ns + origin_ns FROM iteration, run WHERE dur_ns > 250000000 AND ctx_tokens < 200 "
        "ORDER BY ts_ns"
    ).fetchall()
    assert len(found) == 6
    assert (min(dur for dur, _ in found), max(dur for dur, _ in found)) == (312_180_000, 402_810_000)
    for (dur, ts), said in zip(found, json.loads((VLLM / "C_engine_stalls/truth.json").read_text()), strict=True):
        assert ts < said["end_ns"] and said["start_ns"] < ts + dur  # each lies where the process was stopped


def test_recomputed_tokens_of_preempted_requests(loaded: Loaded) -> None:
    con = loaded.open("D_small_kv")
    again = con.execute(
        "SELECT sum(gen_tokens - gen_requests), count(*), sum(dur_ns) FROM iteration WHERE gen_tokens > gen_requests"
    ).fetchall()[0]
    whole = con.execute("SELECT sum(dur_ns) FROM iteration").fetchall()[0][0]
    assert again[:2] == (4930, 33) and (round(again[2] / 1e6, 1), round(whole / 1e6, 1)) == (2052.5, 13698.3)
    told = con.execute("SELECT count(*), sum(tokens) FROM member WHERE phase = 'recompute'").fetchall()[0]
    assert told == (49, 4930 + 49)  # the server counted 49 preemptions; each gives one new token besides


def test_a_profiled_window_lies_on_the_axis_of_its_requests(loaded: Loaded) -> None:
    con = loaded.open("E_profiled")
    assert con.execute("SELECT count(*) FROM step").fetchall() == [(120,)]
    matched = con.execute(
        "SELECT count(*), count(number) FROM iteration i JOIN step s USING (rank, step) WHERE i.ts_error_ns IS NOT NULL"
    ).fetchall()
    assert matched == [(120, 118)]  # two had no tokens, and those the log leaves out
    ((median, how),) = con.execute("SELECT median_ns, how FROM clock_join WHERE source = 'token'").fetchall()
    assert how == "tokens" and median <= 5_000_000
    ((begin, end),) = exports(con)
    assert round((end - begin) / 1e9, 1) == 10.2
    assert len(hurt(con)) == 22
    found = parts(con)
    left = np.sort(found.ttft_ns[~found.excluded])
    assert (len(left), round(left[18] / 1e6), round(left[-1] / 1e6)) == (38, 44, 1315)  # by nearest rank


def test_decoders_are_counted_back_without_a_log(tmp_path: Path) -> None:
    paths = [VLLM / "E_profiled" / name for name in ("rank0.pt.trace.json.gz", "otlp.jsonl")]
    con = one(paths, tmp_path)
    fits = con.execute(
        "SELECT count(*), count(*) FILTER (gen_requests = coalesce(n, 0)) FROM iteration LEFT JOIN "
        "(SELECT iteration, count(*) AS n FROM member WHERE phase = 'decode' GROUP BY ALL) USING (iteration)"
    ).fetchall()
    assert fits == [(120, 120)]
    assert con.execute("SELECT DISTINCT how, confidence FROM member").fetchall() == [("times", 1.0)]


def test_five_folders_are_five_runs_and_a_client_alone_is_one(loaded: Loaded, tmp_path: Path) -> None:
    assert len(set(loaded.ids.values())) == len(RUNS)
    con = one(VLLM / "C_engine_stalls/client.json", tmp_path)
    assert goodput(parts(con), 200e6, 25e6).good == 62  # it counts the chunks that came


def one(path: Path | list[Path], store: Path) -> duckdb.DuckDBPyConnection:
    """The one run of a load; what lies beside it is refused."""
    (run_id,) = [run.run_id for run in ingest.load(path, store).runs if run.run_id]
    return runs.open_run(store, run_id)


def test_mindie_as_msserviceprofiler_tells_it(tmp_path: Path) -> None:
    con = one(SERVING / "Cztk5380+msserviceprofiler/output", tmp_path)
    (told,) = requests(con)
    assert (told.id, told.prompt_tokens, told.output_tokens, told.ttft_ns) == ("endpoint_common_1", 4, 250, 80_326_800)
    begins = np.array([row.ts_ns for row in iterations(con)])
    apart = np.diff(begins) / 1e6
    assert len(begins) == 250 and round(apart[0], 3) == 54.253
    assert (round(float(np.median(apart[1:])), 3), round(float(apart.max()), 3)) == (20.187, 68.826)
    said = members(con)
    assert said.how == "recorded" and sorted(said.token.tolist()) == list(range(250))


def test_roles_and_figures_of_verl(tmp_path: Path) -> None:
    con = one(SERVING / "verl-project+rl-insight/data/summary_event_data", tmp_path)
    ends = con.execute(
        "SELECT (max(ts_ns + dur_ns) - min(ts_ns + dur_ns)) / 1e6 FROM stage WHERE role = 'rollout'"
    ).fetchall()
    assert round(ends[0][0], 1) == 167.6
    pause = con.execute(
        "SELECT (min(ts_ns) FILTER (role = 'log_prob') - max(ts_ns + dur_ns) FILTER (role = 'rollout')) / 1e6 "
        "FROM stage"
    ).fetchall()
    assert round(pause[0][0], 1) == 7950.1
    con = one(SERVING / "verl-project+rl-insight/data/verl_data_step870.txt", tmp_path)
    told = dict(con.execute("SELECT name, value FROM serving_sample WHERE step = 870").fetchall())
    assert (told["timing_s/step"], told["response_length/max"]) == (46.61404647491872, 512.0)


def test_the_command_says_why_a_request_is_slow(loaded: Loaded) -> None:
    called = ["requests", loaded.ids["B_long_prompts"], "--store", str(loaded.store)]
    said = CliRunner().invoke(main, [*called, "--slow", "ttft"])
    assert said.exit_code == 0 and "33 of 80" in said.output and "Queue: token budget" in said.output
    asked = CliRunner().invoke(main, [*called, "--id", "b0016", "--json"])
    told = json.loads(asked.output)
    assert told["goodput"] == {"good": 33, "of": 80, "lost": told["goodput"]["lost"]}
    assert sum(piece["dur_ns"] for piece in told["pieces"]) == told["requests"][0]["e2e_ns"]
    assert CliRunner().invoke(main, [*called, "--id", "none"]).exit_code == 2
    assert CliRunner().invoke(main, [*called, "--lang", "zh"]).exit_code == 0


def test_a_window_alone_has_its_iterations(tmp_path: Path) -> None:
    con = one(VLLM / "E_profiled/rank0.pt.trace.json.gz", tmp_path)
    every = iterations(con)
    assert len(every) == 120 and {one.source for one in every} == {"annotation"}
    first = con.execute("SELECT ts_ns, host_dur_ns FROM step ORDER BY ts_ns LIMIT 1").fetchall()[0]
    assert (every[0].ts_ns, every[0].dur_ns) == first and every[0].ctx_tokens == 512

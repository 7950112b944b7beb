"""A benchmark is loaded as a run of its own kind; one that contradicts itself, or is half there, is named as such."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_result

from npulens import ingest
from npulens.analysis.look import bench as look
from npulens.app.commands import bench
from npulens.app.pages.bench import sentences
from npulens.collectors.bench.result import Reason
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import render
from npulens.ingest.readers.bench import read_bench
from npulens.ingest.store import history
from npulens.ingest.store import runs as store
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.finish import finish


def load(path: Path, place: Path) -> ingest.LoadedRun:
    (run,) = ingest.load(path, place).runs
    return run


def refused(place: Path) -> list[dict[str, Any]]:
    """What became of everything in a directory, none of which may be loaded."""
    runs = ingest.load(place / "in", place / "store").runs
    assert all(run.run_id is None for run in runs)
    return [run.error for run in runs if run.error is not None]


def changed(directory: Path, change: Callable[[dict[str, Any]], object], name: str = "manifest.json") -> None:
    path = directory / name
    said = json.loads(path.read_text())
    change(said)
    path.write_text(json.dumps(said))


def test_figures_and_samples_are_in_the_tables(tmp_path: Path) -> None:
    run = load(bench_result.write(tmp_path / "made"), tmp_path / "store")
    assert (run.formats, run.status, run.ranks) == (("bench",), "complete", (0,))
    con = store.open_run(tmp_path / "store", str(run.run_id))
    assert con.execute("SELECT backend, device_name FROM rank").fetchall() == [("cpu", "made-up processor")]
    assert con.execute("SELECT clock, origin_ns FROM run").fetchall() == [("unix", bench_result.BEGAN_NS)]
    made = bench_result.series(60_000, 1000, 2)
    query = "SELECT value::BIGINT FROM sample WHERE counter = 'fused float32 hot host' ORDER BY ts_ns"
    assert [row[0] for row in con.execute(query).fetchall()] == made.ns
    assert con.execute("SELECT value, ts_ns FROM sample WHERE counter = 'clock'").fetchall() == [(2400.0, 0)]
    absent = {row["table"]: row["collect_with"] for row in run.coverage if row["status"] == "absent"}
    assert absent["span"] == "npulens collect conv_bn_relu" and "summary" not in absent


def test_the_same_benchmark_has_one_id_however_it_is_named(tmp_path: Path) -> None:
    made = bench_result.write(tmp_path / "made")
    whole, alone = load(made, tmp_path / "store"), load(made / "manifest.json", tmp_path / "store")
    assert whole.run_id == alone.run_id and alone.stored == "exists"


def test_a_percentile_on_the_screen_is_that_of_the_samples(tmp_path: Path) -> None:
    run = load(bench_result.write(tmp_path / "made"), tmp_path / "store")
    with store.open_run(tmp_path / "store", str(run.run_id)) as con:
        found = look.bench(con)
        assert found is not None
        rows = look.distribution(con, ["fused float32 hot host"], [0])
    ordered = sorted(bench_result.series(60_000, 1000, 2).ns)
    shares = dict(zip(rows["share"], rows["ns"], strict=True))
    assert shares[0.5] == ordered[499] and shares[0.99] == ordered[989] and shares[1.0] == ordered[-1]
    figure = next(each for each in found.part("latency") if each["variant"] == "fused")
    assert [each["value"] for each in figure["quantiles"][:3]] == [ordered[499], ordered[899], ordered[989]]
    assert sentences.quantile(figure, 0.999, "en").endswith("(needs n ≥ 5,570)")
    best = look.headline(found)
    assert best is not None and best["variant"] == "fused" and sentences.verdict(best) == "faster"


def test_a_run_that_is_a_trace_holds_no_benchmark(tmp_path: Path) -> None:
    sample = Path(__file__).resolve().parents[1] / "sample_traces" / "kineto"
    run = load(sample, tmp_path / "store")
    with store.open_run(tmp_path / "store", str(run.run_id)) as con:
        assert look.bench(con) is None


def _higher_p99(said: dict[str, Any]) -> None:
    figure = next(each for each in said["figures"] if each["part"] == "latency")
    figure["quantiles"][2]["value"] += 1


def _faster(said: dict[str, Any]) -> None:
    figure = next(each for each in said["figures"] if each["part"] == "versus" and not each["control"])
    figure["ratio"] *= 0.9


def _no_stall(said: dict[str, Any]) -> None:
    series = said["fused float32 hot host"]["ns"]
    series[series.index(max(series))] = min(series)


def _fewer(said: dict[str, Any]) -> None:
    said["fused float32 hot host"]["ns"].pop()


CONTRADICTIONS: dict[str, tuple[str, Callable[[dict[str, Any]], object], str]] = {
    "p99": ("manifest.json", _higher_p99, "its P99 is not that of its samples"),
    "ratio": ("manifest.json", _faster, "its ratio is not that of its pairs"),
    "stall": ("samples.json", _no_stall, "samples.json holds other samples"),
    "fewer": ("samples.json", _fewer, "samples.json holds other samples"),
    "gone": ("samples.json", lambda said: said.pop("fused float32 hot host"), "samples.json does not hold its samples"),
}


def test_figures_that_their_samples_contradict_are_refused(tmp_path: Path) -> None:
    for kind, (name, change, _) in CONTRADICTIONS.items():
        changed(bench_result.write(tmp_path / "in" / kind), change, name)
    for error in refused(tmp_path):
        assert error["kind"] == "contradiction"
        assert CONTRADICTIONS[Path(error["path"]).name][2] in error["message"]


ODD: dict[str, Callable[[dict[str, Any]], object]] = {
    "none": lambda said: said.update(figures=[]),
    "kinds": lambda said: said.update(figures=[None, 3, "x", [], {}, {"part": "nothing"}]),
    "number": lambda said: said.update(figures=7),
    "evidence": lambda said: said.update(evidence="npu-910B"),
    "negative": lambda said: said.update(sizes={"batch": -1}),
    "status": lambda said: said.update(status="splendid"),
    "long": lambda said: said.update(workload="x" * 100_000),
}


def test_half_a_manifest_and_one_of_odd_values_are_refused_by_name(tmp_path: Path) -> None:
    for share in (0.01, 0.3, 0.6, 0.9, 0.999):
        path = bench_result.write(tmp_path / "in" / f"half-{share}") / "manifest.json"
        text = path.read_text()
        path.write_text(text[: max(20, int(share * len(text)))])
    for kind, change in ODD.items():
        changed(bench_result.write(tmp_path / "in" / kind), change)
    deep = bench_result.write(tmp_path / "in" / "deep") / "manifest.json"
    deep.write_text('{"what": "bench", "device": ' + "[" * 100_000)
    with (bench_result.write(tmp_path / "in" / "huge") / "manifest.json").open("wb") as stream:
        stream.write(b'{"what": "bench", "figures": []')
        stream.truncate(64 << 20)
    found = refused(tmp_path)
    assert len(found) == 5 + len(ODD) + 2
    for error in found:
        empty = error["path"].endswith(("none", "kinds"))
        assert error["kind"] == ("too_large" if "huge" in error["path"] else "empty" if empty else "damaged")


def test_without_its_samples_a_benchmark_is_partial(tmp_path: Path) -> None:
    texts = (None, "", "{", "[]", '{"a": 1}', '{"a": {"clock": "sun", "ns": []}}', "\x00" * 99)
    for place, text in enumerate(texts):
        made = bench_result.write(tmp_path / "in" / f"{place}")
        (made / "samples.json").unlink()
        if text is not None:
            (made / "samples.json").write_text(text)
    runs = ingest.load(tmp_path / "in", tmp_path / "store").runs
    assert len(runs) == len(texts)
    assert all(run.status == "partial" and "samples.json" in str(run.reason) for run in runs)


def test_a_damaged_figure_is_lost_alone_and_counted(tmp_path: Path) -> None:
    made = bench_result.write(tmp_path / "made")

    def damage(said: dict[str, Any]) -> None:
        said["figures"][1]["samples"] = 10**400
        said["figures"][0]["relative_error"] = "small"

    changed(made, damage)
    run = load(made, tmp_path / "store")
    assert run.status == "partial" and "2 figures of the benchmark cannot be read" in str(run.reason)
    (cover,) = [row for row in run.coverage if row["table"] == "summary"]
    assert cover["dropped"] == 2


def test_a_benchmark_that_was_cut_short_says_so(tmp_path: Path) -> None:
    why = Reason("interrupted", {"what": "cold calls", "n": "3"})
    made = bench_result.write(tmp_path / "made", status="partial", reason=why)
    run = load(made, tmp_path / "store")
    assert run.status == "partial" and run.reason == "interrupted during cold calls, after 3 s"
    assert render(run.reason, "zh") == "3 秒后在 cold calls 期间被中断"


def test_its_numbers_are_in_the_history(tmp_path: Path) -> None:
    run = load(bench_result.write(tmp_path / "made"), tmp_path / "store")
    (identity,) = history.identities(tmp_path / "store")
    assert (identity.workload, identity.shapes, identity.hardware) == ("conv_bn_relu", "small", "1 x made-up processor")
    kept = history.everything(tmp_path / "store")
    (point,) = kept[identity.key, "fused float32 hot host p50_ns"]
    ordered = sorted(bench_result.series(60_000, 1000, 2).ns)
    assert (point.value, point.unit, point.better, point.usable) == (ordered[499], "ns", "lower", True)
    assert point.run_id == run.run_id and point.at_ns == bench_result.BEGAN_NS
    (ratio,) = kept[identity.key, "fused / unfused float32 ratio"]
    assert 0.59 < ratio.value < 0.61
    assert len(history.equal_sides(tmp_path / "store", identity.key, "unfused float32 hot host p50_ns")) == 1


def test_every_number_is_in_the_csv(tmp_path: Path) -> None:
    run = load(bench_result.write(tmp_path / "made"), tmp_path / "store")
    for suffix in (".csv", ".json", ".html"):
        bench.write_bench_file(tmp_path / "store", str(run.run_id), tmp_path / f"out{suffix}")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    (p99,) = [row for row in rows if row["variant"] == "fused" and row["name"] == "P99.value"]
    assert int(p99["value"]) == sorted(bench_result.series(60_000, 1000, 2).ns)[989]
    page = (tmp_path / "out.html").read_text()
    assert "<script" not in page and "0.601" in page and "基准测试" not in page.split("</title>")[0]
    assert json.loads((tmp_path / "out.json").read_text())["about"]["workload"] == "conv_bn_relu"


def mangled(data: bytes, dice: random.Random) -> bytes:
    """The bytes with a few of them changed, a piece gone, a piece twice, or a number replaced by an odd one."""
    at, to = sorted(dice.randrange(len(data)) for _ in range(2))
    how = dice.randrange(4)
    if how == 0:
        return data[:at] + bytes(dice.randrange(256) for _ in range(3)) + data[at + 3 :]
    if how == 1:
        return data[:at] + data[min(to, at + 40) :]
    if how == 2:
        return data[: at + 30] + data[at:]
    numbers = list(re.finditer(rb"-?\d[\d.e-]*", data))
    chosen = dice.choice(numbers)
    odd = dice.choice([b"-1", b"1e999", b"9" * 40, b"null", b'"x"', b"NaN", b"[]", b"0", b"1.5"])
    return data[: chosen.start()] + odd + data[chosen.end() :]


def test_whatever_is_done_to_the_files_ends_in_tables_or_a_refusal(tmp_path: Path) -> None:
    """A hundred seeded changes of either file, read in this process: no other error leaves the reader."""
    dice, ends = random.Random(20261122), Counter[str]()
    made = bench_result.write(tmp_path / "made", calls=120)
    whole = {name: (made / name).read_bytes() for name in ("manifest.json", "samples.json")}
    for place in range(100):
        name = dice.choice(list(whole))
        (made / name).write_bytes(mangled(whole[name], dice))
        claim = read_bench.sniff(made)
        draft = Draft(tmp_path / "draft" / str(place), 0)
        try:
            if claim is not None:
                read_bench.read(claim, draft)
                finish(draft, tmp_path / "tables" / str(place))
            ends["read" if claim else "passed over"] += 1
        except IngestError as error:
            ends[error.kind] += 1
        finally:
            draft.close()
        (made / name).write_bytes(whole[name])
    assert set(ends) <= {"read", "passed over", "damaged", "contradiction", "empty"} and ends["contradiction"] > 0

"""Nothing planted survives --redact: not in a table, not in the manifest, not in a report; and every figure stays."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.app.cli import main
from npulens.ingest.store import runs as store
from npulens.ingest.tables import schema

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
HOST, USER = "atlas-rack7-n03", "zhangwei7"
SECRETS = (
    HOST, USER, "qilin-internal", "10.23.45.67", "fe80::1ff:fe23:4567:890a", "3c:7c:3f:aa:bb:01",
    "hf_PlantedTokenABCDEF123", "Tr0ub4dor", "li.na@corp.example.com", "git.corp.example.com", "SN-0042-PLANTED",
)  # fmt: skip
TEXT = (
    f"{USER} on {HOST} ran /home/{USER}/qilin-internal/job.sh and /data/qilin-internal/run.py(12) at 10.23.45.67, "
    "fe80::1ff:fe23:4567:890a, 3c:7c:3f:aa:bb:01 with hf_PlantedTokenABCDEF123 password=Tr0ub4dor; see "
    "https://git.corp.example.com/qilin-internal or li.na@corp.example.com"
)
ARGS = {"hostname": HOST, "user": USER, "cwd": f"/home/{USER}/qilin-internal", "password": "Tr0ub4dor", "note": TEXT,
        "serial": "SN-0042-PLANTED"}  # fmt: skip
FRAME = f"/home/{USER}/qilin-internal/trainer.py(201): train"


def _text(into: Path) -> Path:
    """The text sample under a planted host's name, with the plants in trace, stacks, metadata and a CSV."""
    for old in sorted((SAMPLES / "torch_npu_text").glob("*_ascend_pt")):
        rank = into / old.name.replace("sim-node-0", HOST)
        shutil.copytree(old, rank)
        out = rank / "ASCEND_PROFILER_OUTPUT"
        events = json.loads((out / "trace_view.json").read_text())
        spans = [event for event in events if event.get("ph") == "X"]
        for event in spans[5:400:20]:
            event["args"] = {**event.get("args", {}), **ARGS}
        spans[7]["name"] = TEXT
        (out / "trace_view.json").write_text(json.dumps(events))
        details = (out / "operator_details.csv").read_text().replace("/workspace/train/trainer.py(201): train", FRAME)
        (out / "operator_details.csv").write_text(details)
        meta = json.loads((rank / "profiler_metadata.json").read_text())
        meta["ENV_VARIABLES"] |= {"MASTER_ADDR": HOST, "HF_TOKEN": "hf_PlantedTokenABCDEF123", "HOME": f"/home/{USER}"}
        (rank / "profiler_metadata.json").write_text(json.dumps(meta | {"owner note": TEXT}))
    (out / "memory_record.csv").write_bytes((out / "memory_record.csv").read_bytes()[:-9])
    return into


def _db(into: Path) -> Path:
    for old in sorted((SAMPLES / "torch_npu_db").glob("*_ascend_pt")):
        rank = into / old.name.replace("sim-node-0", HOST)
        shutil.copytree(old, rank)
        for path in rank.glob("*/ascend_pytorch_profiler_*.db"):
            con = sqlite3.connect(path)
            con.execute("UPDATE HOST_INFO SET hostName = ?", [HOST])
            con.execute("UPDATE STRING_IDS SET value = ? WHERE value LIKE 'trainer.py(201)%'", [FRAME])
            con.execute("UPDATE STRING_IDS SET value = ? WHERE value LIKE 'trainer.py(164)%'", [TEXT])
            con.execute(
                "UPDATE META_DATA SET value = ? WHERE name = 'ENV_VARIABLES'",
                [json.dumps({"HOSTNAME": HOST, "LOGNAME": USER, "NOTE": TEXT})],
            )
            con.commit()
            con.close()
    return into


def _kineto(into: Path) -> Path:
    into.mkdir()
    for old in (SAMPLES / "kineto").glob("*.gz"):
        trace = json.loads(gzip.decompress(old.read_bytes()))
        trace |= {"host_name": HOST, "traceName": f"/home/{USER}/qilin-internal/{HOST}.json", "note": TEXT}
        spans = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
        for event in spans[5:400:20]:
            event["args"] = {**event.get("args", {}), **ARGS}
        for event in spans:
            if event["name"].startswith("trainer.py(201)"):
                event["name"] = FRAME
        spans[9]["name"] = TEXT
        (into / old.name.replace("sim-node-0", HOST)).write_bytes(gzip.compress(json.dumps(trace).encode()))
    return into


CAPTURES: dict[str, Callable[[Path], Path]] = {"text": _text, "db": _db, "kineto": _kineto}


@dataclass(frozen=True)
class Twice:
    """A capture loaded as it is and redacted."""

    store: Path
    capture: Path
    plain: ingest.LoadedRun
    redacted: ingest.LoadedRun


@pytest.fixture(scope="module", params=list(CAPTURES))
def twice(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twice]:
    place = tmp_path_factory.mktemp(request.param)
    capture = CAPTURES[request.param](place / f"{HOST}_{USER}")
    (plain,) = ingest.load(capture, place / "store").runs
    (redacted,) = ingest.load(capture, place / "store", redact=True).runs
    assert plain.run_id and redacted.run_id and plain.run_id != redacted.run_id
    yield Twice(place / "store", capture, plain, redacted)


def texts_of(value: Any) -> Iterator[str]:
    """Every text anywhere in something that pyarrow or json gave."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)


def told(run: Path) -> set[str]:
    """Which of the plants a stored run still tells, decoded column by column."""
    texts = list(texts_of(json.loads((run / "manifest.json").read_text())))
    for path in run.glob("*.parquet"):
        table = pq.read_table(path)
        for field in table.schema:
            if pa.types.is_string(field.type) or pa.types.is_list(field.type):
                texts += texts_of(table[field.name].to_pylist())
    return plants("\n".join(texts))


def plants(text: str) -> set[str]:
    return {plant for plant in SECRETS if plant.lower() in text.lower()}


def test_the_plants_are_there_to_be_found(twice: Twice) -> None:
    """A test that found nothing because nothing was planted would pass as well."""
    assert twice.plain.run_id
    assert told(twice.store / twice.plain.run_id) >= set(SECRETS) - {"SN-0042-PLANTED", "li.na@corp.example.com"}


def test_no_plant_is_left_in_what_is_stored(twice: Twice) -> None:
    assert twice.redacted.run_id and twice.redacted.redacted and not twice.plain.redacted
    assert told(twice.store / twice.redacted.run_id) == set()
    assert {p.name for p in (twice.store / twice.redacted.run_id).iterdir()} == {
        "manifest.json", *(f"{table}.parquet" for table in schema.tables())
    }  # fmt: skip
    assert store.resolve(twice.store, twice.redacted.run_id).redacted
    assert plants(json.dumps(twice.redacted.as_dict())) == set()


def test_every_number_and_every_grouping_stays(twice: Twice, tmp_path: Path) -> None:
    """Row by row the same numbers; in every text column the same rows are alike."""
    _asked("export", twice.plain.run_id, "--to", tmp_path / "out", "--redact", "--store", twice.store, "--json")
    for table in schema.tables().values():
        if table.name in ("run", "coverage"):
            continue
        plain, redacted = (
            pq.read_table(place / f"{table.name}.parquet")
            for place in (twice.store / str(twice.plain.run_id), tmp_path / "out")
        )
        assert plain.schema == redacted.schema and plain.num_rows == redacted.num_rows
        for name in plain.column_names:
            old, new = plain[name], redacted[name]
            if not pa.types.is_string(old.type):
                assert old.equals(new), (table.name, name)
                continue
            pairs = set(zip(old.to_pylist(), new.to_pylist(), strict=True))
            assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}), (table.name, name)


def test_what_a_trace_is_read_for_stays(twice: Twice) -> None:
    runs = [twice.store / str(run.run_id) for run in (twice.plain, twice.redacted)]
    kernels = [_column(run, "kernel", "op_type") for run in runs]
    assert kernels[0] == kernels[1]
    names = [set(_column(run, "span", "name")) for run in runs]
    assert len(names[0] ^ names[1]) <= 6  # the planted ones, before and after
    frames = "\n".join(filter(None, [*_column(runs[1], "stack", "frames"), *_column(runs[1], "span", "name")]))
    assert "trainer.py(201): train" in frames


def _column(run: Path, table: str, name: str) -> list[Any]:
    return pq.read_table(run / f"{table}.parquet", columns=[name])[name].to_pylist()


def _asked(*words: object) -> Any:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_breakdown_and_check_say_the_same(twice: Twice) -> None:
    for verb in ("breakdown", "check"):
        plain, redacted = (
            _asked(verb, run.run_id, "--store", twice.store, "--json") for run in (twice.plain, twice.redacted)
        )
        assert plants(json.dumps(redacted)) == set()
        if verb == "breakdown":
            assert plain["rows"] == redacted["rows"] and plain["rows"]
            continue
        keys = ("detector", "cause", "severity", "saving_ns", "saving_share", "confidence")
        assert [{k: f[k] for k in keys} for f in plain["findings"]] == [
            {k: f[k] for k in keys} for f in redacted["findings"]
        ]
        windows = [
            [(e["rank"], e["ts_ns"], e["dur_ns"], e["span_id"]) for f in said["findings"] for e in f["evidence"]]
            for said in (plain, redacted)
        ]
        assert windows[0] == windows[1]
        assert plain["quality"]["score"] == redacted["quality"]["score"]


def test_loading_it_again_changes_nothing(twice: Twice) -> None:
    for redact, before in ((False, twice.plain), (True, twice.redacted)):
        (again,) = ingest.load(twice.capture, twice.store, redact=redact).runs
        assert (again.run_id, again.stored, again.redacted) == (before.run_id, "exists", redact)


@pytest.mark.parametrize("end", ["html", "json"])
def test_a_redacted_report_tells_nothing(twice: Twice, end: str, tmp_path: Path) -> None:
    """Also of a run that was stored as it is; its label goes through the same hands."""
    assert twice.plain.run_id
    store.set_label(twice.store, twice.plain.run_id, f"{USER} {HOST}")
    target = tmp_path / f"report.{end}"
    _asked("report", twice.plain.run_id, "-o", target, "--redact", "--store", twice.store, "--json")
    text = target.read_text()
    assert plants(text) == set()
    assert re.search(r"user-0\d host-01", text)


@pytest.mark.parametrize("name", ["out", "out.duckdb", "arg.parquet"])
def test_a_redacted_export_tells_nothing(twice: Twice, name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    table = name.split(".")[0] if "." in name and "duckdb" not in name else "span"
    export = partial(_asked, "export", twice.plain.run_id, "--table", table, "--as", "csv", "--store", twice.store)
    export("--to", target, "--redact", "--json")
    files = [target] if target.is_file() else list(target.iterdir())
    for path in files:
        assert plants(_content(path)) == set(), path.name
    if name == "out":
        assert len(files) == len(schema.tables())


def _content(path: Path) -> str:
    if path.suffix == ".csv":
        return path.read_text()
    if path.suffix == ".parquet":
        return "\n".join(texts_of(pq.read_table(path).to_pylist()))
    with duckdb.connect(str(path), read_only=True) as con:
        names = [row[0] for row in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return "\n".join(str(con.execute(f"FROM {name}").fetchall()) for name in names)


def test_a_joined_run_is_redacted_as_a_whole(tmp_path: Path) -> None:
    capture = _text(tmp_path / "capture")
    first, second = sorted(capture.iterdir())
    (one,) = ingest.load(first, tmp_path / "store").runs
    (both,) = ingest.load(second, tmp_path / "store", join=one.run_id, redact=True).runs
    assert both.run_id and both.ranks == (0, 2) and both.redacted
    assert told(tmp_path / "store" / both.run_id) == set()


def test_a_host_has_one_name_on_every_rank(tmp_path: Path) -> None:
    capture = _text(tmp_path / "capture")
    last = sorted(capture.iterdir())[-1]
    last.rename(last.with_name(last.name.replace(HOST, "atlas-rack8-n01")))
    (run,) = ingest.load(capture, tmp_path / "store", redact=True).runs
    assert _column(tmp_path / "store" / str(run.run_id), "rank", "host") == ["host-01", "host-02"]

"""The command line as scripts see it: stable keys, exit codes, errors in one line, and SQL that can do no harm."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from npulens.app.cli import main
from npulens.app.commands import serve
from npulens.ingest.tables import schema
from tests.test_store import kineto


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run, called night; one of its names would be a formula in a spreadsheet."""
    directory = tmp_path_factory.mktemp("cli")
    trace = kineto(directory / "trace.json")
    trace.write_text(trace.read_text().replace("aten::op3", "=cmd|' /C calc'!A0"))
    done = run(directory / "store", "load", str(trace), "--label", "night", "--json")
    assert done.exit_code == 0, done.output
    return directory / "store"


def run(store: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--store", str(store)])


def answer(store: Path, *words: str) -> dict[str, object]:
    done = run(store, *words, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_load_promises_its_keys_and_exits_2_when_something_was_refused(where: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    trace = kineto(tmp_path / "good.json", spans=3)
    done = run(tmp_path / "store", "load", str(trace), str(tmp_path / "bad.json"), "--json")
    assert done.exit_code == 2
    good, bad = json.loads(done.stdout)["runs"]
    promised = {"run_id", "stored", "label", "formats", "ranks", "status", "reason", "events", "seconds", "coverage"}
    assert promised <= set(good) and promised <= set(bad)
    assert set(good["coverage"][0]) >= {"rank", "table", "status", "rows", "dropped", "reason"}
    assert (good["stored"], good["status"], good["ranks"]) == ("new", "complete", [0])
    assert (bad["run_id"], bad["status"], bad["error"]["kind"]) == (None, "refused", "unknown_json")


def test_files_that_are_refused_alike_are_one_line(tmp_path: Path) -> None:
    """Five files of one reason and two of another: one line that names three, and two lines."""
    for number in range(5):
        (tmp_path / "job" / f"{number}").mkdir(parents=True)
        (tmp_path / "job" / f"{number}" / "code.json").write_text("{}")
    for name in ("a.ncu-rep", "b.ncu-rep"):
        (tmp_path / "job" / name).write_text("NVR")
    done = run(tmp_path / "store", "load", str(tmp_path / "job"))
    shown = sorted(line for line in done.stderr.splitlines() if line.startswith("refused:"))
    first = f"{tmp_path}/job/0/code.json, {tmp_path}/job/1/code.json, {tmp_path}/job/2/code.json and 2 more"
    assert done.exit_code == 2 and len(shown) == 3
    assert shown[0] == f"refused: JSON, but no trace of torch_npu, msprof or torch.profiler ({first})"
    assert [line.rpartition("/")[2] for line in shown[1:]] == ["a.ncu-rep)", "b.ncu-rep)"]


def test_load_says_in_chinese_what_it_refuses(tmp_path: Path) -> None:
    bad = tmp_path / "7_kernel_trace.csv"
    bad.write_text('"Kind","Agent_Id"\n')
    done = run(tmp_path / "store", "load", str(bad), "--lang", "zh")
    assert done.exit_code == 2 and "已拒绝：rocprof 或 rocprofv3 的 CSV 表，npulens 不支持" in done.stderr


def test_breakdown_promises_its_keys(where: Path) -> None:
    found = answer(where, "breakdown", "night")
    rows = found["rows"]
    assert isinstance(rows, list)
    assert set(rows[0]) == {
        "rank", "step", "start_ns", "dur_ns", "computing_ns", "communication_ns", "communication_not_overlapped_ns",
        "overlapped_ns", "copy_ns", "copy_not_overlapped_ns", "unknown_ns", "unknown_not_overlapped_ns", "idle_ns",
        "residual_ns", "profiler",
    }  # fmt: skip
    # 40 kernels of 60.5 us, one every 100 us
    assert (rows[0]["computing_ns"], rows[0]["residual_ns"]) == (40 * 60_500, 0)
    assert rows[0]["idle_ns"] == 39 * 39_500
    assert "未掩盖通信" in run(where, "breakdown", "night", "--lang", "zh").stdout


def test_runs_and_an_unknown_name(where: Path) -> None:
    rows = answer(where, "runs")["runs"]
    assert isinstance(rows, list) and [row["label"] for row in rows] == ["night"]
    done = run(where, "breakdown", "nobody")
    assert done.exit_code == 2 and "no run is called 'nobody'" in done.stderr


def test_rm_and_undo(tmp_path: Path) -> None:
    run(tmp_path / "s", "load", str(kineto(tmp_path / "t.json")), "--label", "x")
    run_id = answer(tmp_path / "s", "rm", "x")["run_id"]
    assert answer(tmp_path / "s", "runs")["runs"] == []
    assert run(tmp_path / "s", "rm", "--undo", str(run_id)).exit_code == 0
    assert len(answer(tmp_path / "s", "runs")["runs"]) == 1  # type: ignore[arg-type]
    assert run(tmp_path / "s", "rm", "x").stdout.startswith(f"deleted {run_id}; `npulens rm --undo {run_id}` has it")
    assert run(tmp_path / "s", "rm", "--undo", str(run_id)).stdout == f"{run_id} is back\n"


def test_sql_answers(where: Path) -> None:
    found = answer(where, "sql", "night", "SELECT kind, count(*) AS n FROM span GROUP BY kind ORDER BY kind")
    assert found == {"columns": ["kind", "n"], "rows": [["cpu_op", 40], ["kernel", 40], ["runtime", 40]]}


@pytest.mark.parametrize(
    "query",
    [
        "COPY span TO '/tmp/npulens-escape.csv'",
        "COPY (SELECT 1) TO 'span.parquet'",
        "SELECT 1; DROP VIEW span",
        "DROP VIEW span",
        "ATTACH '/tmp/npulens-escape.db'",
        "INSTALL sqlite",
        "LOAD sqlite",
        "SET memory_limit = '100GB'",
        "PRAGMA enable_profiling",
        "CREATE TABLE a AS SELECT 1",
        "CALL duckdb_extensions()",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM read_parquet('../*/span.parquet')",
        "SELECT * FROM where",
        "EXPORT DATABASE '/tmp/npulens-escape'",
        "SELECT getenv('HOME')",
        "SELECT repeat('x', 20000000000)",
        "SELECT * FROM range(1000000)",
        "",
    ],
)
def test_sql_that_is_no_harmless_select_is_an_error_in_a_sentence(where: Path, query: str) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in next(where.glob("[0-9a-f]*")).iterdir()}
    done = run(where, "sql", "night", query)
    assert done.exit_code == 2 and done.stderr.startswith("npulens: ") and "Traceback" not in done.output
    assert {path.name: path.stat().st_mtime_ns for path in next(where.glob("[0-9a-f]*")).iterdir()} == before
    assert not list(Path("/tmp").glob("npulens-escape*"))


def test_csv_carries_no_live_formula(where: Path, tmp_path: Path) -> None:
    text = run(where, "sql", "night", "SELECT DISTINCT name FROM span WHERE name LIKE '%cmd%'", "--csv").stdout
    assert text.splitlines()[1].startswith("'=cmd")
    assert run(where, "export", "night", "--to", str(tmp_path / "span.csv")).exit_code == 0
    assert ",'=cmd" in (tmp_path / "span.csv").read_text() and ",=cmd" not in (tmp_path / "span.csv").read_text()


def test_export_holds_every_table(where: Path, tmp_path: Path) -> None:
    assert run(where, "export", "night", "--to", str(tmp_path / "run.duckdb")).exit_code == 0
    with duckdb.connect(str(tmp_path / "run.duckdb"), read_only=True) as con:
        names = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        assert names == set(schema.tables())
        assert con.execute("SELECT count(*) FROM span").fetchall() == [(120,)]
    assert run(where, "export", "night", "--to", str(tmp_path / "all")).exit_code == 0
    assert pq.read_metadata(tmp_path / "all" / "span.parquet").num_rows == 120
    again = run(where, "export", "night", "--to", str(tmp_path / "run.duckdb"))
    assert again.exit_code == 2 and "not overwritten" in again.stderr


def test_help_names_every_verb() -> None:
    text = CliRunner().invoke(main, ["--help"]).stdout
    for verb in ("load", "runs", "rm", "breakdown", "sql", "export", "demo", "serve"):
        assert f"  {verb} " in text


@pytest.mark.parametrize(
    ("settings", "everywhere"),
    [
        (["--server.address=127.0.0.1"], False), (["--server.address=127.0.0.1", "--server.address=0.0.0.0"], True),
        (["--server.address", "0.0.0.0"], True), (["--server.address", "10.0.0.1"], False),
        (["--server.address=::"], True), (["--server.port=8502"], True),
    ],
)  # fmt: skip
def test_no_site_is_asked_for_the_outer_address(settings: list[str], everywhere: bool) -> None:
    """Streamlit's welcome does, where a server listens on every address: then it is not printed."""
    assert serve._everywhere(settings) is everywhere

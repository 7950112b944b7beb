"""A store that lasts: healed from raw captures, brought over from earlier releases, backed up and restored."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from click.testing import CliRunner, Result

from npulens import ingest
from npulens.app.cli import main
from npulens.ingest.errors import IngestError
from npulens.ingest.store import notes, raw, runs, seal
from npulens.ingest.tables import schema
from tests.test_damaged_run import flipped
from tests.test_store import kineto

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
STORES = Path(__file__).parent / "stores"


def ask(store: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--store", str(store)])


def rows(store: Path, run_id: str) -> Mapping[str, object]:
    """Every table of a run but for what names the load."""
    return {name: pq.read_table(store / run_id / f"{name}.parquet").to_pylist() for name in schema.tables()}


def things(result: Result) -> dict[str, str]:
    return {each["name"]: each["state"] for each in json.loads(result.stdout)["things"]}


def zipped(where: Path, source: Path) -> Path:
    return Path(shutil.make_archive(str(where / source.name), "zip", source.parent, source.name))


def test_one_flipped_bit_is_found_and_healed_from_what_was_kept(tmp_path: Path) -> None:
    store = tmp_path / "store"
    packed = zipped(tmp_path, SAMPLES / "torch_npu_db")
    ingest.load(kineto(tmp_path / "zero.json", rank=0), store, label="zero")
    first, late = ingest.load(packed, store).runs[0], kineto(tmp_path / "one.json", rank=1)
    both = ingest.load(late, store, join="zero").runs[0]
    packed.unlink()
    late.unlink()
    for run_id in (first.run_id, both.run_id):
        assert run_id is not None
        before = rows(store, run_id)
        path = store / run_id / "span.parquet"
        flipped(path, Random(run_id).randrange(8 * path.stat().st_size))
        found = ask(store, "store", "check", "--json")
        assert found.exit_code == 1 and things(found)[run_id] == "damaged"
        healed = ask(store, "store", "check", "--repair")
        assert healed.exit_code == 0, healed.output
        assert rows(store, run_id) == before
    zero = runs.resolve(store, "zero")
    (store / zero.run_id / "manifest.json").write_bytes(b"{")
    assert ask(store, "store", "check", "--repair").exit_code == 0
    assert ask(store, "store", "check").exit_code == 0
    assert runs.resolve(store, "zero") == zero


def test_what_is_kept_of_a_capture_is_looked_after(tmp_path: Path) -> None:
    store, trace = tmp_path / "store", kineto(tmp_path / "t.json")
    run_id = ingest.load(trace, store).runs[0].run_id
    assert run_id and raw.names(store) == [run_id]
    (blob,) = (store / raw.FOLDER).glob("*.zst")
    flipped(blob, 8 * (blob.stat().st_size // 2))
    found = ask(store, "store", "check", "--json")
    assert found.exit_code == 1 and things(found)[blob.name] == "damaged"
    flipped(store / run_id / "span.parquet", 4_000)
    refused = ask(store, "store", "check", "--repair")
    assert refused.exit_code == 1 and "is damaged" in refused.output
    assert ingest.load(trace, store).runs[0].stored == "new"  # the capture itself is still there
    assert ask(store, "store", "check").exit_code == 0
    runs.discard(store, run_id)
    assert list((store / raw.FOLDER).glob("*.zst"))  # the run can be had back for a day
    assert runs.empty(store, -1.0) == [run_id]
    assert list((store / raw.FOLDER).iterdir()) == []


def test_a_file_that_is_written_while_it_is_kept_lies_under_the_name_of_what_lies_there(tmp_path: Path) -> None:
    store, trace = tmp_path / "store", tmp_path / "t.json"
    (store / raw.FOLDER).mkdir(parents=True)
    trace.write_bytes(b"as it was")
    before = seal.hash_once(trace)
    assert before == blake3(b"as it was").hexdigest()
    trace.write_bytes(b"as it is now")
    now = blake3(b"as it is now").hexdigest()
    assert not seal.is_still(trace, before)
    assert raw._put(store, trace, before) == now
    assert [path.name for path in (store / raw.FOLDER).iterdir()] == [f"{now}.zst"]
    assert raw.damaged(store) == []


def test_nothing_is_kept_that_was_not_wanted(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest.load(kineto(tmp_path / "a.json"), store, raw="off")
    ingest.load(kineto(tmp_path / "b.json", spans=30), store, redact=True)
    assert raw.names(store) == []
    big = kineto(tmp_path / "c.json", spans=400)
    (older,) = ingest.load(kineto(tmp_path / "d.json", spans=50), store).runs
    (newer,) = ingest.load(big, store).runs
    assert raw.names(store) == sorted([str(older.run_id), str(newer.run_id)])
    most = raw.bytes_of(store) - 1
    (last,) = ingest.load(kineto(tmp_path / "e.json", spans=20), store, raw=str(most)).runs
    assert str(older.run_id) not in raw.names(store) and str(last.run_id) in raw.names(store)
    assert raw.bytes_of(store) <= most
    with pytest.raises(IngestError, match="size"):
        ingest.load(big, store, raw="much")


@pytest.mark.parametrize("release", ["0.1", "0.2"])
def test_a_store_of_an_earlier_release_is_brought_to_this_version(release: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with tarfile.open(STORES / f"{release}.tar.xz") as tar:
        tar.extractall(store, filter="data")
    (old,) = runs.runs(store)
    assert old.label == f"loaded by {release}" and old.schema_version == 3
    before = {path.stem: pq.read_table(path) for path in (store / old.run_id).glob("*.parquet")}
    refused = ask(store, "check", old.run_id)
    assert refused.exit_code == 2 and "npulens store migrate" in refused.output
    assert ask(store, "store", "migrate").exit_code == 0
    (new,) = runs.runs(store)
    assert (new.run_id, new.label, new.loaded_at) == (old.run_id, old.label, old.loaded_at)
    assert new.schema_version == schema.version() and new.events == old.events
    with runs.open_run(store, new.run_id) as con:
        for name, table in before.items():
            if name in ("run", "coverage"):
                continue
            kept = [column.name for column in schema.tables()[name].columns if column.name in table.column_names]
            assert con.execute(f"SELECT {', '.join(kept)} FROM {name}").fetchall() == [
                tuple(row[column] for column in kept) for row in table.to_pylist()
            ]
        said = dict(con.execute("SELECT table_name, status FROM coverage").fetchall())
    assert said.keys() == schema.tables().keys() - {"run", "rank", "coverage", "checked", "device_time"}
    assert said["request"] == "absent"
    assert ask(store, "check", new.run_id).exit_code == 0
    assert ask(store, "breakdown", new.run_id).exit_code == 0
    assert ask(store, "store", "check").exit_code == 0
    assert "every run is of this version" in ask(store, "store", "migrate").output


def test_with_its_capture_an_older_run_is_made_anew_and_a_newer_one_is_left(tmp_path: Path) -> None:
    store = tmp_path / "store"
    old = str(ingest.load(kineto(tmp_path / "t.json"), store).runs[0].run_id)
    new = str(ingest.load(kineto(tmp_path / "u.json", spans=7), store).runs[0].run_id)
    wanted = rows(store, old)
    (store / old / "request.parquet").unlink()
    seal.close(store / old, runs.manifest(store, old) | {"schema_version": 1})
    seal.close(store / new, runs.manifest(store, new) | {"schema_version": schema.version() + 1})
    content = (store / new / "manifest.json").read_bytes()
    done = ask(store, "store", "migrate", "--json")
    assert done.exit_code == 1 and things(done) == {old: "older", new: "newer"}
    assert rows(store, old) == wanted
    assert (store / new / "manifest.json").read_bytes() == content
    assert ask(store, "check", old).exit_code == 0


def test_a_restored_backup_answers_as_the_original(tmp_path: Path) -> None:
    store, file, other = tmp_path / "store", tmp_path / "store.tar", tmp_path / "other"
    (run,) = ingest.load(SAMPLES / "cpu_train_step", store, label="night").runs
    run_id = str(run.run_id)
    notes.set_note(store, run_id, "as it was")
    assert ask(store, "store", "backup", str(file)).exit_code == 0
    assert file.stat().st_mode & 0o077 == 0
    assert ask(store, "store", "backup", str(file)).exit_code == 2  # nothing is overwritten
    assert ask(other, "store", "restore", str(file)).exit_code == 0
    for words in (
        ("runs", "--json"),
        ("breakdown", run_id, "--json"),
        ("check", run_id, "--json"),
        ("history", "--json"),
    ):
        asked, again = ask(store, *words), ask(other, *words)
        assert asked.exit_code == again.exit_code == 0 and asked.stdout == again.stdout, words
    assert raw.names(other) == [run_id] and ask(other, "store", "check").exit_code == 0
    assert ask(other, "store", "restore", str(file)).exit_code == 2  # there is a store


def test_a_damaged_backup_restores_nothing(tmp_path: Path) -> None:
    store, file, other = tmp_path / "store", tmp_path / "store.tar", tmp_path / "other"
    ingest.load(kineto(tmp_path / "t.json"), store, label="x")
    ask(store, "store", "backup", str(file))
    whole, draw = file.read_bytes(), Random(23)
    with tarfile.open(file) as tar:  # between members lies padding that holds nothing
        held = [bit for one in tar for bit in (8 * one.offset_data, 8 * (one.offset_data + one.size) - 1)]
    for bit in draw.sample(held, 12):
        flipped(file, bit)
        refused = ask(other, "store", "restore", str(file))
        assert refused.exit_code == 2 and "no whole backup" in refused.output and not other.exists()
        file.write_bytes(whole)
    for cut in draw.sample(range(len(whole) - 10_240), 5):
        file.write_bytes(whole[:cut])
        assert ask(other, "store", "restore", str(file)).exit_code == 2 and not other.exists()
    with tarfile.open(file, "w") as tar:
        tar.add(tmp_path / "t.json", "../../out.json")
    assert ask(other, "store", "restore", str(file)).exit_code == 2
    assert {path.name for path in tmp_path.iterdir()} == {"store", "store.tar", "t.json"}

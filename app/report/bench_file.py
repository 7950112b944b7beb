"""A loaded benchmark as a file: JSON, CSV or HTML, as its name says."""

from __future__ import annotations

import csv
import io
import json
from importlib import import_module
from pathlib import Path

from npulens.analysis.look import bench as look
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import runs as stores

WRITERS = (".json", ".csv", ".html", ".htm")


def write(store: Path, run_id: str, target: Path) -> None:
    """The benchmark of a run, written to ``target``."""
    con = stores.open_run(store, run_id)
    with con:
        found = look.bench(con)
        if found is None:
            raise IngestError("not_bench", Message("run_is_a_trace", {"run": run_id}))
        suffix = target.suffix.lower()
        if suffix == ".json":
            text = json.dumps({"about": found.about, "device": found.device, "versions": found.versions,
                               "figures": found.figures}, ensure_ascii=False, indent=1)  # fmt: skip
        elif suffix == ".csv":
            text = as_csv(found)
        else:
            text = import_module("npulens.app.report.bench_as_html").write(found, con)
    try:
        target.write_text(text, "utf-8")
    except OSError as error:
        raise IngestError(
            "report", Message("cannot_write_the_report", {"error": error.strerror}), str(target)
        ) from error


def as_csv(found: look.Bench) -> str:
    """One row a number, so that any program can read it: part, case, name, value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("part", "variant", "dtype", "shape", "of", "name", "value"))
    for figure in found.figures:
        of = " ".join(str(figure[key]) for key in ("cache", "clock", "base", "kind", "workers") if key in figure)
        for name, value in _numbers(figure):
            writer.writerow((figure["part"], figure["variant"], figure["dtype"], figure["shape"], of, name, value))
    return out.getvalue()


def _numbers(figure: look.Figure, before: str = "") -> list[tuple[str, object]]:
    """Every number and verdict of a figure under a name of its own."""
    rows: list[tuple[str, object]] = []
    for name, value in figure.items():
        if isinstance(value, dict):
            rows += _numbers(value, f"{before}{name}.")
        elif name == "quantiles" and isinstance(value, list):
            for each in value:
                rows += [(f"P{100 * each['level']:g}.{end}", each[end]) for end in ("value", "low", "high")]
        elif name == "points" and isinstance(value, list):
            for each in value:
                rows += _numbers(each, f"batch {each['batch']}.")
        elif isinstance(value, int | float) or name in ("said", "state", "why", "refused", "withheld", "stopped"):
            rows.append((before + name, "" if value is None else value))
    return rows

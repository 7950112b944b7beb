"""Writes the pages that follow from the code, so that they cannot go stale.

    python docs/generate.py            write them
    python docs/generate.py --check    say which differ, and fail
    python docs/generate.py tables     only these pages

docs/tables.md comes from ingest/tables/schema.sql, docs/views.md from the comments at the head of analysis/sql/*.sql,
docs/detectors.md from the docstrings of analysis/detectors, docs/workloads.md from collectors/workloads and what has
run of them (docs/evidence), and in README.md everything between

    <!-- output: npulens load sample_traces/x --label x && npulens breakdown x -->
    <!-- /output -->

is what the last of these commands prints, run on an empty store.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COLUMN = re.compile(
    r"\s+(?P<name>\w+)\s+(?P<type>[A-Z]\w*(?:\[\])?)(?P<always> NOT NULL)?\s*,?\s*(?:-- (?P<means>.*))?"
)
BLOCK = re.compile(r"(<!-- output: (.+?) -->\n).*?(<!-- /output -->)", re.DOTALL)


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    always: bool
    means: str


@dataclass(frozen=True)
class Table:
    name: str
    comment: str
    columns: tuple[Column, ...]


def schema_tables(sql: str) -> Iterator[Table]:
    """The tables of schema.sql in its order. A line it cannot read stops it: a column must not go missing here."""
    comment: list[str] = []
    lines = iter(sql.splitlines())
    for line in lines:
        if line.startswith("--"):
            comment.append(line[2:].strip())
        elif created := re.match(r"CREATE TABLE (\w+) \($", line):
            columns = []
            for row in lines:
                if row.startswith(");"):
                    break
                if not (found := COLUMN.fullmatch(row)):
                    raise SystemExit(f"ingest/tables/schema.sql: cannot read this line of {created[1]}: {row}")
                columns.append(Column(found["name"], found["type"], bool(found["always"]), found["means"] or ""))
            yield Table(created[1], " ".join(comment), tuple(columns))
            comment = []
        else:
            comment = []


def cell(text: str) -> str:
    """Text inside a Markdown table."""
    return text.replace("|", "\\|")


def tables_page() -> str:
    sql = (ROOT / "ingest" / "tables" / "schema.sql").read_text()
    rules = re.findall(r"^--   \* (.*)$", sql, flags=re.MULTILINE)
    tables = list(schema_tables(sql))
    out = ["# Tables", "", "Generated from `ingest/tables/schema.sql` by `make docs`.", ""]
    out += ["Every table of a run, every column, its unit and its meaning.", "", *(f"- {rule}" for rule in rules), ""]
    out += ["| table | holds |", "|---|---|"]
    out += [f"| [{t.name}](#{t.name}) | {cell(t.comment.split('. ')[0].rstrip('.'))} |" for t in tables]
    for table in tables:
        out += ["", f"## {table.name}", "", table.comment, ""]
        out += ["| column | type | null | meaning |", "|---|---|---|---|"]
        for column in table.columns:
            null = "never" if column.always else ""
            out.append(f"| `{column.name}` | {column.type} | {null} | {cell(column.means)} |")
    return "\n".join(out) + "\n"


DETECTORS = sorted((ROOT / "analysis" / "detectors").glob("[!_]*.py"))


def views_page() -> str:
    """The comments of analysis/sql; the types of the columns are the database's word."""
    sys.path.insert(0, str(ROOT))
    import duckdb

    from npulens.analysis.views import install, views

    with duckdb.connect() as con:
        con.execute((ROOT / "ingest" / "tables" / "schema.sql").read_text())
        install(con)
        types = {view.name: con.execute(f"DESCRIBE {view.name}").fetchall() for view in views()}
    out = ["# Views", "", "Generated from `analysis/sql` by `make docs`.", ""]
    out += ["A view says what happened; it judges nothing. `npulens sql RUN 'SELECT * FROM split'` asks one.", ""]
    out += ["| view | says |", "|---|---|"]
    by_name = sorted(views(), key=lambda view: view.name)
    out += [f"| [{v.name}](#{v.name}) | {cell(v.comment.split('. ')[0].rstrip('.'))} |" for v in by_name]
    for view in by_name:
        out += ["", f"## {view.name}", "", view.comment, ""]
        if view.needs:
            out += ["Built on " + ", ".join(f"[{name}](#{name})" for name in view.needs) + ".", ""]
        out += ["| column | type | meaning |", "|---|---|---|"]
        for column, (name, kind, *_) in zip(view.columns, types[view.name], strict=True):
            out.append(f"| `{name}` | {kind} | {cell(column.means)} |")
    return "\n".join(out) + "\n"


def detectors_page() -> str:
    out = ["# Detectors", "", "Generated from the docstrings of `analysis/detectors` by `make docs`."]
    for path in DETECTORS:
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        out += ["", f"## {path.stem}", "", re.sub(r"^(#+ )", r"#\1", text, flags=re.MULTILINE)]
    return "\n".join(out) + "\n"


def workloads_page() -> str:
    """What the workloads say of themselves, and where each variant has run: docs/evidence says so, or nothing does."""
    sys.path.insert(0, str(ROOT))
    from npulens.collectors.workloads.workload import names, workload

    evidence = [json.loads(path.read_text()) for path in sorted((ROOT / "docs" / "evidence").glob("*.json"))]
    out = ["# Workloads", "", "Generated by `make docs` from `collectors/workloads` and `docs/evidence`.", ""]
    out += ["`npulens collect WORKLOAD` records one, `npulens bench WORKLOAD` measures it. The figures behind *run*"]
    out += ["are the error of the small size against float64, as a share of the result's norm. On a CPU the kernels of"]
    out += ["Triton (`triton`, `epilogue`, `atomic`, `sorted`) are interpreted: that says nothing of their speed."]
    for told in (each for each in evidence if "cases" in each):
        versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
        out += ["", f"{told['backend']}: {versions}, {told['made_at']}, by `python -m npulens.collectors.evidence`."]
    out += ["", "*Contract-checked* is by `make test-npu-contract`: the real torch_npu without an NPU, triton-ascend"]
    out += ["without CANN. It shows that the calls are right, not that the numbers are."]
    for name in names():
        found = workload(name)
        out += ["", f"## {name}", "", (found.__doc__ or "").strip(), ""]
        out += ["It is to show " + ", ".join(f"[{cause}](detectors.md#{cause})" for cause in found.SHOWS) + ".", ""]
        out += ["| shape | " + " | ".join(next(iter(found.SHAPES.values()))) + " |"]
        out += ["|---|" + "---|" * len(next(iter(found.SHAPES.values())))]
        out += [f"| {shape} | " + " | ".join(map(str, sizes.values())) + " |" for shape, sizes in found.SHAPES.items()]
        out += ["", "| variant | cpu | cuda | npu |", "|---|---|---|---|"]
        for variant in found.VARIANTS:
            cells = (where_run(evidence, backend, name, variant) for backend in ("cpu", "cuda", "npu"))
            out.append(f"| {variant} | " + " | ".join(map(cell, cells)) + " |")
    return "\n".join(out) + "\n"


def where_run(evidence: list[dict[str, Any]], backend: str, name: str, variant: str) -> str:
    """What is known of a variant on a backend."""
    of = [told for told in evidence if told["backend"] == backend]
    cases = [case for told in of for case in told.get("cases", ())]
    mine = [case for case in cases if (case["workload"], case["variant"]) == (name, variant)]
    texts = []
    for case in mine:
        said = f"{case['relative_error']:.0e}" if case["outcome"] == "run" else f"{case['outcome']}: {case['reason']}"
        texts.append((case["dtype"], said))
    if mine and all(case["outcome"] == "not here" for case in mine):
        return "not here: " + mine[0]["reason"]
    if texts:
        return "run: " + ", ".join(f"{dtype} {said}" for dtype, said in texts)
    checked = [what for told in of for what in told.get("checked", {}).get(name, {}).get(variant, ())]
    return "contract-checked: " + ", ".join(checked) if checked else "not run"


def command_output(commands: str) -> str:
    """What the last of some npulens commands prints, on an empty store of its own."""
    with tempfile.TemporaryDirectory() as store:
        environment = {**os.environ, "NPULENS_STORE": store, "PYTHONPATH": str(ROOT), "COLUMNS": "110", "NO_COLOR": "1"}
        text = ""
        for command in commands.split(" && "):
            words = shlex.split(command)
            if words[0] != "npulens":
                raise SystemExit(f"README.md: only npulens is run for its output, not {words[0]}")
            done = subprocess.run(
                [sys.executable, "-m", "npulens.app.cli", *words[1:]],
                cwd=ROOT, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
            )  # fmt: skip
            if done.returncode:
                raise SystemExit(f"README.md: {command} failed: {done.stderr.strip()[-2000:]}")
            text = done.stdout
    return text


def readme_page() -> str:
    def fill(found: re.Match[str]) -> str:
        shown = found[2].split(" && ")[-1]
        return f"{found[1]}```console\n$ {shown}\n{command_output(found[2]).rstrip()}\n```\n{found[3]}"

    return BLOCK.sub(fill, (ROOT / "README.md").read_text())


PAGES: dict[str, tuple[Path, Callable[[], str]]] = {
    "tables": (ROOT / "docs" / "tables.md", tables_page),
    "views": (ROOT / "docs" / "views.md", views_page),
    **({"detectors": (ROOT / "docs" / "detectors.md", detectors_page)} if DETECTORS else {}),
    "workloads": (ROOT / "docs" / "workloads.md", workloads_page),
    "readme": (ROOT / "README.md", readme_page),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the pages that follow from the code.")
    parser.add_argument("pages", nargs="*", choices=[*PAGES, []], default=[])
    parser.add_argument("--check", action="store_true", help="only say what differs, and fail")
    options = parser.parse_args()
    stale = []
    for name in options.pages or PAGES:
        path, build = PAGES[name]
        text = build()
        if path.exists() and path.read_text() == text:
            continue
        if not options.check:
            path.write_text(text)
        stale.append(str(path.relative_to(ROOT)))
    if stale:
        print(f"{', '.join(stale)}: " + ("not current, run make docs" if options.check else "written"))
    sys.exit(1 if stale and options.check else 0)


if __name__ == "__main__":
    main()

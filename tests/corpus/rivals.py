"""What other tools say of the judged corpus, beside npulens.

`python -m tests.corpus.rivals --traceinsight PYTHON --tracelens PYTHON --msprof PYTHON [--write]`; each PYTHON is the
interpreter of an environment that has the tool. A tool that is not named is left out. `--write` writes
docs/judged/rivals.md. The rules are those of rival_rules.py.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.corpus import rival_rules
from tests.corpus.__main__ import JUDGED, SHARED, judge, place
from tests.corpus.rival_rules import Answer, Json, Tables
from tests.corpus.sentences import corpus

PAGE = JUDGED / "rivals.md"
BY_HAND = SHARED[1] / "JUDGED.json"
#: Seconds that a tool has for one run of one capture.
LIMIT = 120
TOOLS = ("traceinsight", "tracelens", "msprof")
TITLES = {"traceinsight": "traceinsight", "tracelens": "TraceLens", "msprof": "msprof-analyze"}
#: The first that matches the path; Kineto that matches none is CUDA's.
FAMILIES = (
    (r"^Ascend.*/st", "Ascend text, pipeline of four ranks"),
    (r"^Ascend.*c1e639ee-910A.*/text/", "Ascend 910A, text"),
    (r"^Ascend.*c1e639ee-910A.*/db/", "Ascend 910A, database"),
    (r"^Ascend.*/text/", "Ascend 910B, text"),
    (r"^Ascend.*/db/", "Ascend 910B, database"),
    (r"^Ascend.*|^mindspore", "msprof"),
    (r"torchrec", "CUDA, many ranks"),
    (r"/mi\d{3}|/amd_trace", "ROCm, torch.profiler"),
    (r"/mtia", "MTIA, torch.profiler"),
)


def family(capture: str) -> str:
    return next((name for like, name in FAMILIES if re.search(like, capture)), "CUDA, torch.profiler")


def covers(tool: str, capture: str) -> bool:
    """Whether the tool reads the format of a capture."""
    ascend = capture.startswith(("Ascend", "mindspore"))
    return ascend == (tool == "msprof")


def sentences() -> dict[str, list[Json]]:
    """Every capture that is here with its sentences, those that people checked by hand among them."""
    found = corpus(JUDGED)
    if BY_HAND.exists():
        for capture, entry in json.loads(BY_HAND.read_text("utf-8")).items():
            by_hand = [{**fact, "id": f"by hand: {fact['id']}"} for fact in entry["facts"]]
            found.setdefault(capture, []).extend(by_hand)
    return {capture: facts for capture, facts in found.items() if place(capture) is not None}


# ---------------------------------------------------------------- running the tools


def call(command: list[str], folder: Path) -> str:
    """What a command wrote; what it had written so far where it ran past the limit."""
    log = folder / "log.txt"
    with log.open("wb") as out:
        try:
            subprocess.run(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            out.write(f"\nnot done after {LIMIT} s\n".encode())
    return log.read_text("utf-8", "replace")


def kineto_runs(path: Path) -> list[dict[int, Path]]:
    """Files of a capture by rank: the nth file of every rank is of the nth run."""
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*.json*") if each.is_file())
    ranks: dict[int, list[Path]] = {}
    for file in files:
        ranks.setdefault(_rank(file), []).append(file)
    longest = max((len(each) for each in ranks.values()), default=0)
    return [{rank: each[nth] for rank, each in ranks.items() if nth < len(each)} for nth in range(longest)]


def _rank(file: Path) -> int:
    packed = file.read_bytes()
    text = gzip.decompress(packed) if file.suffix == ".gz" else packed
    found = re.search(rb'"distributedInfo"[^}]*?"rank":\s*(\d+)', text)
    return int(found.group(1)) if found else 0


def traceinsight(python: str, path: Path, folder: Path) -> list[Answer]:
    script, answers = Path(__file__).with_name("rival_traceinsight.py"), []
    for files in kineto_runs(path):
        out = folder / "said.json"
        call([python, str(script), str(out), *(f"{rank}={file}" for rank, file in files.items())], folder)
        said = json.loads(out.read_text("utf-8")) if out.exists() else {"tables": {}}
        answers.append(rival_rules.traceinsight(said["tables"]))
        out.unlink(missing_ok=True)
    return answers


def tracelens(python: str, path: Path, folder: Path) -> list[Answer]:
    return [_lensed(python, files, folder / str(nth)) for nth, files in enumerate(kineto_runs(path))]


TIMELINE = """
import sys
from TraceLens.TreePerf import TreePerfAnalyzer
tree = TreePerfAnalyzer.from_file(sys.argv[1], include_unlinked_kernels=True)
tree.get_df_gpu_timeline().to_csv(sys.argv[2], index=False)
"""


def _lensed(python: str, files: dict[int, Path], folder: Path) -> Answer:
    folder.mkdir()
    reports, tables = "TraceLens.Reporting.generate_", Tables()
    for rank, file in files.items():
        out = folder / f"report_{rank}"
        # Its parser goes by the end of the name.
        link = folder / f"rank_{rank}.json{'.gz' if file.suffix == '.gz' else ''}"
        link.symlink_to(file)
        switches = ["--enable_kernel_summary", "--short_kernel_study", "--include_unlinked_kernels"]
        call([python, "-m", f"{reports}perf_report_pytorch", "--profile_json_path", str(link),
              "--output_csvs_dir", str(out), *switches], folder)  # fmt: skip
        if not (out / "gpu_timeline.csv").exists():  # the report gave up; its library may still know
            out.mkdir(exist_ok=True)
            call([python, "-c", TIMELINE, str(link), str(out / "gpu_timeline.csv")], folder)
        for name, rows in _tables(out).items():
            tables.setdefault(name, []).extend({**row, "rank": rank} for row in rows)
    if len(files) > 1:
        out, end = folder / "collectives", next(iter(files.values())).suffix
        names = str(folder / f"rank_*.json{'.gz' if end == '.gz' else ''}")
        call([python, "-m", f"{reports}multi_rank_collective_report_pytorch", "--trace_pattern", names,
              "--world_size", str(len(files)), "--output_csvs_dir", str(out)], folder)  # fmt: skip
        tables |= _tables(out)
    return rival_rules.tracelens(tables)


def _tables(folder: Path) -> Tables:
    csv.field_size_limit(sys.maxsize)
    found: Tables = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as lines:
            found[path.stem] = [dict(row) for row in csv.DictReader(lines)]
    return found


def msprof(python: str, path: Path, folder: Path) -> list[Answer]:
    """The advisor writes beside what it reads, so it reads a copy."""
    copy, out = folder / "in", folder / "out"
    shutil.copytree(path, copy, copy_function=shutil.copyfile)
    for each in (copy, *copy.rglob("*")):
        each.chmod(0o750 if each.is_dir() else 0o640)
    out.mkdir(mode=0o750)
    program = str(Path(python).with_name("msprof-analyze"))
    # A user names the folder that holds the ranks' folders.
    ranks = [each.parent for each in copy.rglob("*_ascend_pt") if each.is_dir()]
    told = call([program, "advisor", "all", "-d", str(ranks[0] if ranks else copy), "-o", str(out),
                 "-l", "en", "--force"], folder)  # fmt: skip
    tables: Tables = {"steps": [], "sections": []}
    for table in out.rglob("cluster_step_trace_time.csv"):
        with table.open(encoding="utf-8", newline="") as lines:
            tables["steps"] += [_named(row) for row in csv.DictReader(lines)]
    for database in out.rglob("cluster_analysis.db"):
        tables["steps"] += _steps(database)
    for line in told.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and cells[1].isdigit():
            tables["sections"].append({"name": cells[2]})
    return [rival_rules.msprof(tables, told)]


def _named(row: Json) -> Json:
    """The names of the database's columns for those of the text form."""
    return {re.sub(r"[^a-z]+", "_", name.lower()).strip("_"): value for name, value in row.items()}


def _steps(database: Path) -> list[Json]:
    con = sqlite3.connect(database)
    try:
        con.row_factory = sqlite3.Row
        return [dict(row) for row in con.execute("SELECT * FROM ClusterStepTraceTime")]
    except sqlite3.OperationalError:
        return []
    finally:
        con.close()


RUN: dict[str, Callable[[str, Path, Path], list[Answer]]] = {
    "traceinsight": traceinsight, "tracelens": tracelens, "msprof": msprof,
}  # fmt: skip


def ask(tool: str, python: str, capture: str) -> list[Answer]:
    path = place(capture)
    assert path is not None
    with tempfile.TemporaryDirectory() as folder:
        return RUN[tool](python, path.resolve(), Path(folder))


# ---------------------------------------------------------------- counting


@dataclass
class Score:
    """Sentences of one family, as a tool and as npulens say them."""

    captures: int = 0
    asked: int = 0
    said: int = 0
    wrong: int = 0
    ours: int = 0
    ours_wrong: int = 0
    not_asked: int = 0
    behind: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        for name in ("captures", "asked", "said", "wrong", "ours", "ours_wrong", "not_asked"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.behind += other.behind


def score(capture: str, facts: list[Json], held: list[bool], answers: list[Answer]) -> Score:
    """Sentences that must be said count as asked; those that must not, only where they are said."""
    found = Score(captures=1)
    for fact, met in zip(facts, held, strict=True):
        if not rival_rules.asked(fact):
            found.not_asked += 1
            continue
        bad = rival_rules.wrong(fact, answers)
        found.wrong += bad
        if fact["kind"] == "must_not":
            found.ours_wrong += not met
            said = not bad
        else:
            said = rival_rules.says(fact, answers)
            found.asked, found.said, found.ours = found.asked + 1, found.said + said, found.ours + met
        if said and not met:
            found.behind.append(f"`{fact['id']}` of {capture}: {fact['what']}")
    return found


def versions(pythons: dict[str, str]) -> dict[str, str]:
    """Of the tools that were asked."""
    found = {}
    for tool, python in pythons.items():
        if tool == "tracelens":
            where = "import TraceLens, os; print(os.path.dirname(os.path.dirname(TraceLens.__file__)))"
            top = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
            said = subprocess.run(["git", "-C", top, "log", "-1", "--format=%h of %cs"], capture_output=True, text=True)
            found[tool] = said.stdout.strip() or "its repository"
        else:
            name = "msprof-analyze" if tool == "msprof" else tool
            show = f"import importlib.metadata as m; print(m.version({name!r}))"
            said = subprocess.run([python, "-c", show], capture_output=True, text=True, check=True)
            found[tool] = said.stdout.strip()
    return found


def table(scores: dict[tuple[str, str], Score]) -> list[str]:
    lines = [
        "| captures | | tool | asked | said | npulens says | wrong | npulens wrong | not asked |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (group, tool), each in scores.items():
        lines.append(
            f"| {group} | {each.captures} | {TITLES[tool]} | {each.asked} | {each.said} | {each.ours} "
            f"| {each.wrong} | {each.ours_wrong} | {each.not_asked} |"
        )
    return lines


RULES = """\
## Rules

Only sentences that must be said count as asked. `wrong` counts sentences that must not be said and are, and times that
are off by more than double. The rules lean towards the other tool:

- A number that stands in one of its tables counts as said, even where nothing points at it.
- Whether a finding comes first is not asked of it. npulens is held to it.
- `split` and `profiler`: every time of the sentence lies within its range. A tool without steps gives the whole trace.
- A window from the first to the last device event counts too: what lies outside is added to its idle time.
- Idle time: a table's idle share counts as saying that the device idles.
- A late host: traceinsight's host wait on the stream that rests least, or its critical path bound by the CPU.
- First use: one launch in traceinsight's list that takes the share. A late rank: the tool names the rank.
- TraceLens names a rank where it arrives last in most collectives; the skews of starts count as its times.
- msprof-analyze: the advisor's sections, its slow-rank sentence, and the step table that it writes.
  Ranks whose computing differs in that table count as saying that stages are unequal.
- Words: the tool's output holds one of the sentence's words; "fp32" counts as naming the precision.

What only npulens's own interface can hold is not asked: queries, runs, outcomes of detectors, absent advice.
traceinsight keeps nanoseconds (`HTA_DISABLE_NS_ROUNDING`), keeps the last step and gets the ranks of the files.
TraceLens gets its kernel summary, short kernels and unlinked kernels. Where its report ends in an error, its library
is asked for the timeline. Both run on pandas 2, as traceinsight fails on some captures with 3.
Every call has 120 seconds.
"""


def page(scores: dict[tuple[str, str], Score], found: dict[str, str]) -> str:
    named = ", ".join(f"{TITLES[tool]} {version}" for tool, version in found.items())
    absent = [TITLES[tool] for tool in TOOLS if tool not in found]
    lines = ["# The judged corpus beside other tools", "", f"Asked: {named}."]
    lines += [f"Left out: {', '.join(absent)}."] if absent else []
    lines += ["`npulens says` is on the same sentences.", "", *table(scores), "", *verdicts(scores), "", RULES]
    lines += ["## How to run", "", "`python -m tests.corpus.rivals --traceinsight PYTHON --tracelens PYTHON "
              "--msprof PYTHON --write`", "", "Each PYTHON is the interpreter of an environment with that tool. "
              "TraceLens is the one of AMD-AGI, from its repository."]  # fmt: skip
    return "\n".join(lines) + "\n"


def verdicts(scores: dict[tuple[str, str], Score]) -> list[str]:
    """Where a tool is ahead or level, and every sentence that npulens alone misses."""
    lines = ["## Where npulens is not ahead", ""]
    start = len(lines)
    for (group, tool), each in scores.items():
        if each.asked and each.said >= each.ours:
            how = "is ahead of" if each.said > each.ours else "says as many as"
            lines.append(f"- {group}: {TITLES[tool]} {how} npulens ({each.said} and {each.ours} of {each.asked}).")
    lines += [f"- {TITLES[tool]} alone: {line}." for (_, tool), each in scores.items() for line in each.behind]
    return lines if len(lines) > start else [*lines, "npulens is ahead on every family that has a sentence to ask."]


def main() -> int:
    parser = argparse.ArgumentParser()
    for tool in TOOLS:
        parser.add_argument(f"--{tool}", help="interpreter of an environment that has it")
    parser.add_argument("--only", default="", help="captures whose path holds this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="writes every answer's statements here")
    parser.add_argument("--write", action="store_true", help=f"writes {PAGE.name}")
    wanted = parser.parse_args()
    pythons = {tool: str(Path(given).absolute()) for tool in TOOLS if (given := getattr(wanted, tool))}
    every = {name: facts for name, facts in sentences().items() if wanted.only in name}
    scores: dict[tuple[str, str], Score] = {}
    kept: list[Any] = []
    with ProcessPoolExecutor(wanted.jobs) as pool:
        ours = {name: pool.submit(judge, name, facts) for name, facts in every.items()}
        theirs = {
            (name, tool): pool.submit(ask, tool, python, name)
            for tool, python in pythons.items() for name in every if covers(tool, name)
        }  # fmt: skip
        for (name, tool), answers in theirs.items():
            one = score(name, every[name], ours[name].result()[0], answers.result())
            told = [[f"{fact['kind']} {fact['id']}: {fact['what']}", rival_rules.says(fact, answers.result())]
                    for fact in every[name] if rival_rules.asked(fact)]  # fmt: skip
            states = [[str(each.splits), str(each.statements[:40])] for each in answers.result()]
            kept.append([name, tool, told, states])
            print(f"{one.said}/{one.asked} (npulens {one.ours}) wrong {one.wrong}  {tool}  {name}", flush=True)
            scores.setdefault((family(name), tool), Score()).add(one)
    scores = dict(sorted(scores.items(), key=lambda item: (TOOLS.index(item[0][1]), item[0][0])))
    if wanted.keep:
        wanted.keep.write_text(json.dumps(kept, indent=1), "utf-8")
    if wanted.write:
        PAGE.write_text(page(scores, versions(pythons)), "utf-8")
    print("\n".join([*table(scores), "", *verdicts(scores)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The walls: what may import what, how big things may get, and which words and habits stay out.

Exceptions are data, each with its reason; one that is no longer needed fails too, so the lists can only be true.
"""

from __future__ import annotations

import ast
import fnmatch
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("ingest", "analysis", "app", "collectors")
CHECKED = (*OURS, "tests", "docs")

#: Package -> packages of ours it may import. The flow is one-way: app -> analysis, app -> ingest.
MAY_IMPORT = {
    "ingest": {"ingest"},
    "analysis": {"analysis"},
    "app": {"app", "analysis", "ingest"},
    "collectors": {"collectors"},
}
#: What analysis quotes of reading has two languages (docs/decisions/0007-what-is-said-is-data.md).
MAY_ALSO_IMPORT = {"analysis": {"ingest.messages"}}

#: Library -> where it may be imported. Everywhere else it would make a light part heavy.
HOMES = {
    "torch": ("collectors/",),
    "torch_npu": ("collectors/",),
    "triton": ("collectors/",),
    "streamlit": ("app/",),
    "plotly": ("app/charts/", "app/front/", "app/report/", "app/pages/*/charts.py", "app/pages/*/*_chart.py"),
}

#: Within app, the places that must work where no streamlit runs: the command line, charts and reports.
NO_STREAMLIT = (
    "app/cli.py", "app/run_*.py", "app/commands/", "app/text/", "app/charts/", "app/report/", "app/nightly/",
    "app/pages/*/charts.py", "app/pages/*/words.py", "app/pages/*/*_chart.py",
)  # fmt: skip
STREAMLIT_COMMANDS = {"app/commands/serve.py", "app/commands/demo.py"}

TOP_LEVEL = {
    "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", ".streamlit", ".ci",
    ".gitignore", "constraints.txt", "setup.py", "docs", "collectors", "ingest", "analysis", "app", "sample_traces",
    "tests", "deploy",
}  # fmt: skip

#: Files a folder may have, and the folders that are lists: what lies there is found by its file's name.
LOOSE_FILES = 22
LISTS: dict[str, str] = {
    "analysis/detectors": "a file is a detector",
    "app/commands": "a file is a verb",
    "app/text/words": "a file is what one verb or part says",
    "collectors/scenarios": "a file is a fault that can be planted",
}

#: Lines a file and a function may have. The first pattern that fits counts.
FILE_LINES = {"app/main.py": 40, "*.py": 600}
FUNCTION_LINES = 80

#: file or file::function -> (lines it may have, why)
LARGER: dict[str, tuple[int, str]] = {}

#: file::function that may catch everything -> why
CATCHES_ALL: dict[str, str] = {
    "collectors/inject/sitecustomize.py::_begin": "whatever is wrong with the recording, the job that matters goes on",
    "collectors/steps/stepping.py::Stepping._guarded": "the same, in the middle of the job",
    "collectors/steps/stepping.py::Stepping._end": "the same, at its end",
    "collectors/lab/engines.py::capture": "code of the job and three compilers raise what they like; it is the reason",
    "ingest/loading/sandbox.py::_done": "a defect of a reader becomes a refusal that says where it is",
    "tests/fuzz/drive.py::main.one": "whatever leaves a target is kept, and the fuzzing goes on",
    "tests/fuzz/__main__.py::replay": "whatever leaves a target is printed, and the next input is run",
    "tests/corpus/rival_traceinsight.py::main": "whatever another program raises counts as its failure",
    "analysis/engine.py::judged": "a defect of one detector becomes its outcome; the others still answer",
    "app/intake/load_queue.py::Load.run": "a defect ends one load in a sentence; the queue goes on for everybody else",
    "app/aside/process.py::_answer": "whoever asked another process is told, as if it had been asked there",
}

#: file::function that may take **kwargs -> why
OPEN_SIGNATURES: dict[str, str] = {
    "collectors/overheard.py::Overheard._made.told": "stands in for a function of torch: its release decides",
    "collectors/memcheck/interpreter.py::checking.every_config": "stands in for a method of Triton: the kernel decides",
}

#: The project's text speaks of the project, not of how it came about or where.
FOREIGN_WORDS = re.compile(
    r"\b(?:chatgpt|copilot|anthropic|claude|openai|language model)\b"
    r"|\b(?:ai|llm|machine)[- ](?:generated|written|assisted)\b"
    r"|\bthe (?:brief|user's request|task description)\b"
    r"|(?<![\w.])/work/|(?<![\w.])/tmp/v/|shared/reference|\bDESIGN\.md\b",
    re.IGNORECASE,
)

#: Words that a sentence of a docstring may have; code in backticks is one word.
SENTENCE_WORDS = 22
SENTENCES_IN = ("analysis/", "ingest/", "app/")
#: Not held to it yet.
SENTENCES_NOT_IN = ("analysis/proof/", "analysis/work/", "analysis/device/abilities.py", "app/evidence/")
#: A verb's own docstring is what --help prints.
HELP = re.compile(r"app/commands/\w+\.py::command")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def sources() -> dict[str, str]:
    """Every Python file of the project by its path from the root."""
    paths = (path for top in CHECKED for path in sorted((ROOT / top).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(sources()[name], name)


def lies_in(name: str, places: tuple[str, ...]) -> bool:
    """Whether a file lies in one of the folders, or is one of the files."""
    return any(name.startswith(place) if place.endswith("/") else fnmatch.fnmatch(name, place) for place in places)


def imported(name: str) -> Iterator[tuple[int, str]]:
    """Line and full name of every module a file imports, also inside functions; ours without the name above them."""
    for line, module in _imported(name):
        top, _, rest = module.partition(".")
        assert top not in OURS, f"{name}:{line} imports {module}: it is called npulens.{module}"
        yield line, rest or top if top == "npulens" else module


def _imported(name: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = ["npulens", *name.split("/")[:-node.level]] if node.level else []
            module = ".".join([*package, *filter(None, [node.module])])
            if module == "npulens":  # from npulens import ingest
                yield from ((node.lineno, f"npulens.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def functions(name: str) -> Iterator[tuple[str, Function]]:
    """`file::Class.method` and node of every function, nested ones included."""

    def inside(node: ast.AST, path: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield f"{name}::{path}{child.name}", child
                yield from inside(child, f"{path}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from inside(child, f"{path}{child.name}.")
            else:
                yield from inside(child, path)

    yield from inside(tree(name), "")


def same(found: set[str], allowed: set[str]) -> None:
    """Nothing new, and no exception that nothing needs any more."""
    assert found - allowed == set(), "not allowed here"
    assert allowed - found == set(), "exceptions that nothing needs any more"


@pytest.mark.parametrize("package", OURS)
def test_imports_point_one_way(package: str) -> None:
    wrong = [
        f"{name}:{line} imports {module}"
        for name in sources()
        if name.startswith(f"{package}/")
        for line, module in imported(name)
        if (top := module.split(".")[0]) in (*OURS, "tests") and top not in MAY_IMPORT[package]
        and module not in MAY_ALSO_IMPORT.get(package, ())
    ]
    assert wrong == []


def test_no_imports_in_circles() -> None:
    """Also none that only types need, and none inside functions."""
    ours = {name: name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in sources()}
    files = {module: name for name, module in ours.items() if name.startswith(OURS)}
    left = {module: {other for other in _targets(name, files) if other != module} for module, name in files.items()}
    while done := {module for module, others in left.items() if not others & left.keys()}:
        left = {module: others for module, others in left.items() if module not in done}
    while done := left.keys() - {other for others in left.values() for other in others}:  # leads to one, is in none
        left = {module: others for module, others in left.items() if module not in done}
    assert sorted(left) == []


def _targets(name: str, files: Mapping[str, str]) -> Iterator[str]:
    """The modules of ours that a file imports: itself, or the names it takes from a package."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "npulens":
            package = str(node.module).partition(".")[2]
            for alias in node.names:
                module = f"{package}.{alias.name}".lstrip(".")
                yield module if module in files else package


def test_rooms_can_be_taken_in_at_a_glance() -> None:
    """A folder with more files than this is a list of files that are found by their names, or several rooms."""
    rooms = Counter(name.rpartition("/")[0] for name in sources() if name.startswith(OURS))
    same({room for room, files in rooms.items() if files > LOOSE_FILES}, set(LISTS))


def test_what_is_found_by_its_name_is_whole() -> None:
    """Detectors, pages, readers and workloads are found by their files' names: what else each needs is there."""
    stems = {
        folder: [path.stem for path in sorted((ROOT / folder).glob("[!_]*.py"))]
        for folder in ("analysis/detectors", "collectors/workloads", "collectors/scenarios")
    }
    pages = [path.name for path in sorted((ROOT / "app/pages").iterdir()) if path.is_dir() and path.name[0] != "_"]
    families = [path.parent for path in sorted((ROOT / "ingest/readers").glob("*/__init__.py"))]
    wanted = [
        *(f"analysis/detectors/{name}.zh.md: the docstring in Chinese" for name in stems["analysis/detectors"]),
        *(f"tests/cases/{name}.yaml: cases of the detector" for name in stems["analysis/detectors"]),
        *(f"app/pages/{name}/page.py: TITLE, ICON, ORDER and render(ctx)" for name in pages),
    ]
    lacking = [each for each in wanted if not (ROOT / each.partition(":")[0]).exists()]
    for family in families:
        lacking += [] if [*family.glob("read_*.py")] else [f"{family.relative_to(ROOT)}/read_<format>.py"]
    held = {
        "collectors/workloads": ("VARIANTS", "SHAPES", "DTYPES", "build"), "collectors/scenarios": ("CAUSE", "plant"),
    }  # fmt: skip
    for folder, parts in held.items():
        for name in (name for name in stems[folder] if name != "workload"):
            text = sources()[f"{folder}/{name}.py"]
            there = [part for part in parts if re.search(rf"^(def )?{part}\b", text, re.MULTILINE)]
            lacking += [f"{folder}/{name}.py: {part}" for part in parts if part not in there]
    assert lacking == [], "these are missing"


@pytest.mark.parametrize("library", HOMES)
def test_a_heavy_library_stays_in_its_home(library: str) -> None:
    wrong = [
        f"{name}:{line}"
        for name in sources()
        if not lies_in(name, (*HOMES[library], "tests/"))
        for line, module in imported(name)
        if module.split(".")[0] == library
    ]
    assert wrong == []


def test_only_the_commands_that_serve_import_streamlit() -> None:
    wrong = [
        f"{name}:{line}"
        for name in sources()
        if lies_in(name, NO_STREAMLIT) and name not in STREAMLIT_COMMANDS
        for line, module in imported(name)
        if module.split(".")[0] == "streamlit"
    ]
    assert wrong == []


def test_the_command_line_runs_without_streamlit_and_torch() -> None:
    """The same through every import of an import, in a process where neither can be imported."""
    modules = ["npulens.app.cli", "npulens.collectors.__main__"] + [
        f"npulens.{name.removesuffix('.py').replace('/', '.')}"
        for name in sources()
        if name.startswith("app/commands/") and name not in STREAMLIT_COMMANDS and not name.endswith("__init__.py")
    ]
    program = (
        "import importlib, sys\n"
        "for name in ('streamlit', 'torch', 'torch_npu'): sys.modules[name] = None\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
    )
    command = [sys.executable, "-c", program, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]


def test_app_holds_no_sql() -> None:
    """Measurements are views in analysis/sql; the page that runs a user's own SELECT passes it through."""
    select = re.compile(r"\bSELECT\b.+\bFROM\b", re.IGNORECASE | re.DOTALL)
    wrong = []
    for name in sources():
        if not name.startswith("app/"):
            continue
        documents = {id(node.value) for node in ast.walk(tree(name)) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree(name)):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in documents:
                continue
            if "SELECT " in node.value and select.search(node.value):
                wrong.append(f"{name}:{node.lineno}")
    assert wrong == []


def test_the_top_level_is_frozen() -> None:
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line and line[0] != "#"]
    names = {
        path.name
        for path in ROOT.iterdir()
        if path.name != ".git" and not any(fnmatch.fnmatch(path.name, pattern) for pattern in ignored)
    }
    assert names == TOP_LEVEL


def test_files_and_functions_stay_small() -> None:
    too_long = {}
    for name, text in sources().items():
        limit = next(lines for pattern, lines in FILE_LINES.items() if fnmatch.fnmatch(name, pattern))
        if (lines := text.count("\n")) > limit:
            too_long[name] = lines
        for where, node in functions(name):
            if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES:
                too_long[where] = lines
    assert {where: lines for where, lines in too_long.items() if lines > LARGER.get(where, (0, ""))[0]} == {}
    same(set(too_long), set(LARGER))


def test_signatures_are_closed() -> None:
    ours = [name for name in sources() if not name.startswith("tests/")]
    same({where for name in ours for where, node in functions(name) if node.args.kwarg}, set(OPEN_SIGNATURES))


EVERYTHING = ("Exception", "BaseException")


def catches_all(node: ast.AST) -> bool:
    """A handler without a type, or for Exception or BaseException, that does not raise again."""
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return called == "suppress" and any(getattr(arg, "id", "") in EVERYTHING for arg in node.args)
    if not isinstance(node, ast.ExceptHandler):
        return False
    types = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    wide = node.type is None or any(getattr(kind, "id", "") in EVERYTHING for kind in types)
    return wide and not (isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None)


def test_nothing_is_swallowed() -> None:
    found = set()
    for name in sources():
        within = {id(inner): where for where, node in functions(name) for inner in ast.walk(node)}
        found |= {within.get(id(node), name) for node in ast.walk(tree(name)) if catches_all(node)}
    same(found, set(CATCHES_ALL))


def test_the_text_speaks_of_the_project() -> None:
    kinds = {".py", ".md", ".sql", ".c", ".js", ".css", ".toml", ".yaml", ".json", ""}
    places = [ROOT / name for name in TOP_LEVEL - {"sample_traces"}]
    paths = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
    wrong = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in paths
        if path.suffix in kinds and path != Path(__file__).resolve() and "__pycache__" not in path.parts
        for found in [FOREIGN_WORDS.search(path.read_text(errors="replace"))]
        if found
    ]
    assert wrong == []


def docstrings(name: str) -> Iterator[tuple[str, str]]:
    """`file`, or `file::name` of a class or function, and its docstring."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and (text := ast.get_docstring(node)):
            yield f"{name}::{getattr(node, 'name', '')}".rstrip(":"), text


def sentences(text: str) -> Iterator[str]:
    """Of each paragraph and item of a list; lines of a table, of code or of a heading are none."""
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", inspect.cleandoc(text)):
        lines = [line for line in part.splitlines() if not re.match(r" {4}|\s*(>>>|#)", line)]
        said = " ".join(line.strip() for line in lines if not re.search(r"\S {3,}\S", line))
        yield from re.split(r"(?<=[.!?])[\"')*]*\s+", re.sub(r"``.+?``|`[^`]+`", "X", said))


def words(sentence: str) -> int:
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def test_sentences_and_words_are_told() -> None:
    said = "One, `two three` four. Five ...\n* a table   of it\n* six (seven.) Eight!\n\n    code is. none\n\nNine"
    assert [words(each) for each in sentences(said)] == [3, 1, 0, 2, 1, 0, 1]


def test_sentences_of_docstrings_are_short() -> None:
    wrong = [
        f"{where}: {sentence}"
        for name in sources()
        if name.startswith(SENTENCES_IN) and not lies_in(name, SENTENCES_NOT_IN)
        for where, text in docstrings(name)
        if not HELP.fullmatch(where)
        for sentence in sentences(text)
        if words(sentence) > SENTENCE_WORDS
    ]
    assert wrong == [], f"more than {SENTENCE_WORDS} words"


def test_links_between_documents_lead_somewhere() -> None:
    wrong = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert wrong == []


def test_the_quick_list_names_tests_that_there_are() -> None:
    """`make quick` runs them; one that was renamed or moved must not be passed over."""
    lines = (ROOT / "tests" / "quick.txt").read_text().splitlines()
    assert lines == sorted(set(lines))
    for line in lines:
        name, _, test = line.partition("::")
        assert name in sources(), f"tests/quick.txt: there is no {name}"
        assert not test or f"{name}::{test}" in dict(functions(name)), f"tests/quick.txt: {name} has no {test}"


def test_the_readme_names_every_command() -> None:
    commands = {path.stem for path in (ROOT / "app" / "commands").glob("[!_]*.py")}
    assert set(re.findall(r"^\| `npulens (\w+)", (ROOT / "README.md").read_text(), flags=re.MULTILINE)) == commands


def test_generated_pages_are_current() -> None:
    command = [sys.executable, "docs/generate.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_the_tables_page_holds_every_column() -> None:
    """The page is made with a pattern; the database's own parser says what it had to find."""
    import duckdb

    with duckdb.connect() as con:
        con.execute((ROOT / "ingest" / "tables" / "schema.sql").read_text())
        rows = con.execute(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
        ).fetchall()
    page = (ROOT / "docs" / "tables.md").read_text()
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    written = {
        (table, name, kind, null)
        for table, text in sections.items()
        for name, kind, null in re.findall(r"^\| `(\w+)` \| (\S+) \| (\w*) \|", text, flags=re.MULTILINE)
    }
    assert written == {(table, name, kind, "" if null == "YES" else "never") for table, name, kind, null in rows}

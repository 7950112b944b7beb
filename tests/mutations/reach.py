"""Which tests run which functions: a copy of the product whose functions write down the test that called them.

A test that never runs a function notices no defect in it. So each defect is given only to the tests that reach it,
which gives the whole suite's answer in minutes. Where a fixture ran the function, that is every test of the file. A
process that did not inherit the test's environment is not seen, so the share that is printed is a lower bound.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.change import Mutation

#: What pytest writes beside what the probes write.
REPORT = "junit.xml"
#: They read the sources, and so may notice a defect in what they never run.
READ_SOURCES = frozenset({"tests/test_walls.py", "tests/test_said.py"})

_PROBE = """
def _reached_(number, known=set()):
    import os
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if test and (number, test) not in known:
        known.add((number, test))
        try:
            with open({home!r} + "/" + str(number), "a") as written:
                written.write(test.replace("\\n", " ") + "\\n")
        except OSError:
            pass
"""


@dataclass(frozen=True)
class Reach:
    """The tests that run the function of each defect, and how long each test takes."""

    tests: tuple[frozenset[str], ...]  # of each defect: `file::test`, or `file` where a fixture ran it
    seconds: dict[str, float]  # of each test function
    failed: frozenset[str]  # they fail without a defect, and so notice none

    def of(self, number: int) -> list[str]:
        """The tests that may notice a defect, the shortest first."""
        found = self.tests[number] | READ_SOURCES
        files = {name for name in found if "::" not in name}
        tests = [
            test for test in self.seconds
            if (test in found or test.split("::")[0] in files) and test not in self.failed
        ]  # fmt: skip
        return sorted(tests, key=lambda test: self.seconds[test])


def probed(copy: Path, found: Iterable[Mutation], written: Path) -> None:
    """Puts a probe into the function of every defect in the copy of the product."""
    written.mkdir(parents=True, exist_ok=True)
    places: dict[Path, list[tuple[int, int]]] = {}
    for number, mutation in enumerate(found):
        places.setdefault(mutation.file, []).append((number, mutation.line))
    for file, lines in places.items():
        tree = ast.parse((copy / file).read_text("utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for number, line in lines:
            inner = max((node for node in functions if _holds(node, line)), key=lambda node: node.lineno)
            at = int(ast.get_docstring(inner) is not None)
            inner.body.insert(at, ast.parse(f"_reached_({number})").body[0])
        future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        at = tree.body.index(future[-1]) + 1 if future else int(ast.get_docstring(tree) is not None)
        tree.body[at:at] = ast.parse(_PROBE.format(home=str(written))).body
        (copy / file).write_text(ast.unparse(ast.fix_missing_locations(tree)), "utf-8")


def _holds(function: ast.FunctionDef, line: int) -> bool:
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return first <= line <= (function.end_lineno or line)


def run(copy: Path, written: Path, jobs: str, tests: Sequence[str]) -> None:
    """Runs the tests, or all of them, on the probed copy."""
    report, options = written / REPORT, ["-q", "-n", jobs, "-p", "no:cacheprovider"]
    with open(written / "output", "w", encoding="utf-8") as output:
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *tests],
            cwd=copy, env={**os.environ, "PYTHONPATH": str(copy / "build" / "tree")}, stdout=output,
            stderr=subprocess.STDOUT,
        )  # fmt: skip


def read(count: int, written: Path) -> Reach:
    """What the probes and pytest wrote."""
    seconds: Counter[str] = Counter()
    failed = set()
    for case in ElementTree.parse(written / REPORT).iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        test = f"{file}::{case.get('name', '').split('[')[0]}"
        seconds[test] += float(case.get("time", 0))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(test)
    tests = []
    for number in range(count):
        place = written / str(number)
        lines = place.read_text("utf-8").splitlines() if place.exists() else []
        tests.append(frozenset(_selected(line) for line in lines if line.startswith("tests/")))
    return Reach(tuple(tests), dict(seconds), frozenset(failed))


def _selected(line: str) -> str:
    """`tests/x.py::test_y[a-b] (call)` -> `tests/x.py::test_y`; the file where a fixture ran it."""
    test, _, phase = line.rpartition(" (")
    return test.split("::")[0] if phase == "setup)" else test.split("[")[0]

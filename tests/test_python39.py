"""What goes to the machine with the device runs on Python 3.9: its syntax, the library it uses, and if there is one."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npulens.collectors import zipapp

ROOT = Path(__file__).resolve().parent.parent
CARRIED = {path.relative_to(ROOT).as_posix(): path for path in zipapp.carried() if path.suffix == ".py"}
#: Modules, functions and methods that came after 3.9, by the version that brought them.
MODULES = {"tomllib": "3.11", "wsgiref.types": "3.11"}
NAMES = {
    "itertools.pairwise": "3.10", "itertools.batched": "3.12", "datetime.UTC": "3.11", "types.NoneType": "3.10",
    "types.UnionType": "3.10", "types.EllipsisType": "3.10", "inspect.get_annotations": "3.10",
    "contextlib.aclosing": "3.10", "contextlib.chdir": "3.11", "statistics.correlation": "3.10",
    "statistics.covariance": "3.10", "statistics.linear_regression": "3.10", "sys.stdlib_module_names": "3.10",
    "sys.orig_argv": "3.10", "sys.exception": "3.11", "os.process_cpu_count": "3.13", "typing.TypeAlias": "3.10",
    "typing.TypeGuard": "3.10", "typing.ParamSpec": "3.10", "typing.Concatenate": "3.10", "typing.Self": "3.11",
    "typing.assert_never": "3.11", "typing.LiteralString": "3.11", "typing.NotRequired": "3.11",
    "typing.override": "3.12", "enum.StrEnum": "3.11", "hashlib.file_digest": "3.11", "operator.call": "3.11",
    "math.cbrt": "3.11", "math.exp2": "3.11", "math.sumprod": "3.12", "builtins.aiter": "3.10",
    "builtins.anext": "3.10", "builtins.EncodingWarning": "3.10", "builtins.ExceptionGroup": "3.11",
}  # fmt: skip
METHODS = {"bit_count": "3.10", "hardlink_to": "3.10", "walk_up": "3.12", "add_note": "3.11", "with_segments": "3.12"}
#: Keywords that a call took on later.
KEYWORDS = {
    "zip": {"strict"}, "dataclass": {"slots", "kw_only", "match_args", "weakref_slot"}, "field": {"kw_only"},
    "bisect_left": {"key"}, "bisect_right": {"key"}, "insort": {"key"}, "TemporaryDirectory": {"delete"},
}  # fmt: skip
TYPES = {"int", "str", "float", "bool", "bytes", "list", "dict", "tuple", "set", "None"}


def later(source: str) -> Iterator[str]:
    """Everything in a source that Python 3.9 does not have."""
    tree = ast.parse(source, feature_version=(3, 9))
    annotated = {id(inner) for node in ast.walk(tree) for each in _annotations(node) for inner in ast.walk(each)}
    told = {"builtins." + name.rpartition(".")[2] for name in NAMES if name.startswith("builtins.")}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Match, ast.TryStar)):
            yield f"{type(node).__name__} statement"
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            yield from (each.name for each in node.names if f"{node.module}.{each.name}" in NAMES)
            yield from [str(node.module)] if node.module in MODULES else []
        elif isinstance(node, ast.Attribute):
            yield from [node.attr] if node.attr in METHODS else []
            whole = f"{getattr(node.value, 'id', '')}.{node.attr}"
            yield from [whole] if whole in NAMES else []
        elif isinstance(node, ast.Name):
            yield from [node.id] if f"builtins.{node.id}" in told else []
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield from (f"{name}({each.arg}=)" for each in node.keywords if each.arg in KEYWORDS.get(name, ()))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and id(node) not in annotated:
            sides = {ast.unparse(side).partition("[")[0] for side in (node.left, node.right)}
            yield from [ast.unparse(node)] if sides & TYPES else []


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    for name in ("annotation", "returns"):
        if isinstance(found := getattr(node, name, None), ast.AST):
            yield found


@pytest.mark.parametrize("name", sorted(CARRIED))
def test_nothing_newer_is_used(name: str) -> None:
    source = CARRIED[name].read_text()
    assert list(later(source)) == []
    if " | None" in source:  # in an annotation, or it would have been found
        assert "from __future__ import annotations" in source


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("match x:\n    case 1: pass", "Match"), ("try: pass\nexcept* OSError: pass", "TryStar"),
        ("zip(a, b, strict=True)", "zip(strict=)"), ("from itertools import pairwise", "pairwise"),
        ("import datetime\ndatetime.UTC", "datetime.UTC"), ("Cell = str | None", "str | None"),
        ("isinstance(x, int | float)", "int | float"), ("from dataclasses import dataclass\n@dataclass(slots=True)\n"
         "class A: pass", "dataclass(slots=)"), ("import tomllib", "tomllib"), ("(7).bit_count()", "bit_count"),
    ],
)  # fmt: skip
def test_the_check_finds_what_is_newer(source: str, found: str) -> None:
    try:
        assert found in " ".join(later(source))
    except SyntaxError as refused:
        assert found in ("Match", "TryStar"), refused  # the parser itself says no
    assert list(later("def f(x: int | None) -> str | None: return 1 | 2\nflags = a | b")) == []


def old_python() -> str | None:
    """A real Python 3.9: on the path, or named by NPULENS_PYTHON39."""
    found = os.environ.get("NPULENS_PYTHON39") or shutil.which("python3.9")
    if found is None:
        return None
    said = subprocess.run([found, "-c", "print('%d.%d' % __import__('sys').version_info[:2])"], capture_output=True)
    return found if said.stdout.strip() == b"3.9" else None


@pytest.mark.skipif(old_python() is None, reason="there is no Python 3.9 here; name one in NPULENS_PYTHON39")
def test_a_real_python_3_9_runs_it(tmp_path: Path) -> None:
    zipapp.make(tmp_path / zipapp.NAME)
    python = str(old_python())
    names = [name[:-3].replace("/", ".").removesuffix(".__init__") for name in CARRIED if "inject" not in name]
    source = f"""
import importlib, sys
sys.path.insert(0, sys.argv[1])
assert sys.version_info[:2] == (3, 9)
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name in ("torch", "triton", "torch_npu"), error
from npulens.collectors.__main__ import main
sys.exit(main(["workloads"]))
"""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", source, str(tmp_path / zipapp.NAME)], env=bare, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and '"train_step"' in done.stdout, done.stderr

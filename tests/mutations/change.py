"""One small defect in a Python file: a comparison, a number, an operator or a condition that is another."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_COUNTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult}


@dataclass(frozen=True)
class Mutation:
    """Where the defect is, what it is, and the line with it."""

    file: Path  # from the root of the repository
    line: int
    what: str
    text: str  # of the whole file


def mutations(root: Path, rooms: tuple[str, ...], count: int, seed: int) -> Iterator[Mutation]:
    """So many defects in files drawn at random, at most one a file; the same seed draws the same ones."""
    draw = random.Random(seed)
    files = [path for room in rooms for path in sorted((root / room).rglob("*.py")) if "words" not in path.parts]
    draw.shuffle(files)
    for path in files:
        if count and (found := _changed(path, root, draw)):
            count -= 1
            yield found


def _changed(path: Path, root: Path, draw: random.Random) -> Mutation | None:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    places = [
        node for function in ast.walk(tree) if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function) if _is_place(node)
    ]  # fmt: skip
    if not places:
        return None
    node = draw.choice(places)
    assert isinstance(node, ast.Compare | ast.BinOp | ast.BoolOp | ast.If | ast.Constant)
    before, line = ast.unparse(node.test if isinstance(node, ast.If) else node), node.lineno
    _change(node)
    after = ast.unparse(node.test if isinstance(node, ast.If) else node)
    return Mutation(path.relative_to(root), line, f"{before[:60]} -> {after[:60]}", ast.unparse(tree))


def _is_place(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1
    if isinstance(node, ast.BinOp):
        return type(node.op) in _COUNTED and not isinstance(node.left, ast.Constant | ast.JoinedStr)
    return isinstance(node, ast.BoolOp | ast.If) or (isinstance(node, ast.Constant) and type(node.value) is int)


def _change(node: ast.Compare | ast.BinOp | ast.BoolOp | ast.If | ast.Constant) -> None:
    if isinstance(node, ast.Compare):
        node.ops = [_COMPARED[type(node.ops[0])]()]
    elif isinstance(node, ast.BinOp):
        node.op = _COUNTED[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.If):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    else:
        assert type(node.value) is int
        node.value += 1

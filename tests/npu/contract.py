"""Whether a source file asks torch_npu only for what every supported release has, told from its syntax.

Followed are imports, assignments of modules and classes, and parameters that a file's own calls fill with one. What a
newer release brought may be asked for behind ``hasattr`` or ``getattr`` with a default; an argument never.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

FACTS = Path(__file__).with_name("facts.json")
#: Other spellings of the same place.
SAME = {"torch_npu.npu": "torch.npu", "torch.ops.npu": "torch_npu"}
#: What torch_npu itself holds besides operators.
INSIDE = {"npu", "profiler", "optim", "__version__", "__file__"}
#: Its order of arguments is not torch's, so each is named.
NAMED_ONLY = {"torch_npu.profiler.schedule"}


@cache
def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FACTS.read_text("utf-8"))
    return found


def lacking(fact: int | list[int]) -> list[str]:
    """The releases that do not have it."""
    releases: list[str] = facts()["releases"]
    having = set(fact if isinstance(fact, list) else range(fact, len(releases)))
    return [release for at, release in enumerate(releases) if at not in having]


def members(scope: str) -> Mapping[str, int | list[int]] | None:
    """What a place holds; None where the facts do not say."""
    found: Mapping[str, int | list[int]] | None = facts()["has"].get(scope)
    return found


def problems(source: str, given: Mapping[str, str] | None = None) -> list[str]:
    """Everything that some release would refuse, by line; ``given`` says what comes from elsewhere."""
    found = _Reading(ast.parse(source), given or {}).problems()
    return [f"line {line}: {what}" for line, what in sorted(set(found))]


class _Reading:
    def __init__(self, tree: ast.Module, given: Mapping[str, str]) -> None:
        self._nodes = list(ast.walk(tree))
        self._known = dict(given)
        for _ in range(4):  # names of names of names
            before = len(self._known)
            for node in self._nodes:
                self._learn(node)
            if len(self._known) == before:
                break

    def problems(self) -> Iterator[tuple[int, str]]:
        guarded = {node.args[1].value for node in self._nodes if _asks_first(node)}  # type: ignore[attr-defined]
        for node in self._nodes:
            if isinstance(node, ast.Attribute):
                yield from self._member(node, self._place(node.value), node.attr, node.attr in guarded)
            elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("torch_npu"):
                for alias in node.names:
                    yield from self._member(node, _canonical(node.module), alias.name, False)
            elif isinstance(node, ast.Call):
                yield from self._call(node)

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in ("torch", "torch_npu"):
                    self._known[alias.asname or alias.name.split(".")[0]] = (
                        _canonical(alias.name) if alias.asname else alias.name.split(".")[0]
                    )
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("torch", "torch_npu"):
            for alias in node.names:
                self._known[alias.asname or alias.name] = _canonical(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
            pairs += [pair for target, value in pairs if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
                      for pair in zip(target.elts, value.elts, strict=False)]  # fmt: skip
            for target, value in pairs:
                if (place := self._place(value)) and place != "torch":
                    self._known[ast.unparse(target)] = place
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            self._fill(node)

    def _fill(self, call: ast.Call) -> None:
        """The parameters of a function of this file that are given a module."""
        for function in self._nodes:
            if isinstance(function, ast.FunctionDef) and function.name == call.func.id:  # type: ignore[attr-defined]
                for parameter, given in zip(function.args.args, call.args, strict=False):
                    if (place := self._place(given)) and place.startswith(("torch_npu", "torch.npu")):
                        self._known[parameter.arg] = place

    def _place(self, node: ast.AST) -> str | None:
        """The dotted name of what an expression is, if it is a part of torch or torch_npu."""
        if (spelled := ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else "") in self._known:
            return self._known[spelled]
        if isinstance(node, ast.Attribute) and (inner := self._place(node.value)):
            return _canonical(f"{inner}.{node.attr}")
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            return _canonical("".join(_strings(node.args[0])))
        return None

    def _member(self, node: ast.AST, scope: str | None, name: str, guarded: bool) -> Iterator[tuple[int, str]]:
        held = members(scope) if scope else None
        if scope == "torch_npu" and name in INSIDE:
            return
        if held is None:
            if isinstance(node, ast.ImportFrom):
                yield _at(node), f"nothing is known of {scope}: tests/npu/facts.py does not read it"
            return
        if name not in held:
            if not (_is_module(f"{scope}.{name}")):
                yield _at(node), f"{scope} has no {name} in any release"
        elif not guarded and (without := lacking(held[name])):
            yield _at(node), f"{scope}.{name} is missing in {', '.join(without)}"

    def _call(self, node: ast.Call) -> Iterator[tuple[int, str]]:
        if getattr(node.func, "id", "") in ("getattr", "hasattr") and len(node.args) > 1:
            for name in _strings(node.args[1]):
                yield from self._member(node, self._place(node.args[0]), name, _asks_first(node))
        place = self._place(node.func)
        held = members(f"{place}()") if place else None
        if held is None:
            return
        scope, _, name = place.rpartition(".")  # type: ignore[union-attr]
        absent = set(lacking((members(scope) or {}).get(name, 0)))  # that is said where it is named
        takes = {key.split()[1]: set(lacking(fact)) - absent for key, fact in held.items()}
        for keyword in node.keywords:
            if keyword.arg is None:
                yield _at(node), f"{place}: what ** passes cannot be checked"
            elif keyword.arg not in takes:
                yield _at(node), f"{place} takes no {keyword.arg} in any release"
            elif without := takes[keyword.arg]:
                yield _at(node), f"{place} takes no {keyword.arg} in {', '.join(sorted(without))}"
        for at in range(len(node.args)):
            there = [key.split()[1] for key in held if key.startswith(f"{at:02d} ")]
            if place in NAMED_ONLY or len(there) != 1 or takes[there[0]]:
                yield _at(node), f"{place}: argument {at + 1} is not the same in every release, or must be named"


def _canonical(place: str) -> str:
    for spelling, proper in SAME.items():
        if place == spelling or place.startswith(f"{spelling}."):
            return proper + place[len(spelling) :]
    return place


def _is_module(place: str) -> bool:
    return members(_canonical(place)) is not None


def _asks_first(node: ast.AST) -> bool:
    """hasattr(x, "name"), or getattr(x, "name", instead)."""
    if not isinstance(node, ast.Call) or len(node.args) < 2 or not isinstance(node.args[1], ast.Constant):
        return False
    name = getattr(node.func, "id", "")
    return name == "hasattr" or (name == "getattr" and len(node.args) == 3)


def _strings(node: ast.AST) -> Iterator[str]:
    """The texts that an expression may come to, as far as they stand in it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _strings(node.body)
        yield from _strings(node.orelse)
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
        for value in node.value.values:
            yield from _strings(value)


def _at(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))

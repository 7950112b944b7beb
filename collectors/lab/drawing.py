"""Graphs as data: the program node by node, and what a rewrite took out, changed and put in.

A rewrite works on a copy whose nodes keep their names, so names tell which node is which. What is written is bounded.
Of a program with more nodes than are kept, those near a replacement are kept first.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from npulens.collectors.lab import graph
from npulens.collectors.lab.pasting import pasted
from npulens.collectors.lab.rewrites.rewrite import Rewrite

#: Nodes of one program that are written, and characters of one text, of a difference and of a whole program.
NODES, TEXT, DIFFERENCE, CODE = 6_000, 160, 60_000, 1_000_000
#: How far around a replacement a node is kept before all others.
_NEAR = 4
#: What is drawn; weights stand with whoever reads them.
_DRAWN = ("placeholder", "call_function", "call_method", "call_module", "output")
_FRAME = re.compile(r'File "([^"\n]{1,1000})", line (\d{1,7}), in [^\n]*\n\s*([^\n]*)')
_FREED = re.compile(r";  (?:\w+ = )+None$", re.MULTILINE)
#: Lines of code that only fetch a weight.
_FETCHED = re.compile(r"^    \w+ = (?:self\.|getattr\(self).*\n", re.MULTILINE)

Node = Mapping[str, Any]


def drawn(program: Any, near: Iterable[str] = ()) -> dict[str, Any]:
    """A program: its nodes in their order, how many there are, and how many are left out here."""
    nodes = _entries(program)
    kept = _kept(nodes, set(near))
    return {"nodes": [nodes[name] for name in nodes if name in kept], "count": len(nodes),
            "left_out": len(nodes) - len(kept)}  # fmt: skip


def changes(program: Any, model: Any) -> dict[str, Any] | None:
    """What differs in a rewrite; None where no graph is left that could be read."""
    after_of = outermost(model)
    if not graph.is_graph(program) or after_of is None:
        return None
    before, after = _entries(program), _entries(after_of)
    gone = [name for name in before if name not in after]
    new = [name for name in after if name not in before]
    both = [name for name in after if name in before]
    told_before, told_after = _told(program), _told(after_of)
    changed = [name for name in both if told_before[name] != told_after[name]]
    rewired = [name for name in both if name not in set(changed) and after[name]["inputs"] != before[name]["inputs"]]
    sources = _sources(program, [*gone, *changed])
    marked = [{**after[name], "state": state} for state, names in
              (("new", new), ("changed", changed), ("rewired", rewired)) for name in names]  # fmt: skip
    return {
        "gone": gone[:NODES], "nodes": [_placed(each, before, after) for each in marked[:NODES]],
        "left_out": max(0, len(gone) - NODES) + max(0, len(marked) - NODES), "sources": sources,
        "difference": _difference(program, after_of) if gone or marked else None,
        "code": _code(after_of) if gone or marked else None,
    }  # fmt: skip


def outermost(model: Any) -> Any:
    """The graph that a rewrite works with; None where there is none."""
    import torch

    if not isinstance(model, torch.nn.Module):
        return None
    return next((module for module in model.modules() if graph.is_graph(module)), None)


def near_of(told: Mapping[str, Any]) -> set[str]:
    """The nodes of the original that the changes of one rewrite are about."""
    return {*told["gone"], *(name for each in told["nodes"] for name in (each["name"], *each["inputs"]))}


def _every(program: Any) -> Iterator[tuple[str, Any]]:
    """(name, node) of a program and of the graphs within it; the name of an inner one begins with where it lies."""
    for path, module in program.named_modules():
        if graph.is_graph(module):
            for node in module.graph.nodes:
                yield (f"{path}/{node.name}" if path else node.name), node


def _entries(program: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, node in _every(program):
        if node.op not in _DRAWN:
            continue
        path = name.rpartition("/")[0]
        inputs = [f"{path}/{each.name}" if path else each.name for each in node.all_input_nodes if each.op in _DRAWN]
        found[name] = {
            "name": _short(name), "op": _short(_operator(node)), "module": _short(_module(node)),
            "value": _short(_value(node.meta.get("val"))), "inputs": [_short(each) for each in inputs],
        }  # fmt: skip
    return found


def _operator(node: Any) -> str:
    if node.op in ("placeholder", "output"):
        return str(node.op)
    return graph.operator(node) or str(getattr(node.target, "__name__", node.target))


def _module(node: Any) -> str:
    """The path of the module a node comes from, as the job's code knows it; empty for the whole."""
    stack = node.meta.get("nn_module_stack")
    if not isinstance(stack, dict) or not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    return path[7:] if path.startswith("module.") else "" if path == "module" else path


def _value(value: Any) -> str:
    """Type and sizes of what a node gives; of several values the first ones."""
    if isinstance(value, (tuple, list)):
        return ", ".join(_value(each) for each in value[:3]) + (", ..." if len(value) > 3 else "")
    if not hasattr(value, "dtype"):
        return ""
    sizes = " × ".join(str(size) for size in value.shape)
    return f"{str(value.dtype).replace('torch.', '')} {sizes or 'scalar'}"


def _told(program: Any) -> dict[str, str]:
    """What a node does with its inputs, as text: its operator, its weights, its other arguments."""
    found: dict[str, str] = {}
    for name, node in _every(program):
        weights = [str(each.target) for each in node.all_input_nodes if each.op == "get_attr"]
        rest = [repr(each) for each in (*node.args, *node.kwargs.items()) if not _holds_nodes(each)]
        found[name] = f"{node.op} {node.target} {weights} {rest}"
    return found


def _holds_nodes(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_holds_nodes(each) for each in value)
    return hasattr(value, "all_input_nodes")


def _placed(node: dict[str, Any], before: Mapping[str, Node], after: Mapping[str, Node]) -> dict[str, Any]:
    """A new node without a module stands in that of whoever reads it first."""
    if node["module"] or node["state"] != "new":
        return node
    reached = {node["name"]}
    for name, each in after.items():  # in their order: who reads comes after what is read
        if name in before and reached & set(each["inputs"]):
            return {**node, "module": each["module"]}
        reached |= {name} if reached & set(each["inputs"]) else set()
    return node


def _sources(program: Any, names: list[str]) -> list[dict[str, Any]]:
    """Which lines of the job's code the nodes come from, each once."""
    wanted, found = set(names), dict[tuple[str, int], dict[str, Any]]()
    for name, node in _every(program):
        frames = _FRAME.findall(str(node.meta.get("stack_trace", ""))) if name in wanted else []
        own = [frame for frame in frames if "site-packages" not in frame[0] and not _is_ours(frame[0])]
        if own:
            file, line, code = own[-1]
            place = (os.path.basename(file), int(line))
            told = found.setdefault(place, {"file": place[0][:TEXT], "line": place[1], "code": code.strip()[:TEXT],
                                            "ops": []})  # fmt: skip
            told["ops"] = sorted({*told["ops"], _operator(node)})[:20]
    return sorted(found.values(), key=lambda each: (each["file"], each["line"]))[:100]


def _is_ours(path: str) -> bool:
    return os.path.dirname(os.path.abspath(path)).startswith(os.path.dirname(os.path.abspath(__file__)))


def _kept(nodes: Mapping[str, Node], near: set[str]) -> set[str]:
    """The names that are written: all, or as many as may be, those near a replacement first."""
    if len(nodes) <= NODES:
        return set(nodes)
    neighbours: dict[str, set[str]] = {name: set() for name in nodes}
    for name, node in nodes.items():
        for other in node["inputs"]:
            if other in nodes:
                neighbours[name].add(other)
                neighbours[other].add(name)
    order = list(dict.fromkeys(name for name in nodes if name in near))
    reached, edge = set(order), list(order)
    for _ in range(_NEAR):
        edge = [other for name in edge for other in sorted(neighbours[name]) if other not in reached]
        edge = list(dict.fromkeys(edge))
        reached |= set(edge)
        order += edge
    order += [name for name in nodes if name not in reached]
    return set(order[:NODES])


def _plain_code(program: Any) -> str:
    """The code of the program and of the graphs within it, without what only fetches weights and frees memory."""
    parts = [
        f"# {path or 'the program'}\n{_FETCHED.sub('', _FREED.sub('', module.code)).strip()}\n"
        for path, module in program.named_modules() if graph.is_graph(module)
    ]  # fmt: skip
    return "\n".join(parts)


def _difference(program: Any, after: Any) -> str | None:
    """A unified difference of both programs' code; None where there is none, or where it would be endless."""
    before_code, after_code = _plain_code(program).splitlines(), _plain_code(after).splitlines()
    if before_code == after_code or max(len(before_code), len(after_code)) > 20_000:
        return None
    lines = difflib.unified_diff(before_code, after_code, "original", "rewritten", n=2, lineterm="")
    text = "\n".join(lines)
    return text if len(text) <= DIFFERENCE else text[: text.rfind("\n", 0, DIFFERENCE)] + "\n..."


def _code(program: Any) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = str(program.print_readable(print_output=False))
    return text if len(text) <= CODE else None


def _short(text: str) -> str:
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"


# What is written beside a subject: drawn/original.json, and for each rewrite drawn/NAME.json and drawn/NAME.py.
FOLDER, ORIGINAL = "drawn", "original"


def write(place: Path, rewrite: Rewrite, name: str, program: Any, model: Any) -> None:
    """What became of the program in one rewrite. A disk that takes no more costs the drawing and nothing else."""
    if not place.is_dir() or not graph.is_graph(program):
        return
    told = changes(program, model)
    near = set() if told is None else near_of(told)
    before = drawn(program, near)
    code = None if told is None else told.pop("code")
    said = {"what": "lab drawing", "rewrite": name, "paste": pasted(rewrite, name, before, told), "changes": told}
    if before["left_out"]:  # it keeps what stands near its own replacements
        said["original"] = before
    with suppress(OSError):
        (place / FOLDER).mkdir(exist_ok=True)
        _put(place / FOLDER / f"{ORIGINAL}.json", json.dumps({"what": "lab drawing", **drawn(program)}))
        _put(place / FOLDER / f"{name}.json", json.dumps(said))
        if code is not None:
            _put(place / FOLDER / f"{name}.py", code)


def forget(place: Path, name: str) -> None:
    """Takes away what an earlier trial of a rewrite has drawn."""
    for suffix in ("json", "py"):
        with suppress(OSError):
            (place / FOLDER / f"{name}.{suffix}").unlink()


def _put(path: Path, text: str) -> None:
    half = path.with_name(f".{path.name}.half")
    half.write_text(text + "\n", encoding="utf-8")
    half.replace(path)

"""Which of PyTorch's operators a subject calls, and which others each of them is made of.

The program runs once on its first batch while torch writes down every operator with its schema and its caller. What an
operator calls is its own code's doing wherever it has no kernel of its own, so another device would be asked the same.
Only names, counts and types are kept.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npulens.collectors.lab import graph, judging
from npulens.collectors.lab.subject import Subject

_TENSOR = "Tensor("


@dataclass
class Operator:
    """One overload, as it is called in one call of the module."""

    calls: int = 0
    outermost: int = 0  # calls that no other operator made
    dtypes: set[str] = field(default_factory=set)
    parts: dict[str, int] = field(default_factory=dict)
    where: str | None = None  # the first module of the program that calls it

    def as_dict(self, name: str) -> dict[str, Any]:
        return {
            "name": name, "calls": self.calls, "outermost": self.outermost, "dtypes": sorted(self.dtypes),
            "parts": dict(sorted(self.parts.items())), "where": self.where,
        }  # fmt: skip


def release() -> str:
    """The torch that this is seen with."""
    import torch

    return str(torch.__version__)


def operators(subject: Subject, gradients: bool) -> list[dict[str, Any]]:
    """Every overload of one call, and of its gradients where they are wanted."""
    found = tree(_recorded(subject, gradients))
    for name, where in _places(subject.program):
        if name in found and found[name].where is None:
            found[name].where = where
    return [each.as_dict(name) for name, each in sorted(found.items())]


def _recorded(subject: Subject, gradients: bool) -> list[dict[str, Any]]:
    """What torch wrote down of one call."""
    from torch.profiler import ExecutionTraceObserver

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "operators.json"
        observer = ExecutionTraceObserver()
        observer.register_callback(str(path))
        try:
            _once(subject, observer, gradients)
        finally:
            observer.unregister_callback()
        nodes: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["nodes"]
    return nodes


def _once(subject: Subject, observer: Any, gradients: bool) -> None:
    """One call, and backwards where gradients are wanted; what only this needs is done unseen."""
    import torch

    batch = tuple(each.clone() for each in subject.batches[0])
    wanted = [weight for weight in subject.program.parameters() if gradients and weight.requires_grad]
    with torch.set_grad_enabled(gradients):
        observer.start()
        try:
            found = tuple(subject.program(batch))
            observer.stop()
            ends = [each for each in found if each.requires_grad]
            ones = [torch.ones_like(each) for each in ends]
            observer.start()
            if ends and wanted:
                torch.autograd.grad(ends, wanted, ones, allow_unused=True)
        except judging.FAILURES as error:
            raise judging.CannotRun(f"the captured program does not run: {judging.first_line(error)}") from error
        finally:
            observer.stop()


def tree(nodes: list[dict[str, Any]]) -> dict[str, Operator]:
    """The operators of a written trace by their overloads, and who calls whom."""
    names = {node["id"]: overload for node in nodes if (overload := _overload(node)) is not None}
    above = {node["id"]: node.get("ctrl_deps") for node in nodes}
    found: dict[str, Operator] = {}
    for node in nodes:
        name = names.get(node["id"])
        if name is None:
            continue
        operator = found.setdefault(name, Operator())
        operator.calls += 1
        operator.dtypes |= set(_dtypes(node))
        caller = above.get(node["id"])
        while caller is not None and caller not in names and above.get(caller) != caller:
            caller = above.get(caller)  # a record_function or a thread
        if caller in names:
            parts = found.setdefault(names[caller], Operator()).parts
            parts[name] = parts.get(name, 0) + 1
        else:
            operator.outermost += 1
    return found


def _overload(node: dict[str, Any]) -> str | None:
    """``aten::add.Tensor`` from the schema; None for what is no operator."""
    for attribute in node.get("attrs") or ():
        if attribute.get("name") == "op_schema" and attribute.get("value"):
            return str(attribute["value"]).partition("(")[0]
    return None


def _dtypes(node: dict[str, Any]) -> list[str]:
    """The types of the tensors that come in, those of lists too."""
    kinds = (node.get("inputs") or {}).get("types") or ()
    return [
        part.partition(")")[0] for kind in kinds for part in str(kind).split(_TENSOR)[1:] if "nullptr" not in part
    ]  # fmt: skip


def _places(program: Any) -> list[tuple[str, str]]:
    """(overload, the module that calls it) of a captured program's nodes, in their order."""
    if not graph.is_graph(program):
        return []
    found = []
    for node in program.graph.nodes:
        stack = node.meta.get("nn_module_stack") or {}
        if node.op == "call_function" and stack and hasattr(node.target, "name"):
            path = str(list(stack.values())[-1][0])
            if path == "module" or path.startswith("module."):  # the job's own, in what makes it a function of tensors
                found.append((str(node.target.name()), path.partition(".")[2]))
    return found

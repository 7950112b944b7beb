"""Small work on captured graphs: what a node is, what it computes with, and what would be unsafe to move.

A captured program is a graph of ATen operators. A rewrite changes a copy of it and never the program itself.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

#: Nodes that only check what was assumed at capture; the batches are checked against it once.
_CHECKS = (
    "_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range", "sym_constrain_range_for_size",
)  # fmt: skip
#: Operators that draw random numbers whenever they run.
_DRAWS = (
    "bernoulli", "bernoulli_", "rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "randperm",
    "multinomial", "normal", "normal_", "uniform_", "exponential_", "rrelu", "native_dropout", "rrelu_with_noise",
)  # fmt: skip
#: Operators that make a tensor of a type of their own where none is named.
_MAKES = ("zeros", "ones", "full", "empty", "eye", "arange", "linspace", "scalar_tensor")
_DROPOUTS = ("dropout", "dropout_", "feature_dropout", "feature_dropout_", "alpha_dropout", "alpha_dropout_")
_ATTENTION = "scaled_dot_product_attention"


def operator(node: Any) -> str:
    """The name of a node's ATen operator without its overload; empty for anything else."""
    if getattr(node, "op", None) != "call_function":
        return ""
    schema = getattr(node.target, "_schema", None)
    name = schema.name if schema is not None else ""
    return str(name[6:]) if name.startswith("aten::") else ""


def is_graph(program: Any) -> bool:
    """Whether a program can be read and rewritten node by node."""
    import torch

    return isinstance(program, torch.fx.GraphModule)


def graphs(program: Any) -> list[Any]:
    """The program and the graphs within it."""
    return [module for module in program.modules() if is_graph(module)]


def every(graph: Any) -> Iterator[tuple[Any, Any]]:
    """(graph module, node) of a program and of the graphs within it."""
    for module in graphs(graph):
        for node in list(module.graph.nodes):
            yield module, node


def clean(graph: Any) -> Any:
    """The program without the nodes that check what was assumed at capture; they would be timed with it."""
    for module, node in every(graph):
        called = str(node.target) if node.op == "call_module" else operator(node)
        if (called in _CHECKS or called == "_guards_fn") and not node.users:
            module.graph.erase_node(node)
    return recompiled(graph)


def recompiled(graph: Any) -> Any:
    """The program with the code of its graphs as they are now."""
    for module in graphs(graph):
        module.graph.lint()
        module.recompile()
    return graph


def copied(graph: Any) -> Any:
    """A copy with weights of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch copies what it no longer wants to be asked for
        return copy.deepcopy(graph)


def constant(graph: Any, node: Any) -> Any:
    """The tensor that a node stands for; None where it is computed or comes in."""
    if getattr(node, "op", None) != "get_attr":
        return None
    found = graph
    for part in str(node.target).split("."):
        found = getattr(found, part, None)
    return found


def argument(node: Any, place: int, name: str, default: Any = None) -> Any:
    """An argument of a node by its place or its name."""
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def added(graph: Any, before: Any, name: str, tensor: Any) -> Any:
    """A node for a new constant."""
    place = "_lab_" + name.replace(".", "_")
    while hasattr(graph, place):
        place += "_"
    graph.register_buffer(place, tensor)
    with graph.graph.inserting_before(before):
        return graph.graph.get_attr(place)


def shares(graph: Any) -> dict[int, int]:
    """How many uses each storage of the constants has, by its address: tied weights count together."""
    found: dict[int, int] = {}
    for _, node in every(graph):
        tensor = constant(graph, node)
        if hasattr(tensor, "untyped_storage"):
            place = tensor.untyped_storage().data_ptr()
            found[place] = found.get(place, 0) + len(node.users)
    return found


def mutates(node: Any) -> bool:
    """Whether a node writes into one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return bool(node.op == "call_function" and schema is not None and schema.is_mutable)


def written_between(first: Any, last: Any) -> bool:
    """Whether anything is written in place between two nodes of one graph."""
    node = first.next
    while node is not last and node.op != "root":
        if mutates(node):
            return True
        node = node.next
    return False


def draws(graph: Any) -> tuple[int, list[str]]:
    """How many nodes drop out at random, and the other operators that draw random numbers."""
    drops, others = 0, []
    for _, node in every(graph):
        name = operator(node)
        if name in _DROPOUTS:
            drops += bool(argument(node, 2, "train", False) and argument(node, 1, "p", 0.0))
        elif name == _ATTENTION:
            drops += bool(argument(node, 4, "dropout_p", 0.0))
        elif name in _DRAWS:
            others.append(name)
    return drops, others


def without_dropout(graph: Any) -> Any:
    """A copy whose dropouts pass everything, so that two runs of it can be compared."""
    made = copied(graph)
    if not is_graph(made):
        for module in made.modules():
            if "Dropout" in type(module).__name__ and hasattr(module, "p"):
                module.p = 0.0
        return made
    for _, node in every(made):
        if operator(node) in _DROPOUTS:
            node.args, node.kwargs = (node.args[0], argument(node, 1, "p", 0.0), False), {}
        elif operator(node) == _ATTENTION and argument(node, 4, "dropout_p", 0.0):
            if len(node.args) > 4:
                node.args = (*node.args[:4], 0.0, *node.args[5:])
            else:
                node.kwargs = {**node.kwargs, "dropout_p": 0.0}
    return recompiled(made)


def in_type(graph: Any, dtype: Any) -> Any:
    """A copy that computes in another type: its weights, and every type that the graph names."""
    import torch

    floats = {torch.float16, torch.bfloat16, torch.float32, torch.float64}

    def other(value: Any) -> Any:
        return dtype if value in floats else value

    made = copied(graph)
    for _, node in every(made):
        if "autocast" in str(node.target):  # (device, type, enabled, cache, body, ...)
            node.args = (*node.args[:2], False, *node.args[3:])
        elif node.op == "call_function":
            node.args = tuple(other(value) if isinstance(value, torch.dtype) else value for value in node.args)
            node.kwargs = {
                name: other(value) if isinstance(value, torch.dtype) else value for name, value in node.kwargs.items()
            }
            plain = getattr(node.meta.get("val"), "dtype", None) in floats and node.kwargs.get("dtype") is None
            if operator(node) in _MAKES and plain:
                node.kwargs = {**node.kwargs, "dtype": dtype}
    made = recompiled(made)
    for module in made.modules():  # constants that are neither parameters nor buffers
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(module, name, value.to(dtype))
    return made.to(dtype)


def cast(batch: Any, dtype: Any) -> tuple[Any, ...]:
    """A batch whose floating-point tensors have another type."""
    return tuple(each.to(dtype) if each.is_floating_point() else each for each in batch)


def on_device(graph: Any, device: str) -> Any:
    """The program with every device that it names replaced."""
    import torch

    for _, node in every(graph):
        node.args = tuple(torch.device(device) if isinstance(each, torch.device) else each for each in node.args)
        node.kwargs = {
            name: torch.device(device) if isinstance(each, torch.device) else each for name, each in node.kwargs.items()
        }
    return recompiled(graph)

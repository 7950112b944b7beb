"""What every supported release of torch_npu offers to a caller, read in its wheels without running them.

    python -m tests.npu.facts torch_npu-*.whl > tests/npu/facts.json

Names and arguments come from the Python sources (ast), the operators' schemas from the strings of the library. A fact
is the number of the first release that has it; the numbers of all that do, where later ones lack it: what is added to
2.7 after 2.12 came out is not in 2.12.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

MODULES = {
    "torch_npu/profiler/__init__.py": "torch_npu.profiler",
    "torch_npu/profiler/profiler.py": "torch_npu.profiler.profiler",
    "torch_npu/npu/__init__.py": "torch.npu",
    "torch_npu/npu/utils.py": "torch.npu.utils",
    "torch_npu/optim/__init__.py": "torch_npu.optim",
}
#: Modules of which a caller needs one function only.
CALLED = {"torch_npu.profiler.profiler": ["analyse"], "torch.npu.utils": ["get_cann_version"]}
#: Whose members a caller names.
OPENED = {
    "profile", "ProfilerLevel", "AiCMetrics", "ExportType", "HostSystem", "Event", "Stream", "mstx", "NPUGraph",
}  # fmt: skip
#: Operators that a workload may call by name.
OPERATORS = (
    "npu_fusion_attention", "npu_prompt_flash_attention", "npu_incre_flash_attention",
    "npu_fused_infer_attention_score", "npu_add_layer_norm", "npu_layer_norm_eval", "npu_ffn", "npu_gelu",
    "npu_fast_gelu", "npu_linear", "npu_lstm", "npu_mla_prolog_v2", "npu_mla_prolog_v3", "npu_rms_norm", "npu_swiglu",
)  # fmt: skip
#: torch_npu adds it to torch's own class by this call.
ALIAS = "setattr(ProfilerActivity"
Definition = ast.FunctionDef | ast.ClassDef


class Wheel:
    """One release."""

    def __init__(self, path: Path) -> None:
        self.version = path.name.split("-")[1]
        self._zip = zipfile.ZipFile(path)
        self._names = set(self._zip.namelist())
        self._parsed: dict[str, list[ast.stmt]] = {}

    def facts(self) -> Iterator[str]:
        """Everything that this release has: dotted names, and arguments in brackets."""
        for path, name in MODULES.items():
            if path in self._names:
                yield from self._module(path, name)
        if any(ALIAS in self._text(name) for name in self._names if re.match(r"torch_npu/_init/.*\.py", name)):
            yield "torch.profiler.ProfilerActivity.NPU"
        library = self._zip.read("torch_npu/lib/libtorch_npu.so")
        for operator in OPERATORS:
            if schema := re.search(rf"\x00(?:npu::)?{operator}\(([^\x00]*?)\) -> ".encode(), library):
                yield f"torch_npu.{operator}"
                for at, argument in enumerate(re.findall(r" (\w+)(?:=|,|$)", schema[1].decode().replace(", *", ""))):
                    yield f"torch_npu.{operator}({at:02d} {argument})"

    def _text(self, path: str) -> str:
        return self._zip.read(path).decode()

    def _body(self, path: str) -> list[ast.stmt]:
        if path not in self._parsed:
            self._parsed[path] = ast.parse(self._text(path)).body
        return self._parsed[path]

    def _module(self, path: str, name: str) -> Iterator[str]:
        body = self._body(path)
        public = next((list(ast.literal_eval(node.value)) for node in body if isinstance(node, ast.Assign)
                       and getattr(node.targets[0], "id", "") == "__all__"), [])  # fmt: skip
        public = CALLED.get(name, public)
        for each in public:
            if not re.search(r"(Tensor|Storage)$", each):
                yield f"{name}.{each}"
                found = self._definition(path, each)
                if found is not None:
                    yield from self._described(*found, f"{name}.{each}")

    def _definition(self, path: str, name: str) -> tuple[str, Definition] | None:
        """Where a name comes from, through the imports of the package."""
        for node in self._body(path):
            if isinstance(node, Definition) and node.name == name:
                return path, node
            if isinstance(node, ast.ImportFrom) and node.level:
                for alias in node.names:
                    if alias.name == "*" or (alias.asname or alias.name) == name:
                        target = (Path(path).parents[node.level - 1] / (node.module or "").replace(".", "/")).as_posix()
                        wanted = name if alias.name == "*" else alias.name
                        for file in {f"{target}.py", f"{target}/__init__.py"} & self._names:
                            if found := self._definition(file, wanted):
                                return found
        return None

    def _described(self, path: str, node: Definition, name: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef):
            yield from _arguments(node, name, bound=False)
            return
        members = self._members(path, node)
        for maker in ("__new__", "__init__"):
            if maker in members:
                yield from _arguments(members[maker], name, bound=True)
        if node.name in OPENED:
            for member, found in members.items():
                if not member.startswith("_"):
                    yield f"{name}.{member}"
                    if isinstance(found, ast.FunctionDef):
                        static = any(getattr(each, "id", "") == "staticmethod" for each in found.decorator_list)
                        yield from _arguments(found, f"{name}.{member}", bound=not static)

    def _members(self, path: str, node: ast.ClassDef) -> dict[str, ast.stmt]:
        members: dict[str, ast.stmt] = {}
        for base in node.bases:
            found = self._definition(path, getattr(base, "id", ""))
            if found is not None and isinstance(found[1], ast.ClassDef):
                members |= self._members(found[0], found[1])
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                members[each.name] = each
            elif isinstance(each, ast.Assign):
                members |= {target.id: each for target in each.targets if isinstance(target, ast.Name)}
        return members


def _arguments(node: ast.stmt, name: str, bound: bool) -> Iterator[str]:
    """By place, then those that must be named."""
    assert isinstance(node, ast.FunctionDef)
    placed = [each.arg for each in [*node.args.posonlyargs, *node.args.args]][1 if bound else 0 :]
    for at, argument in enumerate(placed):
        yield f"{name}({at:02d} {argument})"
    for each in node.args.kwonlyargs:
        yield f"{name}(-- {each.arg})"


def merged(wheels: Sequence[Wheel]) -> dict[str, object]:
    """The facts of all releases, oldest first."""
    wheels = sorted(wheels, key=lambda wheel: [int(part) for part in re.findall(r"\d+", wheel.version)])
    having: dict[str, list[int]] = {}
    for number, wheel in enumerate(wheels):
        for fact in wheel.facts():
            having.setdefault(fact, []).append(number)
    tree: dict[str, dict[str, int | list[int]]] = {}
    for fact, numbers in having.items():
        spoken = numbers[0] if numbers == list(range(numbers[0], len(wheels))) else numbers
        owner, _, member = fact.partition("(")
        if member:
            tree.setdefault(f"{owner}()", {})[member.removesuffix(")")] = spoken
        else:
            scope, _, last = owner.rpartition(".")
            tree.setdefault(scope, {})[last] = spoken
    return {
        "source": "the x86_64 wheels of torch-npu on PyPI, read by tests/npu/facts.py",
        "releases": [wheel.version for wheel in wheels],
        "has": tree,
    }


if __name__ == "__main__":
    found = merged([Wheel(Path(path)) for path in sys.argv[1:]])
    text = json.dumps(found, indent=1)
    print(re.sub(r"(?<=\{)\s+([^{}]+?)\s+(?=\})", lambda inner: re.sub(r"\s+", " ", inner[1]), text))

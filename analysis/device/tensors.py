"""Shapes and types as profilers print them, turned into bytes.

torch_npu prints `32,3,224,224;64` and `FLOAT;DT_BF16`; Kineto prints JSON, `[[32, 3], []]` and
`["c10::BFloat16", "Scalar"]`. A tensor of unknown type makes the whole unknown: never guessed.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from math import prod

#: Bytes of one element, by the type's name without prefix, in capitals.
SIZES = {
    "DOUBLE": 8, "FLOAT64": 8, "INT64": 8, "UINT64": 8, "LONG": 8, "LONG INT": 8, "COMPLEX64": 8, "COMPLEX128": 16,
    "FLOAT": 4, "FLOAT32": 4, "INT32": 4, "UINT32": 4, "INT": 4, "HIFLOAT8": 1,
    "FLOAT16": 2, "HALF": 2, "BF16": 2, "BFLOAT16": 2, "INT16": 2, "UINT16": 2, "SHORT": 2,
    "INT8": 1, "UINT8": 1, "BOOL": 1, "BYTE": 1, "CHAR": 1, "UNSIGNED CHAR": 1, "SIGNED CHAR": 1,
    "FLOAT8_E4M3FN": 1, "FLOAT8_E5M2": 1, "UINT1": 1,
}  # fmt: skip
_WHOLE = {int, bool}
#: What Kineto lists among the inputs and is no tensor.
NO_TENSOR = {"", "SCALAR", "SCALARLIST", "NONE", "GENERICLIST", "DEVICE"}


#: On Windows torch prints the compiler's own name.
_COMPILER = {"__INT64": "LONG INT"}


@lru_cache(maxsize=4096)
def dtype(name: str) -> str:
    """A type's name without what its printer puts around it: DT_BF16 and c10::BFloat16 are BF16 and BFLOAT16."""
    bare = re.sub(r"^((STRUCT|CLASS) )?(DT_|C10::|TORCH\.)?", "", name.strip().upper())
    return _COMPILER.get(bare, bare)


@lru_cache(maxsize=65536)
def tensors(shapes: str | None, dtypes: str | None) -> tuple[tuple[str, int], ...] | None:
    """(shape, bytes) of each tensor; None where one cannot be told."""
    if shapes is None or dtypes is None:
        return None
    json_like = shapes.startswith("[")
    found = _of_json(shapes, dtypes) if json_like else _of_text(shapes, dtypes)
    if found is None:
        return None
    sized = []
    for dims, kind in found:
        name = dtype(kind)
        if json_like and name in NO_TENSOR:
            continue
        if name not in SIZES:
            return None
        sized.append((",".join(map(str, dims)), prod(dims) * SIZES[name]))
    return tuple(sized)


#: Matrix products of torch, and which of their tensors is the left operand; the right one follows it.
PRODUCTS = {"mm": 0, "bmm": 0, "matmul": 0, "linear": 0, "addmm": 1, "baddbmm": 1}
#: Of this one the right operand lies transposed.
TURNED = "linear"


def product(type_: str, given: tuple[tuple[str, int], ...]) -> tuple[str, int] | None:
    """What a matrix product makes of its inputs; None where they do not fit each other."""
    at = PRODUCTS.get(type_)
    if at is None or len(given) < at + 2:
        return None
    (left, size), (right, _) = given[at : at + 2]
    rows, columns = ([int(side) for side in shape.split(",") if side] for shape in (left, right))
    if len(rows) < 2 or len(columns) < 2 or not prod(rows) or not prod(columns):
        return None
    inner, wide = reversed(columns[-2:]) if type_ == TURNED else columns[-2:]
    if inner != rows[-1]:
        return None
    batch = max(rows[:-2], columns[:-2], key=prod)
    made = [*batch, rows[-2], wide]
    return ",".join(map(str, made)), prod(made) * (size // prod(rows))


def largest(shapes: str | None, dtypes: str | None) -> str | None:
    """The type of the tensor with most values; None where there is none, or not told."""
    if shapes is None or dtypes is None:
        return None
    found = (_of_json if shapes.startswith("[") else _of_text)(shapes, dtypes) or []
    sized = [(prod(dims), dtype(kind)) for dims, kind in found if dtype(kind) in SIZES]
    return max(sized)[1] if sized else None


def spoken(shapes: str | None) -> str | None:
    """Shapes for a sentence, one way for every profiler: `32,3,224,224;64`; what has no sides is left out."""
    if shapes is None or not shapes.startswith("["):
        return shapes
    try:
        found = json.loads(shapes)
    except ValueError:
        return shapes
    return ";".join(",".join(map(str, one)) for one in found if isinstance(one, list) and one) or None


def _of_text(shapes: str, dtypes: str) -> list[tuple[list[int], str]] | None:
    dims, kinds = shapes.strip('"').split(";"), dtypes.strip('"').split(";")
    if len(dims) != len(kinds):
        return None
    try:
        pairs = [
            ([int(side) for side in one.split(",") if side.strip()], kind)
            for one, kind in zip(dims, kinds, strict=True)
        ]
    except ValueError:
        return None
    # An input left out has neither shape nor type.
    return None if any(min(one, default=0) < 0 for one, _ in pairs) else [p for p in pairs if p[0] or p[1].strip()]


@lru_cache(maxsize=4096)
def listed(text: str) -> object:
    """What JSON says, a list as a tuple: types repeat where shapes do not."""
    found = json.loads(text)
    return tuple(found) if isinstance(found, list) else found


def _of_json(shapes: str, dtypes: str) -> list[tuple[list[int], str]] | None:
    try:
        dims, kinds = json.loads(shapes), listed(dtypes)
    except ValueError:
        return None
    if not isinstance(dims, list) or not isinstance(kinds, tuple) or len(dims) != len(kinds):
        return None
    pairs: list[tuple[list[int], str]] = []
    for one, kind in zip(dims, kinds, strict=True):
        if not isinstance(one, list) or not isinstance(kind, str):
            return None
        if not _WHOLE.issuperset(map(type, one)) or min(one, default=0) < 0:
            return None
        pairs.append((one, kind))
    return pairs

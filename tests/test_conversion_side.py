"""A conversion within a call of CANN: of its input or of its result, told by order, shapes and types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npulens.analysis.device.kernels import identity, kernels
from npulens.analysis.engine import check
from npulens.analysis.run import Run
from npulens.analysis.views import install
from tests.tablecase import connection

Kernel = dict[str, Any]


def kernel(op_type: str, given: str | None = None, made: str | None = None, call: str = "aclnnFoo") -> Kernel:
    """Shapes and types as `8x8 FLOAT` on both sides; without any, nothing of either was recorded."""
    told: dict[str, Any] = {"op_type": op_type, "core": "AI_VECTOR_CORE"}
    for side, text in (("input", given), ("output", made)):
        if text is not None:
            shape, kind = text.split()
            told |= {f"{side}_shapes": shape.replace("x", ","), f"{side}_dtypes": kind}
    return {"name": f"{call}_{op_type}Core_{op_type}", "kernel": told}


def draw(made: str | None = "8x8 FLOAT") -> Kernel:
    return kernel("DSARandomNormal", None, made)


def cast(given: str | None = "8x8 FLOAT", made: str | None = "8x8 FLOAT16", call: str = "aclnnFoo") -> Kernel:
    return kernel("Cast", given, made, call)


def work(given: str | None, made: str | None) -> Kernel:
    return kernel("Foo", given, made)


def spans(*made: Kernel) -> list[dict[str, Any]]:
    return [{"id": at + 1, "kind": "kernel", "at": 100 * at, "for": 100, **one} for at, one in enumerate(made)]


def advice(*made: Kernel) -> str:
    con = connection({"spans": spans(*made)})
    install(con)
    (found,) = [one for one in check(con).findings if one.cause == "layout_conversion"]
    return found.words["en"].advice


OF_THE_RESULT = (
    "It converts what {} computed. aclnnFoo converts its own result: take it in the order and type that is computed, "
    "or make it once outside the loop."
)
OF_AN_INPUT = "aclnnFoo converts by itself: give it its inputs"
IN, OUT, OTHER = "8x8 FLOAT16", "8x8 FLOAT", "4x8 FLOAT"


@pytest.mark.parametrize(
    ("made", "producer"),
    [
        ([draw(), cast(), draw(), cast()], "DSARandomNormal"),  # a generator has no inputs
        ([draw(None), cast(None, None)], "DSARandomNormal"),  # nothing of shapes: the first computes
        ([work(OUT, OUT), cast(OUT, IN), work(OUT, OUT), cast(OUT, IN)], "Foo"),  # the next takes another type
        ([cast(OUT, IN), work(IN, OTHER), cast(OUT, IN), work(IN, OTHER)], None),  # what is before made another shape
        ([cast(OUT, IN), work(IN, OUT), cast(OUT, IN), work(IN, OUT)], None),  # both fit: the first converts
        ([cast(None, None), work(None, None), cast(None, None), work(None, None)], None),
        ([work(None, None), cast(None, None), work(None, None), cast(None, None)], "Foo"),
        ([kernel("Bar", OUT, OUT, "aclnnBar"), cast(OUT, IN), work(IN, OUT)], None),  # another call is before
        ([cast(OUT, IN), work(IN, OUT), kernel("Bar", OUT, OUT, "aclnnBar")], None),
    ],
)
def test_on_which_side_of_its_call_a_conversion_is(made: list[Kernel], producer: str | None) -> None:
    found = advice(*made)
    if producer is None:
        assert OF_AN_INPUT in found and "It converts what" not in found
    else:
        assert found.startswith(OF_THE_RESULT.format(producer)) and "The next kernel" not in found


def test_a_cast_of_the_program_s_own_is_advised_as_before() -> None:
    found = advice(kernel("Add", OUT, OUT, "aclnnAdd"), cast(OUT, IN, "aclnnCast"), work(IN, OUT))
    assert found.startswith("The next kernel is Foo. Keep the tensor in the type it is used in")


def test_kernels_without_inputs_do_the_same_work_where_their_outputs_are_alike() -> None:
    """Without steps nothing but shapes tells: two of 8,8, one of 4, and one of which nothing is known."""
    con = connection({"spans": spans(draw(), draw("4 FLOAT"), draw(), draw(None))})
    run = Run(con)
    same = run.get(identity)[np.argsort(run.get(kernels).ts)].tolist()
    assert same[0] == same[2] != same[1] and same[3] == -1 and -1 not in same[:3]

"""The work of a call: operations of the matrix and the vector units, and the bytes that memory must move at least.

`families.toml` says which model a name has and what its arguments are called. A model reads the arguments and answers
with whole numbers. Least bytes are every input read once and every output written once. What a call does not tell is
None, with the reason; a model never guesses.
"""

from __future__ import annotations

from npulens.analysis.work import products, values
from npulens.analysis.work.call import Call, Unmodelled
from npulens.analysis.work.families import Work, spec_of

MODELS = {**products.MODELS, **values.MODELS}
#: Models that only say why nothing is known: from what a call does not tell.
UNKNOWN = {"lengths_unknown": "lengths", "data_unknown": "data", "collective": "links"}
#: How often a ring of ranks sends what each of them holds, but for the part of the rank itself.
_RING = {"allreduce": 2, "allgather": 1, "reducescatter": 1, "alltoall": 1}
_WHOLE = ("broadcast", "reduce", "send", "receive", "scatter", "gather")


def work(call: Call) -> Work:
    """What the call has to do."""
    spec = spec_of(call.name)
    if spec is None:
        return Work("unknown", None, None, None, reason="not_known")
    if spec.model in UNKNOWN:
        return Work(spec.family, None, None, None, reason=UNKNOWN[spec.model])
    try:
        return MODELS[spec.model](Call(call.name, call.inputs, call.values, call.outputs, spec.args), spec)
    except Unmodelled as refused:
        return Work(spec.family, None, None, None, reason=refused.reason)


def link_bytes(collective: str, size: int, ranks: int) -> int | None:
    """What each rank sends at least where a ring of ranks carries it out; None for a collective that is not known.

    `size` is what a rank holds afterwards where the collective gathers, and before it otherwise.
    """
    if ranks < 2:
        return 0
    if collective in _RING:
        return -(-_RING[collective] * size * (ranks - 1) // ranks)
    return size if collective in _WHOLE else None

"""What a request may take to be good: objectives, as they are written and read."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_PIECE = re.compile(r"(ttft|tpot)=(\d{1,9}(?:\.\d{1,6})?)", re.ASCII)
#: How objectives are written.
FORM = "ttft=MS,tpot=MS"


@dataclass(frozen=True)
class Slo:
    """What a request may take to be good."""

    ttft_ns: int = 200_000_000
    tpot_ns: int = 25_000_000


USUAL = Slo()


def objectives(written: str) -> Slo:
    """``ttft=200,tpot=25`` in ms; what is not named is as usual. A ValueError where it is written otherwise."""
    found = USUAL
    for piece in written.split(","):
        match = _PIECE.fullmatch(piece.strip())
        if match is None:
            raise ValueError(f"{written!r} is no list of objectives: {FORM}")
        found = replace(found, **{f"{match[1]}_ns": round(float(match[2]) * 1e6)})
    return found

"""What one step measured, whatever it was that measured it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import msgspec

from npulens.ingest.messages import restored

#: In the environment of a job: the file it may write its numbers to.
RESULT = "NPULENS_RESULT"
#: The directory it may leave a capture in.
CAPTURE = "NPULENS_CAPTURE"
_MOST_BYTES = 10_000_000


class Value(msgspec.Struct, frozen=True):
    """A number with its unit, and which way is good."""

    value: float
    unit: str = ""
    better: Literal["lower", "higher"] = "lower"
    error: float | None = None  # its standard error within the session, as a share of it
    share: float | None = None  # of the step, where it is a part of one


class Result(msgspec.Struct, frozen=True):
    """The numbers of one session, what they were measured on, and under which conditions."""

    metrics: dict[str, Value]
    hardware: str = ""
    host: str = ""
    shapes: str = ""
    configuration: str = ""
    covariates: dict[str, str] = {}
    run_id: str | None = None
    usable: bool = True  # False: shown, and never part of a baseline
    reason: str = ""
    said: str | None = None  # the same as a message, where it is one: messages.stored

    @property
    def why(self) -> str | None:
        """The reason, as a message where it is one."""
        return restored(self.reason, self.said)


def parse(text: bytes | str) -> Result:
    """A result as a job writes it; a sentence where it is none."""
    if len(text) > _MOST_BYTES:
        raise ValueError(f"the result has more than {_MOST_BYTES:,} bytes")
    try:
        found = msgspec.json.decode(text, type=Result)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"the result is not as it should be: {error}") from error
    if not found.metrics:
        raise ValueError("the result holds no metric")
    for name, value in found.metrics.items():
        if not math.isfinite(value.value) or not name.strip():
            raise ValueError(f"{name or 'a metric without a name'}: {value.value} is no measurement")
    return found


def written(path: Path) -> Result:
    """The result in a file."""
    try:
        with path.open("rb") as stream:
            return parse(stream.read(_MOST_BYTES + 1))
    except OSError as error:
        raise ValueError(f"the job wrote no result to ${RESULT}: {error.strerror}") from error


def as_fact(result: Result) -> dict[str, Any]:
    """A result as the journal keeps it."""
    kept: dict[str, Any] = msgspec.to_builtins(result)
    return kept


def from_fact(fact: dict[str, Any]) -> Result:
    """The result that the journal kept."""
    return msgspec.convert(fact, Result)

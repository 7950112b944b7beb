"""Who asks over HTTP. A token names somebody, the runs that they may see, and its end; it is signed by the store."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from npulens.app.intake import signed_tokens
from npulens.app.intake.signed_tokens import Refused

KIND = "agent"
MAX_HOURS = 24 * 366


@dataclass(frozen=True)
class Who:
    """Somebody who asks. Without ``runs`` they see every run of the store."""

    name: str
    runs: tuple[str, ...] | None = None

    def sees(self, run_id: str) -> bool:
        return self.runs is None or run_id in self.runs


#: Whoever starts the server on this machine can read the store's files anyway.
HERE = Who("this machine")


def mint(store: Path, who: Who, hours: float) -> str:
    """A token; nothing is written but the store's secret."""
    until = round(time.time() + hours * 3600)
    runs = None if who.runs is None else list(who.runs)
    return signed_tokens.signer(store, KIND).dumps([who.name, runs, until])


def asking(store: Path, token: str) -> Who | None:
    """Whom a token names; None where this store never signed it, or it has ended."""
    try:
        said = signed_tokens.loads(store, KIND, token)
    except Refused:
        return None
    if not isinstance(said, list) or len(said) != 3 or time.time() > said[2]:
        return None
    name, runs, _ = said
    return Who(str(name), None if runs is None else tuple(runs))

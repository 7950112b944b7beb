"""What the word of a challenge decides: seeds, lengths of sleeps, sizes of copies.

Whoever asks for evidence may name the word. Nobody can then have made the archive beforehand: each of these numbers is
a part of a SHA-256 digest of the word and of what the number is for. Needs no torch.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Any

from npulens.collectors.settings import Settings

#: What a recording with a planted fault records.
SETTINGS = Settings(wait=1, warmup=1, active=6)
_WORD = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MS = 1_000_000
#: Sleeps long enough to stand out on a busy machine, and far longer than a timer is late.
_LOADER_NS, _LATE_NS = (15 * _MS, 45 * _MS), (8 * _MS, 25 * _MS)
#: float32 numbers of a copy and of an all-reduce.
_COPIED, _REDUCED = (1 << 18, 1 << 20), (1 << 16, 1 << 18)
_COPIES, _REDUCES = 3, 2


def word(given: str | None) -> str:
    """The word, or one drawn by chance."""
    if given is None:
        return secrets.token_hex(8)
    if not _WORD.fullmatch(given):
        raise ValueError("a challenge is a word of up to 64 letters, digits, dots, dashes and underscores")
    return given


def number(challenge: str, what: str, low: int, high: int) -> int:
    """A number from low to high, both included."""
    digest = hashlib.sha256(f"npulens evidence\n{challenge}\n{what}".encode()).digest()
    return low + int.from_bytes(digest[:8], "big") % (high - low + 1)


def plan(challenge: str) -> dict[str, Any]:
    """Every number that the challenge decides. Lists have an entry for every step, recorded or not."""
    steps = range(SETTINGS.steps)
    return {
        "seed": number(challenge, "seed", 0, (1 << 31) - 1),
        "loader_ns": [number(challenge, f"loader {step}", *_LOADER_NS) for step in steps],
        "late_ns": [number(challenge, f"late {step}", *_LATE_NS) for step in steps],
        "copied_bytes": [
            [4 * number(challenge, f"copy {step} {each}", *_COPIED) for each in range(_COPIES)] for step in steps
        ],
        "reduced_bytes": [
            [4 * number(challenge, f"reduce {step} {each}", *_REDUCED) for each in range(_REDUCES)] for step in steps
        ],
    }

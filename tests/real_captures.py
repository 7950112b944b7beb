"""Real captures, each loaded once for all tests that only read it, whichever process asks first."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
from pathlib import Path

from npulens import ingest
from tests.conftest import LOADED


def loaded(capture: Path) -> tuple[Path, ingest.LoadReport]:
    """The store of a capture, to read only, and what its load said."""
    place = Path(os.environ[LOADED]) / hashlib.sha256(str(capture).encode()).hexdigest()[:16]
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = place / "report"
        if not kept.exists():
            report = ingest.load(capture, place / "store")
            kept.write_bytes(pickle.dumps(report))
        found: ingest.LoadReport = pickle.loads(kept.read_bytes())
    return place / "store", found

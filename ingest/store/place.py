"""Where the store lies by default."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def default_dir() -> Path:
    """NPULENS_STORE, else the platform's data directory."""
    named = os.environ.get("NPULENS_STORE")
    return Path(named) if named else platformdirs.user_data_path("npulens") / "store"

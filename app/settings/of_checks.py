"""The limits, detectors and objectives that hold here: those of npulens.toml, or the usual ones."""

from __future__ import annotations

from pathlib import Path

from npulens.analysis.settings import DEFAULT, FILE, Settings, read_settings
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import verbatim


def in_force(path: Path | None) -> Settings:
    """The settings in a file; without one, those of npulens.toml in the working directory. A mistake is one line."""
    if path is None and not Path(FILE).is_file():
        return DEFAULT
    try:
        return read_settings(path or Path(FILE))
    except ValueError as error:
        raise IngestError("settings", verbatim(error)) from error

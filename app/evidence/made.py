"""`npulens evidence run`: the collectors' parts, and one archive of what they left."""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from npulens.app.evidence.opened import MANIFEST, VERSION
from npulens.app.evidence.packing import pack_evidence
from npulens.app.run_collectors import ask
from npulens.ingest.errors import IngestError, no_room
from npulens.ingest.messages import Message


def made(output: Path, arguments: list[str], python: Path | None, redact: bool) -> dict[str, Any]:
    """Runs the parts; what to answer."""
    try:
        return _made(output, arguments, python, redact)
    except OSError as error:
        raise no_room(error) or IngestError(
            "system", Message("system_refused", {"error": error.strerror or error})
        ) from error


def _made(output: Path, arguments: list[str], python: Path | None, redact: bool) -> dict[str, Any]:
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="npulens-") as scratch:
        place = Path(scratch) / "evidence"
        told = ask(["evidence", "-o", str(place), *arguments], python=python)["manifest"]
        whole = {"evidence": VERSION, "npulens": version("npulens"), **told}
        archive = pack_evidence(place, whole, output, redact, MANIFEST)
    keys = ("backend", "device", "challenge", "parts", "recordings")
    return {
        "status": "made",
        "archive": str(archive),
        "bytes": archive.stat().st_size,
        **{key: told[key] for key in keys},
    }

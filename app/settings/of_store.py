"""[store] of npulens.toml: where the store lies and what loads may use, for whoever works in a project's directory.

    [store]
    dir = "../runs"      # or s3://bucket/prefix
    raw = "20G"          # what kept captures may take, or "off"
    max_disk = "100G"    # of one load
    max_time = "2h"

It stands in for the environment: an option of a command comes first, then the environment, then this.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.loading.quota import parse_bytes, parse_seconds
from npulens.ingest.messages import Message, verbatim

FILE = "npulens.toml"
_VARIABLES = {
    "dir": "NPULENS_STORE", "raw": "NPULENS_RAW", "max_disk": "NPULENS_MAX_DISK", "max_time": "NPULENS_MAX_TIME",
}  # fmt: skip
_OFF = "off"  # of raw


def apply() -> None:
    """Hands what the file here says to this process and to those that it starts."""
    file = Path(FILE)
    if not file.is_file():
        return
    for key, value in _read(file).items():
        os.environ.setdefault(_VARIABLES[key], value)


def _read(file: Path) -> dict[str, str]:
    """The section's values as the variables hold them; a mistake is one sentence that names its key."""
    try:
        said = tomllib.loads(file.read_text("utf-8")).get("store", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise IngestError("settings", verbatim(f"{file}: {error}")) from error
    if not isinstance(said, dict) or said.keys() - _VARIABLES or not all(isinstance(v, str) for v in said.values()):
        raise IngestError("settings", Message("store_section_holds", {"file": file, "known": ", ".join(_VARIABLES)}))
    try:
        for key, parse in (("raw", parse_bytes), ("max_disk", parse_bytes), ("max_time", parse_seconds)):
            if key in said and (key, said[key].lower()) != ("raw", _OFF):
                parse(said[key])
    except IngestError as error:
        why = {"file": file, "key": key, "why": error.message}
        raise IngestError("settings", Message("store_key_is_wrong", why)) from error
    if "dir" in said and "://" not in said["dir"]:
        said["dir"] = str(file.absolute().parent / Path(said["dir"]).expanduser())
    return said

"""Where the store lies: a directory, or a bucket with the directory that stands for it here."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import platformdirs

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

#: In the directory that stands for a bucket: its address.
BUCKET = ".bucket"


def default_dir() -> Path:
    """NPULENS_STORE, else the platform's data directory."""
    named = os.environ.get("NPULENS_STORE")
    return located(named) if named else platformdirs.user_data_path("npulens") / "store"


def located(name: str | Path) -> Path:
    """The directory of a store; of s3://bucket/prefix the one below NPULENS_CACHE that stands for it."""
    if not str(name).isprintable():  # DuckDB takes UTF-8 only, and a line break in a path breaks every list
        raise IngestError("store", Message("store_path_is_no_text"), repr(str(name)))
    bucket = re.fullmatch(r"(\w+):/{1,2}(.+)", str(name))  # a Path has lost one of the strokes
    if bucket is None:
        return Path(name)
    if bucket[1] != "s3":
        raise IngestError("store", Message("store_is_a_directory_or_s3"), str(name))
    address = f"s3://{bucket[2].strip('/')}"
    cache = os.environ.get("NPULENS_CACHE") or platformdirs.user_cache_path("npulens")
    here = Path(cache) / "buckets" / hashlib.blake2s(address.encode(), digest_size=8).hexdigest()
    try:
        here.mkdir(parents=True, exist_ok=True)
        if not (here / BUCKET).is_file():
            (here / BUCKET).write_text(address + "\n", "utf-8")
    except OSError as error:
        raise IngestError("store", Message("cannot_make_store", {"error": error.strerror}), str(here)) from error
    return here

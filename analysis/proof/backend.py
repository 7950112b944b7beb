"""What a capture is of, as its own content shows, and what everybody says it is."""

from __future__ import annotations

from collections.abc import Collection

import duckdb

from npulens.analysis.proof.verdict import Verdict, absent, judged

_MOST = 80
#: torch calls a ROCm device what it calls a CUDA device.
_ALSO = {"rocm": "cuda"}


def as_said(con: duckdb.DuckDBPyConnection, about: str, said: Collection[str], part: str) -> Verdict:
    """The device of every rank against the words of the manifest and of those who recorded.

    Of the recordings of all settings one may have left the device out: that is a setting.
    """
    if part == "settings" and not con.execute("SELECT count(*) FROM kernel").fetchall()[0][0]:
        return absent("backend", about, "backend_untold")
    held = sorted({_ALSO.get(str(name), str(name)) for (name,) in con.execute("SELECT backend FROM rank").fetchall()})
    seen = {"held": ", ".join(held), "said": ", ".join(sorted(set(said)))[:_MOST]}
    return judged("backend", about, held != sorted(set(said)), "backend", seen)

"""What the server does after the first page has been drawn, while nobody waits: once, or once a minute.

Streamlit collects garbage after every script and walks through every object of every module each time. That is 0.1 s in
which nobody is served. What a page has imported never goes, so it is taken out of the walk. What only a run on the
screen needs is imported before there is one, and a child waits for the first capture.

It is no part of dashboard.py, which runs anew for every page and knows nothing of the last one.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import sys
import time
from threading import Event, Lock, Thread

from streamlit import runtime

from npulens.app.intake import load_queue
from npulens.ingest.tables.draft import give_back

_ARENA_MAX, _ARENAS = -8, 2  # glibc's number of a setting, and what it is set to
_MMAP_THRESHOLD, _OF_ITS_OWN = -3, 256 << 10
_TRIM_S = 60
_MANY = 50  # modules that came since the last time
_AHEAD = ("plotly.graph_objects", "pyarrow.pandas_compat", "npulens.analysis.detectors",
          "npulens.analysis.replay.whatif", "npulens.analysis.idle.blame")  # fmt: skip
_lock = Lock()
_drawn = Event()
_known = 0


def share_memory() -> None:
    """All threads allocate from two areas of memory. glibc would give eight a core, and none sees what another freed.

    Pages are drawn by threads that come and go, so each area would grow to what its largest page once took. What is
    large has memory of its own, which goes back at once. glibc would call only more and more large, up to 32 MB.
    """
    setting = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc only
    if setting is not None:
        setting(_ARENA_MAX, _ARENAS)
        setting(_MMAP_THRESHOLD, _OF_ITS_OWN)


def settle() -> None:
    """To be called when a page has been drawn: after the first pages it imports, from then on it only takes note."""
    global _known
    if not runtime.exists():  # a page drawn without a server has nobody to spare
        return
    _drawn.set()
    with _lock:
        if len(sys.modules) - _known < _MANY:
            return
        first, _known = not _known, len(sys.modules)
    if first:
        atexit.register(gc.unfreeze)  # or DuckDB takes what stays for leaks, and says so at the end
        Thread(target=_ahead, name="ahead", daemon=True).start()
        Thread(target=_trim, name="trim", daemon=True).start()
    else:
        _freeze()


def _ahead() -> None:
    global _known
    for name in _AHEAD:
        importlib.import_module(name)
    _known = len(sys.modules)
    _freeze()
    load_queue.ready()


def _trim() -> None:
    """Once a minute in which pages were drawn, what lies free between objects goes back to the system."""
    while True:
        _drawn.wait()
        time.sleep(_TRIM_S)
        _drawn.clear()
        give_back()


def _freeze() -> None:
    gc.collect()
    gc.freeze()

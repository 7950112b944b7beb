"""A watched folder: every capture that appears in it is loaded once it has stopped growing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from npulens import ingest
from npulens.app.console import json_option, store_option
from npulens.ingest.errors import IngestError
from npulens.ingest.loading import settled
from npulens.ingest.store import notes
from npulens.ingest.store import runs as stores

#: Failures of the machine rather than of the file: tried again at the next start, not forgotten.
_PASSING = ("crashed", "system", "store", "defect")


@dataclass
class WatchedFolder:
    """The state of the folder's entries. The store remembers which were loaded."""

    folder: Path
    store: Path
    settle: float
    _seen: dict[str, tuple[str | None, float]] = field(default_factory=dict)
    _tried: dict[str, str] = field(default_factory=dict)

    def pending(self) -> bool:
        """Whether anything is still growing or waits to settle."""
        return bool(self._seen)

    def turn(self) -> Iterator[dict[str, object]]:
        """One look at every entry; one answer for each that was tried."""
        here = {str(entry.resolve()): entry for entry in sorted(self.folder.iterdir()) if settled.candidate(entry)}
        self._seen = {path: seen for path, seen in self._seen.items() if path in here}
        for path, entry in here.items():
            now = settled.look(entry).print
            if now is not None and (self._tried.get(path) == now or self._known(path, now)):
                self._tried[path] = now
                self._seen.pop(path, None)
                continue
            before, since = self._seen.get(path, (None, 0.0))
            if now is None or now != before:
                self._seen[path] = (now, time.monotonic())
            elif time.monotonic() - since >= self.settle and not settled.being_written(entry):
                self._seen.pop(path)
                yield from self._load(path, entry, now)

    def _known(self, path: str, now: str) -> bool:
        known = notes.watched(self.store, path)
        return known is not None and known[0] == now

    def _load(self, path: str, entry: Path, seen: str) -> Iterator[dict[str, object]]:
        """Loads an entry; a run of something that changed meanwhile is taken back and waits to settle again."""
        try:
            report = ingest.load(entry, self.store, called=entry.name)
        except IngestError as error:
            self._tried[path] = seen
            yield {"path": path, "status": "failed", "run_id": None, "reason": str(error)}
            return
        fresh = [run.run_id for run in report.runs if run.run_id and run.stored == "new"]
        if settled.look(entry).print != seen:
            for run_id in fresh:
                stores.remove(self.store, run_id)
                stores.set_label(self.store, run_id, "")  # the next may have its name
            self._seen[path] = (None, time.monotonic())
            yield {"path": path, "status": "changed", "run_id": None, "reason": "it changed while it was read"}
            return
        kinds = [str((run.error or {}).get("kind")) for run in report.runs if run.run_id is None]
        if any(kind in _PASSING for kind in kinds):
            self._tried[path] = seen
        else:
            outcome = [run.run_id or run.reason or "" for run in report.runs]
            notes.remember_watched(self.store, path, seen, json.dumps(outcome))
        for run in report.runs:
            status = run.stored if run.run_id else "refused"
            yield {"path": path, "status": status or "", "run_id": run.run_id, "reason": run.reason}


@click.command("watch")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--once", is_flag=True, help="Load what is there and end when nothing is growing any more.")
@click.option("--settle", type=click.FloatRange(0), default=10.0, show_default=True, metavar="S",
              help="Seconds without any change after which a capture counts as whole.")  # fmt: skip
@store_option
@json_option
def command(folder: Path, once: bool, settle: float, store: Path, as_json: bool) -> None:
    """Load every capture that appears in DIR, each file or directory in it being one capture.

    Nothing is loaded that is still being written: an entry has to stay as it is for --settle seconds, must hold no
    file named like a copy under way (hidden, .part, .tmp), and no process of this machine may have it open for
    writing. What was loaded or refused is remembered in the store, so a restart does not try it again; what changes
    is loaded anew. Ends with Ctrl-C.
    """
    watch = WatchedFolder(folder, store, settle)
    if not as_json:
        click.echo(f"watching {folder}; captures are loaded into {store} after {settle:g} s without a change", err=True)
    try:
        while True:
            for said in watch.turn():
                click.echo(json.dumps(said, ensure_ascii=False) if as_json else _line(said))
            if once and not watch.pending():
                return
            time.sleep(min(2.0, max(0.05, settle / 4)))
    except KeyboardInterrupt:
        click.echo("stopped", err=True)


def _line(said: dict[str, object]) -> str:
    """One entry on one line; names in it come from whoever wrote into the folder."""
    texts = {
        "new": "loaded {path}: {run_id}", "exists": "already in the store, {path}: {run_id}",
        "refused": "not loaded, {path}: {reason}", "failed": "loading failed, {path}: {reason}",
        "changed": "waiting again, {path}: {reason}",
    }  # fmt: skip
    line = texts.get(str(said["status"]), "{path}: {status}").format_map(said)
    line += f" (partial: {said['reason']})" if said["run_id"] and said["reason"] else ""
    return "".join(char if char.isprintable() else "\ufffd" for char in line)

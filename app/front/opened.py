"""A run that was opened from Python: what `npulens check`, `breakdown`, `path` and `sql` say, as objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from npulens.analysis.engine import Check, check
from npulens.analysis.split import Row, breakdown
from npulens.analysis.views import install
from npulens.app import docs_of, run_check
from npulens.app.settings.of_checks import in_force
from npulens.app.text import i18n, recording
from npulens.ingest.store import runs
from npulens.ingest.store.place import default_dir, located

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from npulens.analysis.look.path import Path as CriticalPath
    from npulens.app.timeline.notebook import Timeline

FIGURES = ("split", "path")


@dataclass(frozen=True)
class Run:
    """One run. ``connection`` is a DuckDB that reads it and nothing else: functions of analysis take it."""

    info: runs.RunInfo
    connection: duckdb.DuckDBPyConnection
    manifest: Mapping[str, Any]  # as the store holds it
    store: Path

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def check(self, only: Iterable[str] | None = None, settings: Path | None = None) -> Check:
        """What the detectors say; ``only`` names some of them, ``settings`` is an npulens.toml."""
        use = in_force(settings)
        names = [detector.name for detector in run_check.ready(use, only)]
        return check(self.connection, None if only is None else names, use)

    def recording(self, lang: str = "en") -> list[str]:
        """What `npulens collect` noticed while it recorded this run."""
        return list(recording.noticed(self.manifest, lang))

    def split(self) -> list[Row]:
        """The exact split of every rank and step."""
        return breakdown(self.connection)

    def path(self) -> CriticalPath:
        """The critical path."""
        from npulens.analysis.look.path import path

        return path(self.connection)

    def tables(self) -> Mapping[str, str]:
        """Every table and view, and what it holds."""
        return {relation.name: relation.means for relation in docs_of.relations()}

    def sql(self, query: str) -> pd.DataFrame:
        """The answer to one SELECT over the tables."""
        return self.connection.execute(query).df()

    def figure(self, name: str, lang: str = "en") -> go.Figure:
        """A picture of the dashboard as a plotly figure: "split" or "path"."""

        def say(key: str, values: Mapping[str, object]) -> str:
            return i18n.say(lang, key, values)

        if name == "split":
            from npulens.app.charts import breakdown as chart

            return chart.figure(self.split(), say, as_share=False, profiler=True, ink=_INK)
        if name == "path":
            from npulens.app.charts import critical_path

            return critical_path.figure(self.path(), say, _INK)
        raise ValueError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")

    def timeline(self, window: tuple[int, int] | None = None, lang: str = "en", height: int = 520) -> Timeline:
        """The dashboard's timeline as a widget of a notebook; ``window`` is from and to in ns from the run's origin."""
        try:
            from npulens.app.timeline import notebook
        except ModuleNotFoundError as error:
            if error.name not in ("anywidget", "traitlets"):
                raise
            raise ModuleNotFoundError("a timeline in a notebook needs: pip install 'npulens[notebook]'") from error
        return notebook.timeline(self.store, self.info.run_id, window, lang, height)


_INK = "#31333f"  # of text on white


def opened(run: str, store: str | Path | None) -> Run:
    """The run, ready to be asked."""
    place = runs.open_store(default_dir() if store is None else located(store))
    info = runs.resolve(place, run)
    connection = runs.open_run(place, info.run_id)
    install(connection)
    return Run(info, connection, runs.manifest(place, info.run_id), place)

"""What the store's history says of every metric: level, noise, changes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from npulens.analysis.regression.series import Change
from npulens.analysis.say import share
from npulens.app.console import json_option, lang_option, print_json, store_option, table
from npulens.app.histories import Judged, amount, catch_up, judged, percent
from npulens.app.text import i18n, wording
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, render
from npulens.ingest.store import history


@click.command("history")
@click.argument("identity", required=False)
@click.argument("metric", required=False)
@store_option
@json_option
@lang_option
def command(identity: str | None, metric: str | None, store: Path, as_json: bool, lang: str) -> None:
    """What the history says of every metric of every workload; of one IDENTITY; of one METRIC of it, night by night.

    IDENTITY is a key from the list, or the beginning of one. Runs join the history when they are loaded.
    """
    catch_up(store)
    key = None if identity is None else _key(store, identity)
    found = judged(store, key, metric)
    if key is not None and metric is not None and not found:
        text = Message("was_never_measured", {"metric": repr(metric), "known": ", ".join(history.metrics(store, key))})
        raise IngestError("unknown_metric", text)
    if as_json:
        print_json({"series": [row(each, metric is not None) for each in found]})
    elif not found:
        click.echo(i18n.say(lang, "history.empty_cli"))
    elif metric is not None:
        click.echo(_nights(found[0], lang))
    else:
        click.echo(_listed(found, lang))


def _key(store: Path, wanted: str) -> str:
    """The key of an identity from its beginning."""
    matches = [key for key in history.keyed(store) if wanted and key.startswith(wanted)]
    if len(matches) != 1:
        text = Message("identities_begin_with", {"n": len(matches), "wanted": repr(wanted)})
        raise IngestError("unknown_identity", text)
    return matches[0]


def row(each: Judged, with_points: bool = False) -> dict[str, Any]:
    """One series for scripts."""
    said, names = each.verdict, ("workload", "configuration", "shapes", "hardware", "host")
    more = {"series": [_point(each, number) for number in range(len(each.points))]} if with_points else {}
    return {
        "identity": each.identity.key, **dict(zip(names, each.identity.texts, strict=True)), "metric": each.metric,
        "unit": each.unit, "better": each.better, "points": len(each.points), "usable": len(each.used),
        "verdict": said.verdict, "stands": each.stands, "level": said.level, "noise": said.floor,
        "floor": each.floor and each.floor.at_most, "settles_nights": said.settles,
        "changes": [_change(each, number) for number in range(len(said.changes))], **more,
    }  # fmt: skip


def _point(each: Judged, number: int) -> dict[str, Any]:
    point = each.points[number]
    return {"night": point.night, "at_ns": point.at_ns, "value": point.value, "run_id": point.run_id,
            "usable": point.usable, "reason": point.reason, "covariates": dict(point.covariates)}  # fmt: skip


def _change(each: Judged, number: int) -> dict[str, Any]:
    change = each.verdict.changes[number]
    sides = each.sides(number)
    return {
        "night": each.used[change.index].night, "first": each.used[change.first].night,
        "last": each.used[change.last].night, "at_ns": each.used[change.index].at_ns,
        "said": "regressed" if each.worse(change) else "improved",
        **{name: _finite(getattr(change, name)) for name in ("ratio", "low", "high", "p")},
        "compare": None if sides is None else {"base": sides[0], "head": sides[1]},
        "suspects": [{"name": one.name, "before": one.before, "after": one.after, "tells": one.tells,
                      "switches": one.switches} for one in each.suspects(number)],
    }  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _listed(found: list[Judged], lang: str) -> str:
    heads = [i18n.say(lang, f"history.col_{name}") for name in ("identity", "workload", "hardware", "metric", "nights",
                                                                "level", "noise", "verdict", "since")]  # fmt: skip
    rows = [
        [each.identity.key[:8], wording.plain(each.identity.workload or "-"),
         wording.plain(each.identity.hardware or "-"), wording.plain(each.metric), str(len(each.points)),
         amount(each.verdict.level, each.unit),
         "-" if each.verdict.floor is None else share(each.verdict.floor),
         i18n.say(lang, f"history.verdict_{each.verdict.verdict}"), _since(each)]
        for each in found
    ]  # fmt: skip
    return table(heads, rows, left=4)


def _since(each: Judged) -> str:
    """The last change, however long ago."""
    if not each.verdict.changes:
        return ""
    change = each.verdict.changes[-1]
    return f"{percent(change.ratio)}  {each.used[change.index].night}"


def _nights(each: Judged, lang: str) -> str:
    starts: dict[str, Change] = {each.used[change.index].source: change for change in each.verdict.changes}
    rows = [
        [point.night or "", amount(point.value, point.unit),
         percent(starts[point.source].ratio) if point.source in starts and point.usable else "",
         point.run_id or "", "" if point.usable else wording.plain(render(point.reason, lang) or "-")]
        for point in each.points
    ]  # fmt: skip
    heads = [i18n.say(lang, f"history.col_{name}") for name in ("night", "value", "change", "run", "unusable")]
    return table(heads, rows, left=1)

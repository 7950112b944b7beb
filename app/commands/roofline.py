"""How good each operator is: its work beside its time, and its time beside the roof of its device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from npulens.analysis import views
from npulens.analysis.device.abilities import Measured
from npulens.analysis.run import Run
from npulens.analysis.work import links, roofline, waterfall
from npulens.analysis.work.roofline import Roofline, Row
from npulens.analysis.work.roofs import Roofs
from npulens.analysis.work.scale import scale
from npulens.analysis.work.waterfall import PARTS, Waterfall
from npulens.analysis.work.waterfall import Row as Window
from npulens.app.commands import _beside, _links
from npulens.app.console import json_option, lang_option, milliseconds, print_json, store_option, table
from npulens.app.text import i18n, written
from npulens.app.text.wording import plain
from npulens.ingest.store import runs as stores

_LONGEST_NAME, _LONGEST_SHAPES = 40, 44
_NOTHING: Mapping[str, object] = {}
#: Device time without known work that is worth a sentence.
_NOTABLE = 0.01
#: Rows told below the table, of each kind.
_FEW = 5


@click.command("roofline")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="How many operators to show.")
@click.option("--rank", type=int, help="The waterfall of this rank alone.")
@click.option("--step", type=int, help="The waterfall of this step alone.")
@click.option("--by", type=click.Choice(["rank", "step", "phase"]), help="One line of the waterfall for each.")
@store_option
@json_option
@lang_option
def command(
    runs: tuple[str, ...], top: int, rank: int | None, step: int | None, by: str | None, store: Path, as_json: bool,
    lang: str,
) -> None:  # fmt: skip
    """Put every operator of RUN beside its roof: operations, bytes, what they reach, what bounds them, MFU and HFU.

    The waterfall says where the time of a step goes, from the peak of the matrix units to what was reached. What is not
    known is told with the reason. RUN is a run id, a unique beginning of one, or a label.

    Several runs are put side by side, each by the share of its own roof, whatever their devices are.
    """
    if len(runs) > 1:
        if rank is not None or step is not None or by is not None:
            raise click.UsageError(_say(lang, "beside_one_run"))
        _side_by_side(runs, store, as_json, lang)
        return
    found_run = stores.resolve(store, runs[0])
    con = stores.open_run(store, found_run.run_id)
    try:
        views.install(con)
        asked = Run(con)
        found, falls, moved = roofline.of_run(asked), asked.get(waterfall.of_run), asked.get(links.links)
    finally:
        con.close()
    shown = falls.by(by or "run", rank, step)
    if not shown and (rank is not None or step is not None):
        raise click.UsageError(_fall(lang, "no_window"))
    if as_json:
        told = found.as_dict()
        print_json({
            "run_id": found_run.run_id, **told, "rows": told["rows"][:top], "operators": len(found.rows),
            "waterfall": {**falls.as_dict(), "shown": [row.as_dict() for row in shown]},
            "collectives": [one.as_dict() for one in moved],
        })  # fmt: skip
    elif not found.rows:
        click.echo("\n\n".join(part for part in (_say(lang, "none"), _links.text(moved, lang)) if part))
    else:
        parts = _parts(found, "\n".join(_waterfall(falls, shown, by, lang)), _links.text(moved, lang), lang, top)
        click.echo("\n\n".join(part for part in parts if part))


def _side_by_side(runs: Sequence[str], store: Path, as_json: bool, lang: str) -> None:
    found = []
    for name in runs:
        one = stores.resolve(store, name)
        con = stores.open_run(store, one.run_id)
        try:
            found.append(scale(one.run_id, one.label, roofline.roofline(con)))
        finally:
            con.close()
    if as_json:
        print_json({"runs": [one.as_dict() for one in found]})
    else:
        click.echo(_beside.text(found, lang))


def _parts(found: Roofline, falls: str, moved: str, lang: str, top: int) -> list[str]:
    return [
        "\n".join(_sums(found, lang)), falls,
        f"{_say(lang, 'rows')}\n{_table(found, lang, top)}\n{_say(lang, 'legend')}",
        _wrong(found, lang), _disagreeing(found, lang), _miscounted(found, lang), _gain(found, lang),
        _missing(found, lang), moved, "\n".join(_roofs(found, lang)),
    ]  # fmt: skip


def _sums(found: Roofline, lang: str) -> list[str]:
    lines = [_say(lang, "of_time", {
        "modelled": i18n.duration(found.modelled_ns), "whole": i18n.duration(found.kernel_ns),
        "share": _percent(found.modelled_share), "flops": i18n.duration(found.flops_known_ns),
    })]  # fmt: skip
    if found.step_flops is not None:
        lines.append(_say(lang, "step", {"flops": _flop(found.step_flops)}))
    if found.hfu is not None:
        lines += _used(found.window, lang)
        unknown = 1 - found.flops_known_ns / found.kernel_ns
        if unknown >= _NOTABLE:
            lines.append(_say(lang, "mfu_least", {"unknown": _percent(unknown)}))
    elif not found.roofs:
        lines.append(_say(lang, "no_mfu_device"))
    elif found.mfu_missing:
        device = ", ".join(plain(one.device) for one in found.roofs)
        lines.append(_say(lang, "no_mfu", {"device": device, "precisions": ", ".join(found.mfu_missing)}))
    else:
        lines.append(_say(lang, "no_mfu_work"))
    if found.clock_share is not None:
        lines.append(_say(lang, "clock", {"share": _percent(found.clock_share)}))
    return lines


def _used(window: Window | None, lang: str) -> list[str]:
    """HFU and MFU of a window."""
    if window is None or window.hfu is None:
        return []
    lines = [_fall(lang, "hfu", {"hfu": _percent(window.hfu)})]
    if window.mfu is None:
        return [*lines, _fall(lang, "mfu_untold", {"untold": _percent(window.untold_ns / window.peak_ns)})]
    if window.again_ns:
        again = _percent(window.again_ns / window.peak_ns)
        lines.append(_fall(lang, "mfu", {"again": again, "mfu": _percent(window.mfu)}))
    else:
        lines.append(_fall(lang, "mfu_same"))
    if window.mfu_bf16 is not None and _percent(window.mfu_bf16) != _percent(window.mfu):
        lines.append(_fall(lang, "mfu_bf16", {"mfu": _percent(window.mfu_bf16)}))
    return lines


def _waterfall(falls: Waterfall, shown: Sequence[Window], by: str | None, lang: str) -> list[str]:
    if not any(row.parts for row in shown):
        why = "why_not_complete" if shown else "why_no_windows"
        return [_fall(lang, "unmeasured", {"why": _fall(lang, why)})]
    out = sorted({row.rank for row in falls.windows if not row.parts and row.rank is not None})
    left = [_fall(lang, "left_out", {"ranks": ", ".join(map(str, out))})] if out else []
    if by is not None:
        return [_by(shown, by, lang), *left]
    (one,) = shown
    which = [
        *([_fall(lang, "whole_run")] if one.rank is None else [_fall(lang, "of_rank", {"rank": one.rank})]),
        *([] if one.step is None else [_fall(lang, "of_step", {"step": one.step})]),
    ]
    each = i18n.duration(one.dur_ns // one.windows)
    cells = [
        [_fall(lang, name), milliseconds(ns // one.windows), _percent(ns / max(1, one.dur_ns))]
        for name, ns in (*one.parts, ("residual", one.residual_ns or 0))
        if ns or name == "residual"
    ]
    header = [_fall(lang, f"col_{column}") for column in ("part", "time", "share")]
    return [
        _fall(lang, "title", {"windows": one.windows, "each": each, "which": ", ".join(which)}),
        table(header, cells, 1), *left,
    ]  # fmt: skip


def _by(shown: Sequence[Window], by: str, lang: str) -> str:
    """A line for each, with every part that any of them has."""
    known = [name for name in PARTS if any(dict(row.parts)[name] for row in shown)]
    header = [
        _fall(lang, f"col_{by}"), _fall(lang, "col_windows"), "ms", *(_fall(lang, f"short_{name}") for name in known),
        _fall(lang, "residual"), "HFU", "MFU",
    ]  # fmt: skip
    cells = []
    for row in shown:
        parts, name = dict(row.parts), {"rank": row.rank, "step": row.step, "phase": row.phase}[by]
        cells.append([
            plain(str(name)) if name is not None else _fall(lang, "none" if by == "phase" else "whole"),
            str(row.windows), milliseconds(row.dur_ns), *(_percent(parts[each] / max(1, row.dur_ns)) for each in known),
            str(row.residual_ns), _percent(row.hfu), _percent(row.mfu),
        ])  # fmt: skip
    return table(header, cells, 1)


def _table(found: Roofline, lang: str, top: int) -> str:
    shown = found.rows[:top]
    counted = any(row.pipe is not None for row in shown)
    columns = ["operator", "shapes", "calls", "time", "flops", "bytes", "tflops", "gbs", "share", "bound"]
    header = [_say(lang, f"col_{column}") for column in (*columns, *(["pipe"] if counted else []))]
    return table(header, [_cells(found, row, lang, counted) for row in shown], 2)


def _cells(found: Roofline, row: Row, lang: str, counted: bool) -> list[str]:
    flops = _flops(row)
    pipe = "-" if row.pipe is None else f"{plain(row.pipe)} {_percent(row.pipe_share)}"
    return [
        _short(row.operator, _LONGEST_NAME), _short(row.shapes or "-", _LONGEST_SHAPES), str(row.calls),
        milliseconds(row.ns // (found.steps * max(1, found.ranks))), _scaled(flops, 1e9), _scaled(row.bytes, 1e6),
        _scaled(row.flops_per_s if flops else None, 1e12), _scaled(row.bytes_per_s, 1e9),
        _share(row, lang), "-" if row.bound is None else _say(lang, f"bound_{row.bound}"),
        *([pipe] if counted else []),
    ]  # fmt: skip


def _flops(row: Row) -> int | None:
    return None if row.matrix_flops is None else row.matrix_flops + (row.vector_flops or 0)


def _share(row: Row, lang: str) -> str:
    if row.above is not None:
        return _say(lang, "wrong")
    return "-" if row.share is None else ("" if row.complete else "> ") + _percent(row.share)


def _named(row: Row) -> dict[str, object]:
    return {"operator": _short(row.operator, _LONGEST_NAME), "shapes": _short(row.shapes or "", _LONGEST_SHAPES)}


def _wrong(found: Roofline, lang: str) -> str:
    rows = [row for row in found.rows if row.above is not None][:_FEW]
    return "\n".join([_say(lang, "wrong_title"), *(
        "  " + _say(lang, "wrong_row", {
            **_named(row), "times": f"{row.above:.2f}", "time": i18n.duration(row.ns // row.calls),
            "roof": i18n.duration(round(row.roof_ns or 0)), "bytes": f"{_scaled(row.bytes, 1e6)} MB",
            "flops": _flop(_flops(row) or 0),
        })
        for row in rows
    )]) if rows else ""  # fmt: skip


def _disagreeing(found: Roofline, lang: str) -> str:
    rows = [row for row in found.rows if row.disagree][:_FEW]
    return "\n".join([_say(lang, "disagree_title"), *(
        "  " + _say(lang, "disagree_row", {
            **_named(row), "bound": _say(lang, f"bound_{row.bound}"), "pipe": plain(row.pipe or ""),
            "busy": _percent(row.pipe_share),
        })
        for row in rows
    )]) if rows else ""  # fmt: skip


def _miscounted(found: Roofline, lang: str) -> str:
    return "\n".join([_say(lang, "counted_title"), *(
        "  " + _say(lang, "counted_row", {
            **_named(row), "flops": _flop(row.matrix_flops or 0), "counted": _flop(row.counted_flops or 0),
        })
        for row in found.miscounted[:_FEW]
    )]) if found.miscounted else ""  # fmt: skip


def _gain(found: Roofline, lang: str) -> str:
    gain = sum(row.gain_ns or 0 for row in found.rows) // (found.steps * max(1, found.ranks))
    return _say(lang, "gain", {"gain": i18n.duration(gain)}) if gain else ""


def _missing(found: Roofline, lang: str) -> str:
    if not found.missing:
        return ""
    lines = [_say(lang, "missing_title"), *(
        "  " + _say(lang, "missing_row", {
            "share": _percent(one.share), "why": _say(lang, f"why_{one.reason}"),
            "operators": ", ".join(_short(name, _LONGEST_NAME) for name in one.operators),
        })
        for one in found.missing
    )]  # fmt: skip
    if found.collect_with is not None:
        lines.append(_say(lang, "collect", {"setting": found.collect_with}))
    return "\n".join(lines)


def _roofs(found: Roofline, lang: str) -> list[str]:
    lines = []
    for one in found.roofs:
        rated = [_peak(name, rate) for name, rate in one.matrix.items() if name not in one.own]
        if one.memory and "memory" not in one.own:
            rated.append(_say(lang, "roofs_memory", {"rate": f"{one.memory / 1e9:.0f} GB/s"}))
        elif one.memory is None:
            rated.append(_say(lang, "roofs_unknown"))
        if rated:
            lines.append(_say(lang, "roofs", {"device": plain(one.device), "peaks": ", ".join(rated)}))
        if len(one.sources) == 1:
            lines.append(_say(lang, "source", {"source": written.source(one.sources[0], lang)}))
        if one.measured is not None:
            lines += _measured(one, one.measured, lang)
    return lines


def _measured(one: Roofs, own: Measured, lang: str) -> list[str]:
    """The roofs that were measured on the machine, and which of them count here."""
    peaks = [_peak(name, rate) for name, rate in own.flops.items()]
    if own.memory_bytes_per_s is not None:
        peaks.append(_say(lang, "roofs_memory", {"rate": f"{own.memory_bytes_per_s / 1e9:.0f} GB/s"}))
    if own.launch_ns is not None:
        peaks.append(_say(lang, "roofs_launch", {"time": i18n.duration(round(own.launch_ns))}))
    told = {"device": plain(own.device), "date": plain(own.when)[:10], "peaks": ", ".join(peaks)}
    lines = [_say(lang, "roofs_measured", told)]
    if one.sources:
        names = ", ".join(_say(lang, "memory_name") if name == "memory" else name for name in one.own)
        lines.append(_say(lang, "roofs_own", {"names": names}) if names else _say(lang, "roofs_rated"))
    return lines


def _peak(name: str, rate: float) -> str:
    return f"{plain(name)} {rate / 1e12:.1f} TFLOP/s" if rate >= 1e12 else f"{plain(name)} {rate / 1e9:.0f} GFLOP/s"


def _flop(flops: int) -> str:
    for size, unit in ((10**12, "TFLOP"), (10**9, "GFLOP"), (10**6, "MFLOP")):
        if flops >= size:
            return f"{flops / size:.2f} {unit}"
    return f"{flops} FLOP"


def _scaled(amount: float | None, unit: float) -> str:
    if amount is None:
        return "-"
    scaled = amount / unit
    return f"{scaled:.1f}" if scaled >= 100 else f"{scaled:.3f}" if scaled >= 0.001 or not scaled else f"{scaled:.1e}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _short(name: str, longest: int) -> str:
    """A name as a terminal can show it."""
    text = plain(name) or "-"
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _fall(lang: str, key: str, values: Mapping[str, object] = _NOTHING) -> str:
    return i18n.say(lang, f"waterfall.{key}", values)


def _say(lang: str, key: str, values: Mapping[str, object] = _NOTHING) -> str:
    return i18n.say(lang, f"roofline.{key}", values)

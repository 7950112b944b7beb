"""What each module of a model costs, or what changed between two runs, module by module."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npulens.app.console import json_option, lang_option, milliseconds, print_json, store_option, table
from npulens.app.text import i18n
from npulens.app.text.wording import plain
from npulens.ingest.store import runs as stores

if TYPE_CHECKING:
    from npulens.analysis.modules.compared import Change, Compared
    from npulens.analysis.modules.measure import Figures, Module, Modules

_LONGEST = 56
_NOTHING: Mapping[str, object] = {}


@click.command("modules")
@click.argument("run")
@click.argument("other", required=False)
@click.option("--depth", type=click.IntRange(min=0), help="How deep the tree is shown; 0: what nothing calls.")
@click.option("--top", type=click.IntRange(min=1), default=60, show_default=True, help="How many rows to show.")
@store_option
@json_option
@lang_option
def command(
    run: str, other: str | None, depth: int | None, top: int, store: Path, as_json: bool, lang: str
) -> None:  # fmt: skip
    """Show what each module (nn.Module) of RUN costs, as a tree: forward, backward, computed again, share of the roof.

    With OTHER the change from RUN to OTHER, module by module; modules that were renamed are matched. Each is a run id,
    a unique beginning of one, or a label.
    """
    found_run, found = _measured(store, run)
    if other is not None:
        other_run, head = _measured(store, other)
        from npulens.analysis.modules.compared import compared

        change = compared(found, head)
        if as_json:
            rows = [row.as_dict() for row in change.rows if depth is None or row.depth <= depth]
            print_json({"base": found_run, "head": other_run, **change.as_dict(), "rows": rows[:top]})
            return
        empty = [(name, one) for name, one in ((run, found), (other, head)) if not one.rows]
        for name, one in empty:
            click.echo(_say(lang, "none_of", {"run": plain(name), "setting": one.collect_with}))
        if not empty:
            click.echo("\n\n".join(_changed(change, lang, depth, top)))
    elif as_json:
        told = found.as_dict()
        rows = [row for row in told["rows"] if depth is None or row["depth"] <= depth]
        print_json({"run_id": found_run, **told, "rows": rows[:top], "modules": len(found.rows)})
    elif not found.rows:
        click.echo(_say(lang, "none", {"setting": found.collect_with}))
    else:
        click.echo("\n\n".join(_told(found, lang, depth, top)))


def _measured(store: Path, name: str) -> tuple[str, Modules]:
    from npulens.analysis.modules.measure import modules

    found = stores.resolve(store, name)
    con = stores.open_run(store, found.run_id)
    try:
        return found.run_id, modules(con)
    finally:
        con.close()


def _told(found: Modules, lang: str, depth: int | None, top: int) -> list[str]:
    shown = [row for row in found.rows if depth is None or row.depth <= depth][:top]
    again = any(row.total.recompute_ns or row.recomputed for row in found.rows)
    roofed = any(row.total.roofed_ns for row in found.rows)
    worked = any(row.total.known_ns for row in found.rows)
    columns = [
        "module", "class", "calls", "time", "own", "forward", "backward", *(["again"] if again else []), "host",
        "kernels", *(["memory"] if found.memory else []), *(["flops", "intensity"] if worked else []),
        *(["share"] if roofed else []),
    ]  # fmt: skip
    cells = [{name: _cell(found, row, name, lang) for name in columns} for row in shown]
    lines = [table([_say(lang, f"col_{name}") for name in columns], [list(row.values()) for row in cells], 2)]
    hidden = len(found.rows) - len(shown)
    if hidden:
        lines.append(_say(lang, "hidden", {"n": hidden}))
    lines.append(_say(lang, "legend"))
    if roofed and any(row.total.above is not None for row in shown):
        lines.append(_say(lang, "wrong_means"))
    if found.source in ("frames", "stacks"):
        lines.append(_say(lang, found.source))
    return ["\n".join(_sums(found, lang)), "\n".join(lines)]


def _sums(found: Modules, lang: str) -> list[str]:
    whole = found.whole
    if not whole.kernels:
        return [_say(lang, "no_kernels")]
    parts = found.steps * max(1, len(found.ranks))
    placed = {place: sum(row.own.device_ns for row in found.rows if row.place == place)
              for place in ("module", "outside", "not_tied")}  # fmt: skip
    return [
        _say(lang, "sums", {
            "device": i18n.duration(whole.device_ns // parts), "forward": i18n.duration(whole.forward_ns // parts),
            "backward": i18n.duration(whole.backward_ns // parts), "again": i18n.duration(whole.recompute_ns // parts),
        }),
        _say(lang, "parts", {
            "modules": i18n.share(placed["module"], whole.device_ns),
            "outside": i18n.share(placed["outside"], whole.device_ns),
            "not_tied": i18n.share(placed["not_tied"], whole.device_ns),
        }),
    ]  # fmt: skip


def _cell(found: Modules, row: Module, column: str, lang: str) -> str:
    parts, total = found.steps * max(1, len(found.ranks)), row.total
    if column == "module":
        return _name(row, lang, row.depth)
    if column == "class":
        return _short(row.type) if row.type else ""
    if column in ("calls", "kernels"):
        calls = row.calls + row.recomputed if row.place == "module" and found.source != "stacks" else None
        return _count(calls if column == "calls" else total.kernels, parts)
    if column == "own":
        return milliseconds(row.own.device_ns // parts)
    times = {"time": total.device_ns, "forward": total.forward_ns, "backward": total.backward_ns,
             "again": total.recompute_ns, "host": total.host_forward_ns}  # fmt: skip
    if column in times:
        return milliseconds(times[column] // parts)
    if column == "memory":
        return _scaled(total.allocated_bytes / parts, 1e6)
    if column == "flops":
        return _scaled(total.flops / parts, 1e9) if total.known_ns else "-"
    if column == "intensity":
        return "-" if total.intensity is None else _scaled(total.intensity, 1)
    return _share(total, lang)


def _share(total: Figures, lang: str) -> str:
    if total.above is not None:
        return _say(lang, "wrong")
    return "-" if total.share is None else f"{100 * total.share:.1f} %"


def _count(count: int | None, parts: int) -> str:
    """As many as in a step; with a tenth where steps differ."""
    if count is None:
        return "-"
    return str(count // parts) if count % parts == 0 else f"{count / parts:.1f}"


def _changed(change: Compared, lang: str, depth: int | None, top: int) -> list[str]:
    rows = [row for row in change.rows if depth is None or row.depth <= depth]
    largest = sorted(rows, key=lambda row: -abs(row.change_ns))[:top]
    kept = {row.id for row in largest}
    parents = {row.id: row.parent for row in rows}
    for each in list(kept):  # what is shown is shown where it is
        while (each := parents[each]) != -1:
            kept.add(each)
    shown = [row for row in rows if row.id in kept]
    lines = [_say(lang, "change", {
        "base": i18n.duration(round(change.base_ns)), "head": i18n.duration(round(change.head_ns)),
        "change": _signed(change.head_ns - change.base_ns),
    })]  # fmt: skip
    sides = len(change.base.ranks), len(change.head.ranks)
    if sides[0] != sides[1]:
        lines.append(_say(lang, "unlike", {"base": sides[0], "head": sides[1]}))
    columns = ("module", "was", "how", "base", "head", "change", "own_change")
    body = [[
        _name(row.head or row.base, lang, row.depth), _was(row, lang), _say(lang, f"how_{row.how}"),
        milliseconds(round(row.base_ns)) if row.base else "-", milliseconds(round(row.head_ns)) if row.head else "-",
        _signed(row.change_ns), _signed(row.own_change_ns),
    ] for row in shown]  # fmt: skip
    below = [table([_say(lang, f"col_{name}") for name in columns], body, 3)]
    if len(change.rows) > len(shown):
        below.append(_say(lang, "hidden", {"n": len(change.rows) - len(shown)}))
    return ["\n".join(lines), "\n".join([*below, _say(lang, "change_legend")])]


def _was(row: Change, lang: str) -> str:
    return _name(row.base, lang, 0) if row.how == "renamed" else ""


def _signed(ns: Fraction) -> str:
    """Milliseconds with their sign."""
    whole = round(ns)
    return f"+{milliseconds(whole)}" if whole > 0 else milliseconds(whole)


def _name(row: Module | None, lang: str, depth: int) -> str:
    if row is None:
        return ""
    return "  " * min(depth, 24) + (_short(row.name) if row.place == "module" else _say(lang, row.place))


def _scaled(amount: float, unit: float) -> str:
    scaled = amount / unit
    return f"{scaled:,.1f}" if scaled >= 100 else f"{scaled:.3f}"


def _short(name: str) -> str:
    text = plain(name) or "-"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _say(lang: str, key: str, values: Mapping[str, object] = _NOTHING) -> str:
    return i18n.say(lang, f"modules.{key}", values)

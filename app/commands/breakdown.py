"""The exact split per rank and step."""

from __future__ import annotations

from pathlib import Path

import click

from npulens.analysis.split import Row, breakdown
from npulens.app.console import json_option, lang_option, milliseconds, print_json, store_option, table
from npulens.ingest.store import runs as stores

_WORDS = {
    "en": ("rank", "step", "wall ms", "computing", "exposed comm", "exposed copy", "unknown", "idle", "residual",
           "profiler free", "whole",
           "'-' is not measured. computing + exposed comm + exposed copy + unknown + idle + residual = wall."),
    "zh": ("卡", "步", "总时长 ms", "计算", "未掩盖通信", "未掩盖拷贝", "未知", "空闲", "残差", "采集器 Free",
           "全程", "“-” 表示未测得。计算 + 未掩盖通信 + 未掩盖拷贝 + 未知 + 空闲 + 残差 = 总时长。"),
}  # fmt: skip


@click.command("breakdown")
@click.argument("run")
@store_option
@json_option
@lang_option
def command(run: str, store: Path, as_json: bool, lang: str) -> None:
    """Split every step of RUN: computing, exposed communication, exposed copies, unknown work, idle.

    RUN is a run id, a unique beginning of one, or a label.
    """
    found = stores.resolve(store, run)
    rows = breakdown(stores.open_run(store, found.run_id))
    if as_json:
        print_json({"run_id": found.run_id, "rows": [row.as_dict() for row in rows]})
        return
    *header, whole, foot = _WORDS[lang]
    click.echo(table(header, [_cells(row, whole) for row in rows]))
    click.echo(foot)


def _cells(row: Row, whole: str) -> list[str]:
    def part(ns: int | None) -> str:
        share = f" {100 * ns / row.dur_ns:5.1f} %" if ns is not None and row.dur_ns else ""
        return milliseconds(ns) + share

    free = None if row.profiler is None else row.profiler.free_ns
    return [
        str(row.rank), whole if row.step is None else str(row.step), milliseconds(row.dur_ns), part(row.computing_ns),
        part(row.communication_not_overlapped_ns), part(row.copy_not_overlapped_ns),
        part(row.unknown_not_overlapped_ns), part(row.idle_ns),
        "-" if row.residual_ns is None else str(row.residual_ns), milliseconds(free),
    ]  # fmt: skip

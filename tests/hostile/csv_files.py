"""The CSV files beside an Ascend trace: cells, rows, headers and quotes."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from tests.hostile.planted import Kind, Planted, damaged
from tests.hostile.trace_view import SAMPLE, rank
from tests.text_export import KERNEL, L1, at

CELLS = ("", " ", "\t", "N/A", "nan", "NaN", "inf", "-inf", "-1", "0", "1e400", "1e5", "0x10", "1_000", "1,5", '"1,5"',
         "9" * 25, "-" + "9" * 25, "9223372036854775807", "9223372036854775808", "9223372036854775.807",
         "-9223372036854775.808", "1.0000000000000000000000000001", "٣", "1\u202e2", "=1+1", "é算子", "x" * 70_000,
         '"a\nb"', '"a""b"', "\x00", "4294967295", "4000000000000000.000", "4000000000000001.000", "-4000000000000000",
         "1e15", "99999999999999999999999.999", "0.0001", "1736408883000000.0004999", "+5", "5.", ".5", "--5",
         "1 2", "\ufeff1", "\u00a05")  # fmt: skip
TABLES = {"memory_record": "memory_sample", "npu_module_mem": "memory_sample", "operator_memory": "memory_event",
          "step_trace_time": "profiler_step", "op_statistic": "summary", "api_statistic": "summary",
          "l2_cache": "l2_cache"}  # fmt: skip
FILES = ("kernel_details", "operator_details", *TABLES)


@cache
def lines(name: str) -> tuple[str, ...]:
    """A sample file without its cells of several lines."""
    raw = (SAMPLE / "ASCEND_PROFILER_OUTPUT" / f"{name}.csv").read_text("utf-8")
    return (raw.splitlines()[0], "aten::add,,,1.5,2.5,3.5,4.5,5.5,6.5") if name == "operator_details" else tuple(
        raw.splitlines()[:12]
    )  # fmt: skip


def lay(directory: Path, name: str, content: bytes) -> Path:
    """A rank with this file, and with a kernel of its own so that there is something to load."""
    output = rank(directory) / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    (output / "kernel_details.csv").write_text(f"{L1}\n{KERNEL}\n")
    (output / f"{name}.csv").write_bytes(content)
    return rank(directory)


def _kernels(directory: Path, dice: random.Random, number: int) -> Planted:
    """One odd cell in each of a few rows: whatever it is, the row is kept or counted."""
    rows = [KERNEL.replace(at(1000), at(1000 + 5000 * i)) for i in range(5)]
    cells = KERNEL.split(",")
    flat = [i for i, cell in enumerate(cells) if '"' not in cell and i < 12]
    for i in range(4):
        odd, where = list(cells), flat[(number + i * 5) % len(flat)]
        odd[9] = at(50_000 + 5000 * i)
        cell = CELLS[(number * 4 + i) % len(CELLS)]
        odd[where] = f'"{cell}"' if "," in cell and '"' not in cell else cell
        rows.append(",".join(odd))
    dice.shuffle(rows)
    content = "\n".join([L1, *rows, ""]).encode()
    return Planted(lay(directory, "kernel_details", content), met={"kernel": 9}, status=("complete", "partial"))


def _cells(directory: Path, dice: random.Random, number: int) -> Planted:
    """The same in every other file, against the rows that a plain split finds."""
    name = tuple(TABLES)[number % len(TABLES)]
    header, *rows = lines(name)
    for i in range(3):
        cells = rows[i % len(rows)].split(",")
        cell = CELLS[(number * 3 + i) % len(CELLS)]
        cells[dice.randrange(len(cells))] = f'"{cell}"' if "," in cell and '"' not in cell else cell
        rows.append(",".join(cells))
    dice.shuffle(rows)
    content = "\n".join([header, *rows, ""]).encode()
    return Planted(lay(directory, name, content), met={TABLES[name]: len(rows)}, status=("complete", "partial"))


def _shape(directory: Path, dice: random.Random, number: int) -> Planted:
    name = FILES[number % len(FILES)]
    header, *rows = lines(name)
    body = "\n".join(rows)
    wide = ",".join(f"c{i}" for i in range(20_000))
    shapes = (
        "", "\n", "\n\n\n", header, header + "\n", body, f"{header},{header}\n{body}", f"{header}\n{body},,,,,,,,,",
        f"{header}\n" + "\n".join(row.rpartition(",")[0] for row in rows), f"{header}\n" + ",\n" * 1000,
        f'{header}\n{body}\n"', f'{header}\n"{body}', f'"{header}\n{body}', header.replace(",", ";") + "\n" + body,
        header.replace(",", "\t") + "\n" + body, header.lower() + "\n" + body, f"{wide}\n{body}", wide,
        f"{header}\r{body}".replace("\n", "\r"), f"{header}\r\n\r\n{body}\r\n\x1a", f"{header}\n{body}\n" * 300,
        "," * 999 + "\n" + body, f'"{"x" * (5 << 20)}"\n{body}', f'{header}\n"{"x" * (9 << 20)}"\n{body}',
        f"{header}\n" + "x" * (9 << 20), "\0" * 5000, f"row,Row,row #1,{header}\n{body}",
        '"";DROP TABLE x--,"a""b"\n1,2', header.upper().replace("(US)", "(us)") + "\n" + "\n".join(reversed(rows)),
        "sep=,\n" + header + "\n" + body, f"{header}\n# comment\n{body}", "\\" + header + "\n" + body,
    )  # fmt: skip
    return Planted(lay(directory, name, shapes[number // len(FILES) % len(shapes)].encode()))


def _cut(directory: Path, dice: random.Random, number: int) -> Planted:
    """Cut in a row: the rows before it are there, and the cut one is either whole enough or missed."""
    name = ("memory_record", "op_statistic", "l2_cache", "operator_memory")[number % 4]
    header, *rows = lines(name)
    content = "\n".join([header, *rows, ""]).encode()
    cut = dice.randrange(len(header) + 2, len(content))
    whole = sum(line.count(b",") == header.count(",") for line in content[:cut].split(b"\n")[1:])
    return Planted(lay(directory, name, content[:cut]), met={TABLES[name]: whole})


def _flip(directory: Path, dice: random.Random, number: int) -> Planted:
    name = FILES[number % len(FILES)]
    raw = (SAMPLE / "ASCEND_PROFILER_OUTPUT" / f"{name}.csv").read_bytes()
    return Planted(lay(directory, name, damaged(raw, dice)))


KINDS = (
    Kind("csv kernels", 60, _kernels),
    Kind("csv cell", 100, _cells),
    Kind("csv shape", len(FILES) * 32 // 3, _shape),
    Kind("csv cut", 40, _cut),
    Kind("csv flip", 63, _flip),
)

"""What a page says, read as a visitor reads it: how many digits a figure has, how many words a sentence.

    python -m tests.screen.language [CAPTURE ...] [--page NAME ...] [--lang en zh]

Every page is drawn over every capture in both languages. Its texts, tables, tiles and charts are read: what has a
figure of more than four digits, or a sentence that is too long, is printed. Ends with 1 where there is any. Without
captures, the sample torch_npu_db is read.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.bench.shots import _load
from tests.screen.pages import LENSES, ROOT

MOST_WORDS, MOST_CHINESE = 22, 45
#: The timeline draws its texts itself.
PAGES = tuple(lens for lens in LENSES if lens != "Timeline")
_SAYS = ("text", "caption", "markdown", "header", "subheader", "metric", "info", "warning", "error")


def filled(text: str) -> str:
    """With a value in every blank: a number, which is one word."""
    return re.sub(r"%?\{+[^{}]*\}+", "12", re.sub(r"`[^`]*`", "X", text))


def sentences(text: str, ends: str) -> list[str]:
    return [part for part in re.split(ends, filled(text)) if part.strip()]


def too_long(english: str, chinese: str) -> list[str]:
    """Sentences of either that are over their bound."""
    said = [each for each in sentences(english, r"(?<=[.!?])[\"')]*\s+|\n|<br>") if words(each) > MOST_WORDS]
    read = [each for each in sentences(chinese, r"[。！？\n]|<br>") if len(HAN.findall(each)) > MOST_CHINESE]
    return said + read


HAN = re.compile(r"[\u4e00-\u9fff]")


def words(sentence: str) -> int:
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


UNITS = r"(?:ns|µs|us|ms|s|B|kB|MB|GB|TB|KiB|MiB|GiB|%|GB/s|MB/s|TFLOP/s|W|°C|MHz)"
FIGURE = re.compile(rf"(?<![\w.:/-])[-+−]?(\d[\d,]*(?:\.\d+)?)\s?({UNITS})?(?![\w:/-]|\.\d)")


def over(text: str) -> list[str]:
    """Figures of more than four digits; whole numbers without a unit, and whole nanoseconds and bytes, are exact."""
    found = []
    for match in FIGURE.finditer(re.sub(r"\d{4}-\d\d-\d\d|\d+:\d\d(?::\d\d)?|\d+(?:\.\d+){2,}", "", text)):
        number, unit = match[1].replace(",", ""), match[2]
        digits = number.replace(".", "").lstrip("0")
        exact = "." not in number and unit in (None, "ns", "B")
        if len(digits) > 4 and not exact:
            found.append(match[0])
    return found


def drawn(name: str, lang: str, run: str = "") -> AppTest:
    """The page as it is drawn over the store that NPULENS_STORE names."""
    if name == "Workspace":
        page = AppTest.from_file(str(ROOT / "app" / "dashboard.py"), default_timeout=120)
    else:
        page = AppTest.from_string(
            "from npulens.app import context\n"
            f"from npulens.app.pages.{name.lower()} import page\n"
            "page.render(context.current())\n", default_timeout=120,
        )  # fmt: skip
    page.query_params["lang"] = lang
    if run:
        page.query_params["run"] = run
    return page.run()


def prose(page: AppTest) -> list[str]:
    """What is said outside tables and charts."""
    return [str(element.value) for kind in _SAYS for element in page.get(kind)]


def said(page: AppTest) -> list[str]:
    """All of it: prose, texts of tables, texts of charts."""
    tables = [
        cell
        for table in page.dataframe
        for column in table.value.columns
        for cell in table.value[column]
        if isinstance(cell, str)
    ]
    return [*prose(page), *tables, *(text for chart in page.get("plotly_chart")
                                     for text in _strings(json.loads(chart.proto.spec)))]  # fmt: skip


def _strings(value: Any) -> Iterator[str]:
    """Every text that a chart shows: hovers, labels, titles; no numbers, which Plotly formats."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("hovertext", "text", "name", "title", "ticktext"):
                yield from _leaves(each)
            yield from _strings(each) if isinstance(each, dict | list) else ()
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, dict | list):
                yield from _strings(each)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)


def wrong(page: AppTest, lang: str) -> list[str]:
    """Figures of too many digits, and sentences of too many words, with the text they stand in."""
    digits = [f"{found}: {text}" for text in said(page) if (found := over(text))]
    pair = (lambda text: ("", text)) if lang == "zh" else (lambda text: (text, ""))
    return digits + [long for text in prose(page) for long in too_long(*pair(text))]


def main() -> None:
    asked = _asked()
    bad = 0
    with tempfile.TemporaryDirectory() as made:
        store = Path(made) / "store"
        os.environ["NPULENS_STORE"] = str(store)
        runs = {path.name: _load(path, store) for path in asked.captures}
        for name, run in runs.items():
            for lens in asked.page:
                for lang in asked.lang:
                    page = drawn(lens, lang, run)
                    found = [f"raised {each.value}" for each in page.exception] or wrong(page, lang)
                    print(f"{name} {lens} {lang}: {len(said(page)):,} texts, {len(found)} wrong", flush=True)
                    print("".join(f"  {each}\n" for each in found), end="", flush=True)
                    bad += len(found)
    sys.exit(1 if bad else 0)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.screen.language", description="Digits and sentences.")
    parser.add_argument("captures", nargs="*", type=Path, default=[ROOT / "sample_traces" / "torch_npu_db"])
    parser.add_argument("--page", nargs="+", default=PAGES, choices=PAGES)
    parser.add_argument("--lang", nargs="+", default=("en", "zh"), choices=("en", "zh"))
    return parser.parse_args()


if __name__ == "__main__":
    main()

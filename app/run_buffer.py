"""Which chains of a subject fit into the unified buffer of a chip, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from npulens.analysis.device import buffer
from npulens.app.console import filled, print_json, table
from npulens.app.run_collectors import ask
from npulens.app.text.i18n import say, size
from npulens.app.text.wording import plain
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

_WIDEST = 110
#: Chains that are shown; the rest are counted.
_SHOWN = 30
_COLUMNS = ("chain", "rows", "in_buffer", "answer", "traffic")


def command(place: Path, names: tuple[str, ...], as_json: bool, lang: str) -> None:
    """Every chain against every chip that was asked for; ``all`` asks for all of them."""
    every = buffer.chips()
    wanted = every if "all" in names else [found for name in names if (found := buffer.chip(name)) is not None]
    unknown = [name for name in names if name != "all" and buffer.chip(name) is None]
    if unknown:
        known = ", ".join(chip.name for chip in every)
        raise IngestError("unknown_chip", Message("no_chip_of_that_name", {"name": unknown[0], "known": known}))
    answer = ask(["lab-chains", str(place.absolute())])
    answer["chips"] = [
        {"chip": chip.name, "buffer_bytes": chip.buffer_bytes, "source": chip.source,
         "fits": [vars(buffer.fit(chain, chip.buffer_bytes)) for chain in answer["chains"]]}
        for chip in wanted
    ]  # fmt: skip
    print_json(answer) if as_json else click.echo("\n".join(lines(answer, lang)))


def lines(answer: Mapping[str, Any], lang: str) -> Iterator[str]:
    """A table a chip."""
    if not answer["chains"]:
        yield say(lang, "lab.chains_none")
        return
    for chip in answer["chips"]:
        yield say(lang, "lab.chip", {"chip": chip["chip"], "size": size(chip["buffer_bytes"])})
        both = list(zip(answer["chains"], chip["fits"], strict=True))
        rows = [_row(chain, fit, lang) for chain, fit in both[:_SHOWN]]
        yield table([say(lang, f"lab.col_{name}") for name in _COLUMNS], rows, 1)
        if len(both) > _SHOWN:
            yield say(lang, "lab.chains_more", {"n": len(both) - _SHOWN})
        yield say(lang, "lab.chip_source", {"source": chip["source"]})
        yield ""
    yield from filled(say(lang, "lab.chip_unverified"), _WIDEST)


def _row(chain: Mapping[str, Any], fit: Mapping[str, Any], lang: str) -> list[str]:
    answer = say(lang, f"lab.buffer_{fit['said']}", {"parts": fit["parts"], "rows": f"{fit['rows']:,}"})
    return [
        plain(" ".join(chain["operators"][:8])) + (" ..." if len(chain["operators"]) > 8 else ""),
        f"{chain['rows']:,} x {chain['width']:,}", size(fit["tile_bytes"]), answer,
        f"{size(chain['moved'])} -> {size(chain['fused'])}",
    ]  # fmt: skip

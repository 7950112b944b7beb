"""One kernel of a plain function of torch operators: made by Inductor, judged, tuned, kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from npulens.app.commands.lab import _given, _why
from npulens.app.console import filled, json_option, lang_option, print_json, table
from npulens.app.run_collectors import ask
from npulens.app.text.i18n import duration, say
from npulens.app.text.wording import plain

_WIDEST = 110


@click.command("compile")
@click.argument("function", metavar="FILE.py:NAME|EXAMPLE")
@click.option("--input", "inputs", multiple=True, metavar="NAME=64x64[:TYPE]", help="Instead of the file's inputs().")
@click.option("--tune", is_flag=True, help="Also try choices of vectors, threads, loops and templates.")
@click.option("--tries", type=click.IntRange(2, 1000), help="Combinations of choices that are tried.  [12]")
@click.option("--pairs", type=click.IntRange(2), help="Interleaved rounds of the winner's comparison.  [10]")
@click.option("--seconds", type=click.FloatRange(0, 1e5, min_open=True), help="How long one comparison takes.  [8]")
@click.option("--backend", type=click.Choice(["npu", "cuda", "cpu"]), help="[the first that is there]")
@click.option("--code", is_flag=True, help="Print the generated kernels too.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where it is kept.  [./kernel-NAME-TIME]")
@json_option
@lang_option
def command(
    function: str, inputs: tuple[str, ...], tune: bool, tries: int | None, pairs: int | None, seconds: float | None,
    backend: str | None, code: bool, output: Path | None, as_json: bool, lang: str,
) -> None:  # fmt: skip
    """Make a kernel of a plain function of torch operators: C++ on a processor, Triton on a device.

    \b
    npulens compile mla_prolog --tune -o kernel     an example of this project
    npulens compile FILE.py:NAME -o kernel          a function of yours
    npulens bench kernel                            measures what was kept

    The file's function inputs() returns example inputs, or --input names their shapes. Numerics against
    float64 come first. With --tune choices are tried by successive halving; what wins is measured afresh,
    and kept only if it is proved to be faster than the defaults.
    """
    home = (output or Path(f"kernel-{function.rpartition(':')[2]}-{time.strftime('%Y%m%d-%H%M%S')}")).absolute()
    told = {"tries": tries, "pairs": pairs, "seconds": seconds, "backend": backend}
    given = [word for each in inputs for word in ("--input", each)]
    answer = ask(["generate", function, "-o", str(home), *given, *(["--tune"] if tune else []), *_given(told)])
    if as_json:
        print_json(answer)
    else:
        click.echo("\n".join(lines(answer, lang)))
        if code:
            click.echo("\n".join(f"\n{name}\n{text}" for name, text in answer.get("sources", {}).items()))
    sys.exit(1 if answer["status"] == "failed" else 0)


def lines(answer: Mapping[str, Any], lang: str) -> Iterator[str]:
    """The answer for people."""
    errors, device = answer["errors"], answer["machine"]["device"]
    yield say(lang, "generated.head", {"function": answer["function"], "backend": answer["backend"], "device": device})
    names = ", ".join(answer["operators"])
    yield from filled(say(lang, "generated.before", {"n": len(answer["operators"]), "names": names}), _WIDEST)
    count, library = answer["generated"] + answer["library"], answer["library"]
    whole = {"n": count, "generated": answer["generated"], "library": library}
    yield say(lang, "generated.one_kernel" if (count, library) == (1, 0) else "generated.after", whole)
    if answer["status"] == "failed":
        yield say(lang, "generated.wrong", {"why": plain(answer["reason"])})
        return
    yield from filled(say(lang, "generated.right", {
        "error": _error(errors["of_rewrite"]), "allowed": _error(errors["allowed"]),
        "own": _error(answer["error_of_original"]),
    }), _WIDEST)  # fmt: skip
    if answer["tuning"] is not None:
        yield from _tuning(answer["tuning"], lang)
    code = f"{answer['directory']}/generated.py"
    yield ""
    yield say(lang, "generated.where", {"place": answer["directory"], "code": code})


def _tuning(told: Mapping[str, Any], lang: str) -> Iterator[str]:
    out = [each for each in told["tries"] if each["why"]]
    yield ""
    yield say(lang, "generated.tuned", {"tries": len(told["tries"]), "space": told["space"], "wrong": len(out)})
    columns = [say(lang, f"generated.col_{name}") for name in ("choices", "kernels", "error", "rounds")]
    ordered = sorted(told["tries"], key=lambda each: (-len(each["rounds"]), each["rounds"][-1:]))
    yield table(columns, [_row(each, lang) for each in ordered], 1)
    for name, found in told["against"].items():
        reason = "" if found["why"] is None else f" ({_why(found['why'], {'pairs': found['pairs_needed']}, lang)})"
        yield from filled(say(lang, f"generated.against_{name}", {
            "choices": _words(told["winner"], lang), "ratio": f"{found['ratio']:.3f}", "low": f"{found['low']:.3f}",
            "high": f"{found['high']:.3f}", "pairs": found["pairs"],
            "verdict": say(lang, f"lab.verdict_{found['said']}") + reason,
        }), _WIDEST)  # fmt: skip
    if told["kept"] == "winner":
        yield say(lang, "generated.kept_winner", {"choices": _words(told["winner"], lang)})
    else:
        yield say(lang, "generated.kept_defaults")


def _row(each: Mapping[str, Any], lang: str) -> list[str]:
    if each["why"]:
        return [_words(each["choices"], lang), "-", "-", say(lang, "generated.out", {"why": plain(each["why"])})]
    return [
        _words(each["choices"], lang), str(each["generated"] + each["library"]), _error(each["errors"]["of_rewrite"]),
        " > ".join(duration(ns) for ns in each["rounds"]),
    ]  # fmt: skip


def _words(choices: Mapping[str, Any], lang: str) -> str:
    return ", ".join(f"{name}={value}" for name, value in choices.items()) or say(lang, "generated.defaults")


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"

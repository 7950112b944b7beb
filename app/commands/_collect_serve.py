"""`npulens collect serve`: a load on a serving engine, and what all sides tell of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from npulens import ingest
from npulens.app.commands import load
from npulens.app.console import json_option, lang_option, print_json, store_option
from npulens.app.run_collectors import ask
from npulens.app.text.i18n import duration, say
from npulens.app.text.recording import said


@click.command("serve")
@click.option("--url", required=True, help="The server, such as http://127.0.0.1:8000.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Gets all files  [./serve-TIME]")
@click.option("--model", help="[the first that the server has]")
@click.option("--trace", type=click.Path(path_type=Path), help="A Mooncake trace to send, instead of random requests.")
@click.option("--speed", type=float, help="The trace so many times as fast.  [1]")
@click.option("--rate", type=float, help="Random requests: so many a second on average.  [1]")
@click.option("--requests", type=int, help="So many requests.  [100, or the whole trace]")
@click.option("--prompt", help="Tokens of a random prompt: 128, or 64:256.  [64:256]")
@click.option("--answer", help="Tokens of its answer.  [32:128]")
@click.option("--vocabulary", type=int, help="Send numbers of tokens below this instead of words.")
@click.option("--seed", type=int, help="Decides what is random.  [0]")
@click.option("--otlp-port", type=int, help="Where spans are received, on loopback.  [4318]")
@click.option("--log", type=click.Path(path_type=Path), help="The server's log, for its lines of iterations.")
@click.option("--profile", type=int, help="Record so many iterations with the server's profiler.")
@click.option("--profile-dir", type=click.Path(path_type=Path), help="Where the server writes its traces.")
@click.option("--profile-seconds", type=float, help="The window ends after this in any case.  [60]")
@click.option("--load/--no-load", "loads", default=True, help="Load the result into the store.")
@store_option
@json_option
@lang_option
def command(
    url: str, output: Path | None, model: str | None, trace: Path | None, speed: float | None, rate: float | None,
    requests: int | None, prompt: str | None, answer: str | None, vocabulary: int | None, seed: int | None,
    otlp_port: int | None, log: Path | None, profile: int | None, profile_dir: Path | None,
    profile_seconds: float | None, loads: bool, store: Path, as_json: bool, lang: str,
) -> None:  # fmt: skip
    """Send a load to the server at URL, and keep what all sides tell of it in one folder: one run.

    \b
    vllm serve ... --otlp-traces-endpoint http://127.0.0.1:4318/v1/traces --enable-logging-iteration-details 2> s.log
    npulens collect serve --url http://127.0.0.1:8000 --log s.log --rate 5

    vLLM sends spans by gRPC unless OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf is set for it. A request is sent
    when its time has come, whatever became of those before it.
    """
    home = (output or Path(f"serve-{time.strftime('%Y%m%d-%H%M%S')}")).absolute()
    named = {
        "url": url, "output": home, "model": model, "trace": trace, "speed": speed, "rate": rate, "requests": requests,
        "prompt": prompt, "answer": answer, "vocabulary": vocabulary, "seed": seed, "otlp-port": otlp_port, "log": log,
        "profile": profile, "profile-dir": profile_dir, "profile-seconds": profile_seconds,
    }  # fmt: skip
    told = ask(["serve", *(word for name, value in named.items() if value is not None
                           for word in (f"--{name}", str(value)))])  # fmt: skip
    report = ingest.load(home, store, label=home.name) if loads and told["status"] != "failed" else None
    if as_json:
        print_json(told | ({"runs": [run.as_dict() for run in report.runs]} if report else {}))
    else:
        click.echo(f"{home}: {told['status']}" + (f" ({told['reason']})" if told["reason"] else ""))
        for line in lines(told, lang):
            click.echo(line)
        if report is not None:
            load.show(report, False)
    sys.exit(1 if told["status"] == "failed" else 0)


def lines(told: Mapping[str, Any], lang: str) -> Iterator[str]:
    """What came of it, and what the profiler's window cost."""
    values = {"done": told["done"], "of": told["requests"], "late": duration(told["late_ns"])}
    yield say(lang, "collect.serve_done", values)
    cost = told["cost"]
    if cost is not None:
        taken = {name.removesuffix("_ns"): _taken(lang, value) for name, value in cost.items() if name != "hurt"}
        yield say(lang, "collect.serve_window_taken", {"iterations": told["window"]["iterations"], **taken})
        yield say(lang, "collect.serve_cost_itl", taken)
        yield say(lang, "collect.serve_cost_calls", {"n": cost["hurt"], **taken})
    for notice in told["notices"]:
        yield said(notice, lang)


def _taken(lang: str, ns: int | None) -> str:
    return say(lang, "collect.serve_not_measured") if ns is None else duration(ns)

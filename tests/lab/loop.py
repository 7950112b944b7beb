"""One loop from end to end, by the commands that one person types: a slow service, its fix, a night that guards it.

    python -m tests.lab.loop [--seconds 8] [--kept DIR] [-o docs/lab_loop.md] [--picture docs/laboratory.png]

Every command is printed with what it says. The fix is what the laboratory says to paste, put in place of the lines it
names. Give the machine nothing else to do. Exit code 1 if a link of the loop does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SERVE = Path(__file__).with_name("serve.py")
NPULENS = str(Path(sys.executable).with_name("npulens"))
_LIMIT_S = 1800
#: What a profiler, a backend and the rounds of a night say on the way.
_NOISE = re.compile(r"USDT|npulens: |\d\d:\d\d:\d\d ")
_STEPS = ("--wait", "3", "--active", "20")
_SHOWN = 26  # lines of a command's answer
NIGHT = """[night]
name = "serve"
rounds = 5
out = "reports"

[[job]]
name = "serve"
command = ["{python}", "serve.py", "100"]
measure = "result"
base = { commit = "fixed" }
head = { commit = "main" }
"""


@dataclass
class Told:
    """What was typed and said so far, and which links held."""

    home: Path
    parts: list[tuple[str, str, str]] = field(default_factory=list)
    links: list[tuple[bool, str]] = field(default_factory=list)

    def run(self, why: str, *words: str, quiet: bool = False, fine: Sequence[int] = (0,)) -> str:
        """A command as it is typed; what it prints is shown and returned."""
        typed = " ".join(words)
        told = [NPULENS if word == "npulens" else sys.executable if word == "python" else word for word in words]
        done = subprocess.run(
            told, cwd=self.home, capture_output=True, text=True, timeout=_LIMIT_S,
            env={**os.environ, "NPULENS_STORE": str(self.home / "store"), "OMP_NUM_THREADS": "1", "PYTHONPATH": "",
                 "GIT_CONFIG_GLOBAL": os.devnull, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )  # fmt: skip
        if done.returncode not in fine:
            raise RuntimeError(f"{typed}: status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        if not quiet:
            errors = [line for line in done.stderr.splitlines() if not _NOISE.match(line)]
            said = _brief("\n".join([*errors, *done.stdout.splitlines()]).replace(str(self.home), "~"))
            self.parts.append((why, typed, said))
            print(f"\n# {why}\n$ {typed}\n{said}", flush=True)
        return done.stdout

    def asked(self, *words: str, fine: Sequence[int] = (0,)) -> dict[str, Any]:
        """The same command's answer for scripts; it is not shown."""
        found: dict[str, Any] = json.loads(self.run("", *words, "--json", quiet=True, fine=fine))
        return found

    def link(self, holds: bool, text: str) -> None:
        self.links.append((holds, text))
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {text}", flush=True)


def _brief(text: str) -> str:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join(
        lines if len(lines) <= _SHOWN else [*lines[: _SHOWN - 1], f"... {len(lines) - _SHOWN + 1} more lines"]
    )


def loop(told: Told, seconds: float) -> None:
    """All of it, one link after the other."""
    home = told.home
    shutil.copy(SERVE, home / "serve.py")
    slow = told.run("A service that is slower than it should be.", "python", "serve.py")
    first = _found(told)
    subject = _heard(told)
    best = _tried(told, subject, seconds)
    _paste(told, Path(subject), best)
    fast = told.run("The same requests again.", "python", "serve.py")
    told.link(_answers(slow) == _answers(fast), f"the answers are the same to four digits: {_answers(fast)}")
    told.run("Recorded again.", "npulens", "collect", "-o", "profiles/after", *_STEPS, "--", "python", "serve.py")
    told.run("Both recordings compared.", "npulens", "compare", "before", "after", "--top", "5")
    verdict = told.asked("npulens", "compare", "before", "after")
    told.link("improved" in json.dumps(verdict.get("verdict", verdict)), "compare says that it improved")
    gained = _ms(slow) - _ms(fast)
    told.link(gained > 0, f"a request took {_ms(slow):.1f} ms and takes {_ms(fast):.1f} ms; the finding said at most "
                          f"{first / 1e6:.1f} ms less, {gained:.1f} ms it is")  # fmt: skip
    _night(told)


def _found(told: Told) -> float:
    """The first finding and its ceiling."""
    told.run("What costs the time?", "npulens", "collect", "-o", "profiles/before", *_STEPS, "--", "python", "serve.py")
    check = told.asked("npulens", "check", "before")
    finding = check["findings"][0]
    told.link(finding["detector"] == "unfused", f"check names the cause first: {finding['title']}")
    told.run("Which rewrites does that name?", "npulens", "lab", "before")
    return float(finding["saving_ns"])


def _heard(told: Told) -> str:
    told.run("The service's own module, weights and requests.", "npulens", "lab", "-o", "subject", "--", "python",
             "serve.py")  # fmt: skip
    return str(next((told.home / "subject").glob("*/subject.json")).parent)


def _tried(told: Told, subject: str, seconds: float) -> dict[str, Any]:
    """What the laboratory says; the fastest rewrite that leaves the type as it is."""
    short = ("--seconds", f"{seconds:g}")
    told.run("Tried: right first, then faster.", "npulens", "lab", "subject", "--run", "before", "--try",
             "sdpa,merge_linears,fold", *short)  # fmt: skip
    result = json.loads((Path(subject) / "result.json").read_text("utf-8"))
    trials = {each["rewrite"]: each for each in result["trials"]}
    said = trials["sdpa"]
    told.link(said["verdict"] == "faster", f"the laboratory says of sdpa: {said['verdict']}, "
                                           f"{said['speed']['ratio']:.3f} of the time, error "
                                           f"{said['errors']['of_rewrite']:.1e}")  # fmt: skip
    told.link(trials["fold"]["verdict"] == "does_not_apply", "fold does not apply: there is no BatchNorm")
    told.run("Both recorded side by side, for the page Laboratory.", "npulens", "lab", "subject", "--record", "sdpa",
             "-o", "recorded")  # fmt: skip
    return dict(said)


def _paste(told: Told, subject: Path, trial: dict[str, Any]) -> None:
    """The lines that the laboratory names give way to what it says to paste."""
    said = json.loads((subject / "drawn" / f"{trial['rewrite']}.json").read_text("utf-8"))
    path = told.home / "serve.py"
    lines = path.read_text("utf-8").splitlines()
    named = [source["line"] for source in said["changes"]["sources"]]
    told.link([lines[line - 1].strip() for line in named] == [each["code"] for each in said["changes"]["sources"]],
              f"the laboratory names the lines: serve.py {', '.join(map(str, named))}")  # fmt: skip
    scale = re.search(r"scale=([0-9.e-]+)", said["paste"])
    told.link(scale is not None, "and says what to paste, with the scale of this job")
    assert scale is not None
    call = "torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=" + scale[1] + ")"
    room = lines[named[0] - 1][: len(lines[named[0] - 1]) - len(lines[named[0] - 1].lstrip())]
    kept = [line for number, line in enumerate(lines, 1) if number not in named]
    kept.insert(named[0] - 1, f"{room}mixed = {call}")
    (told.home / "slow.py").write_text("\n".join(lines) + "\n", "utf-8")
    path.write_text("\n".join(kept) + "\n", "utf-8")
    told.run("The fix, pasted.", "git", "diff", "--no-index", "--unified=0", "slow.py", "serve.py", fine=(1,))


def _night(told: Told) -> None:
    """A repository with the fix, a night that finds it in place, and one that finds it gone."""
    home = told.home
    git = ("git", "-c", "user.name=somebody", "-c", "user.email=somebody@localhost")
    (home / "nightly.toml").write_text(NIGHT, "utf-8")
    for words in (("git", "init", "-q", "-b", "main"), ("git", "add", "serve.py", "nightly.toml"),
                  (*git, "commit", "-q", "-m", "attention in one call"), ("git", "tag", "fixed")):  # fmt: skip
        told.run("", *words, quiet=True)
    told.run("A night with the fix in place.", "npulens", "nightly", "nightly.toml", "--lang", "en", "--night",
             "2026-01-01", fine=(0, 1))  # fmt: skip
    shutil.copy(home / "slow.py", home / "serve.py")
    told.run("", *git, "commit", "-q", "-am", "clean up", quiet=True)
    told.run("Somebody takes it out again. The next night:", "npulens", "nightly", "nightly.toml", "--lang", "en",
             "--night", "2026-01-02", fine=(0, 1))  # fmt: skip
    told.link(not _regressed(home, "2026-01-01"), "the night with the fix finds no regression")
    told.link(_regressed(home, "2026-01-02"), "the night without it does")


def _regressed(home: Path, night: str) -> bool:
    said = json.loads((home / "reports" / night / "night.json").read_text("utf-8"))
    return any(row["verdict"] == "regressed" for row in said["rows"])


def _answers(said: str) -> str:
    return said.rpartition("add up to ")[2].strip()


def _ms(said: str) -> float:
    found = re.search(r"([0-9.]+) ms each", said)
    assert found is not None, said
    return float(found[1])


def page(told: Told, picture: Path | None, at: Path) -> str:
    """docs/lab_loop.md."""
    parts = [
        "# From a finding to a fix that stays", "",
        "Generated by `python -m tests.lab.loop -o docs/lab_loop.md`. One service,",
        "[`tests/lab/serve.py`](../tests/lab/serve.py), and the commands that one person types. It ran on a CPU;",
        "nothing here has run on an NPU or a GPU. [The laboratory](lab.md) says how each verdict is reached.", "",
    ]  # fmt: skip
    for why, typed, said in told.parts:
        parts += [f"**{why}**", "", "```", f"$ {typed}", *([said] if said else []), "```", ""]
    if picture is not None:
        name = os.path.relpath(picture, at.parent)
        parts += ["The page *Laboratory* with this result:", "", f"![The page Laboratory]({name})", ""]
    parts += [f"- {'holds' if holds else '**does not hold**'}: {text}" for holds, text in told.links]
    parts += ["", f"Measured with torch {version('torch')} and Python {platform.python_version()} on {os.cpu_count()} "
              f"cores ({platform.machine()}).", ""]  # fmt: skip
    return "\n".join(parts)


def photograph(told: Told, picture: Path) -> None:
    """The page with the result, as a browser shows it."""
    from tests.bench import shots

    subject = next((told.home / "subject").glob("*/subject.json")).parent.name
    with shots._served(told.home / "store") as url, shots._browser() as browser:
        runs = told.asked("npulens", "runs")["runs"]
        run = next(each["run_id"] for each in runs if each["label"] == subject and "lab" in each["formats"])
        shown = browser.new_page(viewport={"width": 1200, "height": 900}, locale="en-US", reduced_motion="reduce")
        shown.goto(f"{url}/Laboratory?lang=en&run={run}&rewrite=sdpa")
        shown.wait_for_function("document.querySelectorAll('.js-plotly-plot').length >= 3", timeout=120_000)
        shown.wait_for_timeout(3000)
        tall = shown.evaluate("document.querySelector('[data-testid=stMainBlockContainer]').scrollHeight")
        shown.set_viewport_size({"width": 1200, "height": min(int(tall), 2200)})
        shown.wait_for_timeout(2000)
        shown.screenshot(path=str(picture))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.loop")
    parser.add_argument("--seconds", type=float, default=8.0, help="of one comparison of the laboratory")
    parser.add_argument("--kept", type=Path, help="work here, and keep it")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--picture", type=Path, help="photograph the page Laboratory; needs Chromium")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = (asked.kept or Path(scratch)).absolute()
        home.mkdir(parents=True, exist_ok=True)
        told = Told(home)
        loop(told, asked.seconds)
        if asked.picture:
            photograph(told, asked.picture)
        if asked.output:
            asked.output.write_text(page(told, asked.picture, asked.output), "utf-8")
    print()
    for holds, text in told.links:
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {text}")
    return 0 if all(holds for holds, _ in told.links) else 1


if __name__ == "__main__":
    raise SystemExit(main())

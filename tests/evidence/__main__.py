"""A genuine archive of this machine's CPU, and forged and damaged ones: what `npulens evidence verify` says of each.

    python -m tests.evidence [--kept DIR] [--only WORD]

Makes two archives with `npulens evidence run`, a few minutes of two cores. Exit code 1 if the genuine one does not
pass, or if one of the others passes. A refusal for another reason than its own counts as a pass.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from npulens.analysis.proof.verdict import NOT_BELIEVED
from npulens.app.commands.evidence import sentence
from npulens.app.evidence.verify import Answer, verify
from npulens.ingest.errors import IngestError
from tests.evidence.forged import FORGERIES, Forgery

WORD = "lighthouse"
NPULENS = str(Path(sys.executable).with_name("npulens"))


def genuine(home: Path, *parts: str) -> Path:
    """An archive of this machine."""
    if not list(home.glob("*.zip")):
        chosen = [word for part in parts for word in ("--part", part)]
        command = [NPULENS, "evidence", "run", "-o", str(home), "--backend", "cpu", "--challenge", WORD, *chosen]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return next(iter(sorted(home.glob("*.zip"))))


def refused(forgery: Forgery, path: Path) -> tuple[bool, str]:
    """Whether it is refused for its own reason, and the reason."""
    try:
        answer = verify(path, WORD if forgery.made.__name__ != "other_word" else None)
    except IngestError as error:
        return error.kind == forgery.error, str(error.message)
    said = {each.check: sentence(each, "en") for each in answer.verdicts if each.outcome == NOT_BELIEVED}
    wanted = [check for check in forgery.checks if check in said]
    reason = said[wanted[0]] if wanted else "; ".join(said.values()) or "believed"
    return set(wanted) == set(forgery.checks) and bool(wanted), reason


def line(what: str, good: bool, said: str) -> str:
    return f"| {what} | {'yes' if good else '**no**'} | {said} |"


def passes(answer: Answer) -> tuple[bool, str]:
    wrong = [sentence(each, "en") for each in answer.verdicts if each.outcome == NOT_BELIEVED]
    return answer.passes, "; ".join(wrong) or f"{len(answer.verdicts)} checks"


def main() -> int:
    parser = argparse.ArgumentParser(description="A genuine archive and forged ones.")
    parser.add_argument("--kept", type=Path, help="where the archives stay")
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="npulens-") as scratch:
        home = asked.kept or Path(scratch)
        one, other = genuine(home / "one"), genuine(home / "other", "planted")
        told = [("a genuine archive passes", *passes(verify(one, WORD)))]
        print("| archive | as it should be | what is said |\n|---|---|---|")
        print(line(*told[0]), flush=True)
        for forgery in FORGERIES:
            if asked.only in forgery.made.__name__:
                path = forgery.made(one, other, home / f"{forgery.made.__name__}.zip")
                told.append((forgery.what, *refused(forgery, path)))
                print(line(*told[-1]), flush=True)
    return 0 if all(good for _, good, _ in told) else 1


if __name__ == "__main__":
    sys.exit(main())

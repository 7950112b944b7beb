"""`python -m tests.generated.beside_triton_viz`: the same planted accesses, judged by triton-viz's sanitizer.

A witness that is not ours: it works with formulas, stops at the first access that is wrong, and prints where. Needs
triton-viz 3.0, which needs triton 3.6; `make test-memcheck` makes a Python that has both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

_LINE = re.compile(r"Line (\d+):")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def launched(name: str, wrong: bool) -> None:
    """One launch, every kernel of which is looked at by the sanitizer."""
    import triton
    import triton_viz
    from triton_viz.clients import Sanitizer

    compiled = triton.jit
    triton.jit = lambda function: triton_viz.trace(client=Sanitizer())(compiled(function))
    from tests.generated.planted import PLANTED

    PLANTED[name].launch(wrong)


def told(name: str, wrong: bool) -> tuple[int | None, str]:
    """The line that the sanitizer names, and the last line of what it printed."""
    command = [sys.executable, "-m", "tests.generated.beside_triton_viz", name, "wrong" if wrong else "right"]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "ENABLE_SANITIZER": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    text = _COLOUR.sub("", done.stdout + done.stderr)
    found = _LINE.search(text)
    last = (text.strip().splitlines() or [""])[-1][:100]
    return (int(found[1]) if found else None), last if done.returncode else ""


def main() -> int:
    if len(sys.argv) == 3:
        launched(sys.argv[1], sys.argv[2] == "wrong")
        return 0
    from tests.generated.planted import PLANTED

    same = silent = other = alarms = 0
    for name, case in PLANTED.items():
        (line, why), (right, _) = told(name, True), told(name, False)
        same += line == case.line(name)
        silent += line is None
        other += line is not None and line != case.line(name)
        alarms += right is not None
        print(f"{name}: planted at {case.line(name)} ({case.kind}), it names {line or why or 'nothing'}"
              + (f"; launched right it names {right}" if right else ""), flush=True)  # fmt: skip
    print(
        f"triton-viz names the line of {same} of {len(PLANTED)}, a caller's line of {other}, and nothing of {silent}; "
        f"of the same launches made right it names {alarms}"
    )
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())

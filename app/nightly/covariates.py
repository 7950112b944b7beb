"""Which conditions changed where a series did: the first places to look, and the command that would tell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from app.nightly.night import Hint

#: What the machine is, and not what runs on it. A configuration names more of them under [machine].
_MACHINE = re.compile(
    r"^(machine\.|host|hardware|device|driver|firmware|platform|kernel|cpu|AI Core|governor|clock|power"
    r"|temperature|throttled|memory_limit|numa)", re.IGNORECASE,
)  # fmt: skip
#: A condition that goes with a series less closely than this is a coincidence and not shown.
_LEAST = 0.75
#: One that goes with it this closely is taken for the reason.
SURE = 0.9
_MOST = 8
_ENVIRONMENT = re.compile(r"(?:variables\.|env[. ])?([A-Z][A-Z0-9_]+)$")


def hints(conditions: Sequence[Mapping[str, str]], first: int, last: int) -> tuple[Hint, ...]:
    """Conditions with one value before the change and another from it on, the closest first.

    The change lies between two nights of ``first`` to ``last``, counted as the first of the new level: a condition is
    tried at each. Its score is the lower of two shares: nights before that had the old value, nights since that have
    the new one.
    """
    best: dict[str, Hint] = {}
    for change in range(max(first, 1), min(last, len(conditions) - 1) + 1):
        before, after = conditions[:change], conditions[change:]
        for name in {*before[-1], *after[0]}:
            found = _hint(name, before, after)
            if found is not None and (name not in best or found.score > best[name].score):
                best[name] = found
    return tuple(sorted(best.values(), key=lambda hint: (-hint.score, hint.name))[:_MOST])


def _hint(name: str, before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]) -> Hint | None:
    old, new = before[-1].get(name, ""), after[0].get(name, "")
    if old == new:
        return None
    score = min(
        sum(each.get(name, "") == old for each in before) / len(before),
        sum(each.get(name, "") == new for each in after) / len(after),
    )
    # A commit changes every night or two: that it also changed in this one is still where to look.
    kept = score >= _LEAST or is_commit(name)
    return Hint(name, old, new, is_machine(name), round(score, 3)) if kept else None


def is_machine(name: str) -> bool:
    """Whether a condition is what the machine is, and not what runs on it."""
    return bool(_MACHINE.match(name))


def is_commit(name: str) -> bool:
    """Whether a condition is the state of somebody's code."""
    return name.rpartition(".")[2] == "commit"


def confirm(found: Sequence[Hint], task: str, config: str) -> str:
    """The command that measures before against after of the first condition a command can set; empty if there is none.

    A version of a package or of CANN cannot be set by a command: there the interpreter that has it has to be named.
    """
    for hint in found:
        if hint.machine or not hint.before or not hint.after:
            continue
        named = _ENVIRONMENT.match(hint.name)
        key = "commit" if is_commit(hint.name) else hint.name if hint.name == "python" else named[1] if named else ""
        old, new = hint.before, hint.after
        if not key:
            key, old, new = "python", f"PYTHON_WITH_{_word(hint.before)}", f"PYTHON_WITH_{_word(hint.after)}"
        words = (config, "--only", task, "--base", f"{key}={old}", "--head", f"{key}={new}")
        return f"npulens nightly {shlex.join(words)}"
    return ""


def _word(version: str) -> str:
    return re.sub(r"[^\w.]+", "_", version)

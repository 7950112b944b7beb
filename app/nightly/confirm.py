"""The command that would tell whether a suspect is the reason: before against after of it, in turns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from npulens.analysis.regression.covariates import Suspect

_ENVIRONMENT = re.compile(r"(?:variables\.|env[. ])?([A-Z][A-Z0-9_]+)$")


def confirm(found: Sequence[Suspect], task: str, config: str) -> str:
    """The command that measures before against after of the first condition a command can set; empty if there is none.

    A version of a package or of CANN cannot be set by a command. There the interpreter that has it has to be named.
    """
    for one in found:
        if one.machine or not one.before or not one.after:
            continue
        named = _ENVIRONMENT.match(one.name)
        key = "commit" if one.commit else one.name if one.name == "python" else named[1] if named else ""
        old, new = one.before, one.after
        if not key:
            key, old, new = "python", f"PYTHON_WITH_{_word(one.before)}", f"PYTHON_WITH_{_word(one.after)}"
        words = (config, "--only", task, "--base", f"{key}={old}", "--head", f"{key}={new}")
        return f"npulens nightly {shlex.join(words)}"
    return ""


def _word(version: str) -> str:
    return re.sub(r"[^\w.]+", "_", version)

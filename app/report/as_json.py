"""The same as `npulens check --json` and `npulens breakdown --json`, one entry a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from npulens.app.report.subject import Subject
from npulens.app.text import recording, wording


def write(subjects: Sequence[Subject], langs: tuple[str, ...]) -> str:
    """``{"runs": [...]}``; each run has its check in the first language, further ones under their name."""
    return json.dumps({"runs": [_run(subject, langs) for subject in subjects]}, ensure_ascii=False, indent=1) + "\n"


def _run(subject: Subject, langs: tuple[str, ...]) -> dict[str, Any]:
    first, *others = langs
    return {
        "label": subject.info.label, "lang": first, **wording.as_dict(subject.check, first),
        "recording": list(recording.noticed(subject.manifest, first)),
        "breakdown": [row.as_dict() for row in subject.rows],
        **{lang: wording.as_dict(subject.check, lang) for lang in others},
    }  # fmt: skip

"""A load that waits for its capture. All is imported before there is one, so that a drop does not wait for that.

`python -m npulens.app.intake.spare_process` reads one line from standard input: the arguments of `npulens load`, and
the files that take its answer and its progress. Without a line, because whoever started it is gone, it ends.
"""

from __future__ import annotations

import json
import os
import sys

from npulens.app.commands.load import command
from npulens.ingest.loading.load_process import ahead


def main() -> None:
    ahead()
    line = sys.stdin.readline()
    if not line:
        return
    asked = json.loads(line)
    for name, standard in (("out", 1), ("err", 2)):
        place = os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(place, standard)
        os.close(place)
    command(asked["arguments"])


if __name__ == "__main__":
    main()

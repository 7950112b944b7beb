"""`python -m tests.generated.memory`: twenty planted accesses, each named with its line; none on what is right.

Needs torch and triton in the same Python; `make test-memcheck` makes one.
"""

from __future__ import annotations

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

from npulens.collectors.memcheck import ours  # noqa: E402
from npulens.collectors.memcheck.finding import Finding, Report  # noqa: E402
from npulens.collectors.memcheck.interpreter import checking  # noqa: E402
from tests.generated import planted  # noqa: E402
from tests.generated.planted import PLANTED, Planted  # noqa: E402


def found(case: Planted, wrong: bool) -> Report:
    """What the checker says of one launch."""
    with checking() as checker:
        case.launch(wrong)
    return checker.report()


def lacking(name: str, findings: tuple[Finding, ...]) -> str | None:
    """What the findings lack or have besides what was planted; None where they are what they have to be."""
    case = PLANTED[name]
    wanted = (
        case.kind,
        case.access,
        case.kernel,
        planted.__file__,
        case.line(name),
        case.tensor,
        case.lanes,
        case.offset,
    )
    told = [(f.kind, f.access, f.kernel, f.file, f.line, f.tensor, f.lanes, f.offset_bytes) for f in findings]
    return None if told == [wanted] else f"{name}: {told} instead of {[wanted]}"


def main() -> int:
    wrong = [told for name, case in PLANTED.items() if (told := lacking(name, found(case, True).findings))]
    clean = [
        f"{name}, launched right: {each}" for name, case in PLANTED.items() for each in found(case, False).findings
    ]
    with checking() as checker:
        ours.run()
    report = checker.report()
    clean += [f"ours: {each}" for each in report.findings]
    print("\n".join([*wrong, *clean]))
    print(
        f"{len(PLANTED) - len(wrong)} of {len(PLANTED)} planted accesses named with line, tensor, lanes and offset; "
        f"{len(clean)} findings on the same {len(PLANTED)} launches made right and on {len(report.launches)} launches "
        f"of {len({each.kernel for each in report.launches})} kernels of ours ({report.accesses} accesses)"
    )
    return 1 if wrong or clean else 0


if __name__ == "__main__":
    sys.exit(main())

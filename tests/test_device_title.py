"""A device that no table knows is still called by the name that the capture gives it."""

from __future__ import annotations

import pytest

from npulens.analysis.device.abilities import UNNAMED, title
from npulens.analysis.engine import check
from npulens.analysis.run import Run
from tests.tablecase import connection
from tests.test_idle import STEP, span


@pytest.mark.parametrize(
    ("name", "called"), [("NVIDIA Made Up", "NVIDIA Made Up"), (None, UNNAMED), ("NVIDIA A40", "NVIDIA A40")]
)
def test_what_cannot_be_measured_names_the_device(name: str | None, called: str) -> None:
    con = connection({
        "rank": {0: {"backend": "cuda", "device_name": name, "formats": ["kineto"]}},
        "spans": [STEP, span(2, "kernel", "volta_sgemm_128x64_tn", 10, 800)],
    })  # fmt: skip
    assert title(Run(con), 0) == called
    (outcome,) = check(con, ["full_precision"]).outcomes
    assert (f"of {called} is known" in outcome.reason) == (called != "NVIDIA A40")

"""Replay scripts of real captures, run on this CPU.

    python -m tests.replay [--seconds 1] [--most 6] [--keep DIR] [--only WORD]

Of each capture the longest operators that a CPU computes in a moment become scripts. Each is run as its user would run
it, and profiled: what torch records of it must be what the capture's own file says. Times are told for captures of a
CPU; those of other devices only run once.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.conftest import SHARED
from tests.replay.check import Written, calls_of, ran, recorded, same, scripts

_SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
_LENS = "AMD-AGI+TraceLens/tests/traces"
_OWN = ("cpu_train_step", "cpu_conv_unfused", "cpu_conv_folded")
_SHARED_1 = (
    f"{_LENS}/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    f"{_LENS}/h100/Falconsai_nsfw_image_detection__1016002.json.gz",
    f"{_LENS}/mi300/gaunernst_bert-small-uncased__1016001.json.gz", f"{_LENS}/b200/eager_trace.json.gz",
    "facebookresearch+HolisticTraceAnalysis@hist-05cd72fe/tests/data/cpu_only",
    "Ascend+msinsight/test/data/pytorch/text/level1/rank0_ascend_pt",
)  # fmt: skip
_SHARED_2 = ("harryjmoss+particle_transformer@hist-0b62c8f6",)


def captures() -> list[Path]:
    """Those that are here."""
    places = [_SAMPLES / name for name in _OWN]
    places += [SHARED / name for name in _SHARED_1] + [SHARED.with_name("traces_2") / name for name in _SHARED_2]
    return [place for place in places if place.exists()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each series of a CPU's operator")
    parser.add_argument("--most", type=int, default=6, help="scripts of one capture")
    parser.add_argument("--keep", type=Path, help="a folder for the scripts")
    parser.add_argument("--only", default="", help="captures with this in their path")
    args = parser.parse_args()
    shapes, right = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for capture in [one for one in captures() if args.only in str(one)]:
            home = (args.keep or Path(folder)) / "scripts"
            home.mkdir(parents=True, exist_ok=True)
            written = scripts(capture, Path(folder, "store"), home, args.most)
            print(f"{capture.parent.name}/{capture.name}: {len(written)} scripts", flush=True)
            for line in _told(capture, written, args.seconds, shapes, right):
                print(line, flush=True)
    print("\nshapes, types, strides and values as torch records them, beside the capture's file:")
    print("  " + ", ".join(f"{count} {name}" for name, count in shapes.most_common()))
    print("results: " + ", ".join(f"{count} {name}" for name, count in right.most_common()))


def _told(
    capture: Path, written: list[Written], seconds: float, shapes: Counter[str], right: Counter[str]
) -> Iterable[str]:
    known = calls_of(capture)
    seen = recorded([one.path for one in written])
    for one, told in zip(written, seen, strict=True):
        mapped = one.found.call is not None and one.found.call.mapped
        verdict = f"refused: {told['error']}" if "error" in told else same(
            told, known, one.found.choice.operator if mapped else None
        )  # fmt: skip
        shapes[verdict] += 1
        timed = ["--seconds", str(seconds)] if one.found.backend == "cpu" else ["--once"]
        answer = ran(one.path, ["--device", "cpu", *timed])
        right[_right(answer)] += 1
        yield f"  {one.path.stem:44} {verdict:10} {_right(answer):14} {_times(answer)}"


def _right(answer: dict[str, object]) -> str:
    if answer.get("error"):
        return f"failed: {answer['error']}"
    numerics = answer["numerics"]
    assert isinstance(numerics, dict)
    return {True: "right", False: "WRONG", None: "not compared"}[numerics["ok"]]


def _times(answer: dict[str, object]) -> str:
    series, trace, verdict = answer.get("series"), answer.get("trace"), answer.get("verdict")
    if not isinstance(series, dict) or not series or not isinstance(trace, dict) or not isinstance(verdict, dict):
        return ""
    cold = f"{series['cold']['median_ns'] / 1e3:9.1f}" if "cold" in series else "        -"
    disturbed = f"{series['hot']['disturbed']}/{series['hot']['calls']}"
    return (
        f"hot {series['hot']['median_ns'] / 1e3:9.1f} us, cold {cold} us, in the capture "
        f"{trace['median_ns'] / 1e3:9.1f} us ({trace['calls']} calls), disturbed {disturbed}, {verdict['said']}"
    )


if __name__ == "__main__":
    main()

"""What a walk over an upload says about files of any name and content: a claim or a refusal, never nothing.

An input is up to eight files: a name on the first line, the content, a line of three dashes.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import capture
from tests.fuzz import change
from tests.fuzz.targets import database, kineto, side_files

_NEXT = b"\n---\n"


def _file(name: str, content: bytes) -> bytes:
    return name.encode() + b"\n" + content


def seeds() -> list[bytes]:
    made = [
        [("r_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", b"[]"), ("r_ascend_pt/profiler_info_2.json", b"")],
        [("t.pt.trace.json", kineto.seeds()[0][:600])],
        [("a/ascend_pytorch_profiler_2.db", database.seeds()[0]), ("a/analysis.db", b"SQLite format 3\0")],
        [("x_ascend_pt/FRAMEWORK/torch.op_range", b""), ("PROF_000001_20250109_ABC/device_0/data/x", b"1")],
        [("mindstudio_profiler_output/op_summary_20250109.csv", b"a"), ("a.zip", b"PK\3\4"), ("b.pkl", b"\x80\4\x95")],
        [("a.nsys-rep", b"QDSTRM"), ("t.json", b"\xff\xfe[\0"), ("t.json.gz", b"\x1f\x8b\x08"), ("x.xplane.pb", b"\n")],
        [("cluster_analysis_output/cluster_step_trace_time.csv", b"Step,Type\n"), ("rank0.json", b'{"traceEvents":[')],
        *([("r_ascend_pt/" + n.decode(), text)] for n, _, text in (s.partition(b"\n") for s in side_files.seeds())),
    ]  # fmt: skip
    return [_NEXT.join(_file(name, content) for name, content in files) for files in made]


def mutate(data: bytes, draw: Random) -> bytes:
    files = data.split(_NEXT)
    at = draw.randrange(len(files))
    name, _, content = files[at].partition(b"\n")
    if draw.random() < 0.3:
        name = change.anything(name, draw)
    else:
        content = draw.choice((change.json_text, change.anything))(content, draw)
    files[at] = name + b"\n" + content
    return _NEXT.join(files)


def check(data: bytes, scratch: Path) -> None:
    root = scratch / "upload"
    root.mkdir()
    for each in data.split(_NEXT)[:8]:
        name, _, content = each.partition(b"\n")
        _place(root, name, content)
    try:
        found = capture.find([root])
    except IngestError as error:
        assert error.message
        return
    for source in found.sources:
        assert source.files and all(path.is_file() and path.is_relative_to(root) for path in source.files)
        assert source.facts.rank is None or 0 <= source.facts.rank < 2**31, source.facts
        assert source.size >= 0
    for error in found.refused:
        assert error.kind and error.message
        str(error).encode("utf-8", "surrogateescape")
    assert found.sources or found.refused, "an upload about which nothing is said"


def _place(root: Path, name: bytes, content: bytes) -> None:
    """A file under a name as hostile as a file system takes it, inside the root."""
    parts = [part[:200] for part in name.replace(b"\0", b"").split(b"/") if part not in (b"", b".", b"..")][:6]
    if not parts:
        return
    path = root.joinpath(*(part.decode("utf-8", "surrogateescape") for part in parts))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError:  # a file where a directory is wanted
        return

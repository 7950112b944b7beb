"""Which family of devices a run is of: whose switches advice may name."""

from __future__ import annotations

from npulens.analysis.run import Run


def family(run: Run) -> str:
    """'npu', 'cuda', 'rocm' or another backend; '' where nothing tells."""
    for backend, formats in run.con.execute("SELECT backend, formats FROM rank ORDER BY rank").fetchall():
        if on_npu(backend, formats):
            return "npu"
        if backend is not None:
            return str(backend)
    return ""


def on_npu(backend: str | None, formats: list[str]) -> bool:
    """Whether torch_npu's profiler is the one that would record what is missing."""
    return backend == "npu" or (backend is None and any(name.startswith("torch_npu") for name in formats))


#: Spans that only the profiler of a framework records.
_OF_A_FRAMEWORK = ("cpu_op", "python", "enqueue", "dequeue", "step_mark")


def by_msprof(run: Run) -> bool:
    """Whether msprof alone recorded the run: the files are its own, and nothing of a framework is in them."""
    ((found,),) = run.con.execute(
        "SELECT bool_and(coalesce(TRY(json_extract_string(settings, '$.profiler')) = 'msprof', false)) "
        "AND NOT EXISTS (SELECT 1 FROM span WHERE list_contains(?, kind)) FROM rank", [_OF_A_FRAMEWORK],
    ).fetchall()  # fmt: skip
    return bool(found)


def by_msprof_op(run: Run) -> bool:
    """Whether all that was recorded is one operator, by msprof op."""
    ((found,),) = run.con.execute("SELECT bool_and(formats = ['opprof']) FROM rank").fetchall()
    return bool(found)

"""Disposable children: whatever one does, the others finish and it is said what happened."""

from __future__ import annotations

import mmap
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import sandbox

MIB = 1 << 20
LIMITS = sandbox.Limits(memory_bytes=2 * sandbox.GIB, file_bytes=MIB, cpu_s=30, wall_s=30.0)
Progress = Callable[[int], None]


def answers(progress: Progress) -> dict[str, Any]:
    progress(7)
    return {"pid": os.getpid()}


def refuses(progress: Progress) -> dict[str, Any]:
    raise IngestError("bad", "it is bad", "file", 3)


def is_wrong(progress: Progress) -> dict[str, Any]:
    return {"a": {}["b"]}


def dies(progress: Progress) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def eats(progress: Progress) -> dict[str, Any]:
    return {"size": len(bytearray(4 * sandbox.GIB))}


def writes(progress: Progress) -> dict[str, Any]:
    with open(f"/tmp/npulens-{os.getpid()}", "wb") as out:
        os.unlink(out.name)
        out.write(bytes(4 * MIB))
        out.flush()
    return {}


def goes_deep(progress: Progress) -> dict[str, Any]:
    def deep(left: int) -> int:
        return 1 + deep(left - 1) if left else 0

    return {"deep": deep(800), "size": len(bytearray(64 * MIB))}


def sleeps(progress: Progress) -> dict[str, Any]:
    time.sleep(60)
    return {}


def outcome(task: sandbox.Task, limits: sandbox.Limits = LIMITS) -> sandbox.Message:
    return list(sandbox.run([(task, limits)], at_once=1))[-1]


def test_a_large_parent_takes_nothing_from_its_child() -> None:
    """A server that is up for long has more address space than a child may use."""
    with mmap.mmap(-1, 3 * sandbox.GIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        assert outcome(goes_deep).result == {"deep": 800, "size": 64 * MIB}
        said = outcome(eats).error
    assert said is not None and said.kind == "too_large" and "2 GiB" in str(said)


def test_progress_then_a_result_from_another_process() -> None:
    first, last = sandbox.run([(answers, LIMITS)], at_once=1)
    assert first.progress == 7
    assert last.result and last.result["pid"] != os.getpid()


@pytest.mark.parametrize(
    ("task", "kind", "text"),
    [
        (refuses, "bad", "it is bad"),
        (is_wrong, "defect", "KeyError: 'b' (is_wrong"),
        (dies, "crashed", "SIGSEGV"),
        (eats, "too_large", "more than 2 GiB"),
        (writes, "system", "File too large"),
    ],
)
def test_every_end_is_a_typed_error(task: sandbox.Task, kind: str, text: str) -> None:
    error = outcome(task).error
    assert error is not None and error.kind == kind and text in error.message


def test_a_child_that_hangs_is_stopped_at_its_deadline() -> None:
    error = outcome(sleeps, sandbox.Limits(2 * sandbox.GIB, MIB, 30, 0.3)).error
    assert error is not None and error.kind == "too_slow"


def test_many_children_side_by_side_each_answer_once() -> None:
    tasks = [answers, dies, refuses, answers, is_wrong] * 12
    done = [m for m in sandbox.run([(task, LIMITS) for task in tasks], at_once=4) if m.result or m.error]
    assert sorted(message.task for message in done) == list(range(len(tasks)))
    for message in done:
        assert (message.result is not None) == (tasks[message.task] is answers)


def test_small_tasks_share_a_child_until_one_fails() -> None:
    """One that fails after others is done again by itself; its neighbours are done once, and by others after it."""
    tasks = [answers, answers, refuses, answers, dies, answers, answers]
    found = list(sandbox.run([(task, LIMITS) for task in tasks], at_once=1, batches=[range(7)]))
    done = [message for message in found if message.result or message.error]
    assert [message.task for message in done] == list(range(7))
    kinds = [message.error.kind if message.error else message.result and message.result["pid"] for message in done]
    assert kinds[2] == "bad" and kinds[4] == "crashed"
    assert kinds[0] == kinds[1] != kinds[3] != kinds[5] == kinds[6]


def test_no_task_fails_for_what_those_before_it_left() -> None:
    """Descriptors that are not closed, memory that is not given back: in a child of its own it goes well."""
    left: list[bytearray] = []

    def leaves(progress: Progress) -> dict[str, Any]:
        left.append(bytearray(3 * sandbox.GIB // 2))
        os.close(0)
        return {"size": len(left)}

    def needs(progress: Progress) -> dict[str, Any]:
        os.fstat(0)
        return {"size": len(bytearray(3 * sandbox.GIB // 2))}

    found = list(sandbox.run([(leaves, LIMITS), (needs, LIMITS)], at_once=1, batches=[[0, 1]]))
    assert [message.result for message in found] == [{"size": 1}, {"size": 3 * sandbox.GIB // 2}]


def test_limits_hold_for_each_task_by_itself() -> None:
    """Processor time and the deadline begin anew; so does what a task may have in memory."""

    def works(progress: Progress) -> dict[str, Any]:
        begun = time.process_time()
        while time.process_time() < begun + 0.7:
            pass
        return {"size": len(bytearray(sandbox.GIB // 2))}  # four of them are more than a task may have

    def naps(progress: Progress) -> dict[str, Any]:
        time.sleep(0.6)
        return {}

    limits = sandbox.Limits(2 * sandbox.GIB, MIB, 2, 60.0)
    found = list(sandbox.run([(works, limits)] * 4, at_once=1, batches=[range(4)]))
    assert [message.result for message in found] == [{"size": sandbox.GIB // 2}] * 4
    short = sandbox.Limits(2 * sandbox.GIB, MIB, 2, 2.0)
    late = list(sandbox.run([(task, short) for task in (naps, naps, naps, naps, sleeps)], 1, batches=[range(5)]))
    assert [message.error and message.error.kind for message in late] == [None, None, None, None, "too_slow"]

"""What makes two sides less comparable: different world sizes, formats, profiler levels, devices or software."""

from __future__ import annotations

from collections.abc import Iterator

from npulens.analysis.look.compare import About, Note, Side

#: What a run says of itself that should be the same on both sides: field, text.
_FACTS = (
    ("formats", "formats"), ("levels", "levels"), ("backends", "backends"), ("devices", "devices"),
)  # fmt: skip


def notes(base: Side, head: Side) -> tuple[Note, ...]:
    """Everything worth saying before anyone reads the figures."""
    ours, theirs = base.about, head.about
    found = [*_windows(base, head)]
    if ours.run_id != theirs.run_id:
        found += [*_job(ours, theirs), *_recorded(ours, theirs)]
    return tuple(found)


def _windows(base: Side, head: Side) -> Iterator[Note]:
    if base.about.run_id == head.about.run_id and base.windows == head.windows:
        yield Note("same")
    if base.whole:
        yield Note("whole")
    ours, theirs = dict(base.parts), dict(head.parts)
    lost = [key for key in ours if key != "residual" and (ours[key] is None or theirs[key] is None)]
    if lost:
        yield Note("unsplit", (("parts", tuple(lost)),))
    for name, each in (("base", base), ("head", head)):
        if each.about.status == "partial" and (name == "base" or base.about != head.about):
            yield Note(f"partial_{name}")


def _job(ours: About, theirs: About) -> Iterator[Note]:
    if ours.world_size != theirs.world_size and None not in (ours.world_size, theirs.world_size):
        yield Note("world", (("base", ours.world_size), ("head", theirs.world_size)))
    if ours.ranks != theirs.ranks:
        yield Note("ranks", (("base", ours.ranks), ("head", theirs.ranks)))
    for field, key in _FACTS:
        before, after = getattr(ours, field), getattr(theirs, field)
        if before != after:
            yield Note(key, (("base", before), ("head", after)))
    before, after = dict(ours.versions), dict(theirs.versions)
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            yield Note("version", (("name", name), ("base", before[name]), ("head", after[name])))


def _recorded(ours: About, theirs: About) -> Iterator[Note]:
    """What only one side recorded: recording costs time too."""
    for key, here, there in (("only_base", ours, theirs), ("only_head", theirs, ours)):
        only = tuple(name for name in here.recorded if name not in there.recorded)
        if only:
            yield Note(key, (("tables", only),))

"""Finds detectors: ours, those of installed packages, and those of a folder a user names.

A detector is a module with NEEDS, Limits, TEXT and detect; its file name is its name everywhere. Its docstring is its
documentation; the same in Chinese is a file beside it, <name>.zh.md.
One that is malformed is an error that says what is missing, before anything runs.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from npulens.analysis import detectors as ours
from npulens.analysis.capability import BY_NAME, KINDS
from npulens.analysis.finding import Candidate, Words
from npulens.analysis.limits import Limits
from npulens.analysis.say import LANGUAGES
from npulens.analysis.settings import Settings

GROUP = "npulens.detectors"
OURS = ours.__name__


@dataclass(frozen=True)
class Detector:
    """One judgement: what it needs, what counts as bad, what it says, and how it looks."""

    name: str
    needs: tuple[str, ...]
    limits: type[Limits]
    text: Mapping[str, Mapping[str, Words]]
    detect: Callable[..., Iterable[Candidate]]
    documentation: Mapping[str, str]  # by language; English is the docstring
    about: str | None = None  # 'requests' or 'stages': a judgement of a serving engine, or of reinforcement learning


def detectors(settings: Settings) -> tuple[Detector, ...]:
    """Every detector that is not switched off, by name."""
    found = {detector.name: detector for detector in (*_ours(), *_installed(), *_of_folder(settings.folder))}
    return tuple(found[name] for name in sorted(found) if name not in settings.off)


@cache
def _ours() -> tuple[Detector, ...]:
    names = sorted(m.name for m in pkgutil.iter_modules(ours.__path__) if not m.name.startswith("_"))
    return tuple(described(name, importlib.import_module(f"{ours.__name__}.{name}")) for name in names)


def _installed() -> Iterator[Detector]:
    for point in _points(tuple(sys.path)):
        yield described(point.name, point.load())


@cache
def _points(places: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """What packages there are; looking through all of them takes as long as a small detector."""
    return tuple(entry_points(group=GROUP))


def _of_folder(folder: Path | None) -> Iterator[Detector]:
    if folder is None:
        return
    if not folder.is_dir():
        raise ValueError(f"npulens.toml: there is no folder {folder}")
    for path in sorted(folder.glob("[!_]*.py")):
        module = ModuleType(f"npulens_own_{path.stem}")
        module.__file__ = str(path)
        sys.modules[module.__name__] = module  # a dataclass whose annotations are texts looks for it there
        code = compile(path.read_bytes(), path, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # as it is written now: bytecode is told apart by seconds and size
        yield described(path.stem, module)


def _is_whole(limits: type[Limits]) -> bool:
    """Whether what a class adds are fields too: without @dataclass of its own they are not."""
    return set(vars(limits).get("__annotations__", {})) <= {field.name for field in fields(limits)}


def described(name: str, module: ModuleType) -> Detector:
    """The detector that a module is, or an error that says what it lacks."""

    def part(attribute: str) -> Any:
        if not hasattr(module, attribute):
            raise ValueError(f"detector {name}: {module.__file__} has no {attribute}")
        return getattr(module, attribute)

    needs, limits, text = tuple(part("NEEDS")), part("Limits"), part("TEXT")
    if unknown := set(needs) - BY_NAME.keys():
        raise ValueError(f"detector {name}: NEEDS names {', '.join(sorted(unknown))}; see analysis/capability.py")
    if not (isinstance(limits, type) and issubclass(limits, Limits) and _is_whole(limits)):
        raise ValueError(f"detector {name}: Limits must be a frozen dataclass made from analysis.limits.Limits")
    if set(text) != set(LANGUAGES) or len({frozenset(words) for words in text.values()}) != 1:
        raise ValueError(f"detector {name}: TEXT needs the same sentences in {' and '.join(LANGUAGES)}")
    about = next((need for need in needs if need in KINDS), None)
    return Detector(name, needs, limits, text, part("detect"), _documentation(name, module), about)


def _documentation(name: str, module: ModuleType) -> dict[str, str]:
    """The docstring, and the same in the other languages where a file beside the module holds it."""
    found = {"en": module.__doc__ or ""}
    if module.__file__ is None:
        return found
    for lang in LANGUAGES[1:]:
        path = Path(module.__file__).with_suffix(f".{lang}.md")
        try:
            if path.is_file():
                found[lang] = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"detector {name}: {path}: {error}") from error
    return found

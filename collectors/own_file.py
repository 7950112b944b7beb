"""Somebody's own file of Python as a module, as it is written now."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType


class AsWritten(SourceFileLoader):
    """Compiles the source each time: bytecode is told apart by seconds and size, and would lie beside the file."""

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def spec(name: str, path: Path) -> ModuleSpec | None:
    """How the file is loaded under a name; None: it is no file of Python."""
    return importlib.util.spec_from_file_location(name, path, loader=AsWritten(name, str(path)))

"""The collectors in one file, for a machine where nothing may be installed: ``python -m npulens.collectors.zipapp -o
FILE``.

    scp npulens-collect.pyz npu-host:
    ssh npu-host python3 npulens-collect.pyz own -o profile -- python train.py

It needs Python 3.9 and the torch that is there. What simulates captures stays at home: it runs where npulens runs.
"""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path

NAME = "npulens-collect.pyz"
_HERE = Path(__file__).resolve().parent
#: What simulates captures and makes samples.
_AT_HOME = ("scenarios/", "planting/", "simulator/", "writers/", "samples.py", "recorded_samples.py", "zipapp.py")
_MAIN = "import sys\n\nfrom npulens.collectors.__main__ import main\n\nsys.exit(main())\n"
#: The earliest moment that a zip file can name: the same sources make the same file.
_WHEN = (1980, 1, 1, 0, 0, 0)


def carried() -> list[Path]:
    """The files that go to the machine with the device."""
    every = [path for path in sorted(_HERE.rglob("*.py")) if "__pycache__" not in path.parts]
    return [path for path in every if not path.relative_to(_HERE).as_posix().startswith(_AT_HOME)]


def make(target: Path) -> None:
    """Writes the one file."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN.encode())
        _add(archive, "npulens/__init__.py", b"")
        for path in carried():
            _add(archive, f"npulens/collectors/{path.relative_to(_HERE).as_posix()}", path.read_bytes())


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _WHEN), content, zipfile.ZIP_DEFLATED)


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the collectors into one file that Python runs.")
    parser.add_argument("-o", "--output", type=Path, default=Path(NAME))
    target = parser.parse_args().output
    make(target)
    print(f"{target}: {target.stat().st_size:,} bytes. On the machine with the device: python3 {target.name} --help")


if __name__ == "__main__":
    main()

"""CANN and the driver below it, as their own files describe them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from npulens.collectors.telemetry.machine import ROOT, text

DRIVER = "usr/local/Ascend/driver/version.info"
FIRMWARE = "usr/local/Ascend/firmware/version.info"
#: Where the installers put CANN, the newest name first; each holds a set_env.sh.
_HOMES = ("usr/local/Ascend/cann", "usr/local/Ascend/ascend-toolkit", "usr/local/Ascend/nnae", "usr/local/Ascend/nnrt")
_DESCRIBED = ("*/ascend_*_install.info", "ascend_*_install.info", "version.cfg", "version.info", "*/version.info")

#: ``version=8.2.RC1``, and ``runtime_running_version=[7.7.0.1.231:8.2.RC1]`` of version.cfg.
_VERSION = re.compile(
    r"^\s*version\s*[=:]\s*([^\s\]:]+)|^\s*\w+_running_version\s*=\s*\[[^:\]]*:([^\]]+)\]", re.MULTILINE | re.IGNORECASE
)


def home(environment: Mapping[str, str] | None = None) -> Path | None:
    """What ASCEND_HOME_PATH names; searching for it elsewhere would find another one."""
    told = (os.environ if environment is None else environment).get("ASCEND_HOME_PATH")
    return Path(told) if told else None


def version(place: Path) -> str | None:
    """Of the CANN in a directory; files of several releases call it ``version`` in several ways."""
    for pattern in _DESCRIBED:
        for path in sorted(place.glob(pattern)):
            found = _VERSION.search(text(path))
            if found:
                return found[1] or found[2]
    return None


def installed(root: Path = ROOT) -> Path | None:
    """The set_env.sh of a CANN that lies where its installer puts it."""
    places = [root / name for name in _HOMES]
    if root == ROOT:
        places += [Path.home() / "Ascend" / Path(name).name for name in _HOMES]
    return next((place / "set_env.sh" for place in places if (place / "set_env.sh").is_file()), None)


def part(name: str, root: Path = ROOT) -> str | None:
    """The version of the driver or the firmware."""
    found = re.search(r"^\s*version\s*=\s*(\S+)", text(root / name), re.MULTILINE | re.IGNORECASE)
    return found[1] if found else None

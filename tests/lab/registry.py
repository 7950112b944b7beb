"""`python -m tests.lab.registry [RELEASE ...]`: analysis/compat/npu_operators.toml anew, from the wheels themselves.

Of every release of torch_npu the yaml files are read from which its registrations are generated, and those of the
torch that it goes with. No wheel is imported. What a wheel gave is kept in a work directory, so a run that was cut off
goes on where it was; the wheels themselves are deleted at once. Wheels come through pip, from the index it is set to.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).resolve().parents[2] / "analysis/compat/npu_operators.toml"
#: One or two of every torch that PyPI has a torch_npu for.
RELEASES = (
    "2.1.0.post13", "2.3.1.post6", "2.4.0.post4", "2.5.1.post1", "2.6.0.post5", "2.7.1", "2.7.1.post11", "2.8.0.post5",
    "2.9.1", "2.10.0.post7", "2.11.0.post3", "2.12.0.post3", "2.13.0", "2.14.0",
)  # fmt: skip
#: The same yaml lies in the wheels of every platform. Those of torch for a Mac are the smallest.
FOR_NPU = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
FOR_TORCH = ("macosx_11_0_arm64", "macosx_12_0_arm64", "macosx_14_0_arm64")
PYTHONS = ("3.11", "3.10", "3.12", "3.9")
REGISTERED = "torch_npu/csrc/aten/npu_native_functions_by_codegen.yaml"
LIBRARY = "torch_npu/lib/libtorch_npu.so"
NATIVE = "torchgen/packaged/ATen/native/native_functions.yaml"
#: What a kernel says when it hands its work to the host itself, and the operators it names there.
_WARNS = re.compile(rb"CAUTION: The operator [^\0]{1,200}?(?:fallback to run|fall back to run) on the CPU")
_NAMED = re.compile(r"aten::(\w+(?:\.\w+)?)")
_SWITCH = b"TORCH_NPU_FALLBACK_CPU_DISABLE"
_WIDTH = 110


@dataclass(frozen=True)
class Wheel:
    """A file of the index, and the day its members were packed."""

    name: str
    sha256: str
    packed: str


@dataclass(frozen=True)
class Registered:
    """What a wheel of torch_npu registers."""

    wheel: Wheel
    torch: str
    supported: list[str]  # overloads of torch's that get a kernel
    own: list[str]  # overloads of its own
    composite: list[str]  # those of its own that are made of others
    warns: list[str]  # have a kernel that hands its work to the host in some cases
    switch: bool  # whether the variable that forbids the host is known


@dataclass(frozen=True)
class Native:
    """What torch itself has for a device that brings nothing: a state for each overload."""

    wheel: Wheel
    states: dict[str, str]
    delegates: dict[str, str]  # written for the overload that takes its result


def states(native: list[dict[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
    """torch's own overloads, from native_functions.yaml: i, e, m, d, f or n; and where those with d lead.

    The order is the dispatcher's own. ``i``: made of others, gradients too. ``e``: made of others. ``m``: the same, but
    a CPU has its own way. ``d``: calls the overload with ``out``. ``f``: each device has to bring its own.
    ``n``: the same, and a CPU has none.
    """
    found: dict[str, str] = {}
    leads: dict[str, str] = {}
    for entry in native:
        name = entry["func"].partition("(")[0]
        keys = {key.strip() for several in entry.get("dispatch") or {} for key in several.split(",")}
        delegate = entry.get("structured_delegate")
        if keys & {"CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"} and not delegate:
            state = "m" if "CPU" in keys else "e"
        elif "CompositeImplicitAutograd" in keys or not (delegate or "dispatch" in entry or entry.get("structured")):
            state = "i"
        elif delegate:
            state, leads[name] = "d", str(delegate)
        else:
            state = "f" if "CPU" in keys else "n"
        found[name] = state
        if state != "i":  # nothing is generated for what is made of others
            for made in filter(None, (each.strip() for each in str(entry.get("autogen") or "").split(","))):
                found[made] = "e"
                leads[made] = name
    return found, leads


def sparse_only(native: list[dict[str, Any]]) -> set[str]:
    """Overloads that are for sparse tensors: torch_npu's kernel of one is registered for those, not for dense ones."""
    found = set()
    for entry in native:
        keys = {key.strip() for several in entry.get("dispatch") or {} for key in several.split(",")}
        if keys and not entry.get("structured_delegate") and all(key.startswith("Sparse") for key in keys):
            found.add(entry["func"].partition("(")[0])
    return found


def functions(entries: Iterable[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The overloads that a section names, with what it says of them."""
    for entry in entries:
        told = {"func": entry} if isinstance(entry, str) else entry
        yield told["func"].partition("(")[0].strip(), told


def registered(path: Path) -> Registered:
    """What a wheel of torch_npu says."""
    with zipfile.ZipFile(path) as archive:
        told = yaml.load(archive.read(REGISTERED), Loader=yaml.CSafeLoader)
        library = archive.read(LIBRARY)
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        asked = re.search(
            r"Requires-Dist: torch\s*\(?==\s*([\d.]+?)(?:\.\*|\+cpu)?\)?\s", archive.read(metadata).decode()
        )
        packed = archive.getinfo(REGISTERED).date_time
    version = path.name.split("-")[1]
    own = dict(functions(told["custom"]))
    made = [name for name, entry in own.items() if any("Composite" in key for key in entry.get("dispatch") or {})]
    warned = {
        name.decode() for text in _WARNS.findall(library) for name in map(str.encode, _NAMED.findall(text.decode()))
    }
    return Registered(
        _wheel(path, packed), asked[1] if asked else re.sub(r"\.post\d+$", "", version),
        sorted({name for name, _ in functions(told["supported"])} - own.keys()), sorted(own), sorted(made),
        sorted(warned), _SWITCH in library,
    )  # fmt: skip


def native(path: Path) -> tuple[Native, list[str]]:
    """What a wheel of torch says, and which overloads are for sparse tensors alone."""
    with zipfile.ZipFile(path) as archive:
        told = yaml.load(archive.read(NATIVE), Loader=yaml.CSafeLoader)
        packed = archive.getinfo(NATIVE).date_time
    return Native(_wheel(path, packed), *states(told)), sorted(sparse_only(told))


def _wheel(path: Path, packed: tuple[int, ...]) -> Wheel:
    return Wheel(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), "{:04d}-{:02d}-{:02d}".format(*packed[:3]))


def downloaded(package: str, version: str, platforms: Iterable[str], place: Path) -> Path:
    """The wheel, by pip; of the first Python that has one."""
    where = [word for platform in platforms for word in ("--platform", platform)]
    said = ""
    for python in PYTHONS:
        command = [
            sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(place),
            "--python-version", python, *where, f"{package}=={version}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            (found,) = place.glob("*.whl")
            return found
        said = done.stderr.strip().splitlines()[-1]
    raise SystemExit(f"{package} {version}: {said}")


def gathered(release: str, work: Path) -> dict[str, Any]:
    """What is known of a release, from the work directory or from its wheels."""
    kept = work / f"torch_npu-{release}.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=work) as place:
            npu = registered(downloaded("torch_npu", release, FOR_NPU, Path(place)))
        _keep(kept, asdict(npu))
    npu_told: dict[str, Any] = json.loads(kept.read_text("utf-8"))
    kept = work / f"torch-{npu_told['torch']}.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=work) as place:
            torch, sparse = native(downloaded("torch", npu_told["torch"], FOR_TORCH, Path(place)))
        _keep(kept, {**asdict(torch), "sparse": sparse})
    return {"release": release, "npu": npu_told, "torch": json.loads(kept.read_text("utf-8"))}


def _keep(path: Path, told: dict[str, Any]) -> None:
    half = path.with_suffix(".half")
    half.write_text(json.dumps(told), encoding="utf-8")
    half.replace(path)


def letters(told: dict[str, Any]) -> dict[str, str]:
    """The state of each of torch's overloads in a release: k, w, or what torch itself has."""
    found = dict(told["torch"]["states"])
    sparse = set(told["torch"]["sparse"])
    for name in told["npu"]["supported"]:
        if name not in sparse:
            found[name] = "w" if name in told["npu"]["warns"] else "k"
    return found


def own_letters(told: dict[str, Any]) -> dict[str, str]:
    """The same of torch_npu's own operators."""
    return {
        name: "e" if name in told["npu"]["composite"] else "w" if name in told["npu"]["warns"] else "k"
        for name in told["npu"]["own"]
    }


def patterns(of_each: list[dict[str, str]]) -> dict[str, list[str]]:
    """A letter a release, and the overloads that have just these; a dot where there is no such overload."""
    found: dict[str, list[str]] = {}
    for name in sorted(set().union(*of_each)):
        found.setdefault("".join(each.get(name, ".") for each in of_each), []).append(name)
    return dict(sorted(found.items()))


def written(told: list[dict[str, Any]]) -> str:
    """The file."""
    of_each = [letters(each) for each in told]
    leads: dict[str, str] = {}
    for each in told:  # the newest release says last
        leads.update(each["torch"]["delegates"])
    wanted = {name for each in of_each for name, state in each.items() if state in "de" and name in leads}
    lines = [
        "# Which operators have a kernel for an NPU, release by release. Written by python -m tests.lab.registry.",
        "# A letter a release, in the order below.",
        "# k: a kernel of torch_npu's. w: the same, which hands its work to the host in some cases and warns of it.",
        "# i, e: torch makes it of others. m: the same, but a CPU has its own way. d: it calls the one in [leads].",
        "# f: each device has to bring its own, and a CPU does. n: not even a CPU does. A dot: it is not there.",
    ]
    for each in told:
        lines += [
            "", "[[releases]]", f'torch_npu = "{each["release"]}"', f'torch = "{each["npu"]["torch"]}"',
            f"forbids_host = {str(each['npu']['switch']).lower()}",
        ]  # fmt: skip
        for which in ("npu", "torch"):
            wheel = each[which]["wheel"]
            lines += [f'{which}_wheel = "{wheel["name"]}"', f'{which}_sha256 = "{wheel["sha256"]}"']
            lines += [f'{which}_packed = "{wheel["packed"]}"']
    for section, found in (("torch", patterns(of_each)), ("own", patterns([own_letters(each) for each in told]))):
        lines += ["", f"[{section}]"]
        for pattern, names in found.items():
            lines += [f'"{pattern}" = """', *_wrapped(names), '"""']
    lines += ["", "[leads]"]
    lines += ['pairs = """', *_wrapped(f"{name}>{leads[name]}" for name in sorted(wanted)), '"""', ""]
    return "\n".join(lines)


def _wrapped(words: Iterable[str]) -> list[str]:
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= _WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("releases", nargs="*", default=list(RELEASES))
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "npulens-registry")
    parser.add_argument("-o", "--output", type=Path, default=FILE)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    told = []
    for release in arguments.releases:
        each = gathered(release, arguments.work)
        found = list(letters(each).values())
        kernels, own = sum(state in "kw" for state in found), len(each["npu"]["own"])
        print(
            f"torch_npu {release}, torch {each['npu']['torch']}: {kernels} of {len(found)}; {own} of its own",
            flush=True,
        )
        told.append(each)
    arguments.output.write_text(written(told), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

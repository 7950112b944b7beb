"""What a subject or a run would do on an NPU, release by release: asked, put into words and into JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from npulens.analysis.compat.answers import FINE, Answer, Compatibility, Seen, compatibility
from npulens.analysis.compat.registry import Registry, UnknownRelease, registry
from npulens.analysis.look import compat as look
from npulens.app.console import filled, print_json, table
from npulens.app.report import compat_as_html
from npulens.app.run_collectors import ask
from npulens.app.text import compatible
from npulens.app.text.i18n import say
from npulens.app.text.wording import plain
from npulens.ingest.store import runs as stores

_WIDEST = 110


@dataclass(frozen=True)
class Source:
    """What was asked about, and how its operators were seen."""

    kind: str  # subject or run
    name: str
    module: str | None
    torch: str | None  # with which a subject was seen
    device: str | None
    gradients: bool
    seen: tuple[Seen, ...]


@dataclass(frozen=True)
class Asked:
    """A source against the releases that somebody named."""

    source: Source
    found: tuple[Compatibility, ...]


def command(
    what: Sequence[str], compat: Sequence[str], every: bool, output: Path | None, store: Path, as_json: bool, lang: str
) -> None:
    """What ``npulens lab WHAT --compat RELEASES`` prints or writes."""
    if "list" in compat:
        print_json({"releases": listed(registry())}) if as_json else click.echo("\n".join(list_lines(lang)))
        return
    if len(what) != 1:
        raise click.UsageError(say(lang, "compat.one"))
    releases = releases_of(compat, lang)
    place = Path(what[0])
    found = against(of_subject(place.absolute()) if place.is_dir() else of_run(store, what[0]), releases)
    if output is not None:
        told = compat_as_html.write(lambda lang: what_of(found.source, lang), found.found,
                                    lambda lang: list(limits(found.source, lang)))  # fmt: skip
        output.write_text(told, encoding="utf-8")
        click.echo(say(lang, "compat.written", {"path": output}), err=True)
    if as_json:
        print_json(data(found))
    elif output is None:
        click.echo("\n".join(lines(found, every, lang)))


def of_subject(place: Path) -> Source:
    """The operators of a subject of the laboratory, from a process that runs it once."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch's observer says so when it begins and ends
    told = ask(["lab-compat", str(place)])
    seen = tuple(
        Seen(each["name"], each["outermost"], tuple(each["dtypes"]), tuple(each["parts"]), each["where"])
        for each in told["operators"]
    )  # fmt: skip
    return Source("subject", told["subject"], told["module"], told["torch"], told["device"], told["gradients"], seen)


def of_run(store: Path, name: str) -> Source:
    """The operators of a run's trace, by name."""
    info = stores.resolve(store, name)
    con = stores.open_run(store, info.run_id)
    try:
        called = look.called(con)
    finally:
        con.close()
    return Source("run", info.label or info.run_id[:12], None, called.torch, None, False, called.seen)


def releases_of(texts: Sequence[str], lang: str) -> list[str]:
    """The releases that are meant, each once; a usage error where one is not known."""
    known = registry()
    found = []
    for text in (part for each in texts for part in each.split(",") if part.strip()):
        try:
            found.append(known.releases[known.place(text)].torch_npu)
        except UnknownRelease as error:
            told = {"asked": plain(text.strip()), "releases": ", ".join(each.torch_npu for each in known.releases)}
            key = "unknown_release" if error.near is None else "unknown_release_near"
            raise click.UsageError(say(lang, f"compat.{key}", {**told, "near": error.near})) from error
    return list(dict.fromkeys(found))


def against(source: Source, releases: Sequence[str]) -> Asked:
    """A source against releases."""
    exact = source.kind == "subject"
    return Asked(source, tuple(compatibility(source.seen, release, exact) for release in releases))


def data(asked: Asked) -> dict[str, Any]:
    """The same as data."""
    source = {key: value for key, value in asdict(asked.source).items() if key != "seen"}
    return {"source": source, "releases": [
        {**asdict(each.release), "operators": [asdict(answer) for answer in each.answers]} for each in asked.found
    ]}  # fmt: skip


def what_of(source: Source, lang: str) -> str:
    """The source in a few words."""
    if source.kind == "run":
        return say(lang, "compat.run", {"run": plain(source.name)})
    return say(lang, "compat.module", {"module": plain(str(source.module)), "place": plain(source.name)})


def limits(source: Source, lang: str) -> Iterator[str]:
    """What the answer does not say."""
    yield say(lang, "compat.limits")
    if source.kind == "run":
        yield say(lang, "compat.limits_run")
        return
    yield say(lang, "compat.limits_subject", {"torch": plain(str(source.torch)), "device": plain(str(source.device))})
    if source.gradients:
        yield say(lang, "compat.limits_backward")


def lines(asked: Asked, every: bool, lang: str) -> Iterator[str]:
    """The answers for people, a release after the other."""
    for found in asked.found:
        release = found.release
        told = {"what": what_of(asked.source, lang), "torch_npu": release.torch_npu, "torch": release.torch}
        yield from filled(say(lang, "compat.head", told), _WIDEST)
        yield from filled(compatible.headline(found, lang), _WIDEST)
        shown = [answer for answer in found.answers if every or answer.status not in FINE]
        if shown:
            yield ""
            heads = [say(lang, f"compat.col_{name}") for name in ("operator", "status", "calls", "dtypes", "where")]
            yield table(heads, [
                [plain(answer.name), say(lang, f"compat.status_{answer.status}"), f"{answer.calls:,}",
                 ", ".join(answer.dtypes) or "-", plain(answer.where or "-")] for answer in shown
            ], 2)  # fmt: skip
        for told_alike, operators in _alike(shown, found, lang).items():
            yield ""
            yield from filled(compatible.names(operators, lang), _WIDEST)
            for sentence in told_alike:
                yield from filled(sentence, _WIDEST, "  ")
        if len(shown) < len(found.answers) and shown:
            yield ""
            yield say(lang, "compat.whole", {"n": len(found.answers) - len(shown)})
        if host := compatible.host_words(found, lang):
            yield ""
            yield from filled(host, _WIDEST)
        yield ""
    for sentence in limits(asked.source, lang):
        yield from filled(sentence, _WIDEST)


def _alike(shown: Sequence[Answer], found: Compatibility, lang: str) -> dict[tuple[str, ...], list[str]]:
    """Operators that the same is said of, in their order; none of those that need nothing."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for answer in shown:
        if answer.status not in FINE:
            said = (compatible.why(answer, found, lang), compatible.advice(answer, found, lang))
            groups.setdefault(tuple(filter(None, said)), []).append(answer.name)
    return groups


def listed(known: Registry) -> list[dict[str, Any]]:
    """Every release that is known, with its numbers."""
    return [
        {**asdict(release), "kernels": sum(word[at] in "kw" for word in known.torch.values()),
         "overloads": sum(word[at] != "." for word in known.torch.values()),
         "own": sum(word[at] != "." for word in known.own.values())}
        for at, release in enumerate(known.releases)
    ]  # fmt: skip


def list_lines(lang: str) -> Iterator[str]:
    """The releases for people."""
    yield from filled(say(lang, "compat.releases"), _WIDEST)
    heads = [say(lang, f"compat.col_{name}") for name in ("release", "torch", "packed", "kernels", "all", "own")]
    yield table(heads, [
        [each["torch_npu"], each["torch"], each["npu_packed"], f"{each['kernels']:,}", f"{each['overloads']:,}",
         f"{each['own']:,}"] for each in listed(registry())
    ], 2)  # fmt: skip

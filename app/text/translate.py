"""What reading said of a capture, in the visitor's language.

Reading says English sentences, several of them joined by '; '. Each has its Chinese in MESSAGES of a file of app/words;
one that has none stays English, and tests/test_said.py names it.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from npulens.app.text.i18n import parts

#: What joins sentences, and its Chinese.
_JOINT, _JOINT_ZH = "; ", "；"
#: Sentences of a text that are looked up, parts of the longest of them, sentences within sentences.
_MOST_PARTS, _LONGEST, _DEEPEST = 200, 3, 4
#: Where an error happened, after what happened.
_WHERE = re.compile(r"(?P<said>.+?) \((?P<path>[^()]+?)(?: at byte (?P<offset>\d+))?\)", re.DOTALL)
#: A name before what is said of it: a table, a file, a process.
_OF = re.compile(r"(?P<name>[^:;]+): (?P<said>.+)", re.DOTALL)
_NAME = re.compile(r"\{\w+\}")
_HOLE = re.compile(r"\\\{(\w+)\\\}")


def said(lang: str, text: str | None) -> str:
    """A text from reading; English as it is, Chinese sentence by sentence where there is one."""
    if lang != "zh" or not text:
        return text or ""
    return _chinese(text)[0]


def translated(text: str) -> bool:
    """Whether all of a text has its Chinese."""
    return _chinese(text)[1]


@cache
def messages() -> tuple[tuple[str, str], ...]:
    """Every sentence with its Chinese."""
    return tuple(pair for file in parts().values() for pair in getattr(file, "MESSAGES", ()))


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Every sentence as a pattern; those with more words of their own first, so that none hides behind a wider one."""
    pairs = sorted(messages(), key=lambda pair: -len(_NAME.sub("", pair[0])))
    return tuple((re.compile(_HOLE.sub(r"(?P<\1>.*?)", re.escape(english)), re.DOTALL), chinese)
                 for english, chinese in pairs)  # fmt: skip


@lru_cache(4096)
def _chinese(text: str, deep: int = 0) -> tuple[str, bool]:
    """Sentence after sentence, the longest that we know first; and whether all of it was known."""
    parts = text.split(_JOINT, _MOST_PARTS)
    done, known, at = list[str](), True, 0
    while at < len(parts):
        ends = range(min(len(parts), at + _LONGEST), at, -1)
        tried = ((end, _sentence(_JOINT.join(parts[at:end]), deep)) for end in ends)
        end, found = next((each for each in tried if each[1] is not None), (at + 1, None))
        done.append(parts[at] if found is None else found)
        known, at = known and found is not None, end
    return _JOINT_ZH.join(done), known


def _sentence(text: str, deep: int) -> str | None:
    """One sentence; what fills its holes is one sentence at most, but for a command."""
    if deep >= _DEEPEST:
        return None
    for pattern, chinese in _patterns():
        found = pattern.fullmatch(text)
        held = found.groupdict() if found else {}
        if found and not any(_JOINT in value for name, value in held.items() if name != "command"):
            filled = {name: _chinese(value, deep + 1)[0] for name, value in held.items()}
            return chinese.format_map(filled)
    if _JOINT in text:
        return None
    if found := _WHERE.fullmatch(text):
        inner, known = _chinese(found["said"], deep + 1)
        offset = f"，第 {found['offset']} 字节" if found["offset"] else ""
        return f"{inner}（{found['path']}{offset}）" if known else None
    if found := _OF.fullmatch(text):
        inner, known = _chinese(found["said"], deep + 1)
        return f"{found['name']}：{inner}" if known else None
    return None

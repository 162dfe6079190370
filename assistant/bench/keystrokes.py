"""Keystrokes as somebody makes them who writes code that stands in a real file, by a seeded draw.

Three kinds: "function" (a function is written where it stood), "middle" (the end of a line and the next one, inside
of a function) and "fix" (the same with slips that are taken back with backspaces). The same texts and seed give the
same recordings.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

KINDS = ("function", "middle", "fix")
_HEADERS = {
    "python": re.compile(r"[ \t]*(?:async )?def \w+\(.*:[ \t]*"),
    "typescript": re.compile(
        r"[ \t]*(?:(?:export|default|async|public|private|protected|static|get|set) )*"
        r"(?!if\b|for\b|while\b|switch\b|catch\b|return\b)(?:function )?\w+\(.*\{[ \t]*"
    ),
}
LANGUAGES = tuple(_HEADERS)
_LINES = (4, 14)  # of a function
_CHARACTERS = {"function": (80, 480), "middle": (24, 160), "fix": (24, 160)}
_GAP = (0.16, 0.35)  # seconds between keys: median, and the spread of its logarithm
_GAPS = (0.05, 0.45)
_THOUGHT = (0.7, 1.4)  # before a line, and before a slip is noticed
_SLIPS = 3


@dataclass(frozen=True)
class Recording:
    """Between `before` and `after` somebody writes `wanted`. `slips`: place in it -> what is typed there and taken
    back.
    """

    kind: str
    language: str
    path: str
    before: str
    after: str
    wanted: str
    slips: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Text:
    """A file: `path` with forward slashes, its end tells the language."""

    language: str
    path: str
    text: str


def record(texts: Iterable[Text], kinds: Iterable[str], seed: int) -> Iterator[Recording]:
    """One recording for each of `kinds`, each from another file; fewer when there are not enough files."""
    generator = random.Random(seed)
    files = iter(texts)
    for kind in kinds:
        for file in files:
            made = _recording(file, kind, generator)
            if made is not None:
                yield made
                break


def key(wanted: str, place: int) -> str:
    """What the next key puts in: a character, or a line end with the indentation that an editor adds."""
    if wanted[place] != "\n":
        return wanted[place]
    match = re.compile(r"\n[ \t]*").match(wanted, place)
    return match[0] if match else "\n"


def gap(generator: random.Random, thought: bool) -> float:
    """Seconds before a key."""
    if thought:
        return generator.uniform(*_THOUGHT)
    least, most = _GAPS
    median, spread = _GAP
    return min(max(median * generator.lognormvariate(0, spread), least), most)


def _recording(file: Text, kind: str, generator: random.Random) -> Recording | None:
    spans = list(_functions(file))
    generator.shuffle(spans)
    for start, end in spans:
        if kind == "function":
            start += len(file.text[start:end]) - len(file.text[start:end].lstrip())
        else:
            start, end = _middle(file.text, start, end, generator)
        wanted = file.text[start:end]
        low, high = _CHARACTERS[kind]
        if low <= len(wanted) <= high and "\t\t\t\t" not in wanted:
            slips = _slips(wanted, generator) if kind == "fix" else {}
            return Recording(kind, file.language, file.path, file.text[:start], file.text[end:], wanted, slips)
    return None


def _functions(file: Text) -> Iterator[tuple[int, int]]:
    """Where functions of a fitting length begin and end, without the last line end."""
    header = _HEADERS[file.language]
    lines = file.text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for number, line in enumerate(lines):
        if not header.fullmatch(line):
            continue
        indent, last = _indent(line), number
        for below in range(number + 1, min(number + _LINES[1] + 1, len(lines))):
            if not lines[below].strip():
                continue
            if _indent(lines[below]) <= indent:
                last = below if lines[below].strip() == "}" else last
                break
            last = below
        else:
            continue  # it goes on
        if last - number + 1 >= _LINES[0]:
            yield starts[number], starts[last] + len(lines[last])


def _middle(text: str, start: int, end: int, generator: random.Random) -> tuple[int, int]:
    """From a word's end within a line of the body to the end of the next line."""
    breaks = [match.start() for match in re.finditer("\n", text[start:end])]
    chosen = generator.randrange(len(breaks) - 1)
    line, line_end = start + breaks[chosen] + 1, start + breaks[chosen + 1]
    words = [line + match.end() for match in re.finditer(r"\w+", text[line:line_end])]
    following = text.find("\n", line_end + 1)
    return (generator.choice(words) if words else line), min(end, following if following >= 0 else end)


def _slips(wanted: str, generator: random.Random) -> dict[int, str]:
    inside = [match.start() + 1 for match in re.finditer(r"\w{3,}", wanted)]
    places = generator.sample(inside, min(_SLIPS, len(inside)))
    return {place: "".join(generator.choices("etaoinshrdlu", k=generator.randint(1, 4))) for place in sorted(places)}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())

"""Ends an answer that repeats itself: the same line, the same few lines, or the same piece of a line.

The third of equal lines, the second of equal groups of two to eight lines, and the sixth of lines that differ
in digits alone are too many; so is a piece of up to 24 characters over 48 characters and four times.
"""

from __future__ import annotations

import re

from assistant.post.context import AnswerContext
from assistant.post.rules import Line, Rule

_GROUP = 8
_ALIKE = 6
_PIECE, _LENGTH, _TIMES = 24, 48, 4
_RULE_LENGTH = 160  # a drawn line in a comment may be this long
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"\w")


class Repeat(Rule):
    code = "repeat"

    def __init__(self, context: AnswerContext) -> None:
        super().__init__(context)
        self._lines: list[str] = []
        self._shapes: list[str] = []
        self._ends: list[int] = []
        self._equal = [0] * (_GROUP + 1)  # [n]: how many last lines equal the one n lines before
        self._runs = [0] * (_PIECE + 1)  # [n]: how many last characters equal the one n characters before
        self._start = -1

    def grow(self, line: Line) -> int | None:
        if line.start != self._start:
            self._start, self._runs = line.start, [0] * (_PIECE + 1)
        text = line.text
        last = len(text) - 1
        for size in range(1, min(_PIECE, last) + 1):
            if text[last] != text[last - size]:
                self._runs[size] = 0
                continue
            self._runs[size] += 1
            length = self._runs[size] + size
            if length >= max(_LENGTH, _TIMES * size):
                piece = text[len(text) - size :]
                if _WORD.search(piece) or length >= _RULE_LENGTH:
                    return line.start + len(text) - length + size
        return None

    def close(self, line: Line) -> int | None:
        stripped = line.full.strip()
        if not stripped:
            return None
        self._lines.append(stripped)
        self._shapes.append(_DIGITS.sub("0", stripped))
        self._ends.append(line.end)
        count = len(self._lines)
        for size in range(1, min(_GROUP, count - 1) + 1):
            same = self._lines[-1] == self._lines[-1 - size]
            self._equal[size] = self._equal[size] + 1 if same else 0
        if _WORD.search(stripped) and self._equal[1] == 2:
            return self._ends[-3]
        for size in range(2, _GROUP + 1):
            if self._equal[size] == size and len(set(self._lines[-size:])) > 1:
                return self._ends[-1 - size]
        if count >= _ALIKE and len(set(self._shapes[-_ALIKE:])) == 1:
            return self._ends[-2]
        return None

    def unsure(self) -> int:
        return max(self._equal)

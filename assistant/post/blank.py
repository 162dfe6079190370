"""Ends the answer before a third blank line in a row: nothing that belongs to it comes after."""

from __future__ import annotations

from assistant.post.rules import Line, Rule

_MOST = 3


class Blank(Rule):
    code = "blank"
    _start: int | None = None
    _count = 0

    def close(self, line: Line) -> int | None:
        if line.full.strip():
            self._start, self._count = None, 0
            return None
        self._count += 1
        if self._start is None:
            self._start = line.before
        return self._start if self._count == _MOST else None

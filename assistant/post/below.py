"""Ends the answer before whole lines that equal the next lines of the file.

One equal line may be chance (`return False`, `break`), so a block goes on until a second one confirms it; at
the end of the answer, and where the file has no second line, one is enough.
"""

from __future__ import annotations

from assistant.post.context import AnswerContext
from assistant.post.rules import Line, Rule


class Below(Rule):
    code = "overlap"

    def __init__(self, context: AnswerContext) -> None:
        super().__init__(context)
        self._pending: int | None = None  # where the answer ends if the next line confirms it

    def close(self, line: Line) -> int | None:
        below, text = self.context.below, line.full.rstrip()
        if not text or not below or (line.first and not self.context.on_blank):
            return None
        if self._pending is not None and text == below[1]:
            return self._pending
        self._pending = None
        if text != below[0]:
            return None
        if len(below) == 1 or not self.context.multiline:
            return line.before
        self._pending = line.before
        return None

    def finish(self) -> int | None:
        return self._pending

    def unsure(self) -> int:
        return 0 if self._pending is None else 1

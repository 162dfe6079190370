"""A rule ends an answer by what was seen of it so far: it sees every character once, in order.

What a rule decides depends on the text before its decision alone, never on what comes later, so generation
can stop there and the answer is the same as if it had gone on.
"""

from __future__ import annotations

from dataclasses import dataclass

from assistant.post.context import AnswerContext


@dataclass(frozen=True)
class Line:
    """A line of the answer as far as it is there. `start` is its place in the answer."""

    start: int
    text: str
    first: bool  # it stands on the cursor's line
    full: str  # with what stands before the cursor, when it is the first

    @property
    def before(self) -> int:
        """Where the answer ends when this line is left out."""
        return max(0, self.start - 1)

    @property
    def end(self) -> int:
        """Where the answer ends when it ends with this line."""
        return self.start + len(self.text)


class Rule:
    """Base of all rules; `code` is the reason given when an answer ends up empty. One instance per answer."""

    code = ""

    def __init__(self, context: AnswerContext) -> None:
        self.context = context

    def grow(self, line: Line) -> int | None:
        """Called after each character of a line. Where the answer ends, or None to go on."""
        return None

    def close(self, line: Line) -> int | None:
        """The same at a line's end, before the next line begins."""
        return None

    def finish(self) -> int | None:
        """Called once the answer is complete and no rule has ended it. Where it ends, or None."""
        return None

    def unsure(self) -> int:
        """How many of the last complete lines that are not blank this rule may still take back."""
        return 0

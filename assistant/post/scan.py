"""Reads an answer once, character by character, through all rules, and remembers where the first one ended
it.
"""

from __future__ import annotations

from dataclasses import dataclass

from assistant.post.below import Below
from assistant.post.blank import Blank
from assistant.post.context import AnswerContext
from assistant.post.fence import Fence
from assistant.post.repeat import Repeat
from assistant.post.rules import Line, Rule
from assistant.post.scope import Scope
from assistant.post.single import Single
from assistant.post.special import Special

# Where two end the answer at the same character, the earlier one gives the reason.
RULES: tuple[type[Rule], ...] = (Special, Fence, Below, Single, Scope, Repeat, Blank)


@dataclass(frozen=True)
class End:
    """The answer is text[:keep]; that was known when text[:seen] was there. `code` names the rule."""

    seen: int
    keep: int
    code: str


class Scan:
    """One answer's way through the rules. Feed it ever longer texts; another text needs another Scan."""

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self._rules = [rule(context) for rule in RULES]
        self._growing = [rule for rule in self._rules if type(rule).grow is not Rule.grow]
        self._start = 0  # of the line being read
        self._read = 0
        self._ends: list[int] = []  # of the complete lines that are not blank
        self.end: End | None = None

    def feed(self, text: str) -> End | None:
        """Reads on in `text`, which begins with all that was fed before. The end, once there is one."""
        while self.end is None and self._read < len(text):
            letter = text[self._read]
            line = self._line(text[self._start : self._read + (letter != "\n")])
            self._read += 1
            if letter == "\n":
                self._ask(self._rules, line, complete=True)
                if line.text.strip():
                    self._ends.append(line.end)
                self._start = self._read
            else:
                self._ask(self._growing, line, complete=False)
        return self.end

    def finish(self, text: str) -> End | None:
        """The end of `text`, after which nothing comes: its last line is judged as complete."""
        if self.feed(text) is None and text[self._start :].strip():
            self.feed(text + "\n")
        for rule in self._rules:
            keep = rule.finish()
            if keep is not None and self.end is None:
                self.end = End(self._read, keep, rule.code)
        return self.end

    def sure(self) -> int:
        """The length of what stays of the text so far, whatever follows: complete lines that no rule takes
        back.
        """
        # The last line with text may still lose what the rest of the cursor's line says.
        held = max(rule.unsure() for rule in self._rules) + bool(self._context.rest.strip())
        count = len(self._ends) - held
        return self._ends[count - 1] if count > 0 and self.end is None else 0

    def _line(self, text: str) -> Line:
        first = self._start == 0
        return Line(self._start, text, first, self._context.line_prefix + text if first else text)

    def _ask(self, rules: list[Rule], line: Line, *, complete: bool) -> None:
        for rule in rules:
            keep = rule.close(line) if complete else rule.grow(line)
            if keep is not None and self.end is None:
                self.end = End(self._read, keep, rule.code)

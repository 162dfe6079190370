"""What a filter may know of the place that the answer goes to. Line ends are newline characters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from assistant.post import literal
from assistant.post.lines import indent

_LOOK = 200  # lines read before and behind the cursor at most
CLOSERS = ")]}>\"'`;,:"


@dataclass(frozen=True)
class AnswerContext:
    """The file around the cursor, its language, and whether the answer may have more than one line."""

    prefix: str
    suffix: str
    language: str | None = None
    multiline: bool = False

    @cached_property
    def line_prefix(self) -> str:
        """The cursor's line up to the cursor."""
        return self.prefix[self.prefix.rfind("\n") + 1 :]

    @cached_property
    def rest(self) -> str:
        """The cursor's line behind the cursor."""
        end = self.suffix.find("\n")
        return self.suffix if end < 0 else self.suffix[:end]

    @cached_property
    def on_blank(self) -> bool:
        """Only blanks before the cursor on its line."""
        return not self.line_prefix.strip()

    @cached_property
    def closes_only(self) -> bool:
        """Behind the cursor stand closing brackets, quotes and their like, and nothing else."""
        return bool(self.rest.strip()) and not self.rest.strip(CLOSERS + " \t")

    @cached_property
    def above(self) -> bool:
        """The cursor stands before a line's first character, so that whole lines can go in above it."""
        at_margin = not self.line_prefix and self.rest[:1] in (" ", "\t")
        return self.on_blank and bool(self.rest.strip()) and (at_margin or not self.closes_only)

    @cached_property
    def below(self) -> tuple[str, ...]:
        """The next lines that are not blank, four at most, with their indentation."""
        found = [self.line_prefix + self.rest] if self.above else []
        start = len(self.rest) + 1
        for _ in range(_LOOK):
            if start > len(self.suffix) or len(found) == 4:
                break
            end = self.suffix.find("\n", start)
            end = len(self.suffix) if end < 0 else end
            line = self.suffix[start:end]
            if line.strip():
                found.append(line.rstrip())
            start = end + 1
        return tuple(found)

    @cached_property
    def before(self) -> tuple[str, ...]:
        """The lines above the cursor's that are not blank, nearest first."""
        found = []
        end = self.prefix.rfind("\n")
        for _ in range(_LOOK):
            if end < 0:
                break
            start = self.prefix.rfind("\n", 0, end) + 1
            line = self.prefix[start:end]
            if line.strip():
                found.append(line.rstrip())
            end = start - 1
        return tuple(found)

    @cached_property
    def in_literal(self) -> bool:
        """The cursor stands in a comment or a string."""
        return literal.at_end(self.prefix, self.language) is not None

    @cached_property
    def column(self) -> int:
        """Indentation of the cursor's line as far as it is there."""
        return indent(self.line_prefix)

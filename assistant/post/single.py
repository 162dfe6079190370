"""Ends a single-line answer with its first line that is not blank."""

from __future__ import annotations

from assistant.post.rules import Line, Rule


class Single(Rule):
    code = "line"

    def close(self, line: Line) -> int | None:
        if self.context.multiline:
            return None
        if line.text.strip():
            return line.end
        inside = self.context.rest.strip() and not self.context.above
        # Inside a line a line end would tear it apart.
        return 0 if inside and line.first else None

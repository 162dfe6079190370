"""Tells closing lines that the file behind the cursor has already from those that it lacks."""

from __future__ import annotations

from assistant.post.context import AnswerContext
from assistant.post.lines import closer, indent


def closes_below(line: str, context: AnswerContext) -> bool:
    """Whether the file has the closing line `line` right behind the cursor, or goes on in its block there."""
    mark = closer(line, context.language)
    if context.closes_only and mark is not None and context.rest.strip().startswith(mark):
        return True
    if not context.below:
        return False
    below = context.below[0]
    if indent(below) > indent(line):
        return True
    return indent(below) == indent(line) and closer(below, context.language) == mark

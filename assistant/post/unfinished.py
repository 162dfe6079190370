"""Drops the last line of a block when generation ended inside it because its length was used up."""

from __future__ import annotations

from assistant.post.context import AnswerContext


def whole_lines(text: str, context: AnswerContext) -> str:
    """`text` without the line that is not complete, unless it is the only one."""
    kept = text.rpartition("\n")[0]
    return kept if context.multiline and kept.strip() else text

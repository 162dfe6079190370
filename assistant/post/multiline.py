"""Whether a place asks for one line or for a block, from the text around it alone."""

from __future__ import annotations

from typing import Literal

from assistant.post.context import AnswerContext
from assistant.post.lines import TEXT, opens_block, opens_brackets

Policy = Literal["auto", "always", "never"]
_COMMENT_MARKS = ("#", "//", "--", "/*", "*", ";", '"""', "'''", "@")


def decide(prefix: str, suffix: str, language: str | None, policy: str = "auto") -> bool:
    """True for a block. By `auto`: one line inside a line, a comment, a string or prose; a block behind what
    opens one, and on an empty line that is indented or follows an opening line, a comment or a decorator.
    """
    if policy != "auto":
        return policy == "always"
    context = AnswerContext(prefix, suffix, language)
    if language in TEXT or (context.rest.strip() and not context.closes_only) or context.in_literal:
        return False
    if not context.on_blank:
        return opens_block(context.line_prefix, language)
    if context.line_prefix:
        return True
    above = context.before[0] if context.before else ""
    return opens_brackets(above, language) or above.lstrip().startswith(_COMMENT_MARKS)

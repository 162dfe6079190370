"""Trims blanks at the end, and puts the line end where whole lines go in above or inside of others.

Blanks at the start are the answer's own and stay.
"""

from __future__ import annotations

import re

from assistant.post.tidy import Draft

_LAST_BREAK = re.compile(r"\s*\n\s*\Z")


def trim(draft: Draft) -> str:
    context = draft.context
    body = draft.text.rstrip()
    broke = draft.broke or "\n" in draft.text[len(body) :]
    if not body:
        return ""
    if not context.rest.strip():
        return body
    if context.above:
        indented = not context.line_prefix and context.rest[0] in " \t"
        return f"{body}\n{context.line_prefix}" if broke or indented else draft.text
    if context.closes_only:
        if "\n" in body and broke:
            line = context.line_prefix
            return body + "\n" + line[: len(line) - len(line.lstrip())]
        return body
    return body if context.rest[0] in " \t" else _LAST_BREAK.sub("", draft.text)

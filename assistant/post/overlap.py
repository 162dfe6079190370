"""Cuts the end of an answer that the file behind the cursor has already: its next line, or the rest of its
line.

Brackets and quotes are cut only where the line has too many of them with the answer and not without, so
`format(total)` before `)` stays whole.
"""

from __future__ import annotations

import re

from assistant.post.context import CLOSERS
from assistant.post.tidy import Draft

_SHORT = 3  # fewer characters in common are chance, unless they are all of the rest
_STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
_PAIRS = {")": "(", "]": "[", "}": "{"}


def rest_of_line(draft: Draft) -> str:
    """The end of the answer, when it is what follows the cursor on its line."""
    context = draft.context
    rest = context.rest.rstrip()
    if not rest or context.above:
        return draft.text
    text = draft.text.rstrip()
    for start in {0, len(rest) - len(rest.lstrip())}:
        piece = rest[start:]
        for size in range(min(len(piece), len(text)), 0, -1):
            common = piece[:size]
            if text.endswith(common) and _repeats(draft, text[:-size], text, common, size == len(piece)):
                return text[:-size]
    return _without_excess(draft, text)


def _without_excess(draft: Draft, text: str) -> str:
    """`text` without the marks at its end that close what the rest of the line closes already."""
    line, rest = draft.context.line_prefix, draft.context.rest
    fair = _excess(line + rest)
    kept = text
    while kept and kept[-1] in ")]}\"'" and kept[-1] in rest and _excess(line + kept + rest) > fair:
        kept = kept[:-1]
    return draft.text if kept == text or _excess(line + kept + rest) > fair else kept


def _repeats(draft: Draft, without: str, text: str, common: str, everything: bool) -> bool:
    if not common.strip():
        return False
    if not common.strip(CLOSERS.replace(";", "").replace(":", "").replace(",", "") + " \t"):
        line, rest = draft.context.line_prefix, draft.context.rest
        return _excess(line + text + rest) > _excess(line + without + rest)
    return everything or (len(common) >= _SHORT and bool(re.search(r"\w", common)))


def _excess(code: str) -> int:
    """Closing brackets without an opening one, and quotes without a partner."""
    bare = _STRING.sub("", code)
    excess = sum(bare.count(quote) % 2 for quote in "\"'")
    opened: list[str] = []
    for letter in bare:
        if letter in "([{":
            opened.append(letter)
        elif letter in _PAIRS:
            if opened and opened[-1] == _PAIRS[letter]:
                opened.pop()
            else:
                excess += 1
    return excess

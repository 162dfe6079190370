"""Ends the answer where text spells a control token, or where bytes were no text."""

from __future__ import annotations

import re

from assistant.post.rules import Line, Rule

_LEAK = re.compile(
    r"<\|(?:fim_prefix|fim_middle|fim_suffix|fim_pad|repo_name|file_sep|endoftext|im_start|im_end|cursor"
    r"|begin_of_text|eot_id)\|>|<(?:fim_prefix|fim_middle|fim_suffix|fim_pad|file_sep|PRE|SUF|MID|EOT)>"
    r"|<｜fim▁(?:begin|hole|end)｜>|\ufffd"
)


class Special(Rule):
    code = "special"

    def grow(self, line: Line) -> int | None:
        if line.text[-1] not in ">\ufffd":
            return None
        found = _LEAK.search(line.text)
        return None if found is None else line.start + found.start()

"""Takes the code out of an answer that an instruct model wrapped in a fence or in prose, and ends plain code
before a fence.

How an answer begins decides: its first 24 characters or first line. Of fenced text only what plausibly fills
the hole is taken: what follows the cursor's line where the text repeats it, or a text that repeats nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from assistant.post.context import AnswerContext
from assistant.post.lines import DATA, TEXT, indent
from assistant.post.rules import Line, Rule

_FENCE = "```"
_HEAD = 24  # characters that decide whether it is prose
_BLANK_LINES = 3  # at the start, before it counts as plain
_TELLING = 4  # shorter lines may be equal by chance
_REACH = 400  # characters of prose in which a fence must begin
_CLOSING = re.compile(r"^[ \t]*```", re.MULTILINE)
_OPENING = re.compile(r"^[ \t]*```[^\n`]*\n", re.MULTILINE)
_PROSE = re.compile(
    r"(?:Here(?:'s| is| are)|Sure[,!.]|Certainly[,!.]|Of course"
    r"|The (?:missing|following|complete|code|function|answer|middle|blank|given|provided|correct|above)"
    r"|To (?:complete|fill|fix|solve|implement|achieve)|You (?:can|need)"
    r"|This (?:code|function|is|will|should)|In this|I (?:am|have|will|would|can|think)"
    r"|It (?:looks|seems|is)|Based on|Let's|As an|Explanation|Note:|Please)(?!\w)"
)
_BEGINS = re.compile(r"(?:def|class|import|from|package|using|#include|function|public class|fn|func|async def)\b")


@dataclass(frozen=True)
class Unwrapped:
    """`text` is the answer without its wrapping; `ended` says that no more of it can come.

    kind "undecided": too little is there to tell.
    """

    kind: Literal["undecided", "plain", "fence", "prose"]
    text: str
    ended: bool = False


def unwrap(raw: str, context: AnswerContext, *, whole: bool) -> Unwrapped:
    """What `raw` is so far; with `whole`, nothing more will come. Line ends become newline characters."""
    raw = raw.replace("\r\n", "\n").replace("\r", "\n")
    body = raw.lstrip()
    if not _fences_are_foreign(context):
        return Unwrapped("plain", raw)
    blanks = raw[: len(raw) - len(body)]
    if blanks.count("\n") > _BLANK_LINES:
        return Unwrapped("plain", raw)  # before anything is there, so that a run of blank lines can be ended
    if body.startswith(_FENCE):
        return _fenced("fence", body)
    head, line_end, _ = body.partition("\n")
    if not whole and len(head) < _HEAD and not line_end:
        return Unwrapped("undecided", "")
    starts_line = context.on_blank or "\n" in blanks
    if context.language not in DATA and context.language and starts_line and _PROSE.match(head[:_HEAD]):
        return _fenced("prose", body)
    return Unwrapped("plain", raw)


def _fenced(kind: Literal["fence", "prose"], body: str) -> Unwrapped:
    opening = _OPENING.search(body[:_REACH])
    if opening is None:
        return Unwrapped(kind, "", ended=len(body) >= _REACH)
    text = body[opening.end() :]
    closing = _CLOSING.search(text)
    return Unwrapped(kind, text if closing is None else text[: closing.start()], ended=closing is not None)


def _fences_are_foreign(context: AnswerContext) -> bool:
    return context.language not in TEXT and not context.in_literal


def hole(text: str, context: AnswerContext) -> str:
    """The part of a fenced `text` that plausibly fills the hole, indented for it; empty when none does."""
    lines = text.rstrip().split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    if not lines:
        return ""
    if context.on_blank:
        last = context.before[0] if context.before else ""
        for number, line in enumerate(lines if len(last.strip()) >= _TELLING else []):
            if line.strip() == last.strip():
                return _placed(lines[number + 1 :], indent(last) - indent(line), context)
    else:
        last = context.line_prefix.lstrip()
        for number, line in enumerate(lines):
            for mark in (last, last.rstrip()):
                if line.lstrip().startswith(mark):
                    behind = _shifted(lines[number + 1 :], context.column - indent(line))
                    return "\n".join([line.lstrip()[len(mark) :], *behind])
    repeats = {line.strip() for line in context.before[:30] if len(line.strip()) >= _TELLING}
    if lines[0].strip() in repeats or (context.column > 0 and _BEGINS.match(lines[0].strip())):
        return ""
    if not context.on_blank:
        return lines[0].strip() if len(lines) == 1 else ""
    return _placed(lines, context.column - indent(lines[0]) if context.line_prefix else 0, context)


def _placed(lines: list[str], shift: int, context: AnswerContext) -> str:
    """`lines` moved by `shift`, the first one without what stands before the cursor."""
    while lines and not lines[0].strip():
        lines = lines[1:]
    if not lines:
        return ""
    shifted = _shifted(lines, shift)
    deeper = max(0, indent(shifted[0]) - context.column)
    return "\n".join([" " * deeper + shifted[0].lstrip(), *shifted[1:]])


def _shifted(lines: list[str], shift: int) -> list[str]:
    made = []
    for line in lines:
        if not line.strip() or shift == 0:
            made.append(line)
        elif shift > 0:
            made.append(" " * shift + line)
        else:
            made.append(" " * max(0, indent(line) + shift) + line.lstrip())
    return made


class Fence(Rule):
    """The rule for plain code: a fence begins the explanation behind it."""

    code = "fence"

    def grow(self, line: Line) -> int | None:
        if line.text.lstrip() != _FENCE or not _fences_are_foreign(self.context):
            return None
        return line.before

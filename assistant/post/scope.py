"""Ends a block where a line leaves it by its indentation, and keeps the closing line that the file lacks.

The block is the one that the cursor's line or the line above opens, else that of the answer's first line. Where the
line below goes on in the same function further out, the block reaches to that line's level; a function's neighbour is
not its body. On the outermost level and in bodies of classes a blank line before a line of the same level ends it too.
"""

from __future__ import annotations

import re

from assistant.post.closing import closes_below
from assistant.post.context import AnswerContext
from assistant.post.lines import BRACES, DEFINES, ENDS, closer, indent, opens_block, opens_brackets
from assistant.post.rules import Line, Rule

# The clauses that go on with a statement of Python's, at the level of its first line.
_STATEMENT = re.compile(r"(?:async\s+)?(?:if|elif|for|while|try|except)\b")
_DEFINITION = re.compile(r"(?:async\s+def|def|class)\b")
_CLAUSES = ("else", "elif", "except", "finally")
_CLAUSE = re.compile(rf"(?:{'|'.join(_CLAUSES)})\b")
_LABEL = re.compile(r"(?:case|default)\b|(?:public|private|protected)\s*:")
_LABELS = ("case", "default", "public", "private", "protected")
_QUOTES = {"python": re.compile("\"\"\"|'''")} | dict.fromkeys(
    ("javascript", "javascriptreact", "typescript", "typescriptreact", "go"), re.compile(r"(?<!\\)`")
)


class Scope(Rule):
    code = "scope"

    def __init__(self, context: AnswerContext) -> None:
        super().__init__(context)
        opening = _opening(context)
        self._header = None if opening is None else indent(opening)
        self._clauses = bool(opening and context.language == "python" and _STATEMENT.match(opening.strip()))
        self._level: int | None = None  # indentation of the answer's first line that is not blank
        self._base = 0 if self._header is None else self._header + 1
        if self._header is None and context.on_blank:
            self._base = context.column
        elif self._header is not None and context.language == "python":
            self._base = _shared_level(self._base, context)
        self._definitions = False
        self._blank = False  # the line before is blank
        self._open: str | None = None  # the quote of a text of many lines that is open
        self._decided = -1  # start of the line that is known to stay

    def grow(self, line: Line) -> int | None:
        if not self.context.multiline or line.first or self._decided == line.start:
            return None
        stripped = line.text.lstrip()
        if not stripped:
            return None
        if self._inside(line):
            self._decided = line.start
            return None
        return None if self._may_stay(stripped) else line.before

    def close(self, line: Line) -> int | None:
        if not self.context.multiline:
            return None
        end = None
        if line.text.strip() and not line.first and not self._inside(line):
            end = self._leaving(line)
        self._learn(line)
        return end

    def _inside(self, line: Line) -> bool:
        """Whether the indentation, which is known by now, keeps a line in the block."""
        if self._open is not None:
            return True
        depth = indent(line.text)
        if self._level is not None and self._definitions and self._blank and depth <= self._level:
            return False
        return depth >= self._base

    def _may_stay(self, stripped: str) -> bool:
        """Whether a line further out, as far as it is there, may be a closing line or a label."""
        if stripped[0] in ")]}":
            return True
        words = _CLAUSES if self._clauses else ENDS.get(self.context.language or "", ())
        if self.context.language in BRACES:
            words = _LABELS
            if stripped[0] == "#":
                return True
        return any(word.startswith(stripped[: len(word)]) for word in words)

    def _leaving(self, line: Line) -> int | None:
        """Where the answer ends with a line further out that is complete; None when it stays."""
        depth, stripped = indent(line.text), line.text.strip()
        outermost = 0 if self._header is None else self._header
        if self._clauses and depth == self._header and _CLAUSE.match(stripped):
            return None
        labelled = stripped.startswith("#") or _LABEL.match(stripped)
        if labelled and self.context.language in BRACES and depth >= outermost:
            return None
        if closer(stripped, self.context.language) is None or depth < outermost:
            return line.before
        if closes_below(line.text, self.context):
            return line.before
        if opens_block(line.text, self.context.language):
            return None if depth == self._header else line.before
        return line.start + len(line.text.rstrip())

    def _learn(self, line: Line) -> None:
        self._blank = not line.full.strip()
        if not self._blank and self._level is None:
            self._level = indent(line.full)
            if self._header is None:
                self._base = max(self._base, self._level) if self.context.on_blank else self._level
                self._base = _shared_level(self._base, self.context)
            self._definitions = self._level == 0 or _in_definitions(self._level, self.context)
        quotes = _QUOTES.get(self.context.language or "")
        if quotes is not None:
            for quote in quotes.findall(line.text):
                if self._open is None:
                    self._open = quote
                elif self._open == quote:
                    self._open = None


def _opening(context: AnswerContext) -> str | None:
    """The line that opens the block, when that is the cursor's line or the one above."""
    if not context.on_blank:
        return context.line_prefix if opens_block(context.line_prefix, context.language) else None
    if not context.before or not opens_brackets(context.before[0], context.language):
        return None
    deeper = context.column > indent(context.before[0]) or not context.line_prefix
    return context.before[0] if deeper else None


def _shared_level(level: int, context: AnswerContext) -> int:
    """The level of the line below where that line goes on with the same definition, further out than `level`."""
    if not context.below or closer(context.below[0], context.language) is not None:
        return level
    below = indent(context.below[0])
    return below if _definition(level, context) < below < level else level


def _definition(level: int, context: AnswerContext) -> int:
    """Indentation of the function or class around a line of `level`, in Python; 0 outside of any.

    What stands below at that indentation is its neighbour, not its body.
    """
    lines = context.before if context.on_blank else (context.line_prefix, *context.before)
    for line in lines if context.language == "python" else ():
        if indent(line) < level:
            level = indent(line)
            if _DEFINITION.match(line.strip()):
                return level
    return 0


def _in_definitions(level: int, context: AnswerContext) -> bool:
    """Whether the line that encloses `level` opens a class or its like."""
    lines = context.before if context.on_blank else (context.line_prefix, *context.before)
    for line in lines:
        if indent(line) < level:
            return DEFINES.search(line) is not None and "def " not in line
    return False

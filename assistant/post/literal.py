"""Whether a text ends inside a comment or a string, by a rough reading of its last part.

It may be wrong after unusual quoting; callers use it only to prefer a single line.
"""

from __future__ import annotations

import re
from typing import Literal

from assistant.post.lines import BRACES, DATA, TEXT

_WINDOW = 20_000  # characters read

_TRIPLE = r'"""(?:\\.|(?!""").)*"""|' + r"'''(?:\\.|(?!''').)*'''"
_TRIPLE_OPEN = r'"""(?:\\.|(?!""").)*\Z|' + r"'''(?:\\.|(?!''').)*\Z"
_DOUBLE, _DOUBLE_OPEN = r'"(?:\\.|[^"\\\n])*"', r'"(?:\\[^\n]|[^"\\\n])*\Z'
_SINGLE, _SINGLE_OPEN = r"'(?:\\.|[^'\\\n])*'", r"'(?:\\[^\n]|[^'\\\n])*\Z"
_BACK, _BACK_OPEN = r"`(?:\\.|[^`\\])*`", r"`(?:\\.|[^`\\])*\Z"


def _reader(comment: str, block: str, block_open: str, strings: list[str], opens: list[str]) -> re.Pattern[str]:
    """Closed forms first; the groups "comment" and "string" are what is still open at the end."""
    closed = [form for form in (block, *strings) if form]
    still = [form for form in (block_open,) if form]
    comments = "|".join([rf"(?:{comment})[^\n]*\Z", *still])
    return re.compile(
        rf"{'|'.join(closed)}|(?P<comment>{comments})|(?:{comment})[^\n]*|(?P<string>{'|'.join(opens)})",
        re.DOTALL,
    )


_QUOTES, _QUOTES_OPEN = [_DOUBLE, _SINGLE], [_DOUBLE_OPEN, _SINGLE_OPEN]
_PYTHON = _reader(
    "#",
    "",
    "",
    [_TRIPLE, r'(?!""")' + _DOUBLE, r"(?!''')" + _SINGLE],  # three quotes are no empty string and one more
    [_TRIPLE_OPEN, *_QUOTES_OPEN],
)
_C = _reader("//", r"/\*.*?\*/", r"/\*.*\Z", _QUOTES, _QUOTES_OPEN)
_JAVASCRIPT = _reader("//", r"/\*.*?\*/", r"/\*.*\Z", [*_QUOTES, _BACK], [*_QUOTES_OPEN, _BACK_OPEN])
# A Rust lifetime is no open quote: single quotes hold one character.
_RUST = _reader("//", r"/\*.*?\*/", r"/\*.*\Z", [_DOUBLE, r"'(?:\\[^\n]+?|[^'\\\n])'"], [_DOUBLE_OPEN])
_HASH = _reader(r"(?<![\w$\\{])#", "", "", _QUOTES, _QUOTES_OPEN)
_DASHES = _reader("--", r"/\*.*?\*/", r"/\*.*\Z", _QUOTES, _QUOTES_OPEN)


def at_end(text: str, language: str | None) -> Literal["comment", "string"] | None:
    """What `text` ends in; None for plain code, for prose and for languages that are not known."""
    reader = _reader_of(language)
    if reader is None:
        return None
    kind: Literal["comment", "string"] | None = None
    tail = _tail(text)
    for match in reader.finditer(tail):
        if match.end() == len(tail):
            if match.group("comment"):
                kind = "comment"
            elif match.group("string"):
                kind = "string"
    return kind


def _reader_of(language: str | None) -> re.Pattern[str] | None:
    if language is None or language in TEXT or language in ("html", "xml"):
        return None
    if language == "python":
        return _PYTHON
    if language == "rust":
        return _RUST
    if language in ("javascript", "javascriptreact", "typescript", "typescriptreact", "go", "vue"):
        return _JAVASCRIPT
    if language in BRACES or language in ("json", "jsonc"):
        return _C
    if language in ("sql", "lua", "haskell"):
        return _DASHES
    if language in DATA or language in ("shellscript", "fish", "ruby", "perl", "r", "julia", "elixir"):
        return _HASH
    return None


def _tail(text: str) -> str:
    """The last part of `text`, from a line that starts with code where there is one."""
    if len(text) <= _WINDOW:
        return text
    tail = text[-_WINDOW:]
    found = re.search(r"\n(?=[^\s#/*'\"])", tail)
    return tail if found is None else tail[found.end() :]

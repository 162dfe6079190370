"""Columns as a client counts them, and as Python does.

A column of the protocol counts code units of the encoding that was agreed on; a character is one code point.
A unit inside a code point is rounded down to the code point's beginning, a unit beyond the line to its end.
A lone surrogate is one code point: one UTF-16 unit, three UTF-8 units (as the U+FFFD that stands for it).
Language Server Protocol 3.17, "Position" and "PositionEncodingKind".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from lsprotocol.types import PositionEncodingKind

Encoding = Literal["utf-8", "utf-16", "utf-32"]  # the values of PositionEncodingKind

_KNOWN: dict[str, Encoding] = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-32": "utf-32"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def choose(client_encodings: Iterable[PositionEncodingKind | str] | None) -> Encoding:
    """The first encoding of the client's list that we know; UTF-16, the protocol's default, when there is none."""
    for offered in client_encodings or ():
        known = _KNOWN.get(offered.value if isinstance(offered, PositionEncodingKind) else offered)
        if known is not None:
            return known
    return "utf-16"


def units(line: str, encoding: Encoding) -> int:
    """Length of a text in code units."""
    if encoding == "utf-32" or line.isascii():
        return len(line)
    encoded = _encode(line, encoding)
    return len(encoded) // 2 if encoding == "utf-16" else len(encoded)


def to_unit(line: str, character: int, encoding: Encoding) -> int:
    """The column in code units of the character with this index; the line's length when there is none."""
    if encoding == "utf-32" or line.isascii():
        return min(max(character, 0), len(line))
    return units(line[: max(character, 0)], encoding)


def to_character(line: str, unit: int, encoding: Encoding) -> int:
    """The index of the character that a column in code units stands in; the line's length when it is beyond."""
    unit = max(unit, 0)
    if encoding == "utf-32" or line.isascii():
        return min(unit, len(line))
    # No character is shorter than a unit, and what is cut within a character is no character when decoded.
    if encoding == "utf-16":
        return len(_encode(line[:unit], encoding)[: 2 * unit].decode("utf-16-le", "ignore"))
    return len(_encode(line[:unit], encoding)[:unit].decode("utf-8", "ignore"))


def _encode(text: str, encoding: Encoding) -> bytes:
    codec = "utf-16-le" if encoding == "utf-16" else "utf-8"
    try:
        return text.encode(codec)
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode(codec)

"""A text held in pieces, so that an edit and a look around a place cost a few pieces, however long the text.

A line ends at \\n, \\r\\n or \\r and nowhere else. Pieces have no relation to lines: a line may cross many, a
piece may hold many. Neither a \\r\\n nor two halves of a surrogate pair are ever apart in two pieces. What grows
with the text is one sum over the counts of the pieces: about 0.1 ms for 5 MB.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice

from lsp import positions
from lsp.positions import Encoding

SIZE = 8192  # characters of a piece: a quarter of it to twice of it, unless the text is shorter
_LINE_END = re.compile(r"\r\n?|\n")

Place = tuple[int, int]  # index of a piece, offset in it


@dataclass(frozen=True)
class _Piece:
    text: str
    units: int  # of the encoding
    lf: int  # line ends by their kind
    crlf: int
    cr: int
    ends: int  # of all kinds
    length: int  # of `plain`

    @classmethod
    def of(cls, text: str, encoding: Encoding) -> _Piece:
        lf, crlf, cr = text.count("\n"), 0, 0
        if "\r" in text:
            crlf = text.count("\r\n")
            lf, cr = lf - crlf, text.count("\r") - crlf
        return cls(text, positions.units(text, encoding), lf, crlf, cr, lf + crlf + cr, len(text) - crlf)

    @cached_property
    def plain(self) -> str:
        """The text with \\n line ends."""
        return _plain(self.text)

    def after_end(self, number: int) -> int:
        """The offset behind the line end with this number, counted from 1."""
        if self.lf == self.ends:  # many times faster where lines are short
            return len(self.text) - len(self.text.split("\n", number)[number])
        return next(islice(_LINE_END.finditer(self.text), number - 1, None)).end()


class Pieces:
    """One text. Lines are counted from 0; a place is never between \\r and \\n."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self._encoding: Encoding = encoding
        self._set(self._split(text))

    def copy(self) -> Pieces:
        """Another one that can be edited alone; costs nothing like the text."""
        made = Pieces.__new__(Pieces)
        made.__dict__.update(self.__dict__)
        return made

    def text(self) -> str:
        return "".join([piece.text for piece in self._pieces])

    @property
    def line_count(self) -> int:
        return self._ends[-1] + 1

    @property
    def line_end(self) -> str:
        """The line end that most lines have; \\n when there is none, and before \\r\\n before \\r when as many do."""
        pieces = self._pieces
        counts = {
            "\n": sum([piece.lf for piece in pieces]),
            "\r\n": sum([piece.crlf for piece in pieces]),
            "\r": sum([piece.cr for piece in pieces]),
        }
        return max(counts, key=lambda end: counts[end])

    def start_of(self, line: int) -> Place:
        """Where a line begins; beyond the last line the end of the text, before the first its beginning."""
        if line <= 0:
            return 0, 0
        if line >= self.line_count:
            return len(self._pieces) - 1, len(self._pieces[-1].text)
        index = bisect_left(self._ends, line) - 1
        return index, self._pieces[index].after_end(line - self._ends[index])

    def locate(self, line: int, unit: int) -> Place:
        """The place of a column in code units; clamped to the line without its end, and to the text.

        Where two pieces meet it is the beginning of the second one.
        """
        index, offset = self.start_of(line)
        if line < 0:
            return index, offset
        while True:
            piece = self._pieces[index]
            end = self._content_end(index, offset)
            content = piece.text[offset:end]
            length = piece.units if len(content) == len(piece.text) else positions.units(content, self._encoding)
            if unit < length or end < len(piece.text) or index == len(self._pieces) - 1:
                return index, offset + positions.to_character(content, unit, self._encoding)
            unit, index, offset = unit - length, index + 1, 0

    def end_of_line(self, place: Place) -> Place:
        """Where the line of a place ends, before its line end."""
        index, offset = place
        while True:
            end = self._content_end(index, offset)
            if end < len(self._pieces[index].text) or index == len(self._pieces) - 1:
                return index, end
            index, offset = index + 1, 0

    def between(self, start: Place, end: Place) -> str:
        """The text from one place to another, as it is."""
        (first, a), (last, b) = start, end
        if first == last:
            return self._pieces[first].text[a:b]
        parts = [piece.text for piece in self._pieces[first + 1 : last]]
        return "".join([self._pieces[first].text[a:], *parts, self._pieces[last].text[:b]])

    def units_between(self, start: Place, end: Place) -> int:
        """The length of that text in code units."""
        (first, a), (last, b) = start, end
        if first == last:
            return positions.units(self._pieces[first].text[a:b], self._encoding)
        edges = (self._pieces[first].text[a:], self._pieces[last].text[:b])
        middle = sum([piece.units for piece in self._pieces[first + 1 : last]])
        return middle + sum([positions.units(edge, self._encoding) for edge in edges])

    def before(self, place: Place, most: int, step: int) -> tuple[str, bool]:
        """What stands before a place, with \\n line ends, and whether it is all of it.

        Of more than `most` characters the first are left out, a multiple of `step`: at least `most` are left.
        """
        index, offset = place
        head = _plain(self._pieces[index].text[:offset])
        cut = max(self._lengths[index] + len(head) - most, 0) // step * step
        first = bisect_right(self._lengths, cut) - 1
        parts = [piece.plain for piece in self._pieces[first:index]]
        return "".join([*parts, head])[cut - self._lengths[first] :], cut == 0

    def after(self, place: Place, most: int) -> str:
        """The first `most` characters behind a place, with \\n line ends."""
        index, offset = place
        parts = [_plain(self._pieces[index].text[offset:])]
        have = len(parts[0])
        while have < most and index + 1 < len(self._pieces):
            index += 1
            parts.append(self._pieces[index].plain)
            have += len(parts[-1])
        return "".join(parts)[:most]

    def replace(self, start: Place, end: Place, text: str) -> None:
        """Puts `text` in the place of what stands from `start` to `end`."""
        (first, a), (last, b) = start, end
        pieces = self._pieces
        text = pieces[first].text[:a] + text + pieces[last].text[b:]
        last += 1
        small = SIZE // 4
        # `end` stands before a character of its piece (or ends the text), so only the other border may be new.
        while first > 0 and (len(text) < small or _together(pieces[first - 1].text, text)):
            first -= 1
            text = pieces[first].text + text
        while last < len(pieces) and len(text) < small:
            text += pieces[last].text
            last += 1
        self._set([*pieces[:first], *self._split(text), *pieces[last:]])

    def _set(self, pieces: list[_Piece]) -> None:
        self._pieces = pieces
        self._ends = list(accumulate([piece.ends for piece in pieces], initial=0))
        self._lengths = list(accumulate([piece.length for piece in pieces], initial=0))

    def _split(self, text: str) -> list[_Piece]:
        text = _joined(text)
        made, start = [], 0
        while len(text) - start > 2 * SIZE:
            cut = start + SIZE
            if _together(text[cut - 1], text[cut]):
                cut += 1
            made.append(_Piece.of(text[start:cut], self._encoding))
            start = cut
        made.append(_Piece.of(text[start:], self._encoding))
        return made

    def _content_end(self, index: int, offset: int) -> int:
        """Offset of the first line end in a piece from `offset` on, or the piece's length."""
        piece = self._pieces[index]
        match = _LINE_END.search(piece.text, offset) if piece.ends else None
        return len(piece.text) if match is None else match.start()


def _together(left: str, right: str) -> bool:
    """Whether the border of two texts would be inside of one line end or one character."""
    a, b = left[-1:], right[:1]
    return (a == "\r" and b == "\n") or ("\ud800" <= a <= "\udbff" and "\udc00" <= b <= "\udfff")


def _joined(text: str) -> str:
    """Halves of a surrogate pair that have met become the one character that the client sees."""
    return text if _is_whole(text) else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _is_whole(text: str) -> bool:
    """Whether no lone surrogate is in it; asking the encoder is the fastest way to know."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


def without_halves(text: str) -> str:
    """The text with U+FFFD for every lone surrogate, which no encoding can hold."""
    return text if _is_whole(text) else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

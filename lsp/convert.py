"""A suggestion in the document's own terms: its line ends, its columns, a range on one line.

An inline item replaces the cursor's line up to the cursor by the same text and the suggestion, so that a client can
go on matching while the user types; closing characters behind the cursor that the suggestion brings itself are
replaced too. An entry of the completion list is right even where only its text is inserted at the cursor. LSP 3.18,
"Inline Completion Request", and 3.17, "Completion Request".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lsprotocol import types

from lsp.documents import Document, Snapshot
from lsp.positions import Encoding, units

ACCEPT = "tokenleap.accept"
LONGEST_REPEATED = 400  # characters of a line that are worth sending back to where they came from
_LONGEST_LABEL = 60
_MARK = "\ufeff"
_PAIRS = {")": "(", "]": "[", "}": "{"}
_QUOTES = ("\"", "'", "`")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"\w*\Z")
_PIECE = re.compile(r"\s*(?:\w+|[^\w\s]+)")


@dataclass(frozen=True)
class Place:
    """Where a suggestion goes. Of a long line only what is near the cursor is kept, a character more than is repeated.

    `selected` is the text of an entry chosen in the completion list, with its columns.
    """

    line: int
    unit: int  # the cursor's column in units of the encoding
    line_before: str
    line_after: str
    line_end: str
    encoding: Encoding
    selected: str | None = None
    selected_units: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, shot: Snapshot, document: Document) -> Place:
        """The place of a snapshot."""
        before, after, unit = shot.line_before[-LONGEST_REPEATED - 1 :], shot.line_after[:LONGEST_REPEATED], shot.unit
        if (shot.line, shot.unit) == (0, 0) and after.startswith(_MARK):  # nothing goes before the mark
            before, after, unit = _MARK, after[1:], units(_MARK, document.encoding)
        return cls(shot.line, unit, before, after, document.line_end, document.encoding)

    def at(self, first: int, last: int) -> types.Range:
        """A range of columns on the place's line."""
        return types.Range(types.Position(self.line, first), types.Position(self.line, last))


def own_text(text: str, line_end: str) -> str:
    """The model's text with the document's line ends, and nothing in it that no encoding can hold."""
    text = _SURROGATE.sub("\ufffd", text.replace("\0", ""))
    return text if line_end == "\n" else text.replace("\n", line_end)


def inline_item(text: str, place: Place, number: int) -> types.InlineCompletionItem:
    """The suggestion `text` (the model's) as an inline item; `number` tells it again when it is accepted."""
    text = own_text(text, place.line_end)
    if place.selected is not None:
        return _inline(place.selected + text, place.at(*place.selected_units), number)
    repeated = repeated_text(place)
    first = place.unit - units(repeated, place.encoding)
    last = place.unit + duplicated(text, place.line_after)  # closers are one unit each
    return _inline(repeated + text, place.at(first, last), number)


def repeated_text(place: Place) -> str:
    """What an inline item repeats of the document before the suggestion."""
    if place.selected is not None:
        return place.selected
    text = place.line_before.removeprefix(_MARK) if place.line == 0 else place.line_before
    return "" if len(text) > LONGEST_REPEATED or "\0" in text or _SURROGATE.search(text) else text


def _inline(text: str, where: types.Range, number: int) -> types.InlineCompletionItem:
    return types.InlineCompletionItem(insert_text=text, range=where, command=accept_command(number))


def accept_command(number: int) -> types.Command:
    return types.Command(title="Accept the suggestion", command=ACCEPT, arguments=[number])


def list_entry(text: str, place: Place, number: int) -> types.CompletionItem | None:
    """The suggestion as an entry of the completion list: last, explicit, as it is. None when nothing is left of it:
    a client may ignore a range past the cursor, so what the editor closed already is left out.
    """
    if duplicated(text, place.line_after):
        text = text[: _closers(text, place.line_after)[0][1]]
        if not text:
            return None
    word = _WORD.search(place.line_before[-LONGEST_REPEATED:])
    typed = word[0] if word and not _SURROGATE.search(word[0]) else ""
    whole = typed + own_text(text, place.line_end)
    first, more, _ = (typed + text).strip().partition("\n")
    return types.CompletionItem(
        label=(first if len(first) <= _LONGEST_LABEL else first[: _LONGEST_LABEL - 1] + "…") + (" …" if more else ""),
        kind=types.CompletionItemKind.Text,
        detail="tokenleap",
        documentation=types.MarkupContent(types.MarkupKind.PlainText, typed + text),
        sort_text="\uffff",
        filter_text=typed or whole.strip() or whole,
        insert_text_format=types.InsertTextFormat.PlainText,
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(place.at(place.unit - units(typed, place.encoding), place.unit), whole),
        command=accept_command(number),
    )


def duplicated(text: str, line_after: str) -> int:
    """How many closing characters right behind the cursor `text` brings itself: what an editor closed of its own."""
    count = 0
    for character, _ in _closers(text, line_after):
        if line_after[count : count + 1] != character:
            break
        count += 1
    return count


def _closers(text: str, line_after: str) -> list[tuple[str, int]]:
    """What `text` closes that was opened before the cursor: characters and their places.

    None when it leaves something open itself: then what stands behind the cursor is needed for that.
    """
    opened: list[str] = []
    closed: list[tuple[str, int]] = []
    quote = line_after[:1] if line_after[:1] in _QUOTES and text.count(line_after[0]) % 2 else ""
    within = bool(quote)  # the cursor stands in a string
    escaped = False
    for place, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\" and quote:
            escaped = True
        elif quote:
            if within and character == quote:
                closed.append((character, place))
                within = False
            quote = "" if character in (quote, "\n") else quote
        elif character in _QUOTES:
            quote = character
        elif character in _PAIRS.values():
            opened.append(character)
        elif character in _PAIRS:
            if opened and opened[-1] == _PAIRS[character]:
                opened.pop()
            else:
                closed.append((character, place))
    return [] if opened else closed


def next_word(text: str) -> str:
    """The first word of a suggestion with the blanks before it, as one step of accepting it."""
    match = _PIECE.match(text)
    return match[0] if match else text


def next_line(text: str) -> str:
    """The first line of a suggestion that holds anything, with the line ends before it."""
    start = len(text) - len(text.lstrip("\r\n"))
    ends = [end for end in (text.find("\n", start), text.find("\r", start)) if end >= 0]
    return text[: min(ends)] if ends else text

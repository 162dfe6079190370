"""The documents as the client has them, and what a completion needs of one at one moment.

Positions are the protocol's: lines from 0, columns in code units of the encoding agreed on, clamped to the line
(without its end) and to the text, rounded down inside of a character. A document keeps every character it was
given; only a Snapshot's `prefix` and `suffix` are the model's text. Specification: "Text Document Synchronization".
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lsprotocol.types import LanguageKind, TextDocumentContentChangeEvent, TextDocumentContentChangePartial

from assistant.errors import UnreadableFileError
from assistant.languages import language_of
from assistant.service import window
from assistant.service.window import Window
from assistant.sourcefile import SourceFile
from lsp import pieces, uris
from lsp.pieces import Pieces
from lsp.positions import Encoding

_MARK = "\ufeff"
_AROUND = Window()


@dataclass(frozen=True)
class Snapshot:
    """What stood around one position.

    `prefix` and `suffix` are the model's text: \\n line ends, no byte order mark, no NUL, U+FFFD for a lone
    surrogate, and no more than the window asked for (`prefix` up to window.STEP characters more, since its
    beginning moves in steps). `line_before` and `line_after` are the document's own characters.
    """

    version: int
    revision: int  # differs whenever the text may differ, also where the client's versions do not
    prefix: str
    suffix: str
    line: int
    unit: int
    line_before: str
    line_after: str


class Document:
    """One text document. `apply` and `snapshot` cost the same in a large file and in a small one."""

    def __init__(self, uri: str, language: str | None, version: int, text: str, encoding: Encoding) -> None:
        self.uri = uri  # as the client spells it
        self.language = language
        self.version = version
        self.revision = 0
        self.encoding: Encoding = encoding
        self._pieces = Pieces(text, encoding)

    def apply(self, changes: Sequence[TextDocumentContentChangeEvent], version: int | None) -> None:
        """Makes the changes one after the other, or, when one of them raises, none.

        Changes are made in the order they come in, whatever their version: the stream keeps the order, and a
        change left out would be missing for good. `version` becomes what the client says, even if it does not
        grow; without one it counts on. `revision` grows by one each time.
        """
        text = self._pieces.copy()
        for change in changes:
            if isinstance(change, TextDocumentContentChangePartial):
                ends = [(at.line, at.character) for at in (change.range.start, change.range.end)]
                start, end = (text.locate(line, unit) for line, unit in sorted(ends))
                text.replace(start, end, change.text)
            else:
                text = Pieces(change.text, self.encoding)
        self._pieces = text
        self.version = self.version + 1 if version is None else version
        self.revision += 1

    def text(self) -> str:
        """All of it, line ends and all. Takes time as the text is long."""
        return self._pieces.text()

    @property
    def line_count(self) -> int:
        return self._pieces.line_count

    @property
    def line_end(self) -> str:
        """The line end that most lines have, \\n where there is none."""
        return self._pieces.line_end

    def line_text(self, line: int) -> str:
        """One line without its end; empty where there is no such line."""
        text = self._pieces
        start = text.start_of(line)
        return text.between(start, text.end_of_line(start)) if 0 <= line < text.line_count else ""

    def snapshot(self, line: int, unit: int, around: Window = _AROUND) -> Snapshot:
        """What stands around a position; beyond the last line that is the end of the text."""
        text = self._pieces
        place = text.locate(line, unit)
        line = min(max(line, 0), text.line_count - 1)
        start = text.start_of(line)
        prefix, whole = text.before(place, around.before, window.STEP)
        suffix = text.after(place, around.after)
        if whole and prefix:
            prefix = prefix.removeprefix(_MARK)
        elif whole:
            suffix = suffix.removeprefix(_MARK)
        return Snapshot(
            version=self.version,
            revision=self.revision,
            prefix=_readable(prefix),
            suffix=_readable(suffix),
            line=line,
            unit=text.units_between(start, place),
            line_before=text.between(start, place),
            line_after=text.between(place, text.end_of_line(place)),
        )


class Documents:
    """The open documents, whatever spelling of a URI the client uses; closed files are read from the disk."""

    def __init__(self, encoding: Encoding = "utf-16") -> None:
        self.encoding: Encoding = encoding  # set it before the first `open`
        self._open: dict[str, Document] = {}

    def __iter__(self) -> Iterator[Document]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, uri: str) -> bool:
        return uris.canonical(uri) in self._open

    def open(self, uri: str, language: LanguageKind | str | None, version: int, text: str) -> Document:
        """A document that the client has from now on; one that is open already is replaced."""
        name = language.value if isinstance(language, LanguageKind) else language
        document = Document(uri, name or None, version, text, self.encoding)
        self._open[uris.canonical(uri)] = document
        return document

    def change(
        self, uri: str, changes: Sequence[TextDocumentContentChangeEvent], version: int | None
    ) -> Document | None:
        """Makes changes in an open document; None, and nothing is done, when it is not open."""
        document = self._open.get(uris.canonical(uri))
        if document is not None:
            document.apply(changes, version)
        return document

    def close(self, uri: str) -> Document | None:
        """Forgets a document and gives it back; None when it is not open."""
        return self._open.pop(uris.canonical(uri), None)

    def get(self, uri: str) -> Document | None:
        """The open document, else the file as it is on the disk now (version 0, kept by nobody), else None."""
        document = self._open.get(uris.canonical(uri))
        return self._read(uri) if document is None else document

    def _read(self, uri: str) -> Document | None:
        path = uris.path_of(uri)
        try:
            # Opening a pipe would wait for ever, and reading a device may.
            if path is None or not stat.S_ISREG(os.stat(path).st_mode):
                return None
            source = SourceFile.read(path)
        except (OSError, ValueError, UnreadableFileError):
            return None
        text = source.text.replace("\n", source.newline)
        return Document(uri, language_of(path), 0, text, self.encoding)


def _readable(text: str) -> str:
    """Text that the model may see and that every encoding can hold."""
    return pieces.without_halves(text.replace("\0", ""))

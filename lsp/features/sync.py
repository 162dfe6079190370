"""Documents and notebooks as the client opens, changes and closes them, and which one is looked at.

A change is made at once and as a whole, before the next message is looked at. What cannot be read as the protocol's
shapes is refused and logged, and changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from cattrs import Converter
from lsprotocol import converters, types

from lsp import life, uris
from lsp.documents import Document
from lsp.features.asking import Question, question
from lsp.requests import AUTOMATIC
from lsp.rpc import Params, dig, need
from lsp.session import Session

_PAUSE = 0.6  # seconds without a key or a request, after which the text before the cursor is read in
_SMALL = 16_384  # characters of a document that is read in as a whole when it is opened
_MANY_LINES = 20_000  # of a document whose memory is worth giving back
_AFTERWARDS = 1.0  # seconds after it was closed
_TYPED = 80  # characters of a change that a person may have typed


class Sync:
    """Handlers of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._converter: Converter = converters.get_converter()
        self._cursor: dict[str, tuple[int, int]] = {}  # document -> where it was last changed
        self._pause = 0  # counts, so that only the last pause counts

    def open(self, params: Params) -> None:
        item = self._converter.structure(need(params, "textDocument"), types.TextDocumentItem)
        document = self._session.documents.open(item.uri, item.language_id, item.version, item.text)
        if len(item.text) <= _SMALL:
            self._warm(document, document.line_count, 0)

    def change(self, params: Params) -> None:
        read = self._converter.structure(params, types.DidChangeTextDocumentParams)
        document = self._session.documents.change(
            read.text_document.uri, read.content_changes, read.text_document.version
        )
        if document is not None and read.content_changes:
            self._changed(document, read.content_changes[-1])

    def close(self, params: Params) -> None:
        uri = need(params, "textDocument", "uri")
        document = self._session.documents.close(uri)
        self._forget(uri)
        if document is not None and document.line_count > _MANY_LINES:
            asyncio.get_running_loop().call_later(_AFTERWARDS, life.give_memory_back)

    def save(self, params: Params) -> None:
        self._session.warn()

    def focus(self, params: Params) -> None:
        """didFocus: the user looks at another document, or at none."""
        uri = dig(params, "textDocument", "uri")
        document = self._session.documents.get(uri) if isinstance(uri, str) and uri in self._session.documents else None
        if document is not None:
            line, unit = self._cursor.get(uris.canonical(document.uri), (0, 0))
            self._warm(document, line, unit)

    def open_notebook(self, params: Params) -> None:
        self._session.notebooks.open(self._converter.structure(params, types.DidOpenNotebookDocumentParams))

    def change_notebook(self, params: Params) -> None:
        read = self._converter.structure(params, types.DidChangeNotebookDocumentParams)
        self._session.notebooks.change(read)
        closed = read.change.cells.structure.did_close if read.change.cells and read.change.cells.structure else None
        for cell in closed or ():
            if cell.uri not in self._session.documents:
                self._forget(cell.uri)

    def close_notebook(self, params: Params) -> None:
        read = self._converter.structure(params, types.DidCloseNotebookDocumentParams)
        self._session.notebooks.close(read)
        for cell in read.cell_text_documents:
            self._forget(cell.uri)

    def folders(self, params: Params) -> None:
        """The first folder of the workspace stands for it."""
        configuration = self._session.configuration
        removed, added = (
            [Path(path) for folder in dig(params, "event", kind) or () if (path := uris.path_of(need(folder, "uri")))]
            for kind in ("removed", "added")
        )
        if configuration.root in removed:
            configuration.root = None
        if configuration.root is None and added:
            configuration.root = added[0]
        self._session.apply_settings()

    def _forget(self, uri: str) -> None:
        key = uris.canonical(uri)
        self._session.desk.give_up(key)
        self._session.reasons.pop(key, None)
        self._cursor.pop(key, None)
        last = self._session.book.forget(key)
        if last is not None and last.shown and not last.ended:
            self._session.ledger.dismissed(last.record)

    def _changed(self, document: Document, change: types.TextDocumentContentChangeEvent) -> None:
        if not isinstance(change, types.TextDocumentContentChangePartial) or len(change.text) > _TYPED:
            return
        self._session.desk.pace.typed(time.monotonic())
        start, lines = change.range.start, change.text.count("\n")
        # Roughly where the cursor is; the column may be off by a few units behind an astral character.
        unit = start.character + len(change.text) if not lines else len(change.text.rpartition("\n")[2])
        self._cursor[uris.canonical(document.uri)] = start.line + lines, unit
        self._pause += 1
        asyncio.get_running_loop().call_later(_PAUSE, self._paused, self._pause, document)

    def _paused(self, count: int, document: Document) -> None:
        if count == self._pause and document.uri in self._session.documents:
            line, unit = self._cursor.get(uris.canonical(document.uri), (0, 0))
            self._warm(document, line, unit)

    def _warm(self, document: Document, line: int, unit: int) -> None:
        asked = question(self._session, document.uri, line, unit, AUTOMATIC)
        if isinstance(asked, Question):
            self._session.desk.warm(asked.ask)

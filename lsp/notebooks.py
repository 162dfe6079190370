"""Notebooks: which cells stand before a cell, in order.

Every cell is a document of its own, kept in Documents; a notebook holds their order and kinds. The code cells
before one, of its own language, are what its code may use. Specification: "Notebook Document Synchronization".
"""

from __future__ import annotations

from dataclasses import dataclass

from lsprotocol.types import (
    DidChangeNotebookDocumentParams,
    DidCloseNotebookDocumentParams,
    DidOpenNotebookDocumentParams,
    NotebookCell,
    NotebookCellKind,
    TextDocumentItem,
)

from assistant.service.window import Window
from lsp import uris
from lsp.documents import Document, Documents


@dataclass(frozen=True)
class _Cell:
    key: str  # canonical URI of its document
    code: bool


class Notebooks:
    """The open notebooks. The documents of their cells are opened, changed and closed through here."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._cells: dict[str, list[_Cell]] = {}  # by the notebook's canonical URI

    def __len__(self) -> int:
        return len(self._cells)

    def open(self, params: DidOpenNotebookDocumentParams) -> None:
        """A notebook that the client has from now on, with the texts of its cells; instead of one open already."""
        notebook = uris.canonical(params.notebook_document.uri)
        self._forget(notebook)
        for item in params.cell_text_documents:
            self._open_text(item)
        self._cells[notebook] = [_cell(cell) for cell in params.notebook_document.cells]

    def change(self, params: DidChangeNotebookDocumentParams) -> None:
        """Cells added, removed, moved, altered or typed in. Nothing where the notebook is not open."""
        notebook = uris.canonical(params.notebook_document.uri)
        cells, change = self._cells.get(notebook), params.change.cells
        if cells is None or change is None:
            return
        if change.structure is not None:
            array = change.structure.array
            start = min(array.start, len(cells))
            new = [_cell(cell) for cell in array.cells or ()]
            # A moved cell may be in both lists: it is open afterwards.
            for closed in change.structure.did_close or ():
                self._documents.close(closed.uri)
            for item in change.structure.did_open or ():
                self._open_text(item)
            cells = [*cells[:start], *new, *cells[start + array.delete_count :]]
        altered = {cell.key: cell for cell in map(_cell, change.data or ())}
        self._cells[notebook] = [altered.get(cell.key, cell) for cell in cells]
        for content in change.text_content or ():
            self._documents.change(content.document.uri, content.changes, content.document.version)

    def close(self, params: DidCloseNotebookDocumentParams) -> None:
        """Forgets a notebook and its cells."""
        self._forget(uris.canonical(params.notebook_document.uri))
        for document in params.cell_text_documents:
            self._documents.close(document.uri)

    def prefix_of(self, cell_uri: str, around: Window) -> str:
        """The model's text of the code cells before a cell, each ending with \\n; empty for other documents.

        Of more than the window before the cursor whole cells at the beginning are left out.
        """
        own = self._document(uris.canonical(cell_uri))
        if own is None:
            return ""
        texts: list[str] = []
        room = around.before
        for cell in reversed(self._before(uris.canonical(cell_uri))):
            document = self._document(cell.key)
            if document is None or not cell.code or document.language != own.language:
                continue
            text = document.snapshot(document.line_count, 0, around).prefix
            if text and not text.endswith("\n"):
                text += "\n"
            texts.append(text)
            room -= len(text)
            if room <= 0:
                break
        return "".join(reversed(texts))

    def _open_text(self, item: TextDocumentItem) -> None:
        self._documents.open(item.uri, item.language_id, item.version, item.text)

    def _before(self, key: str) -> list[_Cell]:
        for cells in self._cells.values():
            for index, cell in enumerate(cells):
                if cell.key == key:
                    return cells[:index]
        return []

    def _document(self, key: str) -> Document | None:
        """The open document; a cell is never read from the disk."""
        return self._documents.get(key) if key in self._documents else None

    def _forget(self, notebook: str) -> None:
        for cell in self._cells.pop(notebook, ()):
            self._documents.close(cell.key)


def _cell(cell: NotebookCell) -> _Cell:
    return _Cell(uris.canonical(cell.document), cell.kind == NotebookCellKind.Code)

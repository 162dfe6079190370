"""The cells before a cell are those that the client has there, in its order, after any change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.converters import get_converter
from lsprotocol.types import (
    DidChangeNotebookDocumentParams,
    DidCloseNotebookDocumentParams,
    DidOpenNotebookDocumentParams,
)

from assistant.service.window import Window
from lsp.documents import Documents
from lsp.notebooks import Notebooks

NOTEBOOK = "file:///home/x/my%20work.ipynb"
CONVERTER = get_converter()


def uri(name: str) -> str:
    return f"vscode-notebook-cell:/home/x/my%20work.ipynb#{name}"


def cell(name: str, kind: int = 2) -> dict[str, Any]:
    return {"kind": kind, "document": uri(name)}


def item(name: str, text: str, language: str = "python") -> dict[str, Any]:
    return {"uri": uri(name), "languageId": language, "version": 1, "text": text}


class Client:
    """Speaks to Notebooks in the messages that a client sends."""

    def __init__(self) -> None:
        self.documents = Documents()
        self.notebooks = Notebooks(self.documents)

    def open(self, cells: list[dict[str, Any]], texts: list[dict[str, Any]]) -> None:
        message = {
            "notebookDocument": {"uri": NOTEBOOK, "notebookType": "jupyter-notebook", "version": 1, "cells": cells},
            "cellTextDocuments": texts,
        }
        self.notebooks.open(CONVERTER.structure(message, DidOpenNotebookDocumentParams))

    def change(self, notebook: str = NOTEBOOK, **cells: Any) -> None:
        message = {"notebookDocument": {"uri": notebook, "version": 2}, "change": {"cells": cells}}
        self.notebooks.change(CONVERTER.structure(message, DidChangeNotebookDocumentParams))

    def splice(self, start: int, removed: int, *added: dict[str, Any], **more: Any) -> None:
        self.change(structure={"array": {"start": start, "deleteCount": removed, "cells": list(added)}, **more})

    def close(self, *names: str) -> None:
        message = {
            "notebookDocument": {"uri": NOTEBOOK},
            "cellTextDocuments": [{"uri": uri(name)} for name in names],
        }
        self.notebooks.close(CONVERTER.structure(message, DidCloseNotebookDocumentParams))


@pytest.fixture
def client() -> Client:
    made = Client()
    made.open(
        [cell("a"), cell("text", kind=1), cell("b"), cell("query"), cell("c")],
        [
            item("a", "import os\r\nimport sys"),
            item("text", "# Title", "markdown"),
            item("b", "\ufeffx = 1\n"),
            item("query", "SELECT 1", "sql"),
            item("c", ""),
        ],
    )
    return made


def test_python_lsp_server_466_a_cell_knows_what_earlier_cells_import() -> None:
    client = Client()
    client.open([cell("a"), cell("b")], [item("a", "import os"), item("b", "")])
    assert client.notebooks.prefix_of(uri("b"), Window()) == "import os\n"
    assert client.notebooks.prefix_of(uri("a"), Window()) == ""


def test_code_cells_of_the_same_language_are_the_context(client: Client) -> None:
    assert client.notebooks.prefix_of(uri("c"), Window()) == "import os\nimport sys\nx = 1\n"
    assert client.notebooks.prefix_of(uri("b"), Window()) == "import os\nimport sys\n"
    assert client.notebooks.prefix_of(uri("query"), Window()) == ""
    assert client.notebooks.prefix_of("untitled:Untitled-1", Window()) == ""


def test_every_spelling_of_a_cell_is_the_cell(client: Client) -> None:
    client.open([cell("W0sZmlsZQ%3D%3D"), cell("b")], [item("W0sZmlsZQ%3D%3D", "import os"), item("b", "")])
    other = {"uri": uri("W0sZmlsZQ=="), "version": 2}
    client.change(textContent=[{"document": other, "changes": [{"text": "import re"}]}])
    assert client.notebooks.prefix_of(uri("b").replace("%20", " "), Window()) == "import re\n"


def test_typing_in_an_earlier_cell_is_seen(client: Client) -> None:
    place = {"start": {"line": 0, "character": 7}, "end": {"line": 0, "character": 9}}
    client.change(
        textContent=[
            {"document": {"uri": uri("a"), "version": 2}, "changes": [{"range": place, "text": "re"}]},
            {"document": {"uri": uri("gone"), "version": 2}, "changes": [{"text": "x"}]},
        ]
    )
    assert client.notebooks.prefix_of(uri("b"), Window()) == "import re\nimport sys\n"
    document = client.documents.get(uri("a"))
    assert document is not None and (document.version, document.line_end) == (2, "\r\n")


def test_cells_are_added_moved_removed_and_become_text(client: Client) -> None:
    client.splice(1, 0, cell("new"), didOpen=[item("new", "y = 2")])
    assert client.notebooks.prefix_of(uri("c"), Window()) == "import os\nimport sys\ny = 2\nx = 1\n"
    client.splice(1, 1, didClose=[{"uri": uri("new")}])
    assert uri("new") not in client.documents
    assert client.notebooks.prefix_of(uri("c"), Window()) == "import os\nimport sys\nx = 1\n"
    client.splice(0, 1)
    client.splice(99, 3, cell("a"))  # beyond the end: at the end
    assert client.notebooks.prefix_of(uri("c"), Window()) == "x = 1\n"
    assert client.notebooks.prefix_of(uri("a"), Window()) == "x = 1\n"
    client.change(data=[cell("b", kind=1)])
    assert client.notebooks.prefix_of(uri("c"), Window()) == ""


def test_a_cell_that_is_closed_and_opened_in_one_change_is_open(client: Client) -> None:
    client.splice(0, 1, cell("a"), didOpen=[item("a", "import re")], didClose=[{"uri": uri("a")}])
    assert client.notebooks.prefix_of(uri("b"), Window()) == "import re\n"


def test_a_closed_notebook_leaves_nothing(client: Client) -> None:
    client.close("a", "b")  # some clients name no cells, some all
    assert (len(client.notebooks), len(client.documents)) == (0, 0)
    assert client.notebooks.prefix_of(uri("c"), Window()) == ""
    client.close("a")
    client.splice(0, 0, cell("a"), didOpen=[item("a", "x")])
    client.change(notebook="file:///other.ipynb", data=[cell("a")])
    assert (len(client.notebooks), len(client.documents)) == (0, 0)


def test_a_notebook_opened_again_is_the_new_one(client: Client) -> None:
    client.open([cell("b"), cell("c")], [item("b", "z = 3"), item("c", "")])
    assert client.notebooks.prefix_of(uri("c"), Window()) == "z = 3\n"
    assert sorted(document.uri for document in client.documents) == [uri("b"), uri("c")]


def test_of_many_large_cells_the_last_are_enough() -> None:
    client = Client()
    names = [f"cell{number}" for number in range(100)]
    text = "x = 1\n" * 5000
    client.open([*map(cell, names)], [item(name, f"# {name}\n{text}") for name in names])
    found = client.notebooks.prefix_of(uri("cell99"), Window())
    assert Window().before <= len(found) <= Window().before + len(text) + 20
    assert found.startswith("# cell") and found.endswith(f"# cell98\n{text}")


NAMES = st.sampled_from("abcdefgh")


@given(
    splices=st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 3), st.lists(NAMES, max_size=3, unique=True)), max_size=12
    )
)
def test_any_changes_leave_the_clients_order(splices: list[tuple[int, int, list[str]]]) -> None:
    client, order = Client(), list[str]()
    client.open([], [])
    for start, removed, names in splices:
        gone = order[start : start + removed]
        added = [name for name in names if name not in order or name in gone]
        order[start : start + removed] = added
        client.splice(
            *(start, removed),
            *map(cell, added),
            didOpen=[item(name, name) for name in added],
            didClose=[{"uri": uri(name)} for name in gone],
        )
        assert len(client.documents) == len(order)
        for number, name in enumerate(order):
            expected = "".join(f"{before}\n" for before in order[:number])
            assert client.notebooks.prefix_of(uri(name), Window()) == expected

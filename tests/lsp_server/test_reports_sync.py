"""Section B of the public bug reports: document synchronisation. Each test has its report's name."""

from __future__ import annotations

from tests.lsp_server.client import CANCELLED, replacement

URI = "file:///tmp/none/"


def test_pygls_423_a_change_is_made_once(desk):
    uri = URI + "abc.py"
    editor = desk.editor()
    editor.open(uri, "")
    for place, character in enumerate("abc"):
        editor.type(uri, 0, place, character)
    editor.change(uri, replacement(0, 2, 0, 3, ""))
    editor.suggestion(uri, 0, 2)
    assert [(run["prefix"], run["suffix"]) for run in desk.runs()] == [("ab", "")]


def test_python_language_server_263_369_requests_after_close(desk, tmp_path):
    file = tmp_path / "closed.py"
    file.write_text("on_disk = ", encoding="utf-8")
    uri = f"file://{file}"
    gate = tmp_path / "gate"
    desk.script(rules=[{"ends": "open = ", "hold": str(gate)}], say="1")
    editor = desk.editor()
    editor.open(uri, "open = ")
    running = editor.inline(uri, 0, 7)
    desk.until(lambda: desk.runs())
    editor.close_document(uri)
    editor.close_document(uri)
    editor.type(uri, 0, 0, "not open")
    assert editor.reply(running).result is None
    desk.until(lambda: any(event["event"] == "cancelled" for event in desk.events()))
    assert editor.suggestion(uri, 0, 10).items[0]["insertText"] == "on_disk = 1"
    assert editor.suggestion(URI + "nowhere.py", 0, 0).items == []
    assert editor.suggestion("untitled:Untitled-9", 0, 0).items == []
    assert editor.messages() == []
    assert editor.leave() == 0
    assert "Traceback" not in (desk.folder / "stderr-0.txt").read_text(encoding="utf-8")


UNTITLED = """interface User { id: number; name: string }

function byName(users: User[]): Map<string, User> {
  
}
"""


def test_continue_1293_1226_1648_cody_3453_unsaved_and_untitled(desk, tmp_path):
    editor = desk.editor()
    editor.open("untitled:Untitled-1", UNTITLED, "typescript")
    assert editor.suggestion("untitled:Untitled-1", 3, 2).items
    old = tmp_path / "old.ts"
    old.write_text("const stale = true\n", encoding="utf-8")
    editor.open(f"file://{old}", UNTITLED, "typescript")
    assert editor.suggestion(f"file://{old}", 3, 2).items
    untitled, saved = desk.runs()
    for run in (untitled, saved):
        assert run["prefix"] == UNTITLED.partition("  \n")[0] + "  "
        assert run["suffix"] == "\n}\n"
        assert run["language"] == "typescript"
    assert (untitled["path"], saved["path"]) == (None, str(old))


def test_python_lsp_server_466_cells_before_a_cell_are_known(desk):
    notebook, first, second = (
        "file:///tmp/none/n.ipynb",
        "vscode-notebook-cell:/tmp/none/n.ipynb#W0",
        "vscode-notebook-cell:/tmp/none/n.ipynb#W1",
    )
    editor = desk.editor(start=False)
    found = editor.start({"notebookDocument": {"synchronization": {}}, "textDocument": {"inlineCompletion": {}}})
    assert found["notebookDocumentSync"]["notebookSelector"]
    editor.ready()
    cells = [{"kind": 2, "document": uri} for uri in (first, second)]
    texts = [
        {"uri": uri, "languageId": "python", "version": 1, "text": text}
        for uri, text in ((first, "import os"), (second, ""))
    ]
    document = {"uri": notebook, "notebookType": "jupyter-notebook", "version": 1, "cells": cells}
    editor.notify("notebookDocument/didOpen", {"notebookDocument": document, "cellTextDocuments": texts})
    assert editor.suggestion(second, 0, 0).items
    change = {
        "textContent": [
            {
                "document": {"uri": first, "version": 2},
                "changes": [replacement(0, 0, 0, 9, "import sys")],
            }
        ]
    }
    editor.notify(
        "notebookDocument/didChange",
        {"notebookDocument": {"uri": notebook, "version": 2}, "change": {"cells": change}},
    )
    assert editor.suggestion(second, 0, 0).items
    assert editor.suggestion(first, 0, 10).items
    assert [run["prefix"] for run in desk.runs()] == ["import os\n", "import sys\n", "import sys"]
    assert [run["path"] for run in desk.runs()] == [None] * 3
    editor.notify(
        "notebookDocument/didClose",
        {"notebookDocument": {"uri": notebook}, "cellTextDocuments": [{"uri": first}, {"uri": second}]},
    )
    assert editor.suggestion(second, 0, 0).items == []


def test_a_request_sees_the_text_as_it_was_when_it_was_sent(desk):
    uri = URI + "order.py"
    editor = desk.editor()
    editor.open(uri, "x = ")
    # One write: the change behind the request must not be seen by it, and makes its answer useless.
    editor.send(
        request := editor.asking(
            "textDocument/inlineCompletion",
            {
                "textDocument": {"uri": uri, "version": 1},
                "position": {"line": 0, "character": 4},
                "context": {"triggerKind": 1},
            },
        ),
        editor.changing(uri, replacement(0, 0, 0, 4, "y")),
    )
    assert editor.reply(request["id"]).result is None
    assert editor.suggestion(uri, 0, 1).items[0]["insertText"] == "ydone"
    assert {run["prefix"] for run in desk.runs()} <= {"x = ", "y"}


def test_a_request_for_another_version_is_not_answered_from_this_one(desk):
    uri = URI + "version.py"
    editor = desk.editor()
    editor.open(uri, "x = ", version=5)
    params = {
        "textDocument": {"uri": uri, "version": 4},
        "position": {"line": 0, "character": 4},
        "context": {"triggerKind": 1},
    }
    reply = editor.call("textDocument/inlineCompletion", params)
    assert reply.code != CANCELLED and not reply.items
    assert desk.runs() == []

"""textDocument/inlineCompletion over standard streams: what is asked, what comes back, who wins."""

from __future__ import annotations

from tests.lsp_server.client import CANCELLED, apply

URI = "file:///tmp/none/a.py"


def test_a_suggestion_is_put_where_the_cursor_is(desk):
    desk.say("price * 2")
    editor = desk.editor()
    text = 'face = "😋"; price = 3; total = \nprint(face, total)\n'
    editor.open(URI, text)
    reply = editor.suggestion(URI, 0, 32)
    [item, *_] = reply.items
    done = apply(text, item["range"], item["insertText"])
    assert done == text.replace("total = \n", "total = price * 2\n")
    [run] = desk.runs()
    assert run["prefix"] == 'face = "😋"; price = 3; total = '
    assert run["suffix"] == "\nprint(face, total)\n"
    assert (run["language"], run["trigger"], run["path"]) == ("python", "invoked", "/tmp/none/a.py")


def test_shutdown_then_exit_is_a_clean_end(desk):
    assert desk.editor(ready=False).leave() == 0


def test_a_cancelled_request_is_answered_once_and_costs_no_more(desk, tmp_path):
    gate = tmp_path / "gate"
    desk.say("never", hold=str(gate))
    editor = desk.editor()
    editor.open(URI, "x = ")
    request = editor.inline(URI, 0, 4)
    desk.until(lambda: desk.runs())
    editor.cancel(request)
    assert editor.reply(request).code == CANCELLED
    desk.until(lambda: [event["event"] for event in desk.events()].count("cancelled") == 1)
    editor.cancel(request)
    editor.cancel(999)
    desk.say("next")
    assert editor.suggestion(URI, 0, 4).items[0]["insertText"] == "x = next"

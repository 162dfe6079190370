"""Section C of the public bug reports: cancelling, speed, process life. Each test has its report's name."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from assistant.service.client import Client
from tests.lsp_server.client import CANCELLED, apply, inline_params

URI = "file:///tmp/none/a.py"
INLINE = "textDocument/inlineCompletion"


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


def test_pygls_517_cancelled_requests_cost_nothing(desk, tmp_path):
    gate = tmp_path / "gate"
    desk.script(rules=[{"ends": "slow = ", "hold": str(gate)}], say="1")
    editor = desk.editor()
    editor.open(URI, "slow = ")
    editor.open("file:///tmp/none/b.py", "fast = ")
    running = editor.inline(URI, 0, 7)
    desk.until(lambda: desk.runs())
    burst, messages = [], []
    for _ in range(30):
        message = editor.asking(INLINE, inline_params("file:///tmp/none/b.py", 0, 7))
        burst.append(message["id"])
        messages += [message, {"method": "$/cancelRequest", "params": {"id": message["id"]}}]
    last = editor.asking(INLINE, inline_params("file:///tmp/none/b.py", 0, 7))
    editor.send(*messages, last)
    assert {editor.reply(request).code for request in burst} == {CANCELLED}
    gate.touch()
    assert editor.reply(last["id"]).items[0]["insertText"] == "fast = 1"
    assert editor.reply(running).items
    assert [run["prefix"] for run in desk.runs()] == ["slow = ", "fast = "]


def test_python_language_server_289_a_cancelled_request_is_answered(desk, tmp_path):
    desk.say("1", hold=str(tmp_path / "never"))
    editor = desk.editor()
    editor.open(URI, "x = ")
    request = editor.inline(URI, 0, 4)
    editor.cancel(request)
    assert editor.reply(request).code == CANCELLED
    editor.cancel(request)
    editor.cancel(999)
    editor.cancel("no such id")
    desk.say("1")
    assert editor.suggestion(URI, 0, 4).items  # what would come twice comes before this
    assert editor.leave() == 0


def test_tabby_3367_a_request_while_the_model_loads_and_the_same_twice(desk, tmp_path):
    gate = tmp_path / "loaded"
    desk.say("1", load=str(gate))
    editor = desk.editor(ready=False, start=False)
    editor.start({"window": {"workDoneProgress": True}, "textDocument": {"inlineCompletion": {}}})
    editor.open(URI, "x = ")
    typed = [editor.inline(URI, 0, 4, trigger=2) for _ in range(2)]
    for request in typed:
        assert editor.reply(request).items == []
    assert editor.status["busy"] and editor.status["kind"] == "Normal"
    editor.until(lambda: len(editor.sent("$/progress")) >= 1)
    asked = [editor.inline(URI, 0, 4) for _ in range(2)]
    gate.touch()
    one, other = (editor.reply(request).items for request in asked)
    assert [item["insertText"] for item in one] == [item["insertText"] for item in other]
    assert one[0]["insertText"] == "x = 1"
    assert len(desk.runs()) == 1
    editor.until(lambda: editor.sent("$/progress")[-1]["value"]["kind"] == "end")
    [created] = editor.sent("window/workDoneProgress/create")
    values = editor.sent("$/progress")
    assert {value["token"] for value in values} == {created["token"]}
    assert values[0]["value"]["kind"] == "begin"


def test_copilot_vim_266_editors_share_one_engine_and_nothing_lingers(desk, tmp_path):
    editors = []
    for number in range(4):
        folder = tmp_path / f"workspace{number}"
        folder.mkdir()
        editor = desk.editor(start=False)
        editor.start(rootUri=f"file://{folder}")
        editor.ready()
        uri = f"file://{folder}/a.py"
        editor.open(uri, f"x{number} = ")
        assert editor.suggestion(uri, 0, 5).items[0]["insertText"] == f"x{number} = done"
        editors.append(editor)
    told = [editor.command("tokenleap.status") for editor in editors]
    assert len({state["host"]["pid"] for state in told}) == 1
    assert told[1]["host"]["clients"] == 4 and "one engine serves 4 clients" in told[1]["words"]
    for editor in editors:
        assert editor.leave() == 0
    with Client.connect(start=False) as client:
        desk.until(lambda: client.status().clients == 1)


def test_lsp_ai_56_every_message_is_valid_when_things_fail(desk, tmp_path):
    editor = desk.editor()  # checks each message
    editor.open(URI, "x = ")
    assert editor.suggestion(URI, 0, 4).items
    desk.script(rules=[{"ends": "x = ", "raise": True}], say="1")
    for _ in range(3):
        assert editor.suggestion(URI, 0, 4).result == {"items": []}
    assert len(editor.messages()) == 1 and "not enough memory" in editor.messages()[0]
    assert editor.status["kind"] == "Error"
    desk.say("2")
    assert editor.suggestion(URI, 0, 4).items[0]["insertText"] == "x = 2"
    assert editor.status["kind"] == "Normal"
    for method, params in (("textDocument/hover", {}), (INLINE, {}), (INLINE, {"textDocument": {"uri": URI}})):
        assert editor.call(method, params).code in (-32601, -32602)
    assert editor.call("workspace/executeCommand", {"command": "no.such"}).result is None
    assert len(editor.messages()) == 1


def test_lsp_ai_56_a_model_that_does_not_exist(desk):
    editor = desk.editor(start=False)
    editor.start(initializationOptions={"model": "missing"})
    editor.until(lambda: editor.status.get("kind") == "Error")
    editor.open(URI, "x = ")
    assert editor.suggestion(URI, 0, 4, trigger=2).items == []
    assert editor.suggestion(URI, 0, 4).items == []
    assert editor.command("tokenleap.why", URI)["reason"] == "failed"
    [message] = [text for text in editor.messages() if "not on this machine" in text]
    assert "tokenleap models pull" in message
    editor.notify("workspace/didChangeConfiguration", {"settings": {"tokenleap": {"model": "there"}}})
    editor.ready()
    assert editor.suggestion(URI, 0, 4).items[0]["insertText"] == "x = done"


def test_lsp_ai_56_a_client_that_vanishes_ends_the_process_quietly(desk, tmp_path):
    desk.say("1", hold=str(tmp_path / "never"))
    editor = desk.editor()
    editor.open(URI, "x = ")
    editor.inline(URI, 0, 4)
    desk.until(lambda: desk.runs())
    editor.close()
    assert editor.process.returncode == 1
    assert (desk.folder / "stderr-0.txt").read_text(encoding="utf-8") == ""
    with Client.connect(start=False) as client:
        desk.until(lambda: client.status().state == "idle")


def test_vscode_240996_copilot_el_84_a_big_file(desk):
    big, small = "file:///tmp/none/big.py", "file:///tmp/none/small.py"
    editor = desk.editor()
    editor.open(small, "x = 1\n" * 10)
    editor.suggestion(small, 5, 5)
    editor.open(big, "x = 1\n" * 900_000)
    for number in range(20):
        editor.type(big, 900_000, number, "y")
    [item, *_] = editor.suggestion(big, 450_000, 5).items
    assert item["range"]["start"] == {"line": 450_000, "character": 0}
    editor.suggestion(big, 900_000, 20)
    _, middle, end = desk.runs()
    assert len(middle["prefix"]) + len(middle["suffix"]) < 500_000
    assert middle["prefix"].endswith("x = 1\nx = 1") and end["prefix"].endswith("x = 1\n" + "y" * 20)
    opened = memory(editor.process.pid)
    editor.close_document(big)
    assert editor.suggestion(small, 5, 5).items
    desk.until(lambda: opened - memory(editor.process.pid) > 4_000_000)


def test_a_line_of_300_kilobytes(desk):
    uri = "file:///tmp/none/long.js"
    text = "f(" + "ab, " * 75_000 + ")"
    editor = desk.editor()
    editor.open(uri, text, "javascript")
    [item, *_] = editor.suggestion(uri, 0, 200_002).items
    assert len(item["insertText"]) < 500
    done = apply(text, item["range"], item["insertText"])
    assert done == text[:200_002] + "done" + text[200_002:]


def test_a_host_that_is_killed_is_back_with_the_next_request(desk):
    editor = desk.editor()
    editor.open(URI, "x = ")
    gate = desk.folder / "never"
    desk.say("1", hold=str(gate))
    running = editor.inline(URI, 0, 4)
    desk.until(lambda: desk.runs())
    with Client.connect(start=False) as client:
        os.kill(client.host_pid, signal.SIGKILL)
    assert editor.reply(running).result == {"items": []}
    assert len(editor.messages()) == 1
    desk.say("2")
    desk.until(lambda: not _alive_host())
    desk.host()
    assert editor.suggestion(URI, 0, 4).items[0]["insertText"] == "x = 2"
    assert len(editor.messages()) == 1 and editor.status["kind"] == "Normal"


def test_a_host_that_was_killed_while_nobody_waited_is_back_with_the_next_key(desk):
    editor = desk.editor()
    editor.open(URI, "x = ")
    assert editor.suggestion(URI, 0, 4).items
    with Client.connect(start=False) as client:
        os.kill(client.host_pid, signal.SIGKILL)
    desk.until(lambda: not _alive_host())
    desk.host()
    desk.until(lambda: editor.suggestion(URI, 0, 4, trigger=2).items)
    assert len(editor.messages()) == 1 and editor.status["kind"] == "Normal"
    kinds = [status["kind"] for status in editor.sent("didChangeStatus")]
    assert "Error" not in kinds


def test_an_empty_answer_too_says_that_all_is_well_again(desk):
    editor = desk.editor()
    editor.open(URI, "x = ")
    desk.script(**{"raise": True})
    assert editor.suggestion(URI, 0, 4).items == []
    assert editor.status["kind"] == "Error"
    desk.script(say="", empty="scope")
    assert editor.suggestion(URI, 0, 4).items == []
    assert editor.status["kind"] == "Normal"


def _alive_host() -> bool:
    from assistant.service.endpoint import Endpoint, HostLock

    return HostLock(Endpoint.here().lock).holder() is not None

"""The server ends with its editor, whatever way that goes, and answers each request once in any case."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import textwrap

import pytest

from assistant.service.client import Client
from lsp import life
from tests.lsp_server.client import CANCELLED, COMMAND, inline_params, replacement

URI = "file:///tmp/none/a.py"


def gone(pid: int) -> bool:
    return not life.alive(pid)


def test_exit_without_shutdown_is_an_abrupt_end(desk):
    editor = desk.editor(ready=False)
    editor.notify("exit")
    assert editor.process.wait(60) == 1


def test_exit_before_initialize_is_an_abrupt_end(desk):
    editor = desk.editor(start=False)
    editor.notify("exit")
    assert editor.process.wait(60) == 1


def test_a_closed_standard_input_after_shutdown_is_a_clean_end(desk):
    editor = desk.editor(ready=False)
    editor.call("shutdown")
    assert editor.call("textDocument/inlineCompletion", inline_params(URI, 0, 0)).code == -32600
    editor.close()
    assert editor.process.returncode == 0


def test_shutdown_answers_what_is_under_way(desk, tmp_path):
    desk.say("1", hold=str(tmp_path / "never"))
    editor = desk.editor()
    editor.open(URI, "x = ")
    request = editor.inline(URI, 0, 4)
    desk.until(lambda: desk.runs())
    assert editor.leave() == 0
    assert editor.reply(request).code == CANCELLED


def test_requests_out_of_order_are_refused_and_answered(desk):
    editor = desk.editor(start=False)
    assert editor.call("textDocument/inlineCompletion", inline_params(URI, 0, 0)).code == -32002
    editor.start()
    assert editor.call("initialize", {"capabilities": {}}).code == -32600
    editor.send({"id": None, "method": "shutdown"})
    editor.raw(b"Content-Length: 3\r\n\r\n{x}")
    editor.raw(b"Content-Length: 2\r\n\r\n[]")
    editor.until(lambda: editor.replied(None))
    assert editor.leave() == 0


def test_a_broken_standard_output_ends_the_server(own_home):
    server = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"TOKENLEAP_ENABLED": "off"}
    )
    server.stdout.close()
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}).encode()
    server.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    server.stdin.flush()
    assert server.wait(60) == 1
    server.stdin.close()


def test_the_editors_process_ends_while_standard_input_stays_open(desk):
    editors_process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    editor = desk.editor(start=False)
    editor.start(processId=editors_process.pid)
    editor.ready()
    editors_process.kill()  # not collected: a zombie is gone, too
    assert editor.process.wait(60) == 1
    editors_process.communicate()


def test_a_process_that_cannot_be_seen_is_not_watched(desk):
    editor = desk.editor(start=False)
    editor.start(processId=2**22 + 12345)
    editor.ready()
    editor.open(URI, "x = ")
    assert editor.suggestion(URI, 0, 4).items
    assert editor.leave() == 0


EDITOR = """
import json, subprocess, sys, os
server = subprocess.Popen([sys.executable, "-m", "assistant.cli.main", "lsp"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
def send(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    server.stdin.write(b"Content-Length: %d\\r\\n\\r\\n%b" % (len(body), body))
    server.stdin.flush()
send(id=1, method="initialize", params={"processId": os.getpid(), "rootUri": None, "capabilities": {}})
send(method="initialized", params={})
item = {"uri": "file:///a.py", "languageId": "python", "version": 1, "text": "x = "}
send(method="textDocument/didOpen", params={"textDocument": item})
send(id=2, method="textDocument/inlineCompletion", params={"textDocument": {"uri": "file:///a.py"},
    "position": {"line": 0, "character": 4}, "context": {"triggerKind": 1}})
print(server.pid, flush=True)
while server.stdout.readline():
    pass
"""


@pytest.mark.parametrize("moment", ["load", "generation"])
def test_kill_9_of_the_editor_leaves_no_language_server(desk, tmp_path, moment):
    desk.host()
    never = str(tmp_path / "never")
    desk.script(**({"load": never} if moment == "load" else {"hold": never}))
    file = tmp_path / "editor.py"
    file.write_text(textwrap.dedent(EDITOR), encoding="utf-8")
    for _ in range(3):
        editor = subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE)
        server = int(editor.stdout.readline())
        if moment == "generation":
            desk.until(lambda: desk.events()[-1:] and desk.events()[-1]["event"] == "run")
        editor.kill()
        editor.communicate()
        desk.until(lambda server=server: gone(server))
        if moment == "generation":
            desk.until(lambda: desk.events()[-1]["event"] == "cancelled")
    if moment == "generation":
        with Client.connect(start=False) as client:
            desk.until(lambda: client.status().state == "idle")
    else:
        (tmp_path / "never").touch()


def test_one_editor_over_a_port(desk):
    desk.host()
    server = subprocess.Popen([*COMMAND, "--tcp", "0"], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    port = int(re.search(rb"127\.0\.0\.1:(\d+)", server.stderr.readline())[1])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link, link.makefile("rwb") as stream:
        initialize = {"id": 1, "method": "initialize", "params": {"capabilities": {}}}
        for message in (initialize, {"id": 2, "method": "shutdown"}):
            body = json.dumps({"jsonrpc": "2.0", **message}).encode()
            stream.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            stream.flush()
            length = int(stream.readline().split()[1])
            stream.readline()
            assert json.loads(stream.read(length))["id"] == message["id"]
    assert server.wait(60) == 0
    assert server.communicate() == (b"", b"")


@pytest.mark.parametrize("seed", [0])
def test_2000_requests_and_cancels_at_random_moments_are_each_answered_once(desk, seed):
    """The client fails when an answer comes twice or belongs to nobody."""
    chance = random.Random(seed)
    desk.say("typed_out(", pieces=list("typed_out("))
    editor = desk.editor()
    uris = [f"file:///tmp/none/{name}.py" for name in "abc"]
    length = dict.fromkeys(uris, 0)
    for uri in uris:
        editor.open(uri, "")
    asked: list[int] = []
    open_ones: list[int] = []
    memory_after_500 = 0
    while len(asked) < 2000:
        uri = chance.choice(uris)
        messages = []
        for _ in range(chance.randint(1, 4)):
            what = chance.random()
            if what < 0.45:
                text = chance.choice(["t", "y", "x = ", "\U0001f600", "typed"])
                start = length[uri] if length[uri] < 60 else 0  # the text is typed anew, so that it stays small
                messages.append(editor.changing(uri, replacement(0, start, 0, length[uri], text)))
                length[uri] = start + len(text.encode("utf-16-le")) // 2
            elif what < 0.75 or not open_ones:
                trigger = 1 if chance.random() < 0.1 else 2
                message = editor.asking("textDocument/inlineCompletion", inline_params(uri, 0, length[uri], trigger))
                asked.append(message["id"])
                open_ones.append(message["id"])
                messages.append(message)
            else:
                cancelled = open_ones.pop(chance.randrange(len(open_ones)))
                messages.append({"method": "$/cancelRequest", "params": {"id": cancelled}})
        editor.send(*messages)
        if chance.random() < 0.05:
            editor.reply(asked[-1])
        if len(asked) > 500 and not memory_after_500:
            memory_after_500 = resident(editor.process.pid)
    replies = [editor.reply(request) for request in asked]
    assert {reply.code for reply in replies} <= {None, CANCELLED}
    assert any(reply.items for reply in replies) and any(reply.code == CANCELLED for reply in replies)
    assert editor.messages() == []
    with Client.connect(start=False) as client:
        desk.until(lambda: client.status().state == "idle" and client.status().waiting == 0)
    assert resident(editor.process.pid) < 1.05 * memory_after_500
    assert editor.leave() == 0


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) * 1024


def test_a_language_server_that_is_stopped_by_a_signal_ends(desk):
    editor = desk.editor()
    editor.process.send_signal(signal.SIGTERM)
    assert editor.process.wait(60) != 0

"""A strict editor for tests: speaks to `tokenleap lsp` over its standard streams and checks all that comes back.

Each message is checked against `shapes`; an id that was never asked, or is answered twice, fails the test when the
client is closed, as does any byte on standard output that belongs to no frame.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tests.lsp_server import shapes

PATIENCE = 60.0  # seconds; a test that needs more has failed
COMMAND = (sys.executable, "-m", "assistant.cli.main", "lsp")
CANCELLED = -32800


class Reply:
    """The answer to one request."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.message = message
        self.result = message.get("result")
        self.error = message.get("error")

    @property
    def code(self) -> int | None:
        return self.error["code"] if self.error else None

    @property
    def items(self) -> list[dict[str, Any]]:
        return list((self.result or {}).get("items", []))


class Editor:
    """One editor with its server."""

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        environment: dict[str, str] | None = None,
        stderr: Path | None = None,
        answers: dict[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        self._errors = stderr.open("wb") if stderr else None
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors or subprocess.DEVNULL,
            env=environment,
        )
        assert self.process.stdin and self.process.stdout
        self._input, self._output = self.process.stdin, self.process.stdout
        self._ids = itertools.count(1)
        self._methods: dict[Any, str] = {}
        self._replies: dict[Any, Reply] = {}
        self._change = threading.Condition()
        self._sending = threading.Lock()
        self._answers = {"workspace/configuration": lambda params: [None] * len(params["items"])} | (answers or {})
        self.notes: list[dict[str, Any]] = []  # notifications and requests of the server, as they came
        self.faults: list[str] = []
        self._versions: dict[str, int] = {}
        self.encoding = "utf-16"
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    # Sending.

    def raw(self, data: bytes) -> None:
        with self._sending, contextlib.suppress(BrokenPipeError):
            self._input.write(data)
            self._input.flush()

    def send(self, *messages: dict[str, Any]) -> None:
        """Several messages are one write."""
        bodies = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
        self.raw(b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies))

    def asking(self, method: str, params: Any = None, request_id: Any = None) -> dict[str, Any]:
        """A request as a message, its id new."""
        request_id = next(self._ids) if request_id is None else request_id
        with self._change:
            assert request_id not in self._methods
            self._methods[request_id] = method
        return {"id": request_id, "method": method, "params": {} if params is None else params}

    def ask(self, method: str, params: Any = None) -> Any:
        """Sends a request; its id."""
        message = self.asking(method, params)
        self.send(message)
        return message["id"]

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"method": method, "params": {} if params is None else params})

    def cancel(self, request_id: Any) -> None:
        self.notify("$/cancelRequest", {"id": request_id})

    # Receiving.

    def reply(self, request_id: Any) -> Reply:
        """Waits for an answer."""
        self.until(lambda: request_id in self._replies)
        return self._replies[request_id]

    def call(self, method: str, params: Any = None) -> Reply:
        return self.reply(self.ask(method, params))

    def replied(self, request_id: Any) -> bool:
        with self._change:
            return request_id in self._replies

    def until(self, condition: Callable[[], Any]) -> Any:
        """Waits until what the server sends makes `condition` true."""
        deadline = time.monotonic() + PATIENCE
        with self._change:
            while not (found := condition()):
                assert not self.faults, self.faults
                left = deadline - time.monotonic()
                assert left > 0, f"it never came; the server sent {self.notes[-5:]}"
                assert self._reader.is_alive() or condition(), "the server has gone"
                self._change.wait(min(left, 0.5))
        return found

    def sent(self, method: str) -> list[Any]:
        """Parameters of all notifications and requests of one method that came so far."""
        with self._change:
            return [note["params"] for note in self.notes if note["method"] == method]

    @property
    def status(self) -> dict[str, Any]:
        return (self.sent("didChangeStatus") or [{}])[-1]

    def messages(self) -> list[str]:
        """All that was shown to the user."""
        return [params["message"] for params in self.sent("window/showMessage")]

    # The conversation.

    def start(self, capabilities: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """initialize and initialized; the server's capabilities."""
        announced = {"textDocument": {"inlineCompletion": {}}} if capabilities is None else capabilities
        told = {"processId": os.getpid(), "rootUri": None, "capabilities": announced, **params}
        reply = self.call("initialize", told)
        assert reply.error is None, reply.error
        assert reply.result["serverInfo"]["name"] == "tokenleap"
        self.notify("initialized", {})
        capabilities = reply.result["capabilities"]
        self.encoding = capabilities["positionEncoding"]
        return capabilities

    def ready(self) -> None:
        """Waits until the engine answers."""
        self.until(lambda: self._is_ready())

    def _is_ready(self) -> bool:
        states = [note["params"] for note in self.notes if note["method"] == "didChangeStatus"]
        return bool(states) and not states[-1]["busy"] and states[-1]["kind"] == "Normal"

    def open(self, uri: str, text: str, language: str = "python", version: int = 1) -> None:
        self._versions[uri] = version
        item = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def changing(self, uri: str, *changes: dict[str, Any]) -> dict[str, Any]:
        self._versions[uri] = self._versions.get(uri, 0) + 1
        document = {"uri": uri, "version": self._versions[uri]}
        return {
            "method": "textDocument/didChange",
            "params": {"textDocument": document, "contentChanges": list(changes)},
        }

    def change(self, uri: str, *changes: dict[str, Any]) -> None:
        self.send(self.changing(uri, *changes))

    def type(self, uri: str, line: int, character: int, text: str) -> None:
        self.change(uri, insertion(line, character, text))

    def close_document(self, uri: str) -> None:
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def inline(self, uri: str, line: int, character: int, trigger: int = 1, **context: Any) -> Any:
        """Asks for a suggestion (1: by hand, 2: automatic); the request's id."""
        return self.ask("textDocument/inlineCompletion", inline_params(uri, line, character, trigger, **context))

    def suggestion(self, uri: str, line: int, character: int, trigger: int = 1, **context: Any) -> Reply:
        return self.reply(self.inline(uri, line, character, trigger, **context))

    def command(self, name: str, *arguments: Any) -> Any:
        reply = self.call("workspace/executeCommand", {"command": name, "arguments": list(arguments)})
        assert reply.error is None, reply.error
        return reply.result

    # Ending.

    def leave(self) -> int:
        """shutdown, exit; the exit code."""
        assert self.call("shutdown").result is None
        self.notify("exit")
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """Ends the server, whatever it does, and fails when it broke a rule."""
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self.faults.append("the server did not end with its standard input")
        self._reader.join(PATIENCE)
        self._output.close()
        if self._errors:
            self._errors.close()
        assert not self.faults, self.faults

    def _read(self) -> None:
        try:
            while (message := read_message(self._output)) is not None:
                self._take(message)
        except Exception as error:
            self.faults.append(f"{type(error).__name__}: {error}")
        with self._change:
            self._change.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        shapes.check(message)
        with self._change:
            if "method" in message:
                self.notes.append(message)
            else:
                request_id = message["id"]
                if request_id is not None:
                    assert request_id in self._methods, f"nobody asked {request_id}"
                    assert request_id not in self._replies, f"{request_id} was answered twice"
                    if "result" in message:
                        checks = {
                            "textDocument/inlineCompletion": shapes.check_inline,
                            "textDocument/completion": shapes.check_list,
                        }
                        checks.get(self._methods[request_id], lambda result: None)(message["result"])
                self._replies[request_id] = Reply(message)
            self._change.notify_all()
        if "method" in message and "id" in message:
            answer = self._answers.get(message["method"], lambda params: None)(message["params"])
            self.send({"id": message["id"], "result": answer})


def read_message(stream: BinaryIO) -> dict[str, Any] | None:
    """The next frame, None at the end. AssertionError for anything that is no frame."""
    header = stream.readline()
    if not header:
        return None
    name, _, value = header.partition(b": ")
    assert name == b"Content-Length" and value.endswith(b"\r\n"), header
    assert stream.readline() == b"\r\n"
    body = stream.read(int(value))
    assert len(body) == int(value), "the last message is cut off"
    message = json.loads(body.decode("utf-8"))
    assert isinstance(message, dict)
    return message


def insertion(line: int, character: int, text: str) -> dict[str, Any]:
    return replacement(line, character, line, character, text)


def replacement(line: int, character: int, end_line: int, end_character: int, text: str) -> dict[str, Any]:
    start, end = {"line": line, "character": character}, {"line": end_line, "character": end_character}
    return {"range": {"start": start, "end": end}, "text": text}


def inline_params(uri: str, line: int, character: int, trigger: int = 1, **context: Any) -> dict[str, Any]:
    return {
        "textDocument": {"uri": uri},
        "position": {"line": line, "character": character},
        "context": {"triggerKind": trigger, **context},
    }


def apply(text: str, edit_range: dict[str, Any], new: str, encoding: str = "utf-16") -> str:
    """A text after an edit, as an editor makes it. Written apart from the server's own reading of positions."""
    codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encoding]
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]

    def offset(place: dict[str, int]) -> int:
        start = 0
        for _ in range(place["line"]):
            ends = [
                found + len(end)
                for end in ("\r\n", "\n", "\r")
                if (found := text.find(end, start)) >= 0
                and not (end == "\r" and text[found : found + 2] == "\r\n")
            ]
            start = min(ends)
        line = text[start:]
        return start + len(line.encode(codec)[: place["character"] * width].decode(codec))

    return text[: offset(edit_range["start"])] + new + text[offset(edit_range["end"]) :]

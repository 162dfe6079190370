"""An editor without a screen: speaks to `tokenleap lsp` over its standard streams and notes when answers come.

One document, one cursor. A key cancels the request under way, changes the text and asks again, in one write, as
editors do. Times are seconds of time.perf_counter().
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assistant.errors import HostError

_COMMAND = (sys.executable, "-m", "assistant.cli.main", "lsp")
PATIENCE = 120.0  # seconds
_INLINE = "textDocument/inlineCompletion"


@dataclass
class Asked:
    """One request; `answered` and `message` once its answer came, `times` counts answers."""

    sent: float
    unit: int  # the cursor's column, UTF-16
    cold: bool = False  # nothing was typed before it in its document
    message: dict[str, Any] | None = None
    answered: float = 0.0
    times: int = 0
    cancel_sent: float | None = None

    @property
    def cancelled(self) -> bool:
        return self.message is not None and "error" in self.message


@dataclass(frozen=True)
class Ghost:
    """A suggestion behind the cursor. `item` is the protocol's, `repeated` how many units of it stand before."""

    text: str
    item: dict[str, Any]
    repeated: int

    @property
    def number(self) -> Any:
        return self.item["command"]["arguments"][0]


class Editor:
    """A running language server and one document in it."""

    def __init__(self, options: dict[str, Any]) -> None:
        """`options`: settings, as an editor gives them."""
        self.process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._ids = itertools.count(1)
        self._asked: dict[int, Asked] = {}
        self._change = threading.Condition()
        self._ready = False
        self.answers: list[Asked] = []  # in the order in which they came, the cancelled ones left out
        self.uri, self.before, self.after, self._version = "", "", "", 0
        self._newest: int | None = None
        threading.Thread(target=self._read, daemon=True).start()
        told: dict[str, Any] = {
            "processId": None,
            "rootUri": None,
            "capabilities": {"textDocument": {"inlineCompletion": {}}},
            "initializationOptions": options,
        }
        self._call("initialize", told)
        self._notify("initialized", {})

    def ready(self) -> None:
        """Waits until the engine answers. HostError when it does not."""
        self._until(lambda: self._ready)

    def open(self, uri: str, language: str, before: str, after: str) -> None:
        """A document with the cursor between the two texts; the one before is closed."""
        if self.uri:
            self._notify("textDocument/didClose", {"textDocument": {"uri": self.uri}})
        self.uri, self.before, self.after, self._version, self._newest = uri, before, after, 1, None
        item = {"uri": uri, "languageId": language, "version": 1, "text": before + after}
        self._notify("textDocument/didOpen", {"textDocument": item})

    def look(self) -> Asked:
        """Asks before anything is typed, so that the text around the cursor is read in; waits for the answer."""
        asked = self._ask()
        asked.cold = True
        self.wait(asked)
        return asked

    def type(self, text: str) -> Asked:
        """Puts text in before the cursor and asks."""
        place = self._place()
        self.before += text
        return self._ask(self._changed(place, place, text))

    def change_and_wait(self, text: str) -> float:
        """Puts text in before the cursor, "" for none; seconds until the server is through with it, which its answer
        about a document that is not open tells.
        """
        place, begun = self._place(), time.perf_counter()
        start = {"line": 0, "character": 0}
        document = {"uri": "file:///bench/not-open.py"}
        refused = self._request(_INLINE, {"textDocument": document, "position": start, "context": {"triggerKind": 2}})
        asked = self._asked[refused["id"]] = Asked(begun, -1)
        self.before += text
        self._send(*([self._changed(place, place, text)] if text else []), refused)
        self.wait(asked)
        return asked.answered - begun

    def backspace(self) -> Asked:
        """Takes the character before the cursor away and asks."""
        end = self._place()
        self.before = self.before[:-1]
        return self._ask(self._changed(self._place(), end, ""))

    def cancel(self) -> None:
        """Takes the last request back, if it waits."""
        self._send(*self._cancelling())

    def accept(self, ghost: Ghost, text: str) -> Asked:
        """Puts in all of a suggestion or its first characters `text`, tells so, and asks."""
        if text == ghost.text:
            told = {"command": "tokenleap.accept", "arguments": [ghost.number]}
            self._send(self._request("workspace/executeCommand", told))
        else:
            length = ghost.repeated + _units(text)
            self._notify("textDocument/didPartiallyAcceptCompletion", {"item": ghost.item, "acceptedLength": length})
        return self.type(text)

    def ghost(self, asked: Asked) -> Ghost | None:
        """What an answer puts behind the cursor; None for none."""
        result = (asked.message or {}).get("result") or {}
        for item in result.get("items", []):
            start, end = (item["range"][name]["character"] for name in ("start", "end"))
            repeated = asked.unit - start
            text = item["insertText"].encode("utf-16-le")[2 * repeated :].decode("utf-16-le")
            return Ghost(text[: len(text) - (end - asked.unit)], item, repeated)
        return None

    def shown(self, ghost: Ghost) -> None:
        self._notify("textDocument/didShowCompletion", {"item": ghost.item})

    def wait(self, asked: Asked) -> None:
        """Until it is answered."""
        self._until(lambda: asked.message is not None)

    def close(self) -> None:
        """shutdown and exit; the process has ended when this returns."""
        try:
            with contextlib.suppress(HostError):
                self._call("shutdown", None)
                self._notify("exit", {})
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _place(self) -> dict[str, int]:
        line = self.before[self.before.rfind("\n") + 1 :]
        return {"line": self.before.count("\n"), "character": _units(line)}

    def _changed(self, start: dict[str, int], end: dict[str, int], text: str) -> dict[str, Any]:
        self._version += 1
        document = {"uri": self.uri, "version": self._version}
        change = {"range": {"start": start, "end": end}, "text": text}
        return {"method": "textDocument/didChange", "params": {"textDocument": document, "contentChanges": [change]}}

    def _ask(self, *changes: dict[str, Any]) -> Asked:
        cancels = self._cancelling()
        place = self._place()
        message = self._request(
            _INLINE, {"textDocument": {"uri": self.uri}, "position": place, "context": {"triggerKind": 2}}
        )
        self._newest = message["id"]
        asked = self._asked[message["id"]] = Asked(time.perf_counter(), place["character"])
        self._send(*cancels, *changes, message)
        return asked

    def _cancelling(self) -> list[dict[str, Any]]:
        """The message that takes the last request back; none when it does not wait."""
        with self._change:
            asked = self._asked[self._newest] if self._newest is not None else None
            if asked is None or asked.message is not None or asked.cancel_sent is not None:
                return []
            asked.cancel_sent = time.perf_counter()
            return [{"method": "$/cancelRequest", "params": {"id": self._newest}}]

    def _request(self, method: str, params: Any) -> dict[str, Any]:
        return {"id": next(self._ids), "method": method, "params": params}

    def _call(self, method: str, params: Any) -> Any:
        message = self._request(method, params)
        asked = self._asked[message["id"]] = Asked(time.perf_counter(), -1)
        self._send(message)
        self.wait(asked)
        return asked.message

    def _notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def _send(self, *messages: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        bodies = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
        with contextlib.suppress(OSError):  # it has gone, which the reader tells
            self.process.stdin.write(b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies))
            self.process.stdin.flush()

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        with self._change:
            while not condition():
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise HostError("the language server does not answer: run `tokenleap doctor`")
                self._change.wait(0.2)

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while header := stream.readline():
            stream.readline()
            message = json.loads(stream.read(int(header.partition(b":")[2])))
            now = time.perf_counter()
            with self._change:
                asked = self._asked.get(message.get("id")) if "method" not in message else None
                if asked is not None:
                    asked.message, asked.answered = message, now
                    asked.times += 1
                    if asked.unit >= 0 and not asked.cancelled:
                        self.answers.append(asked)
                elif message.get("method") == "didChangeStatus":
                    self._ready = not message["params"]["busy"] and message["params"]["kind"] == "Normal"
                self._change.notify_all()


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2

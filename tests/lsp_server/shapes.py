"""What a message of the server may look like: JSON-RPC 2.0 and the shapes of LSP 3.18 that the server uses."""

from __future__ import annotations

from typing import Any

NOTIFICATIONS = {"window/showMessage", "window/logMessage", "$/progress", "didChangeStatus"}
REQUESTS = {
    "client/registerCapability",
    "client/unregisterCapability",
    "workspace/configuration",
    "workspace/applyEdit",
    "window/workDoneProgress/create",
}
_ALLOWED_ERRORS = {-32700, -32600, -32601, -32602, -32603, -32002, -32800, -32801}


def check(message: Any) -> None:
    """AssertionError when a message breaks a rule."""
    assert isinstance(message, dict), message
    assert message.get("jsonrpc") == "2.0", message
    if "method" in message:
        known = REQUESTS if "id" in message else NOTIFICATIONS
        assert message["method"] in known, message
        assert set(message) <= {"jsonrpc", "id", "method", "params"}, message
        assert isinstance(message["params"], (dict, list)), message
        if message["method"] in ("window/showMessage", "window/logMessage"):
            assert message["params"]["type"] in (1, 2, 3, 4, 5), message
            assert isinstance(message["params"]["message"], str), message
        if message["method"] == "didChangeStatus":
            status = message["params"]
            assert set(status) <= {"busy", "message", "kind", "command"}, message
            assert isinstance(status["busy"], bool) and isinstance(status["message"], str), message
            assert status["kind"] in ("Normal", "Error", "Warning", "Inactive"), message
        return
    assert set(message) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), message
    if "error" in message:
        error = message["error"]
        assert type(error["code"]) is int and isinstance(error["message"], str), message
        assert error["code"] in _ALLOWED_ERRORS, message


def check_inline(result: Any) -> None:
    """The result of textDocument/inlineCompletion."""
    if result is None:
        return
    assert set(result) == {"items"}, result
    for item in result["items"]:
        assert set(item) <= {"insertText", "range", "command", "filterText"}, item
        assert isinstance(item["insertText"], str) and item["insertText"], item
        item["insertText"].encode("utf-8")  # no lone surrogate
        check_range(item["range"])
        assert item["range"]["start"]["line"] == item["range"]["end"]["line"], item
        check_command(item["command"])


def check_list(result: Any) -> None:
    """The result of textDocument/completion."""
    if result is None:
        return
    assert result["isIncomplete"] is True, result
    for item in result["items"]:
        assert isinstance(item["label"], str) and item["label"] and "\n" not in item["label"], item
        assert item["insertTextMode"] == 1 and item["insertTextFormat"] == 1, item
        check_range(item["textEdit"]["range"])
        assert isinstance(item["textEdit"]["newText"], str), item
        check_command(item["command"])


def check_range(value: Any) -> None:
    ends = []
    for name in ("start", "end"):
        place = value[name]
        assert set(place) == {"line", "character"}, value
        assert all(type(place[key]) is int and place[key] >= 0 for key in place), value
        ends.append((place["line"], place["character"]))
    assert ends == sorted(ends), value


def check_command(value: Any) -> None:
    assert isinstance(value["title"], str) and isinstance(value["command"], str), value
    assert isinstance(value.get("arguments", []), list), value

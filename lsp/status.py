"""What the user is told: one state for the editor's status line, and each message once.

`didChangeStatus` is sent when the state changes and never twice the same; `window/showMessage` once for each
sentence until things are well again. Names as GitHub Copilot's language server sends them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lsprotocol import types

NORMAL, ERROR, WARNING, INACTIVE = "Normal", "Error", "Warning", "Inactive"
DID_CHANGE_STATUS = "didChangeStatus"
_STEPS = {"check": "checking the model", "convert": "converting the model", "download": "bringing the model"}
_TOKEN = "tokenleap/loading"
_MEGABYTE = 1_000_000

Notify = Callable[[str, Any], None]


class Status:
    """The state, and what was said of it."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._sent: dict[str, Any] | None = None
        self._said: set[str] = set()
        self.kind, self.message, self.busy = NORMAL, "", False

    def set(self, kind: str, message: str = "", busy: bool = False) -> None:
        """The state from now on."""
        self.kind, self.message, self.busy = kind, message, busy
        state = {"busy": busy, "message": message, "kind": kind}
        if kind in (ERROR, WARNING):
            state["command"] = {"title": "Show the engine's state", "command": "tokenleap.status"}
        if state != self._sent:
            self._sent = state
            self._notify(DID_CHANGE_STATUS, state)
        if kind == NORMAL and not busy:
            self._said.clear()

    def say(self, words: str, kind: types.MessageType = types.MessageType.Warning) -> None:
        """A message for the user, unless it was said before."""
        if words not in self._said:
            self._said.add(words)
            self._notify(types.WINDOW_SHOW_MESSAGE, types.ShowMessageParams(kind, words))


class Progress:
    """One bar for whatever comes before the first answer, for clients that have work-done progress."""

    def __init__(self, notify: Notify, create: Callable[[str, Callable[[bool], None]], None]) -> None:
        """`create` asks the client for a bar with a token and tells whether it made one."""
        self.supported = False
        self._notify = notify
        self._create = create
        self._count = 0
        self._token: str | None = None  # of the bar under way, asked for or made
        self._begun = False
        self._last: tuple[str, int | None] = ("", None)

    def step(self, step: str, done: int, total: int) -> None:
        """How far a step is, in bytes; total 0 is unknown."""
        if not self.supported:
            return
        share = min(100, 100 * done // total) if total > 0 else None
        message = _STEPS.get(step, step)
        if total <= 0 and done > 0:
            message += f" {done / _MEGABYTE:,.0f} MB"
        changed, self._last = (message, share) != self._last, (message, share)
        if self._token is None:
            self._count += 1
            token = self._token = f"{_TOKEN}/{self._count}"
            self._create(token, lambda made: self._created(token, made))
        elif self._begun and changed:
            self._send(self._token, types.WorkDoneProgressReport(message=message, percentage=share))

    def end(self) -> None:
        """Nothing is under way any more."""
        if self._token is not None and self._begun:
            self._send(self._token, types.WorkDoneProgressEnd())
        self._token, self._begun = None, False

    def _created(self, token: str, made: bool) -> None:
        if made and token == self._token:  # else it ended meanwhile, and nothing may be sent
            self._begun = True
            message, share = self._last
            self._send(token, types.WorkDoneProgressBegin("Tokenleap", message=message, percentage=share))

    def _send(self, token: str, value: object) -> None:
        self._notify(types.PROGRESS, types.ProgressParams(token, value))

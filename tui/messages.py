"""What the bridge tells the interface, as Textual messages. They are made in other threads and only carry values."""

from __future__ import annotations

from typing import Any

from textual.message import Message

from assistant.errors import TokenleapError
from assistant.service.protocol import CompletionResult, Event, HostStatus


class Happened(Message, bubble=False):
    """Events of the host, in order; `host` is its process."""

    def __init__(self, events: list[tuple[int, Event]]) -> None:
        super().__init__()
        self.events = events


class HostSeen(Message, bubble=False):
    """The host's state; None when there is none, with the reason if that is more than that none was started."""

    def __init__(self, status: HostStatus | None, words: str = "") -> None:
        super().__init__()
        self.status, self.words = status, words


class Streamed(Message, bubble=False):
    """More text of a request."""

    def __init__(self, tag: str, text: str) -> None:
        super().__init__()
        self.tag, self.text = tag, text


class Answered(Message, bubble=False):
    """A request's end: a result, None for a superseded one, or an error."""

    def __init__(self, tag: str, result: CompletionResult | None, error: TokenleapError | None = None) -> None:
        super().__init__()
        self.tag, self.result, self.error = tag, result, error


class ErrandStep(Message, bubble=False):
    """How far an errand is."""

    def __init__(self, name: str, step: str, done: int, total: int) -> None:
        super().__init__()
        self.name, self.step, self.done, self.total = name, step, done, total


class ErrandDone(Message, bubble=False):
    """What an errand brought."""

    def __init__(self, name: str, answer: Any, error: TokenleapError | None = None) -> None:
        super().__init__()
        self.name, self.answer, self.error = name, answer, error


class Counted(Message, bubble=False):
    """The statistics of the language server, by span."""

    def __init__(self, spans: dict[str, dict[str, Any]]) -> None:
        super().__init__()
        self.spans = spans


class Logged(Message, bubble=False):
    """New lines of the host's log."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines


class Refreshed(Message, bubble=False):
    """To the screen in front: what it shows has changed. what: "state", "live", "history", "catalog" or "settings"."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

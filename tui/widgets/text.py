"""Text that is never markup: what comes from a file, a model or an error is shown as it is."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160)), "\ufffd")


def plain(text: str) -> str:
    """Control characters, which could drive the terminal, are replaced; tabs and line ends stay."""
    return text.translate(_CONTROLS)


class Words(Static):
    """A Static that takes text as it is, and draws again only when it differs."""

    def __init__(self, text: str | Content = "", id: str | None = None, classes: str | None = None) -> None:
        super().__init__("", id=id, classes=classes, markup=False)
        self.shown: str | Content = ""
        self.say(text)

    def say(self, text: str | Content) -> None:
        if text != self.shown or type(text) is not type(self.shown):
            self.shown = text
            self.update(plain(text) if isinstance(text, str) else text)

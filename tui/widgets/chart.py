"""Figures as pictures of text: a titled line of bars over time, and a bar for each position of a draft."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Sparkline

from tui.widgets.text import Words


class Chart(Widget):
    """A title with the latest and the middle value, above bars of the latest values."""

    def __init__(self, title: str, unit: str, digits: int, id: str) -> None:
        super().__init__(id=id, classes="chart")
        self._title, self._unit, self._digits = title, unit, digits

    def compose(self) -> ComposeResult:
        yield Words(self._title, classes="title")
        yield Words("no request yet", classes="value")
        yield Sparkline([])

    def show(self, values: Sequence[float], running: float | None = None) -> None:
        """`running`: the value of what is going on now, shown instead of the latest."""
        latest = running if running is not None else values[-1] if values else None
        if latest is None:
            return
        middle = sorted(values)[len(values) // 2] if values else latest
        words = f"{latest:.{self._digits}f} {self._unit}   median {middle:.{self._digits}f}"
        self.query_one(".value", Words).say(words)
        bars = self.query_one(Sparkline)
        if bars.data != list(values):
            bars.data = list(values)


class Acceptance(Words):
    """How many of the tokens drafted at each position stood."""

    _WIDTH = 16

    def show(self, counts: Sequence[tuple[int, int]]) -> None:
        """counts: (accepted, tried) by position."""
        lines = ["accepted by position"]
        for position, (accepted, tried) in enumerate(counts[:7], 1):
            share = accepted / tried if tried else 0.0
            filled = round(share * self._WIDTH)
            lines.append(f"{position} {'█' * filled}{'░' * (self._WIDTH - filled)} {share:4.0%} of {tried}")
        if not counts:
            lines.append("nothing was drafted yet")
        content = Content("\n".join(lines))
        self.say(content.stylize("$text-muted", 0, len(lines[0])))

"""The two lines above every screen: where one can go, and how the product is."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget

from assistant.service.protocol import HostStatus
from tui.state import State
from tui.widgets.text import Words


class Tab(Words):
    """A screen's name; a click goes there."""

    class Chosen(Message):
        def __init__(self, place: str) -> None:
            super().__init__()
            self.place = place

    def __init__(self, place: str, text: str, here: bool) -> None:
        super().__init__(text, classes="tab -here" if here else "tab")
        self._place = place

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Chosen(self._place))


class Header(Widget):
    """Tabs and the state line."""

    def __init__(self, tabs: list[tuple[str, str]], here: str) -> None:
        super().__init__()
        self._tabs, self._here = tabs, here

    def compose(self) -> ComposeResult:
        with Horizontal(id="tabs"):
            for place, text in self._tabs:
                yield Tab(place, text, place == self._here)
        yield Words(id="state")

    def show(self, state: State, status: HostStatus | None) -> None:
        """The state, and of a host what it runs."""
        line = self.query_one("#state", Words)
        line.say(f"{state}{_host(status, state)}")
        line.set_classes(f"-{state.kind.replace(' ', '-')}")


def _host(status: HostStatus | None, state: State) -> str:
    if status is None:
        return ""
    parts = [f"{status.model} {status.precision}" if status.model else ""]
    parts += [f"{status.rss_bytes / 1e6:,.0f} MB", f"{status.clients} client{'s' * (status.clients != 1)}"]
    parts += [f"{status.engine}: {status.engine_reason}" if status.engine else ""]
    return "  ·  " + "  ·  ".join(part for part in parts if part)

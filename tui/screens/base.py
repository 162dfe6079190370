"""What all screens have: the header above, the footer below, and a way to learn what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer

from tui.messages import Refreshed
from tui.widgets.header import Header

if TYPE_CHECKING:
    from tui.app import TokenleapApp


def tokenleap(screen: Screen[Any]) -> TokenleapApp:
    """The app that a screen belongs to."""
    return cast("TokenleapApp", screen.app)


class Place(Screen[None]):
    """A screen of the app's table. `place` is its name there; `body` gives its own widgets."""

    place: ClassVar[str] = ""

    @property
    def home(self) -> TokenleapApp:
        return tokenleap(self)

    def compose(self) -> ComposeResult:
        yield Header(self.home.tabs(), self.place)
        yield from self.body()
        yield Footer(show_command_palette=False)

    def body(self) -> ComposeResult:
        """The widgets between header and footer."""
        yield from ()

    def on_mount(self) -> None:
        self.begin()
        self.show_all()

    def begin(self) -> None:
        """Once, when the widgets are there."""

    def on_screen_resume(self) -> None:
        if self.is_mounted and self.query(Header):
            self.show_all()

    def show_all(self) -> None:
        """Everything may have changed while another screen was in front."""
        for what in ("state", "live", "history", "catalog", "settings"):
            self.show(what)

    def on_refreshed(self, message: Refreshed) -> None:
        self.show(message.what)

    def show(self, what: str) -> None:
        """Bring what depends on `what` up to date; an extension calls this one too."""
        if what == "state":
            for header in self.query(Header):
                header.show(self.home.state(), self.home.status)

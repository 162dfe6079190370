"""The first run: no model is here, so one is chosen and brought, with its progress, and then tried."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer, OptionList, ProgressBar
from textual.widgets.option_list import Option

from tui.actions import bindings
from tui.messages import ErrandDone, ErrandStep
from tui.screens.base import tokenleap
from tui.state import Download
from tui.widgets.models import model_line
from tui.widgets.text import Words

_WELCOME = (
    "Tokenleap completes code with a model that runs on this machine. None is here yet. Choose one; it is fetched "
    "once, checked and made ready. Nothing of your code ever leaves this machine."
)


class FirstRun(ModalScreen[None]):
    """In front of everything until a model is there or the user wants none."""

    place = "first"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("first")]
    HELP = "Enter brings the marked model. The same is done by `tokenleap models pull`."

    def compose(self) -> ComposeResult:
        with Vertical(id="guide"):
            yield Words(_WELCOME, id="welcome")
            yield OptionList(id="models")
            yield Words(id="step")
            yield ProgressBar(id="bar", show_eta=False)
            yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        models = self.query_one(OptionList)
        for row in tokenleap(self).catalog or []:
            models.add_option(Option(model_line(row), id=row["id"]))
        models.highlighted = 0
        models.focus()
        self.query_one(ProgressBar).display = False

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_begin()

    def action_begin(self) -> None:
        app = tokenleap(self)
        row = self._row()
        if app.download is not None or row is None:
            return
        app.download = Download(row["id"])
        words = [row["id"], "--precision", app.loaded.settings.precision]
        # The licence is shown in the list and in the line below it; enter on the model accepts it.
        app.bridge.errand("pull", [*words, "--accept-licence"] if row["needs_consent"] else words)
        self.query_one("#step", Words).say(f"{row['id']}: asking for it")
        self.query_one(ProgressBar).display = True
        app.refreshed("state")

    def _row(self) -> dict[str, Any] | None:
        at = self.query_one(OptionList).highlighted
        rows = tokenleap(self).catalog or []
        return rows[at] if at is not None and at < len(rows) else None

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        row = self._row()
        if row is not None and tokenleap(self).download is None:
            self.query_one("#step", Words).say(row["licence_note"])

    def on_errand_step(self, message: ErrandStep) -> None:
        if message.name == "pull":
            self.query_one("#step", Words).say(message.step)
            if message.total:
                self.query_one(ProgressBar).update(total=message.total, progress=message.done)

    def on_errand_done(self, message: ErrandDone) -> None:
        if message.name != "pull":
            return
        if message.error is not None:
            self.query_one(ProgressBar).display = False
            self.query_one("#step", Words).say(str(message.error))
            return
        app = tokenleap(self)
        row = self._row()
        if row is not None and row["id"] != app.loaded.settings.model:
            app.change({"model": row["id"]})
        self.dismiss()
        app.call_later(app.action_go, "try")

    def action_leave(self) -> None:
        app = tokenleap(self)
        if app.download is not None:
            app.bridge.stop_errand("pull")
        self.dismiss()

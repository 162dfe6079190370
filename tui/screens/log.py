"""What the engine host writes, and how this machine is: the log, filtered as it grows, and the doctor's report."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.widgets import Button, Input, RichLog

from assistant import locations
from tui.actions import bindings
from tui.messages import ErrandDone, Logged
from tui.screens.base import Place
from tui.widgets.text import Words, plain

_KEPT = 2000
_MARKS = {"ok": "✓", "warning": "!", "problem": "✗"}


class LogScreen(Place):
    """The log on one side, the doctor on the other."""

    place = "log"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("log")]
    HELP = "The engine host's log as it grows; type words to see only lines that have them. D runs the doctor."

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._report: dict[str, Any] | None = None

    def body(self) -> ComposeResult:
        with Container(id="logs"):
            with Container(id="log"):
                yield Input(id="filter", placeholder="only lines with", compact=True)
                yield RichLog(id="lines", max_lines=_KEPT, markup=False, highlight=False, wrap=False)
            with VerticalScroll(id="doctor"):
                yield Words("the doctor looks the machine over: press d", id="report")
                yield Button("Copy", id="copy", compact=True)

    def begin(self) -> None:
        self.query_one(RichLog).focus()
        self.home.bridge.follow_log(locations.cache_folder() / "host.log")
        self.action_doctor()

    def on_logged(self, message: Logged) -> None:
        self._lines = [*self._lines, *message.lines][-_KEPT:]
        self._write(message.lines)

    def _write(self, lines: list[str]) -> None:
        wanted = self.query_one("#filter", Input).value.lower().split()
        log = self.query_one(RichLog)
        for line in lines:
            if all(word in line.lower() for word in wanted):
                log.write(plain(line))

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one(RichLog).clear()
        self._write(self._lines)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.query_one(RichLog).focus()

    def action_filter(self) -> None:
        self.query_one("#filter").focus()

    def action_doctor(self) -> None:
        self.query_one("#report", Words).say("the doctor looks the machine over")
        self.home.bridge.errand("doctor")

    def on_errand_done(self, message: ErrandDone) -> None:
        if message.name == "doctor":
            self._report = message.answer
            report = self.query_one("#report", Words)
            report.say(report_of(message.answer) if message.error is None else str(message.error))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.action_copy()

    def action_copy(self) -> None:
        if self._report is not None:
            self.app.copy_to_clipboard(report_of(self._report))
            self.notify("copied", markup=False, timeout=3)


def report_of(report: dict[str, Any]) -> str:
    """The doctor's report as lines; what is wrong first."""
    found = [(name, check) for name, check in report.items() if isinstance(check, dict)]
    order = list(_MARKS)
    found.sort(key=lambda item: -order.index(item[1]["state"]))
    return "\n".join(f"{_MARKS[check['state']]} {name:<10} {check['text']}" for name, check in found)

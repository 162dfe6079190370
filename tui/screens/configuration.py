"""Every setting of the schema: value, where it comes from, and a change that is in force at once and can be undone."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from assistant.errors import TokenleapError
from assistant.settings.schema import SPECS
from tui import form, measured
from tui.actions import bindings
from tui.messages import ErrandDone, ErrandStep
from tui.screens.ask import Ask
from tui.screens.base import Place
from tui.widgets.models import fits, model_line
from tui.widgets.setting import SettingEditor
from tui.widgets.text import Words


class ConfigurationScreen(Place):
    """A list of settings, and one of them to change."""

    place = "configuration"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("configuration")]
    HELP = "Enter changes the marked setting. A change is written to your settings file and in force at once."

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[form.Row] = []
        self._lines: list[str] = []
        self._undo = form.Undo()
        self._measured = measured.load()

    def body(self) -> ComposeResult:
        yield Words(id="broken")
        yield Input(id="search", placeholder="search", compact=True)
        with Container(id="form"):
            yield OptionList(id="settings", markup=False)
            yield SettingEditor(id="editor")

    def begin(self) -> None:
        self.query_one("#settings").focus()

    def show(self, what: str) -> None:
        super().show(what)
        if what in ("settings", "live", "catalog"):
            self._show_rows()

    def _show_rows(self) -> None:
        loaded = self.home.loaded
        values: dict[str, object] = {name: getattr(loaded.settings, name) for name in SPECS}
        asked = self.home.live.asked_otherwise(values)
        self._rows = form.rows(loaded, self.query_one("#search", Input).value, asked)
        lines = [line_of(row) for row in self._rows]
        listed = self.query_one("#settings", OptionList)
        if lines != self._lines:
            at = listed.highlighted
            self._lines = lines
            listed.clear_options()
            listed.add_options([Option(line, id=row.spec.name) for line, row in zip(lines, self._rows, strict=True)])
            if lines:
                listed.highlighted = min(at or 0, len(lines) - 1)
        wrong = form.broken(loaded)
        self.query_one("#broken", Words).say(wrong)
        self.query_one("#broken").display = bool(wrong)
        self._show_editor()

    @property
    def row(self) -> form.Row | None:
        """The marked one."""
        at = self.query_one("#settings", OptionList).highlighted
        return self._rows[at] if at is not None and at < len(self._rows) else None

    def _show_editor(self) -> None:
        row = self.row
        if row is None:
            return
        lines = []
        if row.spec.name == "model" and self.home.catalog:
            precision = self.home.loaded.settings.precision
            lines = [(entry["id"], model_line(entry, precision)) for entry in self.home.catalog]
        editor = self.query_one(SettingEditor)
        editor.show(row, lines)
        editor.cost(self._cost(row.spec.name, form.shown(row.value)))

    def _cost(self, name: str, raw: str) -> str:
        """What a value means in memory and speed, as far as that is known."""
        settings = self.home.loaded.settings
        if name in ("model", "precision"):
            model = raw if name == "model" else settings.model
            precision = raw if name == "precision" else settings.precision
            entry = next((entry for entry in self.home.catalog or [] if entry["id"] == model), None)
            return "" if entry is None else f"memory: {fits(entry, precision)}"
        if name == "draft" and self._measured is not None:
            speeds = measured.speeds(self._measured, self.home.live.acceptance())
            if raw.isdigit() and int(raw) in speeds and int(raw):
                gain = speeds[int(raw)] / speeds[0]
                return f"about {speeds[int(raw)]:.0f} tokens/s here, {gain:.2f} times plain decoding"
        return ""

    # What the user does.

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._show_editor()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.query_one(SettingEditor).edit()

    def on_setting_editor_considered(self, event: SettingEditor.Considered) -> None:
        self.query_one(SettingEditor).cost(self._cost(event.name, event.raw))

    def on_setting_editor_left(self) -> None:
        self.query_one("#settings").focus()

    def on_setting_editor_chosen(self, event: SettingEditor.Chosen) -> None:
        self.query_one("#settings").focus()
        self._change({event.name: event.raw})

    def on_input_changed(self, event: Input.Changed) -> None:
        self._show_rows()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.query_one("#settings").focus()

    def _change(self, changes: dict[str, object], undoing: bool = False) -> None:
        before = self._undo.note(changes)
        if not self.home.change(changes):
            return
        if not undoing:
            self._undo.push(before)
        self.notify(f"saved: {', '.join(changes)}" if len(changes) < 4 else "saved", markup=False, timeout=3)
        if any(SPECS[name].needs_reload for name in changes):
            self.home.reload_engine()

    def action_search(self) -> None:
        self.query_one("#search").focus()

    def action_undo(self) -> None:
        before = self._undo.last()
        if before is None:
            self.notify("nothing to take back", markup=False, timeout=3)
        else:
            self._change(before, undoing=True)

    def action_default(self) -> None:
        if self.row is not None:
            self._change({self.row.spec.name: None})

    def action_save_profile(self) -> None:
        self.app.push_screen(Ask("Name of the profile that keeps these values:"), self._save_profile)

    def _save_profile(self, name: str | None) -> None:
        if name is not None:
            try:
                self.notify(f"saved {form.save_profile(name)}", markup=False)
            except (TokenleapError, OSError) as error:
                self.notify(str(error), severity="error", markup=False)

    def action_load_profile(self) -> None:
        names = form.profiles()
        if names:
            self.app.push_screen(Ask("Profile to put in force:", names), self._load_profile)
        else:
            self.notify("there is no profile yet: save one first", markup=False)

    def _load_profile(self, name: str | None) -> None:
        if name is not None:
            try:
                self._change(form.of_profile(name))
            except TokenleapError as error:
                self.notify(str(error), severity="error", markup=False)

    def action_measure(self) -> None:
        settings = self.home.loaded.settings
        self.home.bridge.errand("measure", ["--model", settings.model, "--precision", settings.precision])
        self.notify("measuring, which takes a while", markup=False)

    def on_errand_step(self, message: ErrandStep) -> None:
        if message.name == "measure":
            self.query_one(SettingEditor).cost(message.step)

    def on_errand_done(self, message: ErrandDone) -> None:
        if message.name != "measure":
            return
        if message.error is not None:
            self.notify(str(message.error), severity="error", markup=False)
            return
        self._measured = message.answer
        self.home.bridge.work(lambda: _kept(message.answer))
        self._recommend(message.answer)

    def _recommend(self, answer: dict[str, Any]) -> None:
        length = measured.recommended(answer, self.home.live.acceptance())
        ms = answer["rows_ms"]["1"]

        def settle(choice: str | None) -> None:
            if choice is not None and choice.startswith("yes"):
                self._change({"draft": length, "decode": "auto" if length else "plain"})

        question = f"A pass takes {ms:.0f} ms here. Recommended: {length or 'no'} drafted tokens. Put that in force?"
        self.app.push_screen(Ask(question, [f"yes, draft {length}", "no"]), settle)


def _kept(answer: dict[str, Any]) -> Any:
    from tui.messages import Refreshed

    with contextlib.suppress(OSError):  # then it counts until the program ends
        measured.keep(answer)
    return Refreshed("settings")


def line_of(row: form.Row) -> str:
    """A row of the list."""
    marks = ("⟳" if row.spec.needs_reload else " ") + ("!" if row.overridden else " ")
    changed = "" if row.value == row.spec.default else f" (default {form.shown(row.spec.default)})"
    return f"{marks} {row.spec.title:<29.29} {form.shown(row.value)[:26]}{changed}  {row.origin}"

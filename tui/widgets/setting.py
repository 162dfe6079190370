"""One setting to change: its words, its choices or a line to type, and what is wrong with that while it is typed."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from tui import form
from tui.form import Row
from tui.widgets.text import Words


class SettingEditor(Widget):
    """Shows one row at a time. Nothing is in force before enter."""

    HELP = "Choose or type a value; what is wrong with it is said below. Enter applies it, escape goes back."
    BINDINGS = [("escape", "leave", "Back")]  # noqa: RUF012

    class Chosen(Message):
        """A value was given that can be."""

        def __init__(self, name: str, raw: str) -> None:
            super().__init__()
            self.name, self.raw = name, raw

    class Considered(Message):
        """A choice is marked, or a value typed, and not applied yet."""

        def __init__(self, name: str, raw: str) -> None:
            super().__init__()
            self.name, self.raw = name, raw

    class Left(Message):
        pass

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._row: Row | None = None
        self._values: list[str] = []

    def compose(self) -> ComposeResult:
        yield Words(id="about")
        yield OptionList(id="choices", markup=False)
        yield Input(id="value")
        yield Words(id="problem")
        yield Words(id="cost")

    def show(self, row: Row, lines: Sequence[tuple[str, str]] = ()) -> None:
        """lines: (value, words) of choices that only the running program knows, such as models."""
        same = self._row is not None and self._row.spec is row.spec
        self._row = row
        spec = row.spec
        parts = [f"{spec.title} ({spec.name})", spec.help, f"default {form.shown(spec.default)}; give {spec.allowed}"]
        parts.append(f"in force: {form.shown(row.value)}, from {row.origin}")
        if row.overridden:
            parts.append(f"! {row.overridden}; a change here has no effect there")
        if spec.needs_reload:
            parts.append("a change loads the model anew")
        if spec.host_wide:
            parts.append("a change takes effect when the engine host starts next")
        self.query_one("#about", Words).say("\n".join(parts))
        words = ("true", "false") if spec.kind is bool else spec.choices
        given = list(lines) or [(word, word) for word in words]
        choices, line = self.query_one(OptionList), self.query_one(Input)
        choices.display, line.display = bool(given), not given or bool(lines)
        if not same or [value for value, _ in given] != self._values:
            self._values = [value for value, _ in given]
            choices.clear_options()
            choices.add_options([Option(words) for _, words in given])
            self.query_one("#problem", Words).say("")
        current = form.shown(row.value)
        if current in self._values and not choices.has_focus:
            choices.highlighted = self._values.index(current)
        if not line.has_focus:
            with line.prevent(Input.Changed):
                line.value = "" if row.value == "" else form.shown(row.value)

    def edit(self) -> None:
        """Go to where the value is given."""
        choices = self.query_one(OptionList)
        (choices if choices.display else self.query_one(Input)).focus()

    def cost(self, words: str) -> None:
        self.query_one("#cost", Words).say(words)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._row is not None:
            self.query_one("#problem", Words).say(form.problem(self._row.spec.name, event.value))
            self.post_message(self.Considered(self._row.spec.name, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._give(event.value)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if self._row is not None and event.option_index < len(self._values):
            self.post_message(self.Considered(self._row.spec.name, self._values[event.option_index]))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._give(self._values[event.option_index])

    def _give(self, raw: str) -> None:
        if self._row is None:
            return
        wrong = form.problem(self._row.spec.name, raw)
        self.query_one("#problem", Words).say(wrong)
        if not wrong:
            self.post_message(self.Chosen(self._row.spec.name, raw))

    def action_leave(self) -> None:
        self.post_message(self.Left())

"""One question in front of a screen: a line of text, or one of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from tui.widgets.text import Words


class Ask(ModalScreen["str | None"]):
    """Gives what was typed or chosen, None when nothing was."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(self, question: str, choices: Sequence[str] = ()) -> None:
        super().__init__()
        self._question, self._choices = question, choices

    def compose(self) -> ComposeResult:
        with Vertical(id="ask"):
            yield Words(self._question)
            if self._choices:
                yield OptionList(*(Option(choice, id=str(number)) for number, choice in enumerate(self._choices)),
                                 markup=False)  # fmt: skip
            else:
                yield Input()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index])

    def action_leave(self) -> None:
        self.dismiss(None)

"""F1: what the focused part is for, and every key that works there."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen

from tui.actions import ACTIONS
from tui.widgets.text import Words


class Help(ModalScreen[None]):
    """Of the screen that was in front."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,f1,enter,q", "leave", "Close")]

    def __init__(self, about: Screen[Any]) -> None:
        super().__init__()
        self._text = help_of(about)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Words(self._text)

    def action_leave(self) -> None:
        self.dismiss()


def help_of(screen: Screen[Any]) -> str:
    """The words of the focused widget and of those around it, then the keys."""
    focused = screen.focused
    nodes = focused.ancestors_with_self if focused is not None else [screen]
    said = [str(node.HELP).strip() for node in nodes if node.HELP]
    keys = []
    ours = {action.id for action in ACTIONS}
    for key, active in sorted(screen.active_bindings.items(), key=lambda item: item[1].binding.id not in ours):
        binding = active.binding
        words = active.tooltip or binding.description
        if words and not binding.system:
            keys.append(f"  {screen.app.get_key_display(binding.with_key(key)):<14} {words}")
    return "\n\n".join(dict.fromkeys(said)) + "\n\n" + "\n".join(dict.fromkeys(keys))

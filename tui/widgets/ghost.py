"""An editor with a suggestion at the cursor: dimmed, over as many lines as it has, and no part of the text."""

from __future__ import annotations

import re
from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType
from textual.reactive import reactive
from textual.strip import Strip
from textual.widgets import TextArea

from tui.actions import bindings


class GhostEditor(TextArea):
    """`ghost` is what is left of the suggestion offered: typing along with it shortens it, anything else ends it."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("try")]  # here, because a screen keeps tab for itself
    HELP = "Type code: suggestions come as you pause. Tab takes all, ctrl+e a line, ctrl+right a word, escape none."

    ghost: reactive[str] = reactive("")
    _offered = ("", "", "")  # text before and after the cursor, and the suggestion made there

    def watch_ghost(self, ghost: str) -> None:
        self._line_cache.clear()
        self.refresh()

    def offer(self, text: str) -> None:
        """A suggestion for where the cursor is; "" for none."""
        self._offered = (*self.before_and_after(), text)
        self.settle()

    def settle(self) -> None:
        """What of the offer still fits the text. To be called after every change and move."""
        before, after, text = self._offered
        here, rest = self.before_and_after()
        typed = here[len(before) :]
        fits = here.startswith(before) and rest == after and text.startswith(typed)
        self.ghost = text[len(typed) :] if fits else ""
        self.suggestion = self.ghost.partition("\n")[0]  # which TextArea has changed on its own

    def before_and_after(self) -> tuple[str, str]:
        """The text around the cursor."""
        here = self.cursor_location
        return self.get_text_range((0, 0), here), self.get_text_range(here, self.document.end)

    def take(self, text: str) -> None:
        """Put the beginning `text` of the suggestion into the text; the rest stays."""
        self.insert(text)
        self.settle()

    def first_line(self) -> str:
        """The suggestion's beginning up to its first line end, which is among it."""
        found = re.match(r"\n?[^\n]*\n?" if self.ghost.startswith("\n") else r"[^\n]*\n?", self.ghost)
        return found.group() if found else ""

    def first_word(self) -> str:
        """White space and the word or sign after it."""
        found = re.match(r"\s*(\w+|[^\w\s]+|$)", self.ghost)
        return found.group() if found else ""

    def render_line(self, y: int) -> Strip:
        """As a text's line; the suggestion's further lines push down what is below the cursor."""
        rest = self.ghost.split("\n")[1:] if self.has_focus else []
        below = y + self.scroll_offset.y - self._cursor_offset[1]
        if not rest or below <= 0:
            return super().render_line(y)
        if below > len(rest):
            return super().render_line(y - len(rest))
        style = self.get_component_rich_style("text-area--suggestion")
        text = rest[below - 1].expandtabs(4)
        margin = " " * self.gutter_width
        return Strip([Segment(margin + text, style)]).adjust_cell_length(self.size.width, style)

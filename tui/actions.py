"""Every action, declared once: id, keys, what it does, words. Bindings, footer, palette and help are made from it.

An id is place.name; "app" is everywhere. The setting `keys` binds ids anew ("app.quit=ctrl+x, try.accept=right");
`keymap` reads it and says what in it cannot be.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from textual.binding import Binding


@dataclass(frozen=True)
class Action:
    """keys: as Textual names them, with commas between. does: a Textual action of the place's screen or the app.
    priority: also while a text is being edited.
    """

    id: str
    keys: str
    does: str
    words: str
    help: str
    shown: bool = True
    priority: bool = False

    @property
    def place(self) -> str:
        return self.id.partition(".")[0]


ACTIONS: tuple[Action, ...] = (
    Action("app.help", "f1", "app.help", "Help", "keys and what the focused part is for", priority=True),
    Action("app.palette", "ctrl+p", "app.command_palette", "Palette", "every action by name", priority=True),
    Action("app.quit", "ctrl+q", "app.quit", "Quit", "leave; the engine host goes on for others", priority=True),
    Action("app.theme", "f9", "app.next_theme", "Colours", "auto, dark, light, high contrast", shown=False,
           priority=True),
    Action("app.picture", "f12", "app.picture", "Picture", "save this screen as an SVG", shown=False, priority=True),
    Action("dashboard.detail", "enter", "detail", "Details", "where the time of a request went, and its tokens"),
    Action("dashboard.warming", "w", "warming", "Warming", "show or hide warming and work ahead"),
    Action("configuration.search", "slash", "search", "Search", "find a setting by name or words"),
    Action("configuration.undo", "ctrl+z", "undo", "Undo", "take the last change back"),
    Action("configuration.default", "delete", "default", "Default", "forget the value in your settings file"),
    Action("configuration.load_profile", "p", "load_profile", "Profile", "put a profile's values in force"),
    Action("configuration.save_profile", "s", "save_profile", "Save as", "keep the values as a named profile"),
    Action("configuration.measure", "m", "measure", "Measure", "measure this machine and recommend a draft length"),
    Action("try.accept", "tab", "screen.accept", "Accept", "take all of the suggestion", priority=True),
    Action("try.line", "ctrl+e", "screen.accept_line", "Line", "take a line of the suggestion", priority=True),
    Action("try.word", "ctrl+right", "screen.accept_word", "Word", "take a word of the suggestion", priority=True),
    Action("try.dismiss", "escape", "screen.put_away", "Dismiss", "put the suggestion away", priority=True),
    Action("try.ask", "ctrl+t", "screen.ask", "Ask", "ask for a suggestion now", priority=True),
    Action("try.race", "ctrl+r", "screen.race", "Race", "the same prompt plain and with drafting", priority=True),
    Action("log.doctor", "d", "doctor", "Doctor", "look this machine over"),
    Action("log.copy", "c", "copy", "Copy", "the doctor's report to the clipboard"),
    Action("log.filter", "slash", "filter", "Filter", "show only lines with some words"),
    Action("first.begin", "enter", "begin", "Download", "bring the chosen model"),
    Action("first.leave", "escape", "leave", "Not now", "go on without a model"),
    Action("detail.close", "escape,enter", "dismiss_it", "Close", "back to the list"),
)  # fmt: skip


def go(place: str, title: str, key: str) -> Action:
    """The action that goes to a screen."""
    return Action(f"app.{place}", key, f"app.go('{place}')", title, f"go to {title}", shown=False, priority=True)


def bindings(place: str, more: tuple[Action, ...] = ()) -> list[Binding]:
    """The bindings of one place, in the order declared."""
    return [
        Binding(action.keys, action.does, action.words, show=action.shown, priority=action.priority, id=action.id,
                tooltip=action.help)
        for action in (*more, *ACTIONS)
        if action.place == place
    ]  # fmt: skip


def keymap(text: str, actions: tuple[Action, ...] = ACTIONS) -> tuple[dict[str, str], list[str]]:
    """(id -> keys, what cannot be) of the setting `keys`. Conflicts are named and still bound."""
    known = {action.id: action for action in actions}
    found: dict[str, str] = {}
    problems: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, key = (piece.strip() for piece in part.partition("="))
        if not equals or not key:
            problems.append(f"{part!r} is no key binding: write it as id=key")
        elif name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            problems.append(f"there is no action {name!r}" + (f", did you mean {close[0]}?" if close else ""))
        else:
            found[name] = f"{found[name]},{key}" if name in found else key
    return found, problems + conflicts(found, actions)


def conflicts(found: Mapping[str, str], actions: tuple[Action, ...] = ACTIONS) -> list[str]:
    """A sentence for each key that means two things in one place."""
    said: list[str] = []
    places = {action.place for action in actions}
    for place in sorted(places):
        taken: dict[str, str] = {}
        for action in actions:
            if action.place not in (place, "app"):
                continue
            for key in found.get(action.id, action.keys).split(","):
                other = taken.setdefault(key.strip(), action.id)
                sentence = f"{key.strip()} is bound to both {other} and {action.id}"
                if other != action.id and sentence not in said:
                    said.append(sentence)
    return said

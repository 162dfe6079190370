"""The settings as rows to show and change: value, origin, what overrides it, what a change needs. Plain values.

Everything comes from the schema; nothing here names a setting but to say what goes together. `check` judges before
anything is written; writing is the app's `change`. `Undo` keeps what the file said before each change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assistant import locations
from assistant.errors import SettingsError
from assistant.settings import files, save
from assistant.settings.load import DEFAULT, USER, Loaded
from assistant.settings.schema import SPECS, Spec, Value


@dataclass(frozen=True)
class Row:
    """One setting in force."""

    spec: Spec
    value: Value
    origin: str  # in words
    overridden: str  # what stands above the user's file, "" when nothing does


def rows(loaded: Loaded, search: str = "", editor: Mapping[str, object] | None = None) -> list[Row]:
    """All settings that a search finds, in the schema's order; every word must be in the name or the words.
    editor: values that an editor's latest request had instead.
    """
    words = search.lower().split()
    found = []
    for name, spec in SPECS.items():
        text = f"{name} {spec.title} {spec.help} {spec.section}".lower()
        if all(word in text for word in words):
            origin = loaded.origins[name]
            above = "" if origin.source in (DEFAULT, USER) else f"{origin.where or origin.source} sets it"
            if not above and editor and name in editor:
                above = f"an editor or a project sets {shown(editor[name])} there"
            found.append(Row(spec, getattr(loaded.settings, name), origin.source, above))
    return found


def shown(value: object) -> str:
    """A value as a person would type it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value != "" else "(none)"


def problem(name: str, raw: str) -> str:
    """What is wrong with `raw`, "" when nothing is."""
    try:
        save.check(name, raw)
    except SettingsError as error:
        return str(error)
    return ""


def broken(loaded: Loaded, file: Path | None = None) -> str:
    """What is wrong with the user's file as a whole, "" when it can be read."""
    file = file or locations.settings_file()
    return next((words for words in loaded.warnings if words.startswith(f"{file} ")), "")


@dataclass
class Undo:
    """The latest changes, to take back."""

    _past: list[dict[str, object]] = field(default_factory=list)

    def note(self, names: Mapping[str, object]) -> dict[str, object]:
        """What the user's file says of `names` now; None where it says nothing."""
        values, _ = files.read(locations.settings_file())
        return {name: values.get(name) for name in names}

    def push(self, before: dict[str, object]) -> None:
        self._past.append(before)

    def last(self) -> dict[str, object] | None:
        """The change that takes the latest one back, which is then forgotten."""
        return self._past.pop() if self._past else None


# Profiles: settings files of their own beside the user's.


def profiles() -> list[str]:
    folder = locations.settings_file().parent / "profiles"
    try:
        return sorted(file.stem for file in folder.glob("*.toml"))
    except OSError:
        return []


def profile_file(name: str) -> Path:
    """Raises SettingsError for what is no name."""
    if not name.replace("-", "").replace("_", "").isalnum() or len(name) > 40:
        raise SettingsError("a profile's name has letters, digits, - and _ only: choose another")
    return locations.settings_file().parent / "profiles" / f"{name}.toml"


def save_profile(name: str) -> Path:
    """Keep what the user's file says as the profile `name`. SettingsError, OSError."""
    values, wrong = files.read(locations.settings_file())
    if wrong:
        raise SettingsError(wrong)
    return save.save({spec: values.get(spec) for spec in SPECS}, profile_file(name))


def of_profile(name: str) -> dict[str, object]:
    """The changes that put a profile in force: what it does not name goes back to its default. SettingsError."""
    values, wrong = files.read(profile_file(name))
    if wrong:
        raise SettingsError(wrong)
    return {spec: values.get(spec) for spec in SPECS}

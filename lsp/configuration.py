"""The settings in force for a document: files, environment and what the editor said, by the one schema.

The editor says it in up to three ways: initializationOptions, workspace/configuration (or what it pushes with
didChangeConfiguration); the later wins, key by key. Bad values are named once each and the rest applies. Files are
looked at on each use, so a change made elsewhere counts from the next request on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assistant import locations
from assistant.errors import TokenleapError
from assistant.settings import files
from assistant.settings.load import Loaded, load
from assistant.settings.schema import Settings
from lsp import uris

SECTION = "tokenleap"
_NOT_OURS = ("trace", "server")  # keys of an editor's own in the section
_MOST_FOLDERS = 64


@dataclass(frozen=True)
class _Entry:
    stamp: tuple[object, ...]
    loaded: Loaded


class Configuration:
    """Settings by document."""

    def __init__(self) -> None:
        self._initial: dict[str, object] = {}
        self._said: dict[str, object] = {}
        self._entries: dict[str, _Entry] = {}
        self._told: set[str] = set()
        self._untold: list[str] = []
        self.root: Path | None = None  # the first folder of the workspace

    def initialize(self, options: object, root: Path | None) -> None:
        """What the initialize request holds."""
        self._initial, self.root = self._section(options), root

    def take(self, section: object) -> None:
        """The editor's section of settings, as a whole: what it holds no longer is no longer said."""
        self._said = self._section(section)
        self._entries.clear()

    @property
    def general(self) -> Settings:
        """For what belongs to no document."""
        return self._for(self.root)

    def of(self, uri: str) -> Settings:
        """For a document, with its project's file."""
        path = uris.path_of(uri)
        return self._for(Path(path).parent if path is not None else self.root)

    def users(self) -> Settings:
        """What the user's own file says, and nothing else."""
        return load(target=Path(os.sep), environment={}, strict=False).settings

    def project_file(self) -> Path | None:
        """The workspace's settings file, existing or not; None without a workspace."""
        return None if self.root is None else files.find_project_file(self.root) or self.root / files.PROJECT_FILE

    def warnings(self) -> list[str]:
        """What was not taken, each sentence once; for the user."""
        told, self._untold = self._untold, []
        return told

    def _for(self, folder: Path | None) -> Settings:
        key = os.fspath(folder) if folder is not None else ""
        try:
            user = locations.settings_file()
            project = files.find_project_file(folder) if folder is not None else None
            stamp = (_stamp(user), project, _stamp(project))
            entry = self._entries.get(key)
            if entry is None or entry.stamp != stamp:
                editor = {**self._initial, **self._said}
                # Without a folder no project's file counts: that of the folder an editor was started in is nobody's.
                entry = _Entry(stamp, load(target=folder or Path(os.sep), editor=editor, strict=False))
                self._keep(key, entry)
        except TokenleapError as error:  # no place for the user's files
            self._note(str(error))
            return Settings()
        return entry.loaded.settings

    def _keep(self, key: str, entry: _Entry) -> None:
        if len(self._entries) >= _MOST_FOLDERS:
            self._entries.clear()
        self._entries[key] = entry
        for warning in entry.loaded.warnings:
            self._note(warning)

    def _note(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._untold.append(sentence)

    def _section(self, value: object) -> dict[str, object]:
        """The settings in what an editor sends: bare, or in a section of our name."""
        if isinstance(value, Mapping) and (isinstance(value.get(SECTION), Mapping) or value.get(SECTION) == []):
            value = value[SECTION]
        if not isinstance(value, Mapping):
            if value not in (None, []):  # an empty table of Lua's becomes a list
                self._note("the editor's settings are no object and were ignored")
            return {}
        return {str(name): _plain(raw) for name, raw in value.items() if name not in _NOT_OURS}


def _plain(raw: object) -> object:
    """A list of words as our one text, which is how the schema writes lists."""
    if isinstance(raw, list) and all(isinstance(item, str) for item in raw):
        return ", ".join(raw)
    return raw


def _stamp(path: Path | None) -> object:
    try:
        status = os.stat(path) if path is not None else None
    except OSError:
        return None
    return None if status is None else (status.st_mtime_ns, status.st_size)


def words(setting: str) -> frozenset[str]:
    """The words of a setting that holds several, such as languages_off."""
    return frozenset(word.lower() for word in setting.replace(",", " ").split())

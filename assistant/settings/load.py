"""Joins the sources of settings; later wins: defaults, user file, project file, environment, editor, flags.

`load` keeps for each value where it came from and never lets a bad value through. A bad value in a file or
from an editor is one warning and the next lower source stands; a bad flag or variable is a SettingsError when
`strict`, else a warning too. None, "", "null" and "undefined" count as not given, whoever gives them.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from assistant import locations
from assistant.errors import SettingsError
from assistant.settings import files
from assistant.settings.schema import SPECS, Settings, Spec, Value
from assistant.settings.values import is_unset, parse

DEFAULT, USER, PROJECT = "default", "user", "project"
ENVIRONMENT, EDITOR, FLAG = "environment", "editor", "flag"


@dataclass(frozen=True)
class Origin:
    """Where a value came from: a source's name, and the file, variable or option that said it."""

    source: str
    where: str

    def __str__(self) -> str:
        return self.where or self.source


@dataclass(frozen=True)
class Loaded:
    """Settings, the origin of each value (every name is a key), and a sentence for each thing not taken."""

    settings: Settings
    origins: Mapping[str, Origin]
    warnings: tuple[str, ...] = ()


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that `word` begins, else the one most like it, or None when none is much like it."""
    words = list(known)
    begun = [other for other in words if len(word) > 3 and other.startswith(word)]
    found = begun or difflib.get_close_matches(word, words, n=1, cutoff=cutoff)
    return found[0] if found else None


def unknown_setting(name: str) -> str:
    """The words for a name that is no setting, with the nearest one that is."""
    close = nearest(name.replace("-", "_").lower(), SPECS)
    return f"unknown setting {name!r}" + (f", did you mean {close}?" if close else "")


def load(
    *,
    target: Path | None = None,
    editor: Mapping[str, object] | None = None,
    flags: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    user_file: Path | None = None,
    strict: bool = True,
) -> Loaded:
    """Settings for work on `target` (a file or folder; the working folder without it).

    `editor` and `flags` map setting names to raw values; `environment` and `user_file` replace the real ones.
    Raises SettingsError for a bad flag or variable when `strict`.
    """
    join = _Join(strict)
    user_path = user_file if user_file is not None else locations.settings_file()
    join.file(USER, user_path)
    project_path = files.find_project_file(target if target is not None else Path.cwd())
    if project_path is not None and project_path != user_path:
        join.file(PROJECT, project_path)
    join.environment(os.environ if environment is None else environment)
    join.named(EDITOR, editor or {})
    join.named(FLAG, flags or {})
    return Loaded(Settings(**join.values), join.origins, tuple(join.warnings))  # type: ignore[arg-type]


class _Join:
    """The values so far, each source laid over them in turn."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self.values: dict[str, Value] = {spec.name: spec.default for spec in SPECS.values()}
        self.origins = {name: Origin(DEFAULT, "") for name in SPECS}
        self.warnings: list[str] = []

    def file(self, source: str, path: Path) -> None:
        given, problem = files.read(path)
        if problem:
            self.warnings.append(problem)
        for name, raw in given.items():
            spec = SPECS.get(name)
            if spec is None:
                self._unknown(str(path), name)
            elif spec.users_only and source == PROJECT:
                self.warnings.append(_refused(str(path), spec))
            else:
                self._take(spec, raw, Origin(source, str(path)), f"{path}: {name}", path.parent, strict=False)

    def environment(self, variables: Mapping[str, str]) -> None:
        known = {spec.variable: spec for spec in SPECS.values()}
        for variable, raw in variables.items():
            spec = known.get(variable)
            if spec is not None:
                self._take(spec, raw, Origin(ENVIRONMENT, variable), variable, None, strict=self._strict)
            elif variable.startswith("TOKENLEAP_"):
                # Other variables of ours exist that are no settings, so only a near miss is worth a word.
                close = nearest(variable, known, cutoff=0.9)
                if close:
                    self.warnings.append(f"unknown variable {variable} was ignored, did you mean {close}?")

    def named(self, source: str, given: Mapping[str, object]) -> None:
        for name, raw in given.items():
            spec = SPECS.get(name)
            if spec is None and source == FLAG:
                raise KeyError(name)  # flags are made from SPECS, so this is our own mistake
            if spec is None:
                self._unknown("the editor's settings", name)
            elif spec.users_only and source == EDITOR:
                self.warnings.append(_refused("the editor's settings", spec))
            else:
                where = spec.flag if source == FLAG else "the editor's settings"
                words = spec.flag if source == FLAG else f"{where}: {name}"
                self._take(spec, raw, Origin(source, where), words, None, self._strict and source == FLAG)

    def _unknown(self, where: str, name: str) -> None:
        sentence = f"{where}: {unknown_setting(name)}"
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def _take(
        self, spec: Spec, raw: object, origin: Origin, words: str, folder: Path | None, strict: bool
    ) -> None:
        if is_unset(spec, raw):
            return
        try:
            value = parse(spec, raw, folder)
        except ValueError as error:
            problem = f"{words} cannot be {shown(raw)}: give {error}"
            if strict:
                raise SettingsError(problem) from None
            self.warnings.append(f"{problem} (ignored)")
            return
        self.values[spec.name] = value
        self.origins[spec.name] = origin


def _refused(where: str, spec: Spec) -> str:
    owner = "the whole host" if spec.host_wide else "the terminal interface"
    return f"{where}: {spec.name} belongs to {owner} and was ignored: set it with 'tokenleap config set {spec.name}'"


def shown(raw: object) -> str:
    """`raw` as a sentence can carry it: short, on one line."""
    text = repr(raw)
    return text if len(text) <= 60 else text[:57] + "..."

"""Command line parsing: settings' flags made from their schema, and errors that are one sentence.

`Parser` raises UsageError with the nearest valid word instead of printing usage and exiting. A setting's flag
stays text here: `settings.load` is the door that checks it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from assistant.cli import output
from assistant.errors import UsageError
from assistant.settings.load import nearest
from assistant.settings.schema import SPECS

_METAVARS: dict[type, str] = {int: "N", float: "X", str: "NAME"}


class Parser(argparse.ArgumentParser):
    """An argument parser without abbreviations whose every complaint is a UsageError."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self.color = False  # from Python 3.14 on argparse would colour what `output` takes for plain text

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, left = super().parse_known_args(args, namespace)
        if left:
            raise UsageError(self._unknown(left[0]))
        return found, left

    def error(self, message: str) -> NoReturn:
        words = " ".join(message.removeprefix("argument ").split())
        option, explicit, _ = words.partition(": ignored explicit argument")
        if explicit:
            words = f"{option} takes no value"
        raise UsageError(f"{words}: see '{self.prog} --help'")

    def _unknown(self, word: str) -> str:
        if not word.startswith("-") or word == "-":
            return f"unexpected argument {word!r}: see '{self.prog} --help'"
        option = word.partition("=")[0]
        return f"unknown option {option}" + _hint(option, self._option_string_actions, self.prog)

    def _parse_optional(self, arg_string: str) -> Any:
        # "-:12:5" is standard input with a position, not an option.
        return None if arg_string.startswith("-:") else super()._parse_optional(arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            if action.option_strings:
                known = ", ".join(str(choice) for choice in action.choices)
                raise UsageError(f"{action.option_strings[0]} cannot be {value!r}: give one of {known}")
            what = (
                "command"
                if isinstance(action, argparse._SubParsersAction)
                else str(action.metavar or action.dest)
            )
            words = [str(choice) for choice in action.choices]
            raise UsageError(f"unknown {what} {value!r}" + _hint(str(value), words, self.prog))

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:
            output.result(message)


def _hint(word: str, known: Iterable[str], program: str) -> str:
    # Without their dashes, which would make all options alike.
    bare = {other.lstrip("-"): other for other in known}
    close = bare.get(nearest(word.lstrip("-"), bare) or "")
    return f", did you mean {close}?" if close else f": see '{program} --help'"


def unknown_command(word: str, known: Iterable[str]) -> UsageError:
    """The error for a word that is no command."""
    return UsageError(f"unknown command {word!r}" + _hint(word, known, "tokenleap"))


def add_settings(parser: argparse.ArgumentParser, names: Sequence[str] | None = None) -> None:
    """Adds the flags of the settings `names`, or of all settings that have one."""
    group = parser.add_argument_group("settings")
    for spec in SPECS.values():
        if spec.has_flag if names is None else spec.name in names:
            group.add_argument(
                spec.flag,
                dest=spec.name,
                metavar="{" + ",".join(spec.choices) + "}" if spec.choices else _METAVARS[spec.kind],
                help=f"{spec.help} (default {spec.default})".replace("%", "%%"),
            )


def given_settings(args: argparse.Namespace) -> dict[str, object]:
    """The settings among parsed arguments: name -> what was typed. What is no single value is no setting."""
    return {
        name: value
        for name, value in vars(args).items()
        if name in SPECS and isinstance(value, (str, int, float)) and not isinstance(value, bool)
    }


def whole_number(option: str, low: int, high: int) -> Any:
    """An argparse type: a whole number in a range, named by its option when it is not."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise UsageError(f"{option} cannot be {text!r}: give a whole number from {low} to {high}")
        return number

    return read

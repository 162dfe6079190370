"""The `tokenleap` command: finds the command's module, joins the settings, runs it, says failures in a line.

Only the module of the command that is asked for is imported, and none of them imports torch, numpy,
transformers or tokenizers to answer `--help` or to talk to the engine host. A command's `run(args, settings)`
finds the settings' origins in `args.loaded` and its beginning in `args.started`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from assistant.cli import failures, output
from assistant.cli.flags import Parser, given_settings, unknown_command
from assistant.settings import load

COMMANDS = {
    "complete": "complete a file at a position",
    "models": "list, bring, check and remove models",
    "config": "show and change settings",
    "host": "start, stop and inspect the engine host",
    "lsp": "serve an editor: the language server",
    "tui": "open the terminal interface",
    "stats": "show what was suggested and accepted on this machine",
    "train": "train a draft head for a model",
    "bench": "measure speed and quality on this machine",
    "doctor": "say what this machine can do and what is missing",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit code; never raises, never prints a traceback unless asked to."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except SystemExit as done:  # argparse ends --help this way
        return done.code if isinstance(done.code, int) else failures.WRONG_USE
    except BaseException as error:
        return _fail(error)


def _run(argv: list[str]) -> int:
    started = time.perf_counter()
    debug = bool(os.environ.get("TOKENLEAP_DEBUG"))
    if not debug and not sys.warnoptions:
        warnings.simplefilter("ignore")  # libraries' warnings are for us, not for the user
    word = next((word for word in argv if not word.startswith("-")), None)
    if word is not None and word not in COMMANDS:
        raise unknown_command(word, COMMANDS)
    parser = _parser(word)
    args = parser.parse_args(argv)
    if "run" not in args:
        output.note(parser.format_help().rstrip())
        return failures.WRONG_USE
    tolerant = getattr(args, "tolerant", False)
    loaded = load.load(target=_target(args), flags=given_settings(args), strict=not tolerant)
    if not tolerant:  # such a command shows them itself
        for warning in loaded.warnings:
            output.note(f"tokenleap: warning: {warning}")
    args.loaded, args.started = loaded, started
    return int(args.run(args, loaded.settings))


def _parser(command: str | None) -> Parser:
    parser = Parser(
        prog="tokenleap",
        description="Code completion that runs wholly on your own machine.",
        epilog="'tokenleap COMMAND --help' tells more about a command.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", dest="command")
    for name, words in COMMANDS.items():
        if name == command:
            importlib.import_module(f"assistant.cli.{name}").register(commands)
        else:
            commands.add_parser(name, help=words, add_help=False)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata  # 20 ms, so only here

        try:
            version = metadata.version("tokenleap")
        except metadata.PackageNotFoundError:
            version = "(not installed)"
        output.result(f"tokenleap {version}")
        parser.exit()


def _target(args: argparse.Namespace) -> Path | None:
    """The file or folder whose project file counts; a command says how to find it in its arguments."""
    find = getattr(args, "target", None)
    found = find(args) if callable(find) else None
    return found if isinstance(found, Path) else None


def _fail(error: BaseException) -> int:
    failure = failures.describe(error)
    if os.environ.get("TOKENLEAP_DEBUG") and not isinstance(error, output.OutputClosed):
        import traceback

        output.note("".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip())
    if failure.message:
        output.note(f"tokenleap: {failure.message}")
    if isinstance(error, output.OutputClosed):
        output.abandon()
    return failure.exit_code


if __name__ == "__main__":
    sys.exit(main())

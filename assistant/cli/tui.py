"""`tokenleap tui`: the terminal interface. Exit 0; 2 when this is no terminal."""

from __future__ import annotations

import argparse
import sys

from assistant.cli import output
from assistant.cli.flags import Parser
from assistant.errors import UsageError
from assistant.settings.schema import Settings


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Adds `tui`."""
    parser = subparsers.add_parser(
        "tui",
        help="open the terminal interface",
        description="Opens the terminal interface: what the engine does, how fast it is, and every setting.",
    )
    parser.set_defaults(run=run, tolerant=True)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Runs until the user leaves."""
    if not (sys.stdin.isatty() and output.to_terminal()):
        raise UsageError("the terminal interface needs a terminal: run it in one, or use `tokenleap stats`")
    from tui.app import TokenleapApp

    app = TokenleapApp()
    app.run()
    return app.return_code or 0

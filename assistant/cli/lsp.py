"""`tokenleap lsp`: the language server, started by an editor over standard input and output.

Standard output belongs to the protocol from the first moment. Exit 0 after shutdown and exit, else 1.
"""

from __future__ import annotations

import argparse

from assistant.cli import output
from assistant.cli.flags import Parser, whole_number
from assistant.settings.schema import Settings


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Adds `lsp`."""
    parser = subparsers.add_parser(
        "lsp",
        help="serve an editor: the language server",
        description="Serves an editor: the language server. Editors start it and speak to it over standard input "
        "and output; their settings reach it through the protocol.",
    )
    parser.add_argument("--stdio", action="store_true", help="serve over standard input and output (the default)")
    parser.add_argument(
        "--tcp",
        metavar="PORT",
        type=whole_number("--tcp", 0, 65535),
        help="serve one editor on a port of this machine, for debugging; 0 takes a free one",
    )
    parser.set_defaults(run=run, tolerant=True)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Serves until the editor goes; the process ends there."""
    if args.tcp is None:
        # Before anything else is imported: a library may print.
        from lsp.transport import claim_stdio

        channel = claim_stdio()
        from lsp.server import serve_stdio

        serve_stdio(channel)
    else:
        from lsp.server import serve_tcp

        serve_tcp(args.tcp, output.note)
    return 0

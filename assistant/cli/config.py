"""`tokenleap config`: show settings and where each comes from, change the user's file, say where it is."""

from __future__ import annotations

import argparse
from typing import Any

from assistant import locations
from assistant.cli import output
from assistant.cli.flags import Parser
from assistant.settings import load
from assistant.settings.save import check, save
from assistant.settings.schema import SPECS, Settings, Value


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Adds `config` with `show`, `set` and `path`."""
    parser = subparsers.add_parser("config", help="show and change settings")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)

    show = commands.add_parser("show", help="print every setting")
    show.add_argument("--origin", action="store_true", help="also say where each value comes from")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    show.set_defaults(run=_show, tolerant=True)

    change = commands.add_parser(
        "set",
        help="change a setting in your own file",
        description='Changes one setting in your own settings file; "" as VALUE removes it.',
        epilog="settings: " + ", ".join(SPECS),
    )
    change.add_argument("key", metavar="KEY")
    change.add_argument("value", metavar="VALUE")
    change.set_defaults(run=_set, tolerant=True)

    path = commands.add_parser("path", help="print where your own settings file is")
    path.set_defaults(run=_path, tolerant=True)


def _show(args: argparse.Namespace, settings: Settings) -> int:
    loaded: load.Loaded = args.loaded
    for warning in loaded.warnings:
        output.note(f"tokenleap: warning: {warning}")
    if args.json:
        output.json({name: _entry(loaded, name, args.origin) for name in SPECS})
        return 0
    lines = [f"{name} = {_toml(getattr(settings, name))}" for name in SPECS]
    if args.origin:
        width = max(len(line) for line in lines)
        lines = [
            f"{line:<{width}}  # {_origin(loaded.origins[name])}"
            for line, name in zip(lines, SPECS, strict=True)
        ]
    output.result("\n".join(lines))
    return 0


def _entry(loaded: load.Loaded, name: str, with_origin: bool) -> Any:
    value = getattr(loaded.settings, name)
    if not with_origin:
        return value
    origin = loaded.origins[name]
    return {"value": value, "origin": origin.source, "where": origin.where}


def _origin(origin: load.Origin) -> str:
    return f"{origin.source}: {origin.where}" if origin.where else origin.source


def _toml(value: Value) -> str:
    import tomlkit

    return str(tomlkit.item(value).as_string())


def _set(args: argparse.Namespace, settings: Settings) -> int:
    name = args.key.replace("-", "_")
    value = check(name, args.value)
    file = save({name: args.value})
    if value is None:
        output.note(f"{name} is no longer set in {file}: {_toml(SPECS[name].default)} is the default")
    else:
        output.note(f"{name} = {_toml(value)} in {file}")
    winner = args.loaded.origins[name]
    if winner.source not in (load.DEFAULT, load.USER):
        output.note(f"for now {winner.where} overrides it with {_toml(getattr(settings, name))}")
    if SPECS[name].host_wide:
        output.note(
            "it takes effect when the engine host starts next: 'tokenleap host restart' does that now"
        )
    return 0


def _path(args: argparse.Namespace, settings: Settings) -> int:
    output.result(str(locations.settings_file()))
    return 0

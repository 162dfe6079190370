"""`tokenleap models list|pull|convert|verify|rm`: what is on this machine, and how it gets there and away
again.

Results go to standard output; progress to standard error, as a bar on a terminal and as a line per quarter
elsewhere. Only `pull` may use the network.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assistant.cli import output
from assistant.cli.flags import Parser
from assistant.errors import ModelCorruptError, TokenleapError, UnknownModelError, UsageError

if TYPE_CHECKING:
    from assistant.models.catalog import Entry

_PRECISIONS = ("int8", "fp32")
_BYTES_PER_WEIGHT = {"int8": 1.75, "fp32": 4.8}  # int8: scales and the second planes of some matrices among it
_WORDS = {
    "wait": "waiting for another process",
    "download": "downloading",
    "check": "checking",
    "convert": "converting",
    "verify": "verifying",
}


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Adds `models` and its commands."""
    parser = subparsers.add_parser(
        "models",
        help="list, bring, check and remove models",
        description="Lists, brings, checks and removes models.",
    )
    parser.set_defaults(run=lambda args, settings: _usage(parser))
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    _command(commands, "list", _list, "show known and converted models").add_argument(
        "--json", action="store_true", help="print one JSON array"
    )
    pull = _command(commands, "pull", _pull, "bring a model, over the network where needed, and convert it")
    _add_name(pull)
    _add_precision(pull)
    pull.add_argument(
        "--accept-licence", action="store_true", help="accept the licence of a model that has its own"
    )
    pull.add_argument(
        "--json", action="store_true", help="print one JSON array of folders, and progress as lines of JSON"
    )
    convert = _command(commands, "convert", _convert, "convert a model that is on this machine")
    _add_name(convert)
    _add_precision(convert)
    verify = _command(commands, "verify", _verify, "read every byte of converted models and compare hashes")
    _add_name(verify, "default: all")
    remove = _command(commands, "rm", _remove, "remove a converted model and all that it left")
    _add_name(remove)
    remove.add_argument("--precision", dest="precisions", choices=_PRECISIONS, help="only this one")
    remove.add_argument("--leftovers", action="store_true", help="only what interrupted commands left")


def _command(
    commands: argparse._SubParsersAction[Parser], name: str, run: Callable[..., int], words: str
) -> Parser:
    parser = commands.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
    parser.set_defaults(run=run)
    return parser


def _add_name(parser: Parser, default: str = "default: the model of the settings") -> None:
    parser.add_argument("name", nargs="?", metavar="MODEL", help=f"a name of the list or a path ({default})")


def _add_precision(parser: Parser) -> None:
    parser.add_argument(
        "--precision",
        dest="precisions",
        choices=(*_PRECISIONS, "both"),
        help="default: the settings' precision",
    )


def _usage(parser: Parser) -> int:
    output.note(parser.format_help().rstrip())
    return UsageError.exit_code


class Reporter:
    """A progress callback that draws on standard error; `as_json` writes a line of JSON for each step instead."""

    def __init__(self, as_json: bool = False) -> None:
        self._as_json = as_json
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._last: tuple[str, int] = ("", -1)

    def __call__(self, stage: str, done: int, total: int) -> None:
        words = _WORDS.get(stage, stage)
        steps = 200 if self._terminal or self._as_json else 4
        step = int(done / total * steps) if total else 0
        if (stage, step) == self._last:
            return
        self._last = (stage, step)
        if self._as_json:
            output.note(json.dumps({"step": words, "done": done, "total": total}))
        elif self._terminal:
            output.progress(output.bar(words, done, total) if total else words)
        else:
            output.note(f"{words} {step * 25}%" if total else words)


def _list(args: argparse.Namespace, settings: Any) -> int:
    from assistant.models import catalog, fetch, store

    converted = store.installed()
    rows = []
    for entry in catalog.CATALOG:
        own = [model for model in converted if model.id == entry.id]
        row = _row(entry.id, entry.size, entry.licence, own, _source(entry, fetch.locate(entry)))
        rows.append(row | _of_catalog(entry))
    known = {entry.id for entry in catalog.CATALOG}
    for name in sorted({model.id for model in converted} - known):
        own = [model for model in converted if model.id == name]
        rows.append(_row(name, sum(model.size for model in own), "your own", own, ""))
    if args.json:
        output.json(rows)
    else:
        output.result(_table(rows))
    left = [*store.leftovers(), *_downloads()]
    if left:
        output.note(
            f"interrupted commands left {len(left)} files or folders: `tokenleap models rm --leftovers`"
        )
    return 0


def _source(entry: Entry, found: list[Path] | None) -> str:
    if not found:
        return ""
    return "downloaded" if len(found) == 1 else "wheels installed"


def _row(name: str, size: int, licence: str, converted: list[Any], source: str) -> dict[str, Any]:
    ready = [model.precision for model in converted if not model.problem]
    broken = [model.precision for model in converted if model.problem]
    return {
        "id": name,
        "bytes": size,
        "licence": licence,
        "ready": ready,
        "damaged": broken,
        "source": source,
    }


def _of_catalog(entry: Entry) -> dict[str, Any]:
    """What helps to choose: words, consent, and about how many bytes the weights take in memory."""
    weights = float(entry.parameters.removesuffix("B")) * 1e9
    return {
        "title": entry.title,
        "licence_note": entry.licence_note,
        "needs_consent": entry.needs_consent,
        "needs_bytes": {name: int(weights * size) for name, size in _BYTES_PER_WEIGHT.items()},
    }


def _state(row: dict[str, Any]) -> str:
    words = [f"ready {', '.join(row['ready'])}"] if row["ready"] else []
    words += [f"damaged {', '.join(row['damaged'])}"] if row["damaged"] else []
    words += [row["source"]] if row["source"] else []
    return "; ".join(words) or "not here"


def _table(rows: list[dict[str, Any]]) -> str:
    cells = [("MODEL", "SIZE", "LICENCE", "STATE")]
    for row in rows:
        size = f"{row['bytes'] / 1e6:,.0f} MB" if row["bytes"] else "?"
        cells.append((row["id"], size, row["licence"], _state(row)))
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    return "\n".join(
        f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:<{widths[2]}}  {d}".rstrip() for a, b, c, d in cells
    )


def _pull(args: argparse.Namespace, settings: Any) -> int:
    from assistant.models import fetch

    entry, done = _make(args, settings, download=True)
    fetch.drop_download(entry)
    if args.json:
        output.json([str(folder) for folder in done])
    else:
        output.result("\n".join(str(folder) for folder in done))
    return 0


def _convert(args: argparse.Namespace, settings: Any) -> int:
    _, done = _make(args, settings, download=False)
    output.result("\n".join(str(folder) for folder in done))
    return 0


def _make(args: argparse.Namespace, settings: Any, *, download: bool) -> tuple[Entry, list[Path]]:
    from assistant.models import catalog, store

    entry = catalog.find(args.name or settings.model)
    chosen = args.precisions or (settings.precision if settings.precision in _PRECISIONS else "int8")
    consent = getattr(args, "accept_licence", False)
    done = []
    report = Reporter(as_json=getattr(args, "json", False))
    for precision in _PRECISIONS if chosen == "both" else (chosen,):
        folder = store.ensure(entry, precision, report, download=download, consent=consent)
        store.open_model(folder)  # says when what was there before is damaged
        done.append(folder)
    if entry.licence_note:
        output.note(f"{entry.id}: {entry.licence_note}")
    return entry, done


def _verify(args: argparse.Namespace, settings: Any) -> int:
    from assistant.models import store

    chosen = [model for model in store.installed() if args.name is None or model.id == _id(args.name)]
    if not chosen:
        raise UsageError(
            f"no converted model {args.name or ''}".rstrip()
            + ": see `tokenleap models list`, bring one with `pull`"
        )
    failed: TokenleapError | None = None
    report = Reporter()
    for model in chosen:
        try:
            store.verify(model.folder, report)
            output.result(f"{model.id} {model.precision}: sound")
        except TokenleapError as error:
            output.result(f"{model.id} {model.precision}: damaged")
            output.note(str(error))
            failed = error
    return ModelCorruptError.exit_code if failed else 0


def _remove(args: argparse.Namespace, settings: Any) -> int:
    from assistant.models import store

    if args.leftovers == (args.name is not None):
        raise UsageError("name the model to remove, or give --leftovers alone")
    name = _id(args.name) if args.name else None
    found = [model for model in store.installed() if model.id == name]
    chosen = [model for model in found if args.precisions in (None, model.precision)]
    freed = sum(store.remove(model.folder) for model in chosen)
    left = store.clear_leftovers(name)
    for path in _downloads(name) if args.precisions is None else ():
        left += path.stat().st_size
        path.unlink()
    if not chosen and not left and not args.leftovers:
        raise UsageError(f"there is no converted model {args.name!r}: see `tokenleap models list`")
    output.result(f"{(freed + left) / 1e6:,.0f} MB freed")
    return 0


def _id(name: str) -> str:
    """The folder name that belongs to what was typed, also when the catalog does not know it any more."""
    from assistant.models import catalog, store

    if any(model.id == name for model in store.installed()):
        return name
    with contextlib.suppress(UnknownModelError):
        return catalog.find(name).id
    return name


def _downloads(name: str | None = None) -> list[Path]:
    from assistant.models import catalog, fetch

    return [path for entry in catalog.CATALOG if name in (None, entry.id) for path in fetch.downloads(entry)]

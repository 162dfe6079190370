"""`tokenleap complete FILE[:LINE[:COLUMN]]`: one completion, for people and for scripts.

The completion alone goes to standard output (with --json one object); statistics, progress and reasons go
to standard error. Exit 0 with a completion, 1 with none, 2 for wrong use or an unreadable file, 3 when the
machine cannot.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from assistant import languages, sourcefile
from assistant.cli import failures, output
from assistant.cli.flags import Parser, add_settings, whole_number
from assistant.errors import HostError, TokenleapError, UsageError
from assistant.service import reasons
from assistant.service.client import Client, Service
from assistant.service.protocol import CompletionRequest, CompletionResult, HostStatus
from assistant.settings.schema import SPECS, Settings

_INPUT = "-"  # the FILE that stands for standard input
_MOST_CANDIDATES = 32
_STEPS = {"check": "checking the model", "convert": "converting the model", "download": "bringing the model"}
_SLOW_START_MS = 100.0  # from here on a start is worth a line of its own


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Adds `complete`."""
    parser = subparsers.add_parser(
        "complete",
        help="complete a file at a position",
        description="Completes a file at a position. LINE and COLUMN count from 1, COLUMN in characters; "
        "no LINE means the end of the file, no COLUMN the end of the line. FILE - reads standard input.",
        epilog="Exit code: 0 with a completion, 1 with none, 2 for wrong use or an unreadable file, "
        "3 when this machine cannot.",
    )
    parser.add_argument("location", metavar="FILE[:LINE[:COLUMN]]")
    parser.add_argument("--filename", metavar="NAME", help="with FILE -: the name that tells the language")
    parser.add_argument(
        "-n",
        dest="candidates",
        metavar="N",
        type=whole_number("-n", 1, _MOST_CANDIDATES),
        default=1,
        help="how many candidates to make (default 1)",
    )
    parser.add_argument("--stream", action="store_true", help="print the text while it is made")
    parser.add_argument("--apply", action="store_true", help="write the completion into the file")
    parser.add_argument("--json", action="store_true", help="print one JSON object with all counts and times")
    parser.add_argument(
        "--in-process", action="store_true", help="run the engine here, without the engine host"
    )
    add_settings(parser)
    parser.set_defaults(run=run, target=_project_target)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Completes and prints. Returns 0 or 1; raises what `failures` describes."""
    target = sourcefile.parse_target(args.location)
    _check(args, target)
    source = sourcefile.SourceFile.read(target.path)
    offset = source.offset(target.line, target.column)
    request = _request(args, settings, target, source, offset)
    with _service(args, settings) as service:
        answer = _Answer(streaming=args.stream)
        result = service.complete(request, answer.on_text, _on_progress)
        status = None if args.json else _status(service)
    if result is None:  # only a request that names a document can be superseded, and ours names none
        raise HostError("the engine host gave no answer: try again")
    if result.warning is not None:
        output.note(f"tokenleap: warning: {' '.join(result.warning.split())}")
    texts = result.candidates if result.candidates is not None else (result.completion,)
    if args.apply and result.completion:  # first, so that a file that cannot be written leaves no result
        source.with_insertion(offset, result.completion).write_atomic()
    if args.json:
        rounded = result.to_json().items()
        output.json({name: round(value, 3) if isinstance(value, float) else value for name, value in rounded})
    else:
        answer.finish(texts)
    if not any(texts):
        output.note(reasons.sentence(result.empty_reason))
        return failures.NOTHING
    if not args.json:
        _say_statistics(result, status)
    return 0


def _project_target(args: argparse.Namespace) -> Path | None:
    path = _path(sourcefile.parse_target(args.location), args.filename)
    return Path(path) if path else None


def _path(target: sourcefile.Target, filename: str | None) -> str | None:
    """The path that tells project and language, absolute; None for standard input without a name."""
    named = filename if target.path == _INPUT else target.path
    return str(Path(named).absolute()) if named else None


def _check(args: argparse.Namespace, target: sourcefile.Target) -> None:
    from_input = target.path == _INPUT
    if from_input and sys.stdin is None:
        raise UsageError("standard input is closed: name a file")
    if from_input and args.apply:
        raise UsageError("--apply needs a file: standard input cannot be written")
    if args.filename and not from_input:
        raise UsageError("--filename goes with FILE -: a file has its own name")
    if args.stream and args.json:
        raise UsageError("--stream and --json exclude each other: choose one")
    if args.candidates > 1 and (args.stream or args.apply):
        raise UsageError("-n with several candidates goes neither with --stream nor with --apply")


def _request(
    args: argparse.Namespace,
    settings: Settings,
    target: sourcefile.Target,
    source: sourcefile.SourceFile,
    offset: int,
) -> CompletionRequest:
    path = _path(target, args.filename)
    prefix, suffix = source.prefix_suffix(offset)
    carried = {field.name for field in dataclasses.fields(CompletionRequest)} & set(SPECS)
    chosen: dict[str, Any] = {name: getattr(settings, name) for name in carried}
    return CompletionRequest(
        prefix=prefix,
        suffix=suffix,
        path=path,
        language=languages.language_of(path) if path else None,
        candidates=args.candidates,
        stream=args.stream,
        **chosen,
    ).windowed()


def _service(args: argparse.Namespace, settings: Settings) -> AbstractContextManager[Service]:
    if not args.in_process:
        return Client.connect(started=args.started)
    from assistant.service.local import LocalService

    return LocalService(started=args.started, store_bytes=settings.prefix_cache_mb * 1024 * 1024)


def _on_progress(step: str, done: int, total: int) -> None:
    output.progress(output.bar(_STEPS.get(step, step), done, total))


class _Answer:
    """Prints the completion, in pieces while it comes when streaming, and always exactly once."""

    def __init__(self, streaming: bool) -> None:
        self._streaming = streaming
        self._printed = ""

    def on_text(self, text: str) -> None:
        if self._streaming:
            output.result(text, newline=False)
            self._printed += text

    def finish(self, texts: tuple[str, ...]) -> None:
        """Prints what of `texts` is not printed yet: exact for a program, its line ended on a terminal."""
        if len(texts) > 1:
            for number, text in enumerate(texts, 1):
                output.result(f"--- {number} of {len(texts)}")
                output.result(text)
            return
        text = texts[0] if texts else ""
        rest = text.removeprefix(self._printed)
        ends_line = output.to_terminal() and text != "" and not text.endswith("\n")
        if rest or ends_line:
            output.result(rest + "\n" if ends_line else rest, newline=False)


def _status(service: Service) -> HostStatus | None:
    try:
        return service.status()
    except TokenleapError:  # a detail of the statistics is not worth failing for
        return None


def _say_statistics(result: CompletionResult, status: HostStatus | None) -> None:
    engine, reason = (status.engine, status.engine_reason) if status else (None, None)
    parts = [
        f"{result.new_tokens} tokens in {result.total_ms:.0f} ms (first {result.first_token_ms:.0f} ms)",
        f"{result.tokens_per_second:.0f} tokens/s",
        f"{result.tokens_per_pass:.1f} tokens per pass",
        f"{result.model} {result.precision}" + (f" {engine}" if engine else ""),
        f"{result.decode} decoding",
        f"prompt {result.prompt_tokens} tokens (reused {result.reused_tokens})",
    ]
    output.note(", ".join(parts))
    if reason is not None and reason.startswith("slow"):
        output.note(f"tokenleap: warning: {' '.join(reason.split())}")
    if result.startup_ms + result.load_ms > _SLOW_START_MS:
        output.note(f"engine started in {result.startup_ms:.0f} ms, model ready in {result.load_ms:.0f} ms")

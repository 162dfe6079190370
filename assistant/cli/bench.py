"""`tokenleap bench ...`: measurements for people to quote. Results are tables, or one object with --json.

Everything heavy is imported by the command that needs it. Measuring runs in this process, not in the engine
host, so that nothing else shares the engine; `memory` looks at a host.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assistant.cli import output
from assistant.cli.flags import Parser, add_settings, whole_number
from assistant.errors import UsageError
from assistant.settings.schema import Settings

_PRECISIONS = ("int8", "fp32")


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Adds `bench` with its commands."""
    parser = subparsers.add_parser("bench", help="measure speed and quality on this machine")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    _register_speed(commands)
    _register_quality(commands)
    _register_makers(commands)


def _add(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    help: str,
    run: Callable[..., int],
    epilog: str = "",
) -> Parser:
    parser = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".", epilog=epilog)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)
    return parser


def _sampled(parser: Parser) -> None:
    parser.add_argument(
        "--limit", type=whole_number("--limit", 1, 10**9), metavar="N", help="a seeded sample of N rows"
    )
    parser.add_argument("--sample-seed", type=whole_number("--sample-seed", 0, 2**31), default=0, metavar="N")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write one JSON line for every single run")


def _register_speed(commands: argparse._SubParsersAction[Parser]) -> None:
    decode = _add(
        commands,
        "decode",
        "compare decoding modes on the same prompts, in turn",
        _decode,
        'Rows of FILE: {"id","prompt"} or {"id","prefix","suffix"}, optional "language", "kind", "path".',
    )
    decode.add_argument("--prompts", type=Path, metavar="FILE", help="JSON lines (default: made as by bench prompts)")
    decode.add_argument("--modes", default="plain,lookup", metavar="MODE,MODE", help="default plain,lookup")
    decode.add_argument("--seeds", metavar="N,N", help="run each prompt with each of these seeds")
    _sampled(decode)
    add_settings(decode, ("model", "precision", "threads", "max_tokens", "temperature", "seed", "draft", "multiline"))

    passes = _add(commands, "pass", "measure one pass by rows, beside the memory's read speed", _pass)
    passes.add_argument("--rounds", type=whole_number("--rounds", 1, 10_000), default=15, metavar="N")
    add_settings(passes, ("model", "precision", "threads"))

    peers = _add(commands, "peers", "compare with llama.cpp on the same model, in turn", _peers)
    peers.add_argument("--setup", action="store_true", help="build llama.cpp into an environment of its own and end")
    peers.add_argument("--python", type=Path, metavar="PATH", help="Python of an environment that has llama_cpp")
    peers.add_argument("--rounds", type=whole_number("--rounds", 1, 10_000), default=7, metavar="N")
    peers.add_argument("--prompts", type=whole_number("--prompts", 1, 1000), default=6, metavar="N")
    add_settings(peers, ("model",))

    memory = _add(commands, "memory", "measure a process's memory and how it holds the weights", _memory)
    memory.add_argument("--pid", type=whole_number("--pid", 1, 2**31), metavar="N", help="default: the engine host")
    memory.add_argument(
        "--context", type=whole_number("--context", 1, 32768), default=2000, metavar="N",
        help="tokens before the cursor of the request sent to the host first (default 2000)",
    )  # fmt: skip
    add_settings(memory, ("model",))

    typing = _add(
        commands,
        "typing",
        "replay somebody typing, over the language server, in real time",
        _typing,
        "Python and TypeScript of the projects that training holds out, where they were fetched; else Python of "
        "installed packages.",
    )
    typing.add_argument(
        "--rounds", type=whole_number("--rounds", 1, 1000), default=1, metavar="N",
        help="recordings of each kind and language (default 1)",
    )  # fmt: skip
    typing.add_argument("--keys", dest="most_keys", type=whole_number("--keys", 1, 10**6), metavar="N",
                        help="at most N of one recording")  # fmt: skip
    add_settings(typing, ("model", "precision", "threads", "decode", "draft", "max_tokens", "multiline", "seed"))

    cancels = _add(
        commands,
        "cancels",
        "type with requests taken back at random moments: answers, memory and the host afterwards",
        _cancels,
    )
    cancels.add_argument("--requests", type=whole_number("--requests", 1, 10**6), default=2000, metavar="N")
    add_settings(cancels, ("model", "precision", "threads", "decode", "draft", "seed"))

    large = _add(commands, "large", "a change and an answer in large files, over the language server", _large)
    add_settings(large, ("model", "precision", "threads", "decode", "draft"))

    interface = _add(commands, "tui", "measure the terminal interface: first paint, and keys while it generates", _tui)
    interface.add_argument(
        "--rounds", type=whole_number("--rounds", 1, 1000), default=5, metavar="N", help="starts of each (default 5)"
    )
    add_settings(interface, ("model", "precision", "threads", "decode"))

    score = _add(commands, "score", "measure this machine in short and add a row to a file", _score)
    score.add_argument("--out", type=Path, metavar="FILE", help="JSON lines to add the row to")
    score.add_argument("--cases", type=Path, metavar="FILE", help="infilling cases, of which 40 are run")
    add_settings(score, ("model", "precision", "threads"))


def _register_quality(commands: argparse._SubParsersAction[Parser]) -> None:
    infill = _add(
        commands,
        "infill",
        "fill holes in files and compare with what stood there",
        _infill,
        'Rows of FILE: {"id","language","path","kind","prefix","middle","suffix"}, or those of HumanEval-Infilling.',
    )
    infill.add_argument("--cases", type=Path, required=True, metavar="FILE", help="JSON lines, plain or gzip")
    infill.add_argument("--precision", dest="precisions", default="int8", metavar="NAME,NAME",
                        help="int8, fp32, or both for a paired comparison")  # fmt: skip
    infill.add_argument(
        "--layout", default="", metavar="NAME+NAME", help="prompt layout, by variants: see docs/bench.md"
    )
    infill.add_argument(
        "--without", action="append", default=[], metavar="NAME", help="leave out a filter; may be repeated"
    )
    infill.add_argument(
        "--whole-lines", action="store_true", help="show holes of whole lines as an empty line with the cursor"
    )
    infill.add_argument(
        "--reuse", action="store_true", help="keep prefixes between cases (faster; median_ms is not cold)"
    )
    infill.add_argument("--no-tests", action="store_true", help="do not run generated programs: pass_at_1 is null")
    infill.add_argument("--decode", default="auto", dest="infill_mode", metavar="MODE", help="default auto")
    _sampled(infill)
    add_settings(infill, ("model", "threads", "max_tokens", "temperature", "seed", "multiline"))

    accuracy = _add(commands, "accuracy", "compare int8 with fp32, token by token, on real code", _accuracy)
    accuracy.add_argument("--tokens", type=whole_number("--tokens", 1, 10**8), default=20_000, metavar="N")
    accuracy.add_argument("--window", type=whole_number("--window", 2, 32768), default=512, metavar="N")
    accuracy.add_argument("--packages", metavar="NAME,NAME", help="installed packages, or stdlib")
    accuracy.add_argument("--transformers", action="store_true", help="compare fp32 with transformers instead")
    add_settings(accuracy, ("model", "threads", "seed"))


def _register_makers(commands: argparse._SubParsersAction[Parser]) -> None:
    for name, what, count in (("edits", "edit prompts", 36), ("prompts", "general prompts", 120)):
        maker = _add(commands, name, f"make {what} out of installed packages, for bench decode", _make)
        maker.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON lines to write")
        maker.add_argument("--count", type=whole_number("--count", 1, 100_000), default=count, metavar="N")
        maker.add_argument("--packages", metavar="NAME,NAME", help="installed packages, or stdlib")
        add_settings(maker, ("seed",))
        maker.set_defaults(maker=name)
    maker = _add(commands, "held-out", "make prompts out of projects that no head was trained on", _make_held_out)
    maker.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON lines to write")
    maker.add_argument("--count", type=whole_number("--count", 1, 100_000), default=200, metavar="N")
    add_settings(maker, ("seed",))


# -- running


def _finite(value: Any) -> Any:
    """JSON has no NaN: what could not be measured is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _show(args: argparse.Namespace, found: dict[str, Any], table: Callable[[dict[str, Any]], str]) -> int:
    if args.json:
        output.json(_finite(found))
    else:
        output.result(table(found))
    return 0


def _progress(stage: str, done: int, total: int) -> None:
    output.progress(output.bar(stage, done, total))


def _words(text: str, option: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError(f"{option} needs at least one name; separate several by commas.")
    return words


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(word) for word in _words(text, option)]
    except ValueError:
        raise UsageError(f"{option} cannot be {text!r}; give whole numbers, separated by commas.") from None


class _Log:
    """Rows of single runs, written as they come, so that an interrupted run keeps what it measured."""

    def __init__(self, path: Path | None) -> None:
        self._file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="utf-8", newline="\n")

    def __call__(self, row: dict[str, Any]) -> None:
        if self._file is not None:
            import json

            self._file.write(json.dumps(_finite(row), ensure_ascii=False) + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _decode(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import completion, decode, prompts, rows, tables

    modes = _words(args.modes, "--modes")
    seeds = _numbers(args.seeds, "--seeds") if args.seeds else [settings.seed]
    chosen = rows.read_prompts(args.prompts) if args.prompts else [rows.prompt(row) for row in prompts.build()]
    chosen = rows.sample(chosen, args.limit, args.sample_seed)
    product = completion.Product.load(settings.model, settings.precision, settings.threads, _progress)
    options = completion.Options.of(settings)
    log = _Log(args.out)
    try:
        found = decode.measure(
            chosen,
            modes,
            lambda row, mode, seed: product.decode(row, mode, seed, options),
            seeds,
            output.progress,
            log,
        )
    finally:
        log.close()
    return _show(args, found | {"engine": product.model.plan.path, "precision": settings.precision}, tables.decode)


def _pass(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import model, passes, tables

    loaded = model.load(settings.model, settings.precision, settings.threads, _progress)
    return _show(args, passes.measure(loaded, args.rounds, report=output.progress), tables.passes)


def _peers(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import peers, tables

    if args.setup:
        output.note(f"llama.cpp is ready: {peers.set_up(output.note)}")
        return 0
    found = peers.measure(
        settings.model,
        python=args.python,
        rounds=args.rounds,
        prompt_count=args.prompts,
        report=output.progress,
    )
    return _show(args, found, tables.peers)


def _memory(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import host_memory, memory, tables

    found = memory.of_process(args.pid) if args.pid else host_memory.measure(settings.model, args.context)
    return _show(args, found, tables.plain)


def _recordings(rounds: int, seed: int) -> list[Any]:
    """Keystrokes of each kind in each language."""
    from assistant.bench import keystrokes
    from assistant.cli import held_out

    recordings = []
    for language in keystrokes.LANGUAGES:
        kinds = [kind for _ in range(rounds) for kind in keystrokes.KINDS]
        made = list(keystrokes.record(held_out.texts(language, seed), kinds, seed))
        if not made:
            output.note(f"no {language}: the sources that training holds out are not on this machine")
        recordings += made
    return recordings


def _typing(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import tables, typing_replay

    recordings = _recordings(args.rounds, settings.seed)
    found = typing_replay.measure(recordings, settings, settings.seed, args.most_keys, output.progress)
    return _show(args, found, tables.typing)


def _cancels(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import cancels, tables

    recordings = _recordings(2, settings.seed)
    found = cancels.measure(recordings, settings, args.requests, settings.seed, output.progress)
    return _show(args, found, tables.plain)


def _large(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import large, tables

    return _show(args, large.measure(settings, report=output.progress), tables.plain)


def _tui(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import interface, tables
    from assistant.service.protocol import CompletionRequest

    request = CompletionRequest(
        "", language="python", model=settings.model, precision=settings.precision, device=settings.device,
        threads=settings.threads, decode=settings.decode,
    )  # fmt: skip
    return _show(args, interface.measure(args.rounds, request, output.progress), tables.plain)


def _score(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import score, tables

    row = score.measure(settings, args.cases, output.progress, _progress)
    if args.out is not None:
        score.append(args.out, _finite(row))
    return _show(args, row, tables.plain)


def _infill(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import completion, infill, rows, tables

    names = _words(args.precisions, "--precision")
    if unknown := [name for name in names if name not in _PRECISIONS]:
        raise UsageError(f"--precision cannot be {unknown[0]!r}; choose from {', '.join(_PRECISIONS)}.")
    cases = rows.sample(rows.read_cases(args.cases, whole_lines=args.whole_lines), args.limit, args.sample_seed)
    options = completion.Options.of(
        settings, layout=completion.layout(args.layout), without=tuple(args.without), reuse=args.reuse
    )
    runs = {}
    for name in names:
        product = completion.Product.load(settings.model, name, settings.threads, _progress)
        runs[name] = product.infiller(args.infill_mode, options)
    log = _Log(args.out)
    try:
        found = infill.measure(cases, runs, output.progress, log, tests=not args.no_tests)
    finally:
        log.close()
    return _show(args, found | {"layout": args.layout or "default", "whole_lines": args.whole_lines}, tables.infill)


def _accuracy(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import accuracy, tables

    packages = _words(args.packages, "--packages") if args.packages else accuracy.PACKAGES
    if args.transformers:
        from assistant.bench import reference

        found = reference.measure(settings.model, packages, settings.seed, settings.threads, output.progress)
    else:
        found = accuracy.measure(
            settings.model,
            args.tokens,
            packages,
            args.window,
            settings.seed,
            settings.threads,
            output.progress,
        )
    return _show(args, found, tables.plain)


def _make_held_out(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import rows, tables
    from assistant.training import corpus, prompts

    files = corpus.files(corpus.default_folder(), held_out=True)
    if not files:
        raise UsageError("the corpus is not on this machine: run `tokenleap train --only collect` first")
    made = prompts.build(corpus.sample(files, settings.seed), args.count, settings.seed)
    rows.write_jsonl(args.out, made)
    found = {"rows": len(made), "seed": settings.seed, "out": str(args.out)}
    for field in ("kind", "language"):
        found[field] = {name: sum(row[field] == name for row in made) for name in sorted({r[field] for r in made})}
    return _show(args, found, tables.plain)


def _make(args: argparse.Namespace, settings: Settings) -> int:
    from assistant.bench import edits, prompts, rows, sources, tables

    module: Any = edits if args.maker == "edits" else prompts
    packages = _words(args.packages, "--packages") if args.packages else module.PACKAGES
    made = module.build(args.count, settings.seed, packages)
    rows.write_jsonl(args.out, made)
    kinds: dict[str, int] = {}
    for row in made:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + 1
    found = {
        "rows": len(made),
        "kinds": kinds,
        "sources": {package: sources.version(package) for package in packages},
        "seed": settings.seed,
        "out": str(args.out),
    }
    return _show(args, found, tables.plain)

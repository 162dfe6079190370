"""`tokenleap stats`: what was suggested, shown and accepted on this machine, today, in 7 days and in all.

Read from the statistics file that the language server writes; nothing is sent anywhere and nothing of the code
is in it. Exit 0 also when nothing was counted yet.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from assistant.cli import output
from assistant.cli.flags import Parser
from assistant.service import history
from assistant.service.figures import STAGES
from assistant.service.history import KEPT_SECONDS, History
from assistant.service.reasons import SENTENCES
from assistant.settings.schema import Settings

_DAY = 86400
_COUNTS = {
    "answers": "answers",
    "suggestions": "with a suggestion",
    "shown": "shown",
    "accepted": "accepted",
    "partly_accepted": "partly accepted",
    "dismissed": "dismissed",
}
_SOURCES = {
    "model": "from the model",
    "running": "from a running answer",
    "type_through": "typed along with",
    "cache": "asked before or prepared",
}
_REASONS_SHOWN = 8

Figures = dict[str, Any]


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Adds `stats`."""
    parser = subparsers.add_parser(
        "stats",
        help="show what was suggested and accepted on this machine",
        description="Shows what was suggested, shown and accepted on this machine. Nothing of your code is "
        "stored; 'tokenleap config set statistics false' ends the counting.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Prints the figures. Returns 0."""
    file = history.file()
    opened = History.open(enabled=file.exists())
    try:
        spans = {name: opened.summary(since) for name, since in _spans(time.time()).items()}
    finally:
        opened.close()
    if args.json:
        output.json({"statistics": settings.statistics, "file": str(file), **spans})
        return 0
    if not spans["all"]["answers"]:
        output.result("nothing was counted yet: the language server counts while you work")
    else:
        output.result("\n".join(_lines(spans)))
    if not settings.statistics:
        output.note("counting is off: 'tokenleap config set statistics true' turns it on")
    return 0


def _spans(now: float) -> dict[str, float]:
    """Where each span begins, in seconds since 1970."""
    day = time.localtime(now)
    midnight = time.mktime((*day[:3], 0, 0, 0, 0, 0, -1))
    return {"today": midnight, "7_days": now - 7 * _DAY, "all": 0.0}


def _lines(spans: dict[str, Figures]) -> list[str]:
    all_spans, whole = spans.values(), spans["all"]
    lines = [_row("", [name.replace("_", " ") for name in spans])]
    lines += [_row(words, [f"{span[name]:,}" for span in all_spans]) for name, words in _COUNTS.items()]
    lines += [
        _row("accepted of those shown", [_percent(span["accepted_share"]) for span in all_spans]),
        _row("characters accepted", [f"{span['characters']['accepted']:,}" for span in all_spans]),
        _row(f"still there after {KEPT_SECONDS:.0f} s", [_percent(span["kept_share"]) for span in all_spans]),
        _row("drafted tokens accepted", [_percent(span["tokens_accepted_share"]) for span in all_spans]),
        _row("prompt tokens reused", [_percent(span["tokens_reused_share"]) for span in all_spans]),
    ]
    lines += ["", "milliseconds to an answer, median / 95%"]
    lines += [
        _row(f"  {words}", [_spread(span["by_source"].get(name)) for span in all_spans])
        for name, words in _SOURCES.items()
        if name in whole["by_source"]
    ]
    lines += ["", "milliseconds of each stage, median / 95%"]
    lines += [
        _row(f"  {name.replace('_', ' ')}", [_spread(span["stages_ms"][name]) for span in all_spans])
        for name in STAGES
        if whole["stages_ms"][name]["n"]
    ]
    if whole["empty"]:
        lines += ["", "answers without a suggestion, in all"]
        shown = list(whole["empty"].items())
        lines += [
            f"{count:>8,}  {SENTENCES.get(code, code)}" for code, count in shown[:_REASONS_SHOWN]
        ]
        rest = sum(count for _, count in shown[_REASONS_SHOWN:])
        lines += [f"{rest:>8,}  other reasons"] if rest else []
    return lines


def _row(words: str, cells: list[str]) -> str:
    return f"{words:<28}" + "".join(f"{cell:>16}" for cell in cells)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _spread(figures: Figures | None) -> str:
    return f"{figures['median_ms']:.0f} / {figures['p95_ms']:.0f}" if figures and figures["n"] else "-"

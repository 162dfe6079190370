"""`tokenleap train`: collects data, trains a draft head, installs it for this user. Each stage resumes after a kill."""

from __future__ import annotations

import argparse
from pathlib import Path

from assistant.cli import output
from assistant.cli.flags import Parser, add_settings, whole_number
from assistant.settings.schema import Settings

STAGES = ("collect", "fit", "finish")


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Adds `train`."""
    parser = subparsers.add_parser(
        "train",
        help="train a draft head for a model",
        description="Trains a draft head: fetches open-source code, lets the model read it, trains, measures on "
        "projects kept aside, and installs the head for this user. Stop it at any time; the same command goes on.",
    )
    parser.add_argument("--tokens", metavar="N", type=whole_number("--tokens", 1, 10**9), default=500_000)
    parser.add_argument("--minutes", metavar="N", type=whole_number("--minutes", 1, 10**6), default=120)
    parser.add_argument("--only", choices=STAGES, help="one stage alone")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the head (default: the data folder)")
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="try it all out in seconds, on a tiny model made on the spot; nothing is left behind but what --out names",
    )
    add_settings(parser, ("model",))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Runs the stages, reporting each step on standard error."""
    from assistant.models import heads
    from assistant.training import run as stages
    from assistant.training.fit import Recipe
    from assistant.training.smoke import SmokePlan

    smoke = SmokePlan() if args.smoke else None
    plan = smoke or stages.Plan(settings.model, args.tokens, Recipe(minutes=args.minutes))
    wanted = STAGES if args.only is None else (args.only,)
    if "collect" in wanted:
        stages.gather(plan, output.note)
    if "fit" in wanted:
        stages.train(plan, output.note)
    if "finish" in wanted:
        path = args.out or (smoke.folder / "head.safetensors" if smoke else heads.own(plan.entry.id))
        found = stages.finish(plan, path, output.note)
        output.note(" / ".join(f"{100 * share:.1f}%" for share in found.shares) + " accepted at positions 1, 2, ..")
        if smoke:
            smoke.remove()
    return 0

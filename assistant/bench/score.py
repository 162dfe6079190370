"""`tokenleap bench score`: one row that sums up this version on this machine, for a file that grows.

Short versions of pass, decode and memory, a few minutes in all; with --cases also infill. Rows of different
machines are not comparable, so each carries the machine and the commit.
"""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from assistant.bench import completion, decode, edits, host_memory, infill, passes, rows
from assistant.models.parts import Progress
from assistant.settings.schema import Settings

EDITS = 6  # prompts
CASES = 40

Report = Callable[[str], None]


def _commit() -> str | None:
    """The commit of the checkout that this module lies in, with "+" when files differ from it; None
    elsewhere.
    """
    here = Path(__file__).parent
    words = ["git", "describe", "--always", "--abbrev=12", "--dirty=+"]
    try:
        done = subprocess.run(words, cwd=here, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def measure(
    settings: Settings,
    cases: Path | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The row. `cases`: infilling cases, of which a seeded sample is run."""
    product = completion.Product.load(settings.model, settings.precision, settings.threads, progress)
    options = completion.Options.of(settings)
    one = passes.measure(product.model, rounds=9, report=report)
    prompts = [rows.prompt(row) for row in edits.build(EDITS)]
    modes = decode.measure(
        prompts, ["lookup"], lambda row, mode, seed: product.decode(row, mode, seed, options), report=report
    )
    filled = None
    if cases is not None:
        chosen = rows.sample(rows.read_cases(cases), CASES, 0)
        filled = infill.measure(chosen, {settings.precision: product.infiller("auto", options)}, report)["overall"]
    held = host_memory.measure(settings.model)
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "version": metadata.version("tokenleap"),
        "commit": _commit(),
        "machine": {
            "processor": _processor(),
            "threads": product.model.plan.threads,
            "engine": product.model.plan.path,
        },
        "model": settings.model,
        "precision": settings.precision,
        "pass": {
            name: one[name]
            for name in (
                "rows_ms",
                "prefill_tokens_per_second",
                "read_gb_s",
                "read_share",
                "five_rows_to_one",
            )
        },
        "decode": {
            "prompts": modes["prompts"],
            "plain_tokens_per_second": modes["modes"]["plain"]["tokens_per_second"],
            "lookup_tokens_per_pass": modes["modes"]["lookup"]["tokens_per_pass"],
            "lookup_ratio": modes["ratios"]["lookup"],
            "identical_to_plain": modes["modes"]["lookup"]["identical_to_plain"],
        },
        "infill": filled,
        "memory": {
            "host_peak_bytes": held["host"]["peak_resident_bytes"],
            "host_weights_shared": held["host"]["weights"]["shared"],
            "client_peak_bytes": held["client"]["peak_resident_bytes"],
            "context": held["context"],
        },
    }


def append(path: Path, row: dict[str, Any]) -> None:
    """Add the row to a JSON lines file, which is made when missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps(row) + "\n")

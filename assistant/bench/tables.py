"""Bench results as text for people: one small table each. Programs take `--json` instead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any


def cell(value: object) -> str:
    """A value in few characters; what is missing or no number is a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        size = abs(value)
        return f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned columns, the first to the left and the others to the right."""
    lines = [list(head), *([cell(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def decode(found: dict[str, Any]) -> str:
    """Modes line by line."""
    head = ("mode", "tok/s", "tok/pass", "x decode", "x total", "identical")
    rows = [
        (
            mode,
            values["tokens_per_second"],
            values["tokens_per_pass"],
            found["ratios"].get(mode, 1.0),
            found["ratios_total"].get(mode, 1.0),
            f"{values['identical_to_plain']}/{found['prompts']}",
        )
        for mode, values in found["modes"].items()
    ]
    return table(head, rows)


def typing(found: dict[str, Any]) -> str:
    """Times by where the answer came from, and what it cost."""
    rows = [(name, values["n"], values["median_ms"], values["p95_ms"]) for name, values in found.items()
            if isinstance(values, dict)]  # fmt: skip
    rest = {name: value for name, value in found.items() if not isinstance(value, dict)}
    return "\n".join((table(("answer", "n", "median ms", "p95 ms"), rows), plain(rest)))


def passes(found: dict[str, Any]) -> str:
    """What a pass costs by rows, and how near one row is to the memory's speed."""
    rows = [(count, ms, ms / found["rows_ms"]["1"]) for count, ms in found["rows_ms"].items()]
    return "\n".join(
        (
            table(("rows", "ms", "x one row"), rows),
            f"prefill {cell(found['prefill_tokens_per_second'])} tokens/s at {found['context']} tokens",
            f"one row reads {cell(found['weight_bytes'] / 1e6)} MB at {cell(found['one_row_gb_s'])} GB/s, "
            f"{cell(100 * found['read_share'])}% of the memory's {cell(found['read_gb_s'])} GB/s",
            f"{found['engine']}, {found['threads']} threads, {found['model']} {found['precision']}",
        )
    )


_MEASURES = (
    "cases",
    "shown",
    "exact_match",
    "first_line_match",
    "edit_similarity",
    "valid",
    "pass_at_1",
    "median_ms",
)


def infill(found: dict[str, Any]) -> str:
    """Measures of each precision, then by kind and language, then what the pairing says."""
    groups = found.get("precisions") or {found["precision"]: found}
    rows: list[tuple[object, ...]] = []
    for name, group in groups.items():
        rows.append((name, *(group["overall"][measure] for measure in _MEASURES)))
        for part in ("by_kind", "by_language"):
            if len(group[part]) > 1:
                rows += [
                    (f"  {key}", *(values[measure] for measure in _MEASURES)) for key, values in group[part].items()
                ]
    lines = [table(("", *_MEASURES), rows)]
    for name, pair in found.get("paired", {}).items():
        differences = [
            (measure, value["difference"], *value["interval"])
            for measure, value in pair.items()
            if isinstance(value, dict)
        ]
        lines += ["", table((name, "difference", "low", "high"), differences)]
    return "\n".join(lines)


def peers(found: dict[str, Any]) -> str:
    """Contestants line by line, then the ratios."""
    names = [name for name, values in found.items() if isinstance(values, dict) and "build" in values]
    counts = list(found[names[0]]["rows_ms"])
    head = ("", "threads", "prefill tok/s", "decode tok/s", *(f"{count} rows ms" for count in counts))
    rows = [
        (
            name,
            found[name]["threads"],
            found[name]["prefill_tokens_per_second"],
            found[name]["decode_tokens_per_second"],
            *found[name]["rows_ms"].values(),
        )
        for name in names
    ]
    lines = [table(head, rows)]
    lines += [
        f"x {name}: prefill {ratio['prefill']}, decode {ratio['decode']}" for name, ratio in found["ratios"].items()
    ]
    lines += [f"{name}: {found[name]['build']}" for name in names]
    return "\n".join(lines)


def plain(found: dict[str, Any], indent: str = "") -> str:
    """Names and values line by line, for results that need no table."""
    lines = []
    for name, value in found.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}", plain(value, indent + "  ")]
        elif isinstance(value, list | tuple):
            lines.append(f"{indent}{name}: {', '.join(cell(item) for item in value)}")
        else:
            lines.append(f"{indent}{name}: {cell(value)}")
    return "\n".join(lines)

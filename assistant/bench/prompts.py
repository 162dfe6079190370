"""General prompts: real places in packaged sources where somebody could be typing, by a seeded draw.

Four kinds: "line" (inside a line, its rest is missing), "lines" (one to six whole lines are missing), "block"
(the body of a function is missing) and "end" (left to right: nothing follows yet). Python from the named
packages, C++ from torch's headers. "expected" is what stood there. The same versions and seed give the same
rows.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from typing import Any

from assistant.bench import sources

PACKAGES = (sources.STDLIB, "numpy", "torch", "transformers")
KINDS = ("line", "lines", "block", "end")
HEADERS = "include/c10"
BEFORE, AFTER = 1_600, 700  # characters


def build(
    count: int = 120, seed: int = 0, packages: Sequence[str] = PACKAGES, headers: bool = True
) -> list[dict[str, Any]]:
    """`count` rows `{"id", "prefix", "suffix", "language", "kind", "path", "package", "expected"}`, one a
    file.

    Every ninth is C++ when torch's headers are there. Fewer rows when there are not that many files.
    """
    generator = random.Random(seed)
    python = sources.drawn(packages, seed)
    cpp = sources.drawn(["torch"] if headers and "torch" in packages else [], seed, (".h",), HEADERS)
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        number = len(rows)
        kind = KINDS[number % len(KINDS)]
        source = next(cpp, None) if number % 9 == 8 else None
        use_cpp = source is not None
        source = source or next(python, None)
        if source is None:
            break
        if use_cpp and kind == "block":
            kind = "lines"
        cut = _block(source.text, generator) if kind == "block" else _lines(source.text, kind, generator)
        if cut is None:
            continue
        start, end = cut
        suffix = "" if kind == "end" else _until_line_end(source.text[end:], AFTER)
        rows.append(
            {
                "id": f"{kind}-{number + 1:03}",
                "prefix": _from_line_start(source.text[:start], BEFORE),
                "suffix": suffix,
                "language": "cpp" if use_cpp else "python",
                "kind": kind,
                "path": source.path,
                "package": source.package,
                "expected": source.text[start:end],
            }
        )
    return rows


def _from_line_start(text: str, size: int) -> str:
    """The end of `text` from a line start, at most `size` characters."""
    if len(text) <= size:
        return text
    return text[text.find("\n", len(text) - size) + 1 :]


def _until_line_end(text: str, size: int) -> str:
    """The beginning of `text` to a line end, at most `size` characters (one whole line at least)."""
    if len(text) <= size:
        return text
    end = text.rfind("\n", 0, size)
    return text[: end + 1] if end >= 0 else text[: text.find("\n") + 1]


def _starts(lines: list[str]) -> list[int]:
    starts, at = [], 0
    for line in lines:
        starts.append(at)
        at += len(line)
    return starts


def _code(line: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= 12 and stripped[0] not in "#/*\"'" and line.startswith((" ", "\t"))


def _lines(text: str, kind: str, generator: random.Random) -> tuple[int, int] | None:
    """A hole of part of a line, or of one to six whole indented lines; None where there is no such place."""
    lines = text.splitlines(keepends=True)
    starts = _starts(lines)
    places = [number for number in range(12, len(lines) - 8) if _code(lines[number])]
    if not places:
        return None
    at = generator.choice(places)
    line = lines[at].rstrip("\n")
    indent = len(line) - len(line.lstrip())
    if kind == "line":
        breaks = [column for column in range(indent + 3, len(line) - 3) if line[column - 1] in " (.,=["]
        column = generator.choice(breaks) if breaks else indent
        return starts[at] + column, starts[at] + len(line)
    last = min(at + generator.randint(1, 6), len(lines)) - 1
    while last > at and not lines[last].strip():
        last -= 1
    return starts[at] + indent, starts[last] + len(lines[last].rstrip("\n"))


def _block(text: str, generator: random.Random) -> tuple[int, int] | None:
    """A hole of a function's body after its docstring, two to fourteen lines long."""
    if not text.isascii():
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    starts = _starts(text.splitlines(keepends=True))
    holes = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
        if not body or body[0].lineno == node.lineno or getattr(body[0], "decorator_list", []):
            continue
        first, last = body[0], body[-1]
        if last.end_lineno is None or last.end_col_offset is None or not 1 <= last.end_lineno - first.lineno <= 13:
            continue
        holes.append((starts[first.lineno - 1] + first.col_offset, starts[last.end_lineno - 1] + last.end_col_offset))
    return generator.choice(holes) if holes else None

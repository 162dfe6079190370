"""Edit prompts: places where the text to come largely stands above already, as when somebody reworks code.

Three kinds, cut from packaged sources by a seeded draw: "rename" (a function and below it the start of the
same one with a variable renamed), "repeat" (the second of two alike neighbours in a real file, as it stands
there), "docstring" (a function and below it the same one with its description shortened). "expected" is what
should follow; judges of speed do not need it. The same versions of the packages and the same seed give the
same rows.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import itertools
import keyword
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from assistant.bench import sources

PACKAGES = (sources.STDLIB, "numpy", "torch", "transformers")
KINDS = ("rename", "repeat", "docstring")
BEFORE, AFTER = 600, 600  # characters of the file around the functions
EXPECTED = (160, 900)  # characters that should follow the cursor
_ALIKE = (0.72, 0.985)

_NEW_NAMES = {
    "args": "arguments", "data": "payload", "result": "outcome", "results": "outcomes",
    "value": "entry", "values": "entries", "name": "label", "names": "labels", "key": "lookup",
    "path": "location", "line": "row", "lines": "rows", "text": "content", "index": "position",
    "size": "length", "node": "vertex", "file": "stream", "filename": "file_path", "items": "elements",
    "item": "element", "res": "outcome", "ret": "outcome", "msg": "message", "tensor": "array",
    "inputs": "features", "input": "source", "output": "target", "hidden_states": "features",
    "config": "options", "parser": "reader", "func": "function", "module": "component",
}  # fmt: skip

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def build(count: int = 36, seed: int = 0, packages: Sequence[str] = PACKAGES) -> list[dict[str, Any]]:
    """`count` rows `{"id", "prefix", "suffix", "language", "kind", "path", "package", "expected"}`, kinds in
    equal parts.

    Fewer when the packages do not hold that many.
    """
    makers: dict[str, Callable[[sources.SourceText, random.Random], dict[str, Any] | None]] = {
        "rename": _rename,
        "repeat": _repeat,
        "docstring": _docstring,
    }
    files = sources.drawn(packages, seed)
    generator = random.Random(seed)
    wanted = {kind: (count + place) // len(KINDS) for place, kind in enumerate(reversed(KINDS))}
    rows: list[dict[str, Any]] = []
    for source in files:
        # One row a file at most, of the kind that is furthest behind, so that no file or kind fills the set.
        for kind in sorted(KINDS, key=lambda kind: wanted[kind], reverse=True):
            if wanted[kind] <= 0:
                continue
            row = makers[kind](source, generator)
            if row is not None:
                wanted[kind] -= 1
                rows.append(row | {"language": "python", "kind": kind, "path": source.path, "package": source.package})
                break
        if not any(left > 0 for left in wanted.values()):
            break
    order = {kind: place for place, kind in enumerate(KINDS)}
    rows.sort(key=lambda row: order[row["kind"]])
    return [{"id": f"{row['kind']}-{number:03}", **row} for number, row in enumerate(rows, start=1)]


# -- pieces of a file


def _parse(text: str) -> ast.Module | None:
    if not text.isascii():  # columns of the syntax tree count bytes; ASCII makes them characters
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _functions(tree: ast.Module) -> Iterator[_Function]:
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            yield node


def _span(node: _Function) -> tuple[int, int]:
    """First and last line, 0-based and half-open, decorators included."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return first - 1, node.end_lineno or node.lineno


def _before(lines: list[str], end: int) -> str:
    """Whole lines before `end`, at most BEFORE characters."""
    start, size = end, 0
    while start > 0 and size + len(lines[start - 1]) <= BEFORE:
        start -= 1
        size += len(lines[start])
    return "".join(lines[start:end])


def _after(lines: list[str], start: int) -> str:
    """Whole lines from `start`, at most AFTER characters."""
    end, size = start, 0
    while end < len(lines) and size + len(lines[end]) <= AFTER:
        size += len(lines[end])
        end += 1
    return "".join(lines[start:end])


def _cut(text: str, lines_kept: int) -> tuple[str, str] | None:
    """`text` cut at the first code column of line `lines_kept`: what is typed (indentation too), what is to
    come.
    """
    lines = text.splitlines(keepends=True)
    if lines_kept >= len(lines):
        return None
    rest = lines[lines_kept]
    indent = rest[: len(rest) - len(rest.lstrip(" "))]
    if not rest.strip():
        return None
    expected = ("".join(lines[lines_kept:]))[len(indent) :].rstrip("\n")
    if not EXPECTED[0] <= len(expected) <= EXPECTED[1]:
        return None
    return "".join(lines[:lines_kept]) + indent, expected


def _second_version(
    lines: list[str], span: tuple[int, int], comment: str, new: str, lines_kept: int
) -> dict[str, Any] | None:
    """The row that shows the function as it is, then `comment` and the first lines of its `new` version."""
    cut = _cut(new, lines_kept)
    if cut is None:
        return None
    typed, expected = cut
    start, end = span
    indent = lines[start][: len(lines[start]) - len(lines[start].lstrip(" "))]
    gap = "\n" if indent else "\n\n"
    old = "".join(lines[start:end])
    prefix = f"{_before(lines, start)}{old}{gap}{indent}# {comment}\n{typed}"
    return {"prefix": prefix, "suffix": "\n" + _after(lines, end), "expected": expected}


# -- the three kinds


def _renamed(function: _Function, lines: list[str], old: str, new: str) -> str:
    """The function's text with every use of the variable `old` called `new`; strings and comments stay."""
    start, end = _span(function)
    places = []
    for node in ast.walk(function):
        if (isinstance(node, ast.Name) and node.id == old) or (isinstance(node, ast.arg) and node.arg == old):
            places.append((node.lineno - 1, node.col_offset))
    changed = list(lines)
    for line, column in sorted(places, reverse=True):
        text = changed[line]
        if text[column : column + len(old)] != old:  # inside an f-string, whose columns older interpreters do not give
            return ""
        changed[line] = text[:column] + new + text[column + len(old) :]
    return "".join(changed[start:end])


def _variables(function: _Function) -> dict[str, int]:
    """Local names worth renaming, with how often they are used."""
    uses: dict[str, int] = {}
    bound = {argument.arg for argument in [*function.args.posonlyargs, *function.args.args]}
    outside: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            uses[node.id] = uses.get(node.id, 0) + 1
            if isinstance(node.ctx, ast.Store):
                bound.add(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            outside.update(node.names)
        elif isinstance(node, ast.keyword) and node.arg:
            outside.add(node.arg)
    return {
        name: number
        for name, number in uses.items()
        if name in bound and name not in outside and len(name) >= 3 and not name.startswith("_")
        and not hasattr(builtins, name) and name not in ("self", "cls")
    }  # fmt: skip


def _rename(source: sources.SourceText, generator: random.Random) -> dict[str, Any] | None:
    tree = _parse(source.text)
    if tree is None:
        return None
    lines = source.text.splitlines(keepends=True)
    candidates = [node for node in _functions(tree) if 9 <= _span(node)[1] - _span(node)[0] <= 36]
    generator.shuffle(candidates)
    for function in candidates:
        variables = {name: number for name, number in _variables(function).items() if number >= 4}
        if not variables:
            continue
        old = max(variables, key=lambda name: (variables[name], name))
        new = _NEW_NAMES.get(old, f"current_{old}" if not old.endswith("s") else f"all_{old}")
        start, end = _span(function)
        text = "".join(lines[start:end])
        if new in text or keyword.iskeyword(new):
            continue
        changed = _renamed(function, lines, old, new)
        if not changed or _parse(_dedented(changed)) is None:
            continue
        # The cursor stands after the first line of the body that carries the new name, as after typing it
        # once.
        first = _body_line(function) - start
        named = next(
            (number for number, line in enumerate(changed.splitlines()) if number >= first and new in line),
            None,
        )
        statement_ends = {(node.end_lineno or 0) - start for node in function.body}
        if named is None or named + 1 not in statement_ends:
            continue
        row = _second_version(lines, (start, end), f"The same with `{old}` renamed to `{new}`.", changed, named + 1)
        if row is not None and row["expected"].count(new) >= 2:
            return row
    return None


def _dedented(text: str) -> str:
    lines = text.splitlines(keepends=True)
    indent = len(lines[0]) - len(lines[0].lstrip(" "))
    return "".join(line[indent:] if line[:indent].isspace() else line for line in lines)


def _body_line(function: _Function) -> int:
    """0-based line of the first statement that is not the docstring."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    if not body:
        return function.end_lineno or function.lineno
    decorators = getattr(body[0], "decorator_list", [])
    first: int = min([body[0].lineno, *(decorator.lineno for decorator in decorators)])
    return first - 1


def _neighbours(tree: ast.Module) -> Iterator[tuple[_Function, _Function]]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        functions = [child for child in body if isinstance(child, _Function)]
        yield from itertools.pairwise(functions)


def _repeat(source: sources.SourceText, generator: random.Random) -> dict[str, Any] | None:
    tree = _parse(source.text)
    if tree is None:
        return None
    lines = source.text.splitlines(keepends=True)
    pairs = list(_neighbours(tree))
    generator.shuffle(pairs)
    for first, second in pairs:
        (a, b), (c, d) = _span(first), _span(second)
        if not (5 <= b - a <= 36 and 5 <= d - c <= 36 and 0 <= c - b <= 3):
            continue
        one, two = "".join(lines[a:b]), "".join(lines[c:d])
        alike = difflib.SequenceMatcher(None, one, two, autojunk=False).ratio()
        if not _ALIKE[0] <= alike <= _ALIKE[1]:
            continue
        cut = _cut(two, _body_line(second) - c)
        if cut is None:
            continue
        typed, expected = cut
        prefix = _before(lines, a) + "".join(lines[a:c]) + typed
        return {"prefix": prefix, "suffix": "\n" + _after(lines, d), "expected": expected}
    return None


def _docstring(source: sources.SourceText, generator: random.Random) -> dict[str, Any] | None:
    tree = _parse(source.text)
    if tree is None:
        return None
    lines = source.text.splitlines(keepends=True)
    candidates = [node for node in _functions(tree) if 9 <= _span(node)[1] - _span(node)[0] <= 44]
    generator.shuffle(candidates)
    for function in candidates:
        docstring = ast.get_docstring(function)
        if docstring is None or docstring.count("\n") < 2 or len(function.body) < 3 or '"""' in docstring:
            continue
        sentence = " ".join(docstring.split("\n\n")[0].split()).split(". ")[0].rstrip(".")
        if not 12 <= len(sentence) <= 80 or "\\" in sentence:
            continue
        start, end = _span(function)
        head, body = function.body[0], _body_line(function)
        signature = "".join(lines[start : head.lineno - 1])
        if head.lineno - 1 <= function.lineno - 1 or not signature.rstrip().endswith(":"):
            continue
        indent = " " * head.col_offset
        new = f'{signature}{indent}"""{sentence}."""\n{"".join(lines[body:end])}'
        kept = signature.count("\n") + 1
        row = _second_version(lines, (start, end), "The same, described in one line.", new, kept)
        if row is not None:
            return row
    return None

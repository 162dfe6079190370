"""Prompts come out of the standard library, the same for the same seed, and fit the files they are of."""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from typing import Any

import pytest

from assistant.bench import edits, prompts, sources
from assistant.errors import UsageError

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def made() -> Rows:
    return edits.build(12, seed=5, packages=[sources.STDLIB])


def test_edit_prompts_are_of_all_kinds_and_the_same_again(made: Rows) -> None:
    assert made == edits.build(12, seed=5, packages=[sources.STDLIB])
    assert Counter(row["kind"] for row in made) == dict.fromkeys(edits.KINDS, 4)
    assert len({row["id"] for row in made}) == len({row["path"] for row in made}) == 12
    assert made != edits.build(12, seed=6, packages=[sources.STDLIB])


def test_what_should_follow_an_edit_stands_largely_above(made: Rows) -> None:
    for row in made:
        above, expected = row["prefix"].splitlines(), row["expected"].splitlines()
        near = [bool(difflib.get_close_matches(line, above, 1)) for line in expected if line.strip()]
        assert sum(near) >= 0.6 * len(near), row["id"]


def test_a_renamed_function_is_sound_and_wholly_renamed(made: Rows) -> None:
    found = 0
    for row in made:
        if row["kind"] != "rename":
            continue
        found += 1
        before, _, after = row["prefix"].rpartition("# The same with `")
        old, new = after.split("` renamed to `")[0], after.split("` renamed to `")[1].split("`")[0]
        function = after.split("\n", 1)[1] + row["expected"]
        indent = len(function) - len(function.lstrip(" "))
        text = "\n".join(line[indent:] for line in function.split("\n"))
        names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        assert new in names and old not in names and old in before
    assert found == 4


def test_general_prompts_are_real_places() -> None:
    made = prompts.build(24, seed=3, packages=[sources.STDLIB])
    assert made == prompts.build(24, seed=3, packages=[sources.STDLIB])
    assert Counter(row["kind"] for row in made) == dict.fromkeys(prompts.KINDS, 6)
    texts = {source.path: source.text for source in sources.drawn([sources.STDLIB], 0)}
    for row in made:
        assert row["prefix"] + row["expected"] + row["suffix"] in texts[row["path"]]
        assert row["expected"].strip() and (row["kind"] == "end") == (row["suffix"] == "")


def test_an_unknown_package_is_named() -> None:
    with pytest.raises(UsageError, match="no_such_package"):
        sources.folder("no_such_package")

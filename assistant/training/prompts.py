"""Prompts for `bench decode` out of the projects kept aside: 2/5 left-to-right, 2/5 blocks, 1/5 rests of a line.

The same seed and corpus give the same rows; languages come in turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from assistant.training.collect import Source, holes
from assistant.training.corpus import SourceFile


def build(files: Iterable[SourceFile], count: int, seed: int) -> list[dict[str, str]]:
    """`count` rows of bench decode, their answers under "expected"."""
    sources = (Source(file.project, file.language, file.path, file.read()) for file in files)
    return [
        {
            "id": f"{number}:{hole.source.project}/{hole.source.path}",
            "prefix": hole.prefix,
            "suffix": hole.suffix,
            "language": hole.source.language,
            "kind": hole.kind,
            "path": hole.source.path,
            "expected": hole.middle,
        }
        for number, hole in enumerate(islice(holes(sources, seed), count))
    ]

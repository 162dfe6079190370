"""What a filter gets: the answer where the rules ended it, and how it came to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assistant.post.context import AnswerContext


@dataclass(frozen=True)
class Draft:
    """`broke`: a line end followed the text where it was cut."""

    text: str
    context: AnswerContext
    broke: bool


Filter = Callable[[Draft], str]

"""Drops what is too short to be of use: one mark that neither closes anything nor is a name or a number."""

from __future__ import annotations

from assistant.post.context import CLOSERS
from assistant.post.tidy import Draft


def short(draft: Draft) -> str:
    stripped = draft.text.strip()
    useless = len(stripped) == 1 and not stripped.isalnum() and stripped not in CLOSERS + "_"
    return "" if useless else draft.text

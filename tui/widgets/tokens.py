"""A generation's text, each token in the look of what chose it; told apart without colour too."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from assistant.service.protocol import Block
from tui.widgets.text import plain

STYLES = {
    "prompt": "$text-muted italic",
    "mtp": "$drafted bold",
    "lookup": "$copied underline",
    "model": "$foreground",
}
NAMES = {
    "prompt": "first, from the prompt",
    "mtp": "drafted by the heads",
    "lookup": "copied from the text",
    "model": "added by the pass",
}


def coloured(blocks: Sequence[Block]) -> Content:
    """All tokens in order."""
    tokens = [token for block in blocks for token in block.tokens]
    return Content.assemble(*((plain(token.text), STYLES[token.origin]) for token in tokens if token.text))


def legend() -> Content:
    parts = [Content.styled(NAMES[origin], style) for origin, style in STYLES.items()]
    return Content("  ").join(parts)

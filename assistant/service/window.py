"""How much text around the cursor an editor's request carries: what a prompt can use, and no more.

Sizes are characters. They follow from the prompt's own budgets (`assistant.prompt.budget`, which light clients
cannot import; a test holds the two together). The beginning of a long prefix moves in steps, so that the prompt's
front stays where it is while the user types. Light: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from assistant.service.protocol import PREFIX_WINDOW, SUFFIX_WINDOW

STEP = 21_504  # 2^10 * 21: a multiple of every grid on which prompts begin
_CHARACTERS_PER_TOKEN = 8  # that cutting a prompt looks at
_PREFIX_TOKENS, _SUFFIX_TOKENS = 6144, 512  # the largest budget that an engine chooses
_LINE = 4096  # characters more, so that a cut is seen to be one and can fall on a line's end


@dataclass(frozen=True)
class Window:
    """Characters before the cursor at least (up to STEP more), and behind it at most."""

    before: int = _CHARACTERS_PER_TOKEN * _PREFIX_TOKENS + _LINE
    after: int = _CHARACTERS_PER_TOKEN * _SUFFIX_TOKENS + _LINE

    @classmethod
    def of(cls, prefix_tokens: int = 0, suffix_tokens: int = 0) -> Window:
        """For prompts of at most so many tokens; 0: the engine chooses."""
        before = _CHARACTERS_PER_TOKEN * (prefix_tokens or _PREFIX_TOKENS) + _LINE
        after = _CHARACTERS_PER_TOKEN * (suffix_tokens or _SUFFIX_TOKENS) + _LINE
        return cls(min(before, PREFIX_WINDOW), min(after, SUFFIX_WINDOW))

    def last(self, prefix: str) -> str:
        """The part of a prefix that is carried."""
        return prefix[max(0, len(prefix) - self.before) // STEP * STEP :]

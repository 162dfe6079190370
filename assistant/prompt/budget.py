"""How much of the file goes into a prompt, and where it is cut.

Budgets are tokens, chosen once a loaded engine by its measured prefill speed. Cutting tokenises at most eight
characters a token of budget, whatever the file's size.
The prefix starts on a coarse grid counted from the start of the file, so the front of the prompt stays
equal from one keystroke to the next and its keys and values can be kept; the suffix depends on the text
behind the cursor alone.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from dataclasses import dataclass

from assistant.prompt.tokenizer import Encoded, Tokenizer

_BLANK_LINES = re.compile(r"(?:[ \t]*\n)*")
_CHARACTERS_PER_TOKEN = 8  # indentation and long words reach this, ordinary code is at 3 to 4


@dataclass(frozen=True)
class PromptBudget:
    """Most tokens taken from before and from behind the cursor."""

    prefix_tokens: int
    suffix_tokens: int

    def __post_init__(self) -> None:
        if self.prefix_tokens < 1 or self.suffix_tokens < 0:
            raise ValueError(f"no prompt fits into {self.prefix_tokens} and {self.suffix_tokens} tokens")


DEFAULT_BUDGET = PromptBudget(prefix_tokens=1536, suffix_tokens=256)
FRESH_MILLISECONDS = 4000.0  # for a prompt of which nothing is kept; 450 to 575 tokens a second give the default
LEAST_MEASURED = 128  # a prefill of fewer tokens says little about speed
_MEASUREMENTS = 2


def choose(prefill_tokens_per_second: float, milliseconds: float) -> PromptBudget:
    """The budget whose prefill from nothing takes about `milliseconds`; prefix 256 to 6144 tokens, suffix
    64 to 512.

    A sixth is the suffix's. Sizes move in steps of a half, so that a noisy measurement does not move the cut.
    """
    tokens = prefill_tokens_per_second * milliseconds / 1000
    if not math.isfinite(tokens) or tokens <= 0:
        return DEFAULT_BUDGET
    suffix = _step(tokens / 6, 64, 512)
    return PromptBudget(prefix_tokens=_step(tokens - suffix, 256, 6144), suffix_tokens=suffix)


class MeasuredBudget:
    """One loaded engine's budget: DEFAULT_BUDGET at first, then one choice by its measured speed, which stays.

    The faster of the first two prefills of LEAST_MEASURED tokens or more counts: the very first one reads the
    weights from the disk too. A budget that moved would move the prompt's front, and with it all that is kept.
    """

    def __init__(self) -> None:
        self.current = DEFAULT_BUDGET
        self._speeds: list[float] = []

    def observe(self, tokens: int, milliseconds: float) -> None:
        """A prefill computed `tokens` in `milliseconds`; what a cache had already is not among them."""
        if tokens < LEAST_MEASURED or milliseconds <= 0 or len(self._speeds) == _MEASUREMENTS:
            return
        self._speeds.append(1000 * tokens / milliseconds)
        if len(self._speeds) == _MEASUREMENTS:
            self.current = choose(max(self._speeds), FRESH_MILLISECONDS)


def _step(value: float, least: int, most: int) -> int:
    """The largest of least, 1.5 least, 2 least, 3 least, ... that is at most `value`, clamped."""
    size = least
    while size < most:
        larger = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
        if larger > value:
            break
        size = larger
    return min(size, most)


@dataclass(frozen=True)
class Part:
    """The tokens of text[start:end]."""

    encoded: Encoded
    start: int
    end: int


def cut_prefix(tokenizer: Tokenizer, text: str, tokens: int) -> Part:
    """The last part of `text` that fits into `tokens`, from the start of a line where there is one nearby."""
    # The lines above the cursor's own decide alone, with room kept for that one: then the start never moves
    # within a line, where a word's tokens merge and part while it is typed.
    start = _fitting_start(tokenizer, text, text.rfind("\n") + 1, tokens - tokens // 8)
    if len(text) - start <= _CHARACTERS_PER_TOKEN * tokens:
        encoded = tokenizer.encode_parts(text[start:])
        if len(encoded.ids) <= tokens:
            return Part(encoded, start, len(text))
    start = _fitting_start(tokenizer, text, len(text), tokens)
    encoded = tokenizer.encode_parts(text[start:])
    first = _boundary(encoded, max(0, len(encoded.ids) - tokens))
    start += encoded.ends[first - 1] if first else 0
    return Part(Encoded(encoded.ids[first:], encoded.ends[first:], encoded.words[first:]), start, len(text))


def _fitting_start(tokenizer: Tokenizer, text: str, end: int, tokens: int) -> int:
    """The first start on the grid from which text[start:end] takes about `tokens` at most."""
    step = tokens  # in characters: a quarter to a third of the budget in ordinary code
    lowest = end - _CHARACTERS_PER_TOKEN * tokens
    start = min(end, _grid(text, -(-lowest // step), step) if lowest > 0 else 0)
    ends = tokenizer.encode_parts(text[start:end]).ends
    if len(ends) <= tokens:
        return start
    needed = start + ends[len(ends) - tokens - 1]
    while True:
        number = needed // step
        while (found := _grid(text, number, step)) < needed:
            number += 1
        used = len(ends) - bisect_right(ends, found - start)
        if step == 1 or 2 * used >= tokens:
            return min(end, found)
        step //= 2  # text of many tokens a character needs a finer grid


def _boundary(encoded: Encoded, first: int) -> int:
    """`first`, or the next token that does not begin inside a character."""
    while 0 < first < len(encoded.ids) and encoded.ends[first - 1] == encoded.ends[first]:
        first += 1
    return first


def _grid(text: str, number: int, step: int) -> int:
    """Start number `number`: the first line start within a step from number * step, else that character."""
    if number <= 0:
        return 0
    mark = number * step
    newline = text.find("\n", mark - 1, mark + step - 1)
    return mark if newline < 0 else newline + 1


def near_start(text: str, size: int) -> int:
    """The start of a line that is not blank, `size` to twice `size` characters (and a line) before the last
    line of `text`; 0 in a short text.

    It moves once in `size` characters, and never while the last line is typed.
    """
    last = text.rfind("\n") + 1
    mark = (last - size) // size * size
    if mark <= 0:
        return 0
    found = _BLANK_LINES.match(text, text.rfind("\n", 0, mark) + 1)
    assert found is not None
    return found.end()


def cut_suffix(tokenizer: Tokenizer, text: str, tokens: int) -> Part:
    """The first part of `text` that fits into `tokens`, to the end of a line unless that drops most of it."""
    if tokens == 0:
        return Part(Encoded([], [], []), 0, 0)
    window = text[: _CHARACTERS_PER_TOKEN * tokens]
    encoded = tokenizer.encode_parts(window)
    if len(encoded.ids) <= tokens and len(window) == len(text):
        return Part(encoded, 0, len(text))
    limit = encoded.ends[min(tokens, len(encoded.ids)) - 1]
    end = window.rfind("\n", 0, limit) + 1
    if end < limit // 4:
        end = limit
    encoded = tokenizer.encode_parts(window[:end])
    last = min(tokens, len(encoded.ids))
    while 0 < last < len(encoded.ids) and encoded.ends[last - 1] == encoded.ends[last]:
        last -= 1  # not inside a character
    end = encoded.ends[last - 1] if last else 0
    return Part(Encoded(encoded.ids[:last], encoded.ends[:last], encoded.words[:last]), 0, end)

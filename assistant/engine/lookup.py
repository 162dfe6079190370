"""Drafts by looking up: where did the last tokens stand before, in prompt or output, and what came next?

Free of any model, so it pays on edits and repetition. It keeps score of its own guesses by kind, drafts as
many tokens as pay, and stops when it has cost more than it brought. Constant time a token; no guess depends
on an earlier generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assistant.engine.draft import Draft, DraftState

# Time of a pass by number of drafted tokens, a pass without any being 1. An assumption about int8 on a CPU
# (1.15 at 5 rows, 1.3 at 8, 1.8 at 16, lines between), for want of this machine's own times.
PASS_COST = (1.0, 1.04, 1.08, 1.12, 1.15, 1.2, 1.25, 1.3, 1.36, 1.42, 1.48, 1.55, 1.61, 1.67, 1.73, 1.8)

BASE = 0x9E3779B97F4A7C15  # of the hash of a run of tokens, modulo 2 ** 64
LONGEST = 16  # tokens of context compared; a longer match says no more
CANDIDATES = 16  # earlier places of the same four tokens that are compared, the latest first
WINDOW = 12  # how far on in the source of a refused copy the text may be taken up again

# What guesses are worth before this generation has shown better: (first token right, a later one right), by
# kind, in the order they are tried. Rounded from counts over edits, holes and continuations of packaged
# Python sources in Qwen2.5-Coder's tokens, where the text decoded was the source's, not a model's.
PRIORS = {
    "copy": (0.85, 0.95),  # the last draft was right to its end: go on in its source
    "16": (0.75, 0.9),  # the last 16, 8, 4, 3 tokens stood there before
    "8": (0.75, 0.9),
    "4": (0.65, 0.85),
    "3": (0.55, 0.75),
    "resume": (0.38, 0.7),  # the last token stands a little further on in the source of the refused copy
    "2": (0.35, 0.6),
    "swap": (0.08, 0.7),  # one token of the copy was exchanged for another
}
WEIGHT = 2.0  # guesses that a prior counts for
MEMORY = 0.7  # how much a guess still counts at the next one of its kind

# Never lose more: the time spent on drafts (in passes, by the cost table) less the passes saved stays under
# ALLOWANCE + LOSS * new tokens.
ALLOWANCE = 0.3
LOSS = 0.02


@dataclass
class _Score:
    """How guesses of one kind fared: their first token, and later ones where all before them were right."""

    first_hits: float
    first_tries: float
    next_hits: float
    next_tries: float

    def best_length(self, limit: int, cost: Sequence[float]) -> int:
        """How many tokens to draft for most tokens in the time; 0 for none."""
        following = self.next_hits / self.next_tries
        share = self.first_hits / self.first_tries
        best, best_rate, expected = 0, 1.0, 1.0
        for length in range(1, limit + 1):
            expected += share
            share *= following
            rate = expected / cost[length]
            if rate > best_rate:
                best, best_rate = length, rate
        return best

    def learn_first(self, right: bool) -> None:
        """Whether a guess's first token came."""
        self.first_hits = MEMORY * self.first_hits + right
        self.first_tries = MEMORY * self.first_tries + 1

    def learn(self, drafted: int, accepted: int) -> None:
        """One guess of `drafted` tokens, the first `accepted` of them right."""
        self.learn_first(accepted > 0)
        if accepted and drafted > 1:
            self.next_hits = MEMORY * self.next_hits + accepted - 1
            self.next_tries = MEMORY * self.next_tries + min(accepted, drafted - 1)


class LookupDrafter:
    """Copies what followed the last tokens (two or more) where they stood before: longest match, then latest.

    After a refused copy it also looks for the place in the same source where the text may be taken up again.
    cost[n]: time of a pass with n drafted tokens, cost[0] being 1; no more tokens are drafted than it knows
    the cost of.
    """

    name = "lookup"
    taps: tuple[int, ...] = ()
    draft_length = 8

    def __init__(self, cost: Sequence[float] = PASS_COST) -> None:
        self._cost = tuple(cost)
        self.begin(())

    def begin(self, prompt: Sequence[int]) -> None:
        """Index `prompt`; what was learnt of another text is forgotten, so equal requests draft alike."""
        self._start = len(prompt)
        self._ids: list[int] = []
        # size -> hash of a run of so many tokens -> the position that followed it, the latest. By hash, since
        # tuples by the thousand would wake the garbage collector; two runs of one hash would only make a bad
        # guess.
        self._after: dict[int, dict[int, int]] = {2: {}, 3: {}, 4: {}}
        self._earlier: list[int] = []  # position -> the one before it after the same four tokens, -1 for none
        self._scores = {
            kind: _Score(WEIGHT * first, WEIGHT, WEIGHT * following, WEIGHT)
            for kind, (first, following) in PRIORS.items()
        }
        self._spent = 0.0  # passes' worth of time lost on drafts so far; below 0 when they paid
        self._kind, self._source = "", -1  # the last guess and where it was copied from, -1 for none
        self._drafted = 0
        self._next = -1  # where the source of the last draft goes on, -1 unknown
        self._broken = 0  # tokens since the copy left its source, 0 while it holds
        self._extend(prompt)

    def propose(self, state: DraftState, limit: int) -> Draft:
        """A chain of at most `limit` tokens; often none."""
        known = len(self._ids)
        self._extend(state.ids[known:])
        if self._source >= 0 and not self._drafted and known < len(self._ids):
            # A guess that was not worth drafting is still worth learning from.
            self._scores[self._kind].learn_first(self._ids[self._source] == self._ids[known])
        self._follow(known)
        self._drafted = 0
        self._kind, self._source = self._find()
        if self._source < 0:
            return Draft(())
        limit = min(limit, len(self._cost) - 1)
        purse = ALLOWANCE + LOSS * (len(self._ids) - self._start) - self._spent
        while limit > 0 and self._cost[limit] - 1 > purse:
            limit -= 1
        length = self._scores[self._kind].best_length(limit, self._cost)
        ids = tuple(self._ids[self._source : self._source + length])
        self._drafted = len(ids)
        return Draft(ids, by="lookup")

    def observe(self, draft: Draft, accepted: Sequence[int]) -> None:
        """Keep the record of the guess."""
        if not draft.ids:
            return
        self._spent += self._cost[len(draft.ids)] - 1 - len(accepted)
        self._scores[self._kind].learn(len(draft.ids), len(accepted))
        self._next, self._broken = self._source, 0

    def _extend(self, new: Sequence[int]) -> None:
        """Index every place that has something after it: the tokens before position i lead to i."""
        start = len(self._ids)
        self._ids.extend(new)
        self._earlier.extend([-1] * (len(self._ids) - start))
        first = max(0, start - 4)
        tokens = np.array(self._ids[first:], dtype=np.uint64)
        count = len(tokens)
        hashes = tokens
        for size in (2, 3, 4):
            if count <= size:
                break
            hashes = hashes[: count - size] * np.uint64(BASE) + tokens[size - 1 : count - 1]
            skip = max(0, start - first - size)
            runs = zip(hashes[skip:].tolist(), range(first + size + skip, len(self._ids)), strict=True)
            if size < 4:
                self._after[size].update(runs)
                continue
            after = self._after[size]
            for run, place in runs:
                self._earlier[place] = after.get(run, -1)
                after[run] = place

    def _last(self, size: int) -> int:
        """The position after the latest earlier occurrence of the last `size` tokens; -1 for none."""
        if len(self._ids) < size:
            return -1
        run = 0
        for token in self._ids[-size:]:
            run = (run * BASE + token) & 0xFFFFFFFFFFFFFFFF
        return self._after[size].get(run, -1)

    def _follow(self, known: int) -> None:
        """Move on in the source of the last draft with the tokens that came since."""
        if self._next < 0:
            return
        for token in self._ids[known:]:
            if self._broken == 0 and self._ids[self._next] == token:
                self._next += 1
            else:
                self._broken += 1
        if self._broken > WINDOW:
            self._next = -1

    def _find(self) -> tuple[str, int]:
        """The kind of the best guess and the position to copy from, -1 for none."""
        ids, count, source = self._ids, len(self._ids), self._next
        if source >= 0 and not self._broken:
            return "copy", source
        if (place := self._last(4)) >= 0:
            return self._longest(place)
        if (place := self._last(3)) >= 0:
            return "3", place
        if source >= 0:
            for place in range(source, min(source + WINDOW, count - 1)):
                if ids[place] == ids[-1]:
                    return "resume", place + 1
        if (place := self._last(2)) >= 0:
            return "2", place
        if source >= 0 and self._broken == 1 and source + 1 < count:
            return "swap", source + 1
        return "", -1

    def _longest(self, place: int) -> tuple[str, int]:
        """Of the places after the last four tokens, from `place` back, the one with the longest match."""
        ids, count = self._ids, len(self._ids)
        best, best_length = -1, 0
        for _ in range(CANDIDATES):
            length = 4
            while length < min(LONGEST, place) and ids[place - length - 1] == ids[count - length - 1]:
                length += 1
            if length > best_length:
                best, best_length = place, length
            place = self._earlier[place]
            if place < 0 or best_length == LONGEST:
                break
        return ("16" if best_length == LONGEST else "8" if best_length >= 8 else "4"), best

"""Finished answers of greedy requests: what is asked twice is computed once, and what the user types along with
an answer is served from it.

Keys are digests of everything that decides the answer, prefix and suffix among it, so no text of the user's is
kept for looking up; an answer is also found by a prefix whose first lines have left the window. Values hold
the answers, at most `limit` bytes of them, least recently used out first.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from assistant.service import wire
from assistant.service.aim import LOOK_BACK, left_of
from assistant.service.protocol import PREFIX_WINDOW, WINDOW_STEP, CompletionRequest, CompletionResult
from assistant.service.window import STEP, Window

OVERHEAD = 2048  # bytes that an entry costs besides its text
_DROPPED_LINES = 3
_NEAR = 2048  # characters of prefix that decide an answer: lines further away may go without another answer
_CLOSERS = ")]}>\"'`"  # what editors put behind the cursor by themselves, when its partner is typed
_AT_ONCE = 2  # of them at most


@dataclass
class _Entry:
    keys: tuple[bytes, ...]  # the first one is that of the request as it was
    result: CompletionResult
    size: int
    given: int  # when it was last an answer: a count, 0 for never


class Answers:
    """A least-recently-used map from request to result. Not safe for use by several threads at once."""

    def __init__(self, limit: int = 4 * 1024 * 1024) -> None:
        self._limit = limit
        self._numbers: dict[bytes, int] = {}
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._put = 0
        self._given = 0
        self.bytes = 0

    def get(self, request: CompletionRequest) -> CompletionResult | None:
        """The stored answer, or what typing has left of one, its counts of work set to none; None without any.

        Of several that fit, the one given last: what was shown goes on as it was. Only greedy requests have
        stored answers.
        """
        number, left, typed = self._best(request)
        if number == 0:
            return None
        self._entries.move_to_end(number)
        entry = self._entries[number]
        self._given += 1
        entry.given = self._given
        found = entry.result
        return replace(
            found,
            completion=left,
            candidates=found.candidates if not typed or found.candidates is None else (left,),
            source="type_through" if typed else "cache",
            reused_tokens=found.prompt_tokens,
            passes=0,
            drafted=0,
            accepted=0,
            tokens_per_pass=0.0,
            accepted_by_position=(),
            prefill_ms=0.0,
            decode_ms=0.0,
            load_ms=0.0,
            tokens_per_second=0.0,
        )

    def has(self, request: CompletionRequest) -> bool:
        """Whether `get` would find something."""
        return self._best(request)[0] != 0

    def put(self, request: CompletionRequest, result: CompletionResult, given: bool = True) -> None:
        """Keep the answer to a greedy request; anything else is left out. `given`: it is somebody's answer now.

        A first line never replaces the whole, and what nobody was given only replaces what it goes on from.
        """
        if request.temperature > 0 or request.trigger == "warm" or result.finish_reason == "cancelled":
            return
        keys = tuple(_keys(request))
        number = self._numbers.get(keys[0], 0)
        old = self._entries.get(number)
        rank = 0
        if old is not None and old.keys[0] == keys[0]:
            goes_on = result.completion.startswith(old.result.completion)
            if (result.more and not old.result.more) or not (given or goes_on):
                return
            rank = old.given
            self._drop(number)
        if given:
            self._given += 1
            rank = self._given
        texts = (result.completion, *(result.candidates or ()))
        entry = _Entry(keys, result, OVERHEAD + sum(4 * len(text) for text in texts), rank)
        self._put += 1
        self._entries[self._put] = entry
        self._numbers.update(dict.fromkeys(keys, self._put))
        self.bytes += entry.size
        while self.bytes > self._limit:
            self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        self._numbers.clear()
        self._entries.clear()
        self.bytes = 0

    def _best(self, request: CompletionRequest) -> tuple[int, str, int]:
        """(number, what is left of its text, how much of it was typed) of the entry to answer with; 0: none."""
        best, rank = (0, "", 0), (-1, 0)
        for number, left, typed in self._fitting(request) if request.temperature == 0 else ():
            its_rank = (self._entries[number].given, -typed)
            if its_rank > rank:
                best, rank = (number, left, typed), its_rank
        return best

    def _fitting(self, request: CompletionRequest) -> Iterator[tuple[int, str, int]]:
        prefix = request.prefix
        digests = _digests(prefix, min(LOOK_BACK, len(prefix)))
        for closed in range(1 + _AT_ONCE):
            closers = request.suffix[:closed]
            if len(closers) < closed or closers.strip(_CLOSERS):
                break
            rest = _rest(replace(request, suffix=request.suffix[closed:]))
            for typed, digest in enumerate(digests):
                number = self._numbers.get(digest + rest)
                if number is None or (closed and not typed):
                    continue
                text = self._entries[number].result.completion
                left = left_of(text, prefix[len(prefix) - typed :])
                if left is not None and closers:
                    left = _without(left, closers)
                if left is not None:
                    yield number, left, typed

    def _drop(self, number: int) -> None:
        entry = self._entries.pop(number)
        self.bytes -= entry.size
        for key in entry.keys:
            if self._numbers.get(key) == number:
                del self._numbers[key]


def _without(left: str, closers: str) -> str | None:
    """`left` for a place where the editor has put `closers` behind the cursor already: the file comes out the
    same. None where they belong in the middle.
    """
    if "\n" in left or not left.endswith(closers):
        return None
    return left[: -len(closers)] or None


def _keys(request: CompletionRequest) -> Iterator[bytes]:
    """The request's own key, then those by which it is known when its window has moved on."""
    prefix, rest = request.prefix, _rest(request)
    starts = [0]
    for _ in range(_DROPPED_LINES):
        starts.append(prefix.find("\n", starts[-1]) + 1)
    if len(prefix) >= Window().before:
        starts.append(STEP)
    if len(prefix) >= PREFIX_WINDOW:
        starts.append(WINDOW_STEP)
    for start in dict.fromkeys(start for start in starts if start == 0 or len(prefix) - start >= _NEAR):
        yield _digests(prefix[start:], 0)[0] + rest


def _digests(prefix: str, back: int) -> list[bytes]:
    """[n]: the digest of `prefix` without its last n characters, for n up to `back`."""
    cut = len(prefix) - back
    hasher = _hasher(prefix[:cut])
    found = [hasher.digest()]
    for letter in prefix[cut:]:
        hasher.update(letter.encode("utf-8", "surrogatepass"))
        found.append(hasher.digest())
    return found[::-1]


def _rest(request: CompletionRequest) -> bytes:
    """The digest of all but the prefix."""
    value = json.dumps(wire.to_json(replace(request, prefix="").identity()), sort_keys=True)
    return _hasher(value).digest()


def _hasher(text: str) -> hashlib.blake2b:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)

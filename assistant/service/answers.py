"""Finished answers of greedy requests, by the exact request: what is asked twice is computed once.

The key is a digest of everything that decides the answer, so no text of the user's is kept for looking up;
the values hold the answers themselves, at most `limit` bytes of them, least recently used out first.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from dataclasses import replace

from assistant.service import wire
from assistant.service.protocol import CompletionRequest, CompletionResult

_OVERHEAD = 1024  # bytes that an entry costs besides its text


def _key(request: CompletionRequest) -> bytes:
    value = json.dumps(wire.to_json(request.identity()), ensure_ascii=True, sort_keys=True)
    return hashlib.blake2b(value.encode("ascii"), digest_size=20).digest()


def _size(result: CompletionResult) -> int:
    texts = (result.completion, *(result.candidates or ()))
    return _OVERHEAD + sum(4 * len(text) for text in texts)


class Answers:
    """A least-recently-used map from request to result. Not safe for use by several threads at once."""

    def __init__(self, limit: int = 4 * 1024 * 1024) -> None:
        self._limit = limit
        self._entries: OrderedDict[bytes, CompletionResult] = OrderedDict()
        self.bytes = 0

    def get(self, request: CompletionRequest) -> CompletionResult | None:
        """The stored answer, its counts of work done set to none, or None. Only greedy requests have one."""
        if request.temperature > 0:
            return None
        key = _key(request)
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return replace(
            found,
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

    def put(self, request: CompletionRequest, result: CompletionResult) -> None:
        """Keep a whole answer to a greedy request; anything else is left out."""
        if request.temperature > 0 or request.trigger == "warm" or result.finish_reason == "cancelled":
            return
        key = _key(request)
        old = self._entries.pop(key, None)
        if old is not None:
            self.bytes -= _size(old)
        self._entries[key] = result
        self.bytes += _size(result)
        while self.bytes > self._limit and self._entries:
            _, dropped = self._entries.popitem(last=False)
            self.bytes -= _size(dropped)

    def clear(self) -> None:
        self._entries.clear()
        self.bytes = 0

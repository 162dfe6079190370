"""A backbone that spells what a test tells it to, in whatever tokens it is allowed to use."""

from __future__ import annotations

import torch

from assistant.prompt.tokenizer import Tokenizer
from assistant.types import ModelConfig
from tests.engine.scripted import ScriptedCache


class SpellingBackbone:
    """After the last middle token it goes on to `text`, longest tokens first, then ends.

    hidden [rows, 1] is the number of a history kept here. `before` is the end of the text before the
    cursor, from the start of a line that comes nowhere else; `fail` is an exception for the next forward.
    """

    name, precision = "spelling", "none"

    def __init__(self, tokenizer: Tokenizer, text: str = "", context: int = 4096) -> None:
        self.config = ModelConfig("qwen2", 1, 1, 1, 1, 1, 1, tokenizer.size, context, 1e4, 1e-6, False)
        self.text = text
        self.before = ""
        self.fail: BaseException | None = None
        self.rows = 0
        self.even = False  # every token that fits is as good as any other
        self._tokenizer = tokenizer
        self._end = tokenizer.special["<|endoftext|>"]
        self._pieces = {
            token: tokenizer.piece(token) for token in range(tokenizer.size) if tokenizer.piece(token)
        }
        self._histories: list[list[int]] = []

    def new_cache(self, capacity: int) -> ScriptedCache:
        return ScriptedCache(capacity)

    def forward(self, ids, cache, parents=None, taps=()):
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error
        assert cache.length + len(ids) <= cache.capacity
        base, histories = list(cache.slots), []
        for row, token in enumerate(ids):
            parent = row - 1 if parents is None else parents[row]
            histories.append((base if parent < 0 else histories[parent]) + [token])
            cache.slots.append(token)
        self.rows += len(ids)
        first = len(self._histories)
        self._histories += histories
        return {"final": torch.arange(first, first + len(ids), dtype=torch.float32)[:, None]}

    def logits(self, hidden):
        return torch.stack([self._scores(self._histories[int(number)]) for number in hidden[:, 0]])

    def _scores(self, history: list[int]) -> torch.Tensor:
        middle = self._tokenizer.fim.middle
        start = len(history) - history[::-1].index(middle) if middle in history else len(history)
        spelt = self._tokenizer.spell(history[start:])
        # Part of the prefix stands behind the middle token; the piece that is healed is spelt again.
        line, _, _ = self.before.encode().partition(b"\n")
        rest = (self.before + self.text).encode()[len(spelt) - max(0, spelt.find(line)) :]
        scores = torch.full((self.config.vocabulary_size,), -50.0)
        if not rest:
            scores[self._end] = 50.0
        for token, piece in self._pieces.items():
            if rest and rest.startswith(piece):
                scores[token] = 0.0 if self.even else float(len(piece))
        return scores

"""Token healing: the piece of a word before the cursor is taken back from the prompt and generated again.

The piece is the tokens of the prompt's last word (as the pre-tokenizer cuts words, so any later
tokenisation of the whole text keeps what stays), at most four tokens and 32 bytes. `Healing` lets only
tokens through that spell it first; they may go beyond it. All of it is exact in bytes, also inside a
character.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from weakref import WeakKeyDictionary

from assistant.prompt.tokenizer import Encoded, StreamDecoder, Tokenizer

MOST_TOKENS = 4
MOST_BYTES = 32


class Spellings:
    """The vocabulary by its spelling: which tokens start with given bytes, which are a beginning of them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids = tokenizer.vocabulary()
        self._by_letter: dict[str, list[str]] = {}
        for token in self._ids:
            self._by_letter.setdefault(token[:1], []).append(token)
        self._sorted: dict[str, tuple[list[str], list[int]]] = {}

    def compatible(self, data: bytes) -> list[int]:
        """Ids of the tokens that start with `data` and of those that `data` (not empty) starts with."""
        letters = self._tokenizer.letters(data)
        tokens, ids = self._bucket(letters[0])
        found = ids[self._first(tokens, letters) : self._last(tokens, letters)]
        for length in range(1, len(letters)):
            token = self._ids.get(letters[:length])
            if token is not None:
                found.append(token)
        return found

    def extends(self, data: bytes) -> bool:
        """Whether any token starts with `data` and is longer."""
        letters = self._tokenizer.letters(data)
        tokens, _ = self._bucket(letters[0])
        known = letters in self._ids
        return self._last(tokens, letters) - self._first(tokens, letters) > known

    def _bucket(self, letter: str) -> tuple[list[str], list[int]]:
        # Sorted by first letter on demand: one request touches one or two of 256 parts.
        found = self._sorted.get(letter)
        if found is None:
            tokens = sorted(self._by_letter.get(letter, []))
            found = self._sorted[letter] = (tokens, [self._ids[token] for token in tokens])
        return found

    @staticmethod
    def _first(tokens: list[str], letters: str) -> int:
        return bisect_left(tokens, letters)

    @staticmethod
    def _last(tokens: list[str], letters: str) -> int:
        return bisect_left(tokens, letters + "\U0010ffff")


_SPELLINGS: WeakKeyDictionary[Tokenizer, Spellings] = WeakKeyDictionary()


def spellings(tokenizer: Tokenizer) -> Spellings:
    """The tokenizer's table, made at its first use (about 0.12 s for 150,000 tokens)."""
    found = _SPELLINGS.get(tokenizer)
    if found is None:
        found = _SPELLINGS[tokenizer] = Spellings(tokenizer)
    return found


def taken_back(tokenizer: Tokenizer, encoded: Encoded, *, spaces: bool = True) -> int:
    """How many of a prefix's last tokens to take back; `spaces` False leaves blanks before the cursor alone.

    None after a line end (the line before is finished), none for a single byte that no token goes
    beyond, and none for vocabularies whose bytes are not exact.
    """
    if not encoded.ids or not tokenizer.byte_level:
        return 0
    last = tokenizer.piece(encoded.ids[-1])
    if not last or last.endswith((b"\n", b"\r")):
        return 0
    count, size = 0, 0
    for token, word in zip(reversed(encoded.ids), reversed(encoded.words), strict=True):
        size += len(tokenizer.piece(token))
        if word != encoded.words[-1] or count == MOST_TOKENS or (count and size > MOST_BYTES):
            break
        count += 1
    healed = tokenizer.spell(encoded.ids[-count:])
    if not spaces and not healed.strip():
        return 0
    # A digit of Qwen's stands alone. A whole word that no token extends is taken back all the same: while the
    # word is typed the prompt then stays equal, and one more pass costs less than the suffix prefilled anew.
    if len(healed) == 1 and not spellings(tokenizer).extends(healed):
        return 0
    return count


class Healing:
    """A constraint on generation: new ids so far -> the ids allowed next, None once `healed` is spelt.

    Raises ValueError when the ids given contradict `healed`: they were not generated under this constraint.
    """

    def __init__(self, tokenizer: Tokenizer, healed: bytes) -> None:
        self._tokenizer = tokenizer
        self.healed = healed
        self._allowed: dict[int, list[int]] = {}

    def __call__(self, ids: Sequence[int]) -> Collection[int] | None:
        spelt = b""
        for token in ids:
            if len(spelt) >= len(self.healed):
                break
            spelt += self._tokenizer.piece(token)
        if not (spelt.startswith(self.healed) or self.healed.startswith(spelt)):
            raise ValueError(f"{spelt!r} does not spell {self.healed!r}")
        if len(spelt) >= len(self.healed):
            return None
        allowed = self._allowed.get(len(spelt))
        if allowed is None:
            allowed = spellings(self._tokenizer).compatible(self.healed[len(spelt) :])
            self._allowed[len(spelt)] = allowed
        return allowed

    def strip(self, ids: Sequence[int]) -> str:
        """The text of `ids` behind the healed piece: what is new to the file."""
        return StreamDecoder(self._tokenizer, skip=len(self.healed)).push(ids)

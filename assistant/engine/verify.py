"""Which drafted tokens stand: pure functions on ids, without model, cache or tensor.

Row 0 of a pass is the last committed token, row r > 0 the drafted token r - 1. A draft is a tree: parents[i]
is the drafted token that i follows, -1 the last committed one; a chain is the tree 0 -> 1 -> 2 ... Accepted:
a drafted token equal to the backbone's choice at its parent's row. Bonus: the choice that ends the walk
because no drafted token equals it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Verified:
    """rows: 0, then the accepted, downwards. ids: what the block commits, the accepted and then the bonus.

    `ids` has no bonus when the walk was told to end at an accepted token. `tried` counts the depths at which
    a drafted token stood beside the backbone's choice: the accepted ones and, if a draft was refused, one
    more.
    """

    rows: tuple[int, ...]
    ids: tuple[int, ...]
    tried: int

    @property
    def accepted(self) -> int:
        """Number of drafted tokens accepted."""
        return len(self.rows) - 1

    @property
    def cached_rows(self) -> tuple[int, ...]:
        """Rows to keep in the cache: all committed tokens' but the last, which heads the next pass."""
        return self.rows[: len(self.ids)]


def chain(count: int) -> tuple[int, ...]:
    """The parents of a chain of `count` drafted tokens."""
    return tuple(range(-1, count - 1))


def is_chain(parents: Sequence[int]) -> bool:
    """Whether each drafted token follows the one before it."""
    return all(parent == index - 1 for index, parent in enumerate(parents))


def trim(
    ids: Sequence[int], parents: Sequence[int], limit: int, vocabulary: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The part of a draft that can be run: at most `limit` tokens, all in the vocabulary, no twin siblings.

    A token that falls takes its descendants with it. ValueError when `parents` is not a tree in this order.
    """
    if len(parents) != len(ids):
        raise ValueError(f"a draft of {len(ids)} tokens has {len(parents)} parents")
    place: dict[int, int] = {-1: -1}  # draft index -> index among the kept
    kept: list[tuple[int, int]] = []  # (id, parent)
    for index, (token, parent) in enumerate(zip(ids, parents, strict=True)):
        if not -1 <= parent < index:
            raise ValueError(f"drafted token {index} cannot follow {parent}")
        if len(kept) >= limit or not 0 <= token < vocabulary or parent not in place:
            continue
        if (token, place[parent]) in kept:
            continue
        place[index] = len(kept)
        kept.append((token, place[parent]))
    return tuple(token for token, _ in kept), tuple(parent for _, parent in kept)


def row_parents(parents: Sequence[int]) -> list[int] | None:
    """A draft's parents as a pass wants them, row 0 included; None for a chain."""
    return None if is_chain(parents) else [-1, *(parent + 1 for parent in parents)]


def verify(
    ids: Sequence[int],
    parents: Sequence[int],
    choice: Callable[[int], int],
    commit: Callable[[int], bool] = lambda _: True,
) -> Verified:
    """Walk from row 0 while drafted tokens equal the backbone's choices.

    choice(row) is asked for rows on the path only, in order; commit(id) after each, before the next: False
    ends the walk. So both see the very calls that decoding token by token makes.
    """
    children: dict[tuple[int, int], int] = {}
    for index, (token, parent) in enumerate(zip(ids, parents, strict=True)):
        children.setdefault((parent + 1, token), index + 1)
    branching = {row for row, _ in children}
    rows, taken, tried = [0], [], 0
    while True:
        row = rows[-1]
        token = choice(row)
        taken.append(token)
        tried += row in branching
        child = children.get((row, token))
        if child is not None:
            rows.append(child)
        if not commit(token) or child is None:
            return Verified(tuple(rows), tuple(taken), tried)

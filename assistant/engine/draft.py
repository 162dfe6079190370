"""What proposes tokens for the backbone to check: the Drafter protocol, and the decoding modes by name.

A drafter can make decoding faster or slower but never change its text, so it may be wrong, empty or out of
step. Drafted tokens form a chain (parents None) or a tree: parents[i] < i is the drafted token i follows, -1
the last committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from assistant.engine.sampling import Sampling
from assistant.errors import HeadError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from assistant.engine.backbone import Cache
    from assistant.engine.mtp import MtpHead


@dataclass(frozen=True)
class Draft:
    """Drafted tokens, parents before children. probs: the drafter's shares, float32 [tokens, n], if any. by: what
    drafted them, "lookup" or "mtp".
    """

    ids: tuple[int, ...]
    parents: tuple[int, ...] | None = None
    probs: torch.Tensor | None = None
    by: str = ""


@dataclass(frozen=True)
class DraftState:
    """What a drafter sees before a pass; to read, not to keep or change.

    ids: prompt and new tokens, all committed. hidden: "final" and each of the drafter's taps, float32
    [hidden], at the row that chose ids[-1]: the state of ids[-2], so it goes with the embedding of ids[-1].
    cache: keys and values of ids[:-1]. sampling: with the noise of `sampling.gumbel` at position len(ids) + n
    a drafter can draw as the backbone will.
    """

    ids: Sequence[int]
    hidden: Mapping[str | int, torch.Tensor]
    cache: Cache
    sampling: Sampling


class Drafter(Protocol):
    """Proposes tokens. taps: layers it wants in `hidden`. draft_length: drafted tokens a pass, by default."""

    name: str
    taps: tuple[int, ...]
    draft_length: int

    def begin(self, prompt: Sequence[int]) -> None:
        """A generation starts; called once the first token is known, before the first propose."""
        ...

    def propose(self, state: DraftState, limit: int) -> Draft:
        """At most `limit` (1 or more) tokens to check in the next pass; an empty draft means a plain pass."""
        ...

    def observe(self, draft: Draft, accepted: Sequence[int]) -> None:
        """The outcome of a non-empty draft, cut as it was run: indices of the accepted tokens, downwards.

        Not called for the pass that ends the generation, where tokens past the end were never judged.
        """
        ...


MODES = ("plain", "lookup", "mtp", "tree", "auto", "draft-model")


def make_drafter(
    mode: str, cost: Sequence[float] | None = None, head: MtpHead | HeadError | None = None
) -> Drafter | None:
    """The drafter of a mode; None for plain. "auto" copies, and drafts with the head where there is a sound one.

    cost[n]: time of a pass with n drafted tokens, cost[0] being 1, where this machine's is known. head: as
    mtp.load_head gives it. Raises UsageError for an unknown mode, HeadError for one whose head is missing or
    does not fit, UnsupportedError for one that this version lacks.
    """
    from assistant.engine.lookup import LookupDrafter
    from assistant.engine.mtp import AutoDrafter, MtpDrafter

    if mode == "plain":
        return None
    if mode in ("lookup", "auto"):
        copying = LookupDrafter() if cost is None else LookupDrafter(cost)
        if mode == "lookup" or head is None or isinstance(head, HeadError):
            return copying
        return AutoDrafter(copying, MtpDrafter(head, adaptive=True))
    if mode == "mtp":
        if isinstance(head, HeadError):
            raise head
        if head is None:
            raise HeadError("there is no trained draft head for this model: use --decode lookup or auto")
        return MtpDrafter(head)
    if mode == "tree":
        raise UnsupportedError("Decoding mode tree is not part of this version; use mtp, lookup or auto.")
    if mode == "draft-model":
        raise UnsupportedError(
            "Decoding mode draft-model needs a second model, which this version lacks; use lookup or auto."
        )
    raise UsageError(f"There is no decoding mode {mode!r}; choose one of {', '.join(MODES)}.")

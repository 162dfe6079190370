"""The model drafts its own next tokens: a trained head, one decoder layer applied again for every drafted token.

Step 1 reads the backbone's states at the row that chose the last token; later steps the layer's own input and output.
The layer attends to the backbone's keys and values of its last layer, which the cache keeps anyway, so there is nothing
to roll back, store or lose when a prefix is used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from assistant.engine.cache import KeyValueCache
from assistant.engine.draft import Draft, Drafter, DraftState
from assistant.engine.qwen2 import HeadLayers, Qwen2
from assistant.engine.sampling import COLDEST, Sampling, gumbel
from assistant.errors import HeadError
from assistant.models import headfile, heads
from assistant.models.headfile import Facts, HeadFile
from assistant.models.store import StoredModel

DRAFT_LENGTH = 4
# Drafting goes on while the draft so far is this likely to stand: a further token costs about a tenth of a pass (its
# own step, and one row more to check), a pass brings two tokens or more.
LEAST_HOPE = 0.2


@dataclass(frozen=True)
class Step:
    """The layer's input and output [hidden] at a position, and the draft vocabulary's scores [V]."""

    x: Tensor
    y: Tensor
    scores: Tensor


class MtpHead:
    """A head on a loaded backbone."""

    def __init__(self, backbone: Qwen2, file: HeadFile, stored: StoredModel) -> None:
        self.facts: Facts = file.facts
        self._backbone = backbone
        self._layers: HeadLayers = backbone.layers.head(file, stored)
        self.vocabulary = file.tensors["vocabulary"]

    @property
    def taps(self) -> tuple[int, ...]:
        """The layers whose outputs step 1 reads."""
        return self.facts.taps

    def first(self, hidden: Sequence[Tensor], token: int, position: int, cache: KeyValueCache) -> Step:
        """What follows `token` at `position`, from the taps' states [hidden] at the row before."""
        return self._step("first", [*hidden, self._embedded(token)], position, cache)

    def later(self, before: Step, token: int, position: int, cache: KeyValueCache) -> Step:
        """What follows the drafted `token` at `position`, from the step that drafted it."""
        return self._step("later", [before.x, before.y, self._embedded(token)], position, cache)

    def _embedded(self, token: int) -> Tensor:
        return self._backbone.embed([token])[0]

    def _step(self, name: str, parts: Sequence[Tensor], position: int, cache: KeyValueCache) -> Step:
        return Step(*self._layers.step(name, parts, position, cache))


def load_head(backbone: Qwen2, stored: StoredModel, model: str) -> MtpHead | HeadError | None:
    """The head of a model of the catalog: None when there is none, what is wrong with it when something is."""
    path = heads.find(model)
    if path is None:
        return None
    try:
        return MtpHead(backbone, headfile.read(path, stored), stored)
    except HeadError as error:
        return error


class MtpDrafter:
    """Drafts a chain with a head. adaptive: it stops where the draft has become unlikely to stand."""

    name = "mtp"
    draft_length = DRAFT_LENGTH

    def __init__(self, head: MtpHead, adaptive: bool = False) -> None:
        self._head, self._adaptive = head, adaptive
        self.taps = head.taps

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing is kept between passes."""

    def propose(self, state: DraftState, limit: int) -> Draft:
        """A chain of `limit` tokens, fewer when adaptive."""
        head, cache = self._head, state.cache
        assert isinstance(cache, KeyValueCache)
        position = cache.length  # of the last committed token, which is not in the cache yet
        step = head.first([state.hidden[tap] for tap in head.taps], state.ids[-1], position, cache)
        ids: list[int] = []
        hope = 1.0
        while True:
            place = _draw(step.scores, head.vocabulary, len(state.ids) + len(ids), state.sampling)
            if self._adaptive:
                hope *= float(torch.softmax(step.scores, 0)[place])
                if ids and hope < LEAST_HOPE:
                    break
            ids.append(int(head.vocabulary[place]))
            position += 1
            if len(ids) == limit:
                break
            step = head.later(step, ids[-1], position, cache)
        return Draft(tuple(ids), by="mtp")

    def observe(self, draft: Draft, accepted: Sequence[int]) -> None:
        """Nothing is learnt."""


def _draw(scores: Tensor, vocabulary: npt.NDArray[Any], position: int, sampling: Sampling) -> int:
    """The place of the drafted token: the best, or with the noise that the backbone's choice will meet there."""
    if sampling.temperature == 0:
        return int(scores.argmax())
    row = scores.numpy().astype(np.float64)
    heights = row / max(sampling.temperature, COLDEST) + gumbel(vocabulary, position, sampling)
    return int(heights.argmax())


class AutoDrafter:
    """Copies where a copy is likely, else drafts with the head as far as that is likely to stand."""

    name = "auto"

    def __init__(self, copying: Drafter, drafting: MtpDrafter) -> None:
        self._copying, self._drafting = copying, drafting
        self._copied = False
        self.taps = drafting.taps
        self.draft_length = copying.draft_length

    def begin(self, prompt: Sequence[int]) -> None:
        """As Drafter.begin."""
        self._copying.begin(prompt)

    def propose(self, state: DraftState, limit: int) -> Draft:
        """As Drafter.propose."""
        draft = self._copying.propose(state, limit)
        self._copied = bool(draft.ids)
        return draft if draft.ids else self._drafting.propose(state, min(limit, DRAFT_LENGTH))

    def observe(self, draft: Draft, accepted: Sequence[int]) -> None:
        """As Drafter.observe."""
        if self._copied:
            self._copying.observe(draft, accepted)

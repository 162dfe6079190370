"""The decoding loop: prefill in chunks, then passes of draft -> verify -> commit until something ends it.

One rule commits tokens one by one in every mode (choice under the constraint, end id, stop callback, limit),
so drafting changes neither text nor counts. The cache goes back to the store holding exactly the ids recorded
for it, whatever happened: between passes that is all but the last committed token, which is row 0 of the next
pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import torch

from assistant.engine.draft import Draft, Drafter, DraftState
from assistant.engine.prefix import PrefixStore
from assistant.engine.sampling import GREEDY, Sampling, choose, log_probability
from assistant.engine.stats import GenerationStats
from assistant.engine.verify import chain, is_chain, row_parents, trim, verify
from assistant.errors import UsageError

if TYPE_CHECKING:
    from assistant.engine.backbone import Backbone, Cache

PREFILL_ROWS = 128  # a cancel is heard between two chunks

Finish = Literal["stop", "length", "scope", "cancelled"]
StopCallback = Callable[[Sequence[int]], bool]
"""New ids so far, the last one just committed -> True: end here ("scope"). Not asked about an end id."""
Constraint = Callable[[Sequence[int]], Collection[int] | None]
"""New ids so far -> the ids that may come next, None for all."""


@dataclass
class Generation:
    """ids: new tokens, the end id included. logprob_sum: of these ids under the plain softmax."""

    ids: list[int]
    finish: Finish
    stats: GenerationStats
    logprob_sum: float


def generate(
    backbone: Backbone,
    prompt: Sequence[int],
    *,
    store: PrefixStore,
    sampling: Sampling = GREEDY,
    max_new_tokens: int,
    end_ids: Collection[int],
    drafter: Drafter | None = None,
    draft_length: int | None = None,
    stop: StopCallback | None = None,
    constraint: Constraint | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    on_pass: Callable[[Draft, Sequence[int]], None] | None = None,
    on_tokens: Callable[[Sequence[int]], None] | None = None,
) -> Generation:
    """Continue `prompt` until an end id, the stop callback, max_new_tokens, the context's end or a cancel.

    draft_length: drafted tokens a pass at most; None takes the drafter's own. max_new_tokens 0 only reads the
    prompt in. on_pass gets each pass's draft and the indices accepted of it, on_tokens each block of new ids once it
    is committed. `cancelled` is read before every chunk and pass; a cancel is no error. Raises UsageError for a
    prompt that is empty, too long or not of this vocabulary; what a callback or the drafter raises comes through.
    """
    started = perf_counter()
    _check(backbone, prompt, max_new_tokens, draft_length)
    if draft_length is None:
        draft_length = drafter.draft_length if drafter is not None else 0
    limit = min(max_new_tokens, backbone.config.context_length - len(prompt))
    text = _Text(list(prompt), len(prompt), limit, sampling, frozenset(end_ids), stop, constraint)
    stats = GenerationStats(prompt_tokens=len(prompt))
    cache, stats.reused_tokens = store.take(text.ids, limit)
    taps = () if drafter is None else tuple(drafter.taps)
    run = _Run(backbone, cache, text, stats, taps, stats.reused_tokens)
    try:
        hidden = run.prefill(cancelled)
        stats.prefill_ms = _since(started)
        if hidden is not None:
            block = run.first(hidden)
            stats.first_token_ms = _since(started)
            decoding = perf_counter()
            if block and on_tokens is not None:
                on_tokens(block)
            if text.finish is None and drafter is not None:
                drafter.begin(prompt)
            while text.finish is None:
                if cancelled():
                    text.finish = "cancelled"
                    break
                draft = run.draft(drafter, hidden, draft_length)
                block, accepted, hidden = run.step(draft)
                if on_pass is not None:
                    on_pass(draft, accepted)
                if on_tokens is not None:
                    on_tokens(block)
                if drafter is not None and draft.ids and text.finish is None:
                    drafter.observe(draft, accepted)
            stats.decode_ms = _since(decoding)
    finally:
        run.give_back(store)
    stats.new_tokens = len(text.new)
    assert text.finish is not None
    return Generation(text.new, text.finish, stats, text.logprob_sum)


@dataclass
class _Text:
    """The ids so far and the one rule by which a token joins them."""

    ids: list[int]
    start: int
    limit: int
    sampling: Sampling
    end_ids: frozenset[int]
    stop: StopCallback | None
    constraint: Constraint | None
    finish: Finish | None = None
    logprob_sum: float = 0.0

    @property
    def new(self) -> list[int]:
        return self.ids[self.start :]

    @property
    def remaining(self) -> int:
        return self.limit - (len(self.ids) - self.start)

    def choose(self, scores: torch.Tensor) -> int:
        """The token that follows, from its scores [vocabulary]."""
        allowed = None if self.constraint is None else self.constraint(self.new)
        chosen = choose(scores[None], [len(self.ids)], self.sampling, [allowed])[0]
        self.logprob_sum += log_probability(scores, chosen)
        return chosen

    def commit(self, token: int) -> bool:
        """Take `token`; False when it is the last."""
        self.ids.append(token)
        if token in self.end_ids:
            self.finish = "stop"
        elif self.stop is not None and self.stop(self.new):
            self.finish = "scope"
        elif self.remaining <= 0:
            self.finish = "length"
        return self.finish is None


Hidden = dict["str | int", torch.Tensor]
NOTHING = Draft(())


@dataclass
class _Run:
    """The backbone at work on one cache, of which the first `sound` slots hold text.ids[:sound]."""

    backbone: Backbone
    cache: Cache
    text: _Text
    stats: GenerationStats
    taps: tuple[int, ...]
    sound: int

    def prefill(self, cancelled: Callable[[], bool]) -> Hidden | None:
        """Read the rest of the prompt; the hidden states of its last token [hidden], None when cancelled."""
        prompt, hidden = self.text.ids, None
        while self.sound < len(prompt):
            if cancelled():
                self.text.finish = "cancelled"
                return None
            result = self.backbone.forward(
                prompt[self.sound : self.sound + PREFILL_ROWS], self.cache, taps=self.taps
            )
            self.sound = self.cache.length
            hidden = {key: states[-1] for key, states in result.items()}
        return hidden

    def first(self, hidden: Hidden) -> list[int]:
        """The token that the prompt's last row yields, if one may come at all."""
        if self.text.remaining <= 0:
            self.text.finish = "length"
            return []
        token = self.text.choose(self.backbone.logits(hidden["final"][None])[0])
        self.text.commit(token)
        self.stats.first_tokens = 1
        return [token]

    def draft(self, drafter: Drafter | None, hidden: Hidden, length: int) -> Draft:
        """The next pass's draft, cut to what could be committed and to what the cache can hold."""
        # A pass adds the bonus too, so one token less than may still come.
        limit = min(length, self.text.remaining - 1, self.cache.capacity - self.cache.length - 1)
        if drafter is None or limit <= 0:
            return NOTHING
        draft = drafter.propose(DraftState(self.text.ids, hidden, self.cache, self.text.sampling), limit)
        parents = chain(len(draft.ids)) if draft.parents is None else draft.parents
        ids, kept = trim(draft.ids, parents, limit, self.backbone.config.vocabulary_size)
        if ids == draft.ids:
            return draft
        return Draft(ids, None if is_chain(kept) else kept, by=draft.by)

    def step(self, draft: Draft) -> tuple[list[int], list[int], Hidden]:
        """One pass: the ids it committed, the accepted drafts, the states [hidden] that chose the last id."""
        base, text = self.cache.length, self.text
        parents = chain(len(draft.ids)) if draft.parents is None else draft.parents
        rows = [text.ids[-1], *draft.ids]
        result = self.backbone.forward(rows, self.cache, row_parents(parents), self.taps)
        scores = self.backbone.logits(result["final"])
        before = len(text.ids)
        verified = verify(draft.ids, parents, lambda row: text.choose(scores[row]), text.commit)
        kept = verified.cached_rows
        if kept == tuple(range(len(kept))):
            self.cache.truncate(base + len(kept))
        else:
            self.cache.select(base, kept)
        self.sound = self.cache.length
        self.stats.count_pass(len(draft.ids), verified.tried, verified.accepted)
        last = kept[-1]
        return (
            text.ids[before:],
            [row - 1 for row in verified.rows[1:]],
            {key: states[last] for key, states in result.items()},
        )

    def give_back(self, store: PrefixStore) -> None:
        """Return the cache with the ids it surely holds; slots of a pass that did not finish are dropped."""
        if self.cache.length > self.sound:
            self.cache.truncate(self.sound)
        store.give(self.cache, self.text.ids[: self.sound])


def _since(start: float) -> float:
    return 1000 * (perf_counter() - start)


def _check(backbone: Backbone, prompt: Sequence[int], max_new_tokens: int, draft_length: int | None) -> None:
    config = backbone.config
    if not prompt:
        raise UsageError("The prompt is empty; give at least one token to continue.")
    if len(prompt) > config.context_length:
        raise UsageError(
            f"The prompt has {len(prompt)} tokens, the model's context {config.context_length}; shorten it."
        )
    if min(prompt) < 0 or max(prompt) >= config.vocabulary_size:
        raise UsageError(
            f"The prompt has ids outside the model's vocabulary of {config.vocabulary_size}; "
            "use the tokenizer that belongs to the model."
        )
    if max_new_tokens < 0:
        raise UsageError(f"The number of new tokens must be 0 or more, not {max_new_tokens}.")
    if draft_length is not None and draft_length < 0:
        raise UsageError(f"The draft length must be 0 or more, not {draft_length}.")

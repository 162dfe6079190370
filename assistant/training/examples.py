"""One sequence as the rows a head learns from: which rows count at which step, their inputs and their targets."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from assistant.training.head import Context, Head
from assistant.training.shards import Reading

SKIP = 4  # first rows of a sequence, whose states are like no other's


@dataclass(frozen=True)
class Step:
    """Step k of the rows `at` (those of the step before that `keep` names): targets [R] are indices into the draft
    vocabulary, soft [R, TOP] their best scores' places (-1: not in it) and shares [R, TOP] their probabilities."""

    at: Tensor
    keep: Tensor
    targets: Tensor
    soft: Tensor
    shares: Tensor


def place_of(vocabulary: Tensor, size: int) -> Tensor:
    """int64 [size]: an id's index in the draft vocabulary, -1 for none."""
    places = torch.full((size,), -1, dtype=torch.int64)
    places[vocabulary] = torch.arange(len(vocabulary))
    return places


def steps(reading: Reading, places: Tensor, count: int, begin: int = 0) -> list[Step]:
    """The rows of each step: at step k the text must have gone as the backbone chose up to t + k, as in decoding.

    Rows before `begin` are left out (evaluation looks at answers alone).
    """
    ids, choices = reading.ids, reading.choices
    first, end = max(SKIP, begin - 1), len(ids) - 1
    at = torch.arange(first, max(first, end))
    keep = torch.arange(len(at))
    found: list[Step] = []
    for k in range(1, count + 1):
        if k > 1:
            row = (at + k).clamp_max(len(ids) - 1)
            good = (at + k < len(ids)) & (ids[row] == choices[row - 1])
            keep = torch.nonzero(good)[:, 0]
            at = at[keep]
        if not len(at):
            break
        row = at + k
        found.append(
            Step(
                at,
                keep,
                places[choices[row]],
                places[reading.top_ids[row]],
                torch.softmax(reading.top_scores[row], -1),
            )
        )
    return found


def run(head: Head, reading: Reading, embeddings: Tensor, found: list[Step]) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each step (input x, output y, scores [R, V]); embeddings [T, H] of the sequence's ids."""
    inputs = reading.states[0] * reading.sizes[0][:, None]
    context: Context = head.context(inputs)
    states = torch.cat(list(reading.states), dim=-1)
    made: list[tuple[Tensor, Tensor, Tensor]] = []
    own: list[tuple[Tensor, Tensor]] = []
    for k, step in enumerate(found, start=1):
        embedding = embeddings[step.at + k]
        if k == 1:
            x = head.first_input(states[step.at], embedding)
        else:
            before_x, before_y, _ = made[-1]
            own = [(key[step.keep], value[step.keep]) for key, value in own]
            x = head.later_input(before_x[step.keep], before_y[step.keep], embedding)
        y, mine = head.layer(x, step.at, k, context, own)
        own.append(mine)
        made.append((x, y, head.scores(y)))
    return made

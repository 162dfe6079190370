"""Begins a head's projections in closed form: ridge regression from what step k sees to the layer's true input.

Rows are weighted by one over their target's size, so that a few large ones do not decide. Seconds instead of hours of
gradient steps from small random numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from assistant.training import examples
from assistant.training.head import Head, norm
from assistant.training.shards import Reading

DAMPING = 1e-3  # of the inputs' mean square


class Regression:
    """Sums of one regression: rows come in, the matrix comes out."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.gram = torch.zeros(inputs, inputs)
        self._cross = torch.zeros(inputs, outputs)

    def add(self, x: Tensor, y: Tensor) -> None:
        """x [R, inputs], y [R, outputs]."""
        weight = y.pow(2).mean(-1, keepdim=True).sqrt().reciprocal()
        self.gram += (x * weight).T @ (x * weight)
        self._cross += (x * weight).T @ (y * weight)

    def solve(self) -> Tensor:
        """[outputs, inputs]."""
        damping = DAMPING * self.gram.diagonal().mean().clamp_min(1e-6)  # no rows at all give zeros
        gram = (self.gram + damping * torch.eye(len(self.gram))).double()
        solved: Tensor = torch.linalg.solve(gram, self._cross.double()).float()
        return solved.T.contiguous()


@torch.no_grad()
def begin(head: Head, readings: Iterable[tuple[Reading, Tensor]], places: Tensor) -> tuple[Tensor, Tensor]:
    """Sets head.first and head.later and gives their inputs' second moments; readings: sequences and the embeddings of
    their ids."""
    hidden = head.config.hidden_size
    kept = list(readings)
    first, later = Regression(4 * hidden, hidden), Regression(3 * hidden, hidden)
    for reading, embeddings in kept:
        for step in examples.steps(reading, places, 1):
            states = torch.cat(list(reading.states), dim=-1)[step.at]
            seen = torch.cat([states, norm(embeddings[step.at + 1], head.epsilon)], -1)
            first.add(seen, _true(reading)[step.at + 1] / head.scale)
    head.first.copy_(first.solve())
    for reading, embeddings in kept:
        found = examples.steps(reading, places, 2)
        if len(found) < 2:
            continue
        x, y, _ = examples.run(head, reading, embeddings, found[:1])[0]
        keep, at = found[1].keep, found[1].at
        parts = (x[keep], y[keep], embeddings[at + 2])
        seen = torch.cat([norm(part, head.epsilon) for part in parts], -1)
        later.add(seen, _true(reading)[at + 2] / head.scale)
    head.later.copy_(later.solve())
    return first.gram, later.gram


def _true(reading: Reading) -> Tensor:
    """The last layer's true inputs [T, H]."""
    return reading.states[0] * reading.sizes[0][:, None]

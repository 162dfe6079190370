"""Free-running acceptance on sequences kept aside, without decoding: how many of the next tokens a head gets right.

Counts rows of answers where the text went as the backbone chose, which is where decoding would stand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from assistant.training import examples
from assistant.training.head import Head
from assistant.training.shards import Reading


@dataclass
class Acceptance:
    """tried[k]: rows where the k drafts before were right; right[k]: those where the next was right too."""

    tried: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)

    @property
    def shares(self) -> list[float]:
        """Acceptance at each position, given that the earlier ones were accepted."""
        return [r / t if t else 0.0 for r, t in zip(self.right, self.tried, strict=True)]

    @property
    def tokens_per_pass(self) -> float:
        """Expected of a chain of this length."""
        total, alive = 1.0, 1.0
        for share in self.shares:
            alive *= share
            total += alive
        return total


@torch.no_grad()
def acceptance(head: Head, readings: Iterable[tuple[Reading, Tensor]], places: Tensor, count: int) -> Acceptance:
    """Acceptance at positions 1..count."""
    found = Acceptance([0] * count, [0] * count)
    for reading, embeddings in readings:
        steps = examples.steps(reading, places, count, reading.start)
        alive: Tensor | None = None
        made = examples.run(head, reading, embeddings, steps)
        for k, (step, (_, _, scores)) in enumerate(zip(steps, made, strict=True)):
            # an alive row whose text left the backbone's choices is neither right nor wrong
            alive = torch.ones(len(step.at), dtype=torch.bool) if alive is None else alive[step.keep]
            right = (scores.argmax(-1) == step.targets) & alive
            found.tried[k] += int(alive.sum())
            found.right[k] += int(right.sum())
            alive = right
    return found

"""Stored weights as torch tensors, without a copy.

The int8 layout is bitsandbytes': rows of int8 and their absolute maxima.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from assistant.models.store import StoredModel

# Scores that lie this close to the best int8 score are computed again with finer weights: many times the error of an
# int8 score (about 0.03), so that the greedy choice is theirs; seldom more than a few tokens.
MARGIN = 3.0


def matrix(stored: StoredModel, names: Sequence[str]) -> Tensor:
    """The tensors `names`, adjacent in the file, joined over the first axis; nobody may write to it."""
    array = stored.array(names[0]) if len(names) == 1 else stored.fused(list(names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that the mapping is read-only; nobody here writes
        return torch.from_numpy(array)

"""Trains a projection in coordinates where its inputs are uncorrelated and of one size.

What tells one next token from another lies in directions of the states that vary little; plain gradient steps, Adam's
too, hardly move there. With W = V C^(-1/2), C the inputs' covariance, V is trained and W only follows (as one factor of
K-FAC does, arXiv:1503.05671).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

DAMPING = 1e-2  # of the inputs' mean square


class Whitened:
    """`target` [outputs, inputs] stays a parameter of its module; `value` is what the optimiser moves."""

    def __init__(self, target: nn.Parameter, white: Tensor, value: Tensor) -> None:
        self._target = target
        self.white = white
        self.value = nn.Parameter(value)

    @classmethod
    def of(cls, target: nn.Parameter, gram: Tensor) -> Whitened:
        """gram [inputs, inputs]: the inputs' second moments, in any unit."""
        gram = gram / gram.diagonal().mean().clamp_min(1e-12)
        sizes, turn = torch.linalg.eigh(gram + DAMPING * torch.eye(len(gram)))
        roots = sizes.clamp_min(DAMPING).sqrt()
        return cls(target, (turn / roots) @ turn.T, target.detach() @ ((turn * roots) @ turn.T))

    def take_gradient(self) -> None:
        """After backward: the gradient in the new coordinates."""
        own = self._target.grad  # none for a matrix that no step used
        self.value.grad = None if own is None else own @ self.white
        self._target.grad = None

    @torch.no_grad()
    def put_back(self) -> None:
        """After the optimiser's step: the module's own parameter."""
        self._target.copy_(self.value @ self.white)

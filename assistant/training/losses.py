"""What a draft costs: cross-entropy to begin with, then mostly what acceptance is made of.

Under rejection sampling a draft is accepted with probability 1 - TV(p, q), greedily when both take the same token; the
backbone's distribution is known by its best scores alone, whose shares are made to sum to one.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from assistant.training.examples import Step

HARD = 0.5  # share of the greedy choice in the cross-entropy; the rest is the best scores' shares


def cross_entropy(scores: Tensor, step: Step) -> Tensor:
    """Per row [R]; 0 where the target is not in the draft vocabulary."""
    logs = torch.log_softmax(scores, -1)
    hard = functional.nll_loss(logs, step.targets.clamp_min(0), reduction="none")
    known = (step.soft >= 0).float()
    soft = -(logs.gather(1, step.soft.clamp_min(0)) * step.shares * known).sum(-1)
    return (HARD * hard + (1 - HARD) * soft) * (step.targets >= 0)


def total_variation(scores: Tensor, step: Step) -> Tensor:
    """1 - the sum over tokens of min(p, q), per row [R]."""
    shares = torch.softmax(scores, -1).gather(1, step.soft.clamp_min(0)) * (step.soft >= 0)
    return 1 - torch.minimum(shares, step.shares).sum(-1)

"""Shares, medians and differences with 95% intervals, from plain lists of numbers.

Shares of yes/no outcomes get Wilson's interval, other means a percentile bootstrap, differences between two
measurements of the same cases a paired bootstrap. Every bootstrap is seeded: the same list gives the same
interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

_Z = 1.959963984540054  # two-sided 95%
DRAWS = 4000


def median(values: Sequence[float]) -> float:
    """The middle value; nan for an empty list, so that a table shows a gap instead of failing."""
    return float(np.median(values)) if len(values) else math.nan


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the list does not exceed, nearest rank; nan for an empty list."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)] if len(values) else math.nan


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """95% interval of a share. Raises ValueError unless 0 <= successes <= trials; no trials give (0, 1)."""
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials")
    if trials == 0:
        return (0.0, 1.0)
    share = successes / trials
    scale = 1 + _Z**2 / trials
    middle = (share + _Z**2 / (2 * trials)) / scale
    half = _Z * math.sqrt(share * (1 - share) / trials + _Z**2 / (4 * trials**2)) / scale
    return (max(0.0, middle - half), min(1.0, middle + half))


def share(outcomes: Sequence[bool]) -> dict[str, object]:
    """`{"share", "interval": [low, high]}` of yes/no outcomes; the share of nothing is None."""
    yes = sum(map(bool, outcomes))
    return {"share": yes / len(outcomes) if outcomes else None, "interval": list(wilson(yes, len(outcomes)))}


def bootstrap_mean(values: Sequence[float], seed: int = 0, draws: int = DRAWS) -> tuple[float, float]:
    """95% percentile interval of the mean; one value or none gives (value, value) or (nan, nan)."""
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return (math.nan, math.nan)
    means = _resampled_means(data, np.random.default_rng(seed), draws)
    low, high = np.percentile(means, [2.5, 97.5])
    return (float(low), float(high))


def mean(values: Sequence[float], seed: int = 0) -> dict[str, object]:
    """`{"mean", "interval": [low, high]}`; the mean of nothing is None."""
    if not len(values):
        return {"mean": None, "interval": [None, None]}
    return {"mean": float(np.mean(values)), "interval": list(bootstrap_mean(values, seed))}


def paired(
    ours: Sequence[float],
    theirs: Sequence[float],
    groups: Sequence[str] | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> dict[str, object]:
    """Mean of ours - theirs over the same cases, with its paired 95% interval.

    `groups` names what each case was cut from (several holes of one function are not independent); with it
    the interval of whole groups drawn together is given as well. Raises ValueError for lists of different
    lengths.
    """
    if len(ours) != len(theirs) or (groups is not None and len(groups) != len(ours)):
        raise ValueError(f"paired lists of different lengths: {len(ours)} and {len(theirs)}")
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    result: dict[str, object] = {
        "cases": len(differences),
        "difference": float(differences.mean()) if differences.size else None,
        "interval": list(bootstrap_mean(differences.tolist(), seed, draws)),
        "ours_better": int((differences > 0).sum()),
        "theirs_better": int((differences < 0).sum()),
    }
    if groups is not None and differences.size:
        result["interval_by_group"] = list(_grouped(differences, groups, seed, draws))
        result["groups"] = len(set(groups))
    return result


def _resampled_means(data: np.ndarray, generator: np.random.Generator, draws: int) -> np.ndarray:
    """Means of `draws` resamples, made in slices: all at once would take draws x cases of memory."""
    means = np.empty(draws)
    step = max(1, 2_000_000 // data.size)
    for start in range(0, draws, step):
        count = min(step, draws - start)
        picks = generator.integers(0, data.size, (count, data.size))
        means[start : start + count] = data[picks].mean(axis=1)
    return means


def _grouped(differences: np.ndarray, groups: Sequence[str], seed: int, draws: int) -> tuple[float, float]:
    names = {name: index for index, name in enumerate(dict.fromkeys(groups))}
    which = np.array([names[name] for name in groups])
    sums = np.bincount(which, weights=differences, minlength=len(names))
    sizes = np.bincount(which, minlength=len(names)).astype(np.float64)
    picks = np.random.default_rng(seed).integers(0, len(names), (draws, len(names)))
    low, high = np.percentile(sums[picks].sum(axis=1) / sizes[picks].sum(axis=1), [2.5, 97.5])
    return (float(low), float(high))

"""`tokenleap bench accuracy`: the int8 engine against fp32 on real code, token by token, and fp32 against
transformers.

Both engines read the same windows of text from packages that nothing was tuned on. The greedy choice, the
probability of the token that follows and the Kullback-Leibler divergence are compared at every position but a
window's last.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from assistant.bench import model, sources
from assistant.bench.intervals import bootstrap_mean, median
from assistant.engine.backbone import Backbone
from assistant.errors import UsageError

# Installed with torch everywhere, and used for tuning nowhere.
PACKAGES = ("networkx", "jinja2", "sympy")
WINDOW = 512
_ROWS = 64  # scored at once: 64 x 151,936 float32 scores are 39 MB for each engine

Report = Callable[[str], None]


def windows(
    encode: Callable[[str], list[int]],
    packages: Sequence[str],
    tokens: int,
    window: int = WINDOW,
    seed: int = 0,
) -> list[list[int]]:
    """Windows of `window` ids each, one a file, drawn by `seed`, holding at least `tokens` compared positions
    in all.

    Raises UsageError when the packages hold too little text.
    """
    generator = random.Random(seed)
    found: list[list[int]] = []
    for source in sources.drawn(packages, seed):
        # Characters are about a third of a token each; encode no more of a file than the window can need.
        lines = source.text.splitlines(keepends=True)
        start = generator.randrange(max(1, len(lines) // 2))
        ids = encode("".join(lines[start:])[: window * 8])[:window]
        if len(ids) == window:
            found.append(ids)
        if len(found) * (window - 1) >= tokens:
            return found
    raise UsageError(f"{', '.join(packages)} hold only {len(found) * (window - 1)} tokens; name more with --packages.")


def _scores(backbone: Backbone, ids: Sequence[int]) -> Iterator[torch.Tensor]:
    """Log-probabilities float32 [rows, vocabulary] of the token after each of `ids`, a few rows at a time."""
    cache = backbone.new_cache(len(ids))
    for start in range(0, len(ids), _ROWS):
        hidden = backbone.forward(ids[start : start + _ROWS], cache)["final"]
        yield torch.log_softmax(backbone.logits(hidden), dim=-1)


def compare(
    ours: Backbone, reference: Backbone, texts: Sequence[Sequence[int]], report: Report | None = None
) -> dict[str, Any]:
    """How far `ours` is from `reference` over the windows `texts` (lists of ids)."""
    same: list[bool] = []
    divergence: list[float] = []
    loss: dict[str, list[float]] = {"ours": [], "reference": []}
    right: dict[str, list[bool]] = {"ours": [], "reference": []}
    difference_by_window: list[float] = []
    for number, ids in enumerate(texts, start=1):
        if report is not None:
            report(f"accuracy: window {number} of {len(texts)}")
        at, begin = 0, len(same)
        for mine, theirs in zip(_scores(ours, ids), _scores(reference, ids), strict=True):
            targets = torch.tensor(ids[at + 1 : at + 1 + mine.shape[0]])
            rows = len(targets)  # one less in the last part: nothing follows its last token
            mine, theirs = mine[:rows], theirs[:rows]
            chosen, expected = mine.argmax(-1), theirs.argmax(-1)
            same += (chosen == expected).tolist()
            divergence += (theirs.exp() * (theirs - mine)).sum(-1).tolist()
            for name, scores, choice in (("ours", mine, chosen), ("reference", theirs, expected)):
                loss[name] += (-scores.gather(1, targets[:, None])[:, 0]).tolist()
                right[name] += (choice == targets).tolist()
            at += mine.shape[0]
        difference_by_window.append(float(np.mean(loss["ours"][begin:]) - np.mean(loss["reference"][begin:])))
    mean_difference = float(np.mean(loss["ours"]) - np.mean(loss["reference"]))
    low, high = bootstrap_mean(difference_by_window)
    return {
        "tokens": len(same),
        "windows": len(texts),
        "same_choice": float(np.mean(same)),
        "perplexity": math.exp(float(np.mean(loss["ours"]))),
        "perplexity_reference": math.exp(float(np.mean(loss["reference"]))),
        "perplexity_ratio": math.exp(mean_difference),
        "perplexity_ratio_interval": [math.exp(low), math.exp(high)],
        "mean_kl": float(np.mean(divergence)),
        "median_kl": median(divergence),
        "next_token_right": float(np.mean(right["ours"])),
        "next_token_right_reference": float(np.mean(right["reference"])),
    }


def measure(
    name: str,
    tokens: int = 20_000,
    packages: Sequence[str] = PACKAGES,
    window: int = WINDOW,
    seed: int = 0,
    threads: int = 0,
    report: Report | None = None,
) -> dict[str, Any]:
    """The object of `bench accuracy --json`: int8 against fp32 of the model `name`."""
    ours = model.load(name, "int8", threads)
    texts = windows(ours.tokenizer.encode, packages, tokens, window, seed)
    reference = model.load(name, "fp32", threads)
    found = compare(ours.backbone, reference.backbone, texts, report)
    return found | {
        "packages": {package: sources.version(package) for package in packages},
        "window": window,
        "engine": ours.plan.path,
        "model": ours.backbone.name,
        "seed": seed,
    }


def against(
    ours: Backbone,
    reference: Backbone,
    prompts: Sequence[Sequence[int]],
    steps: int = 64,
    report: Report | None = None,
) -> dict[str, Any]:
    """Largest difference of scores over whole prompts, and whether `steps` greedy tokens agree one by one."""
    largest: list[float] = []
    agreed: list[int] = []
    for number, prompt in enumerate(prompts, start=1):
        if report is not None:
            report(f"accuracy: prompt {number} of {len(prompts)}")
        mine, theirs = ours.new_cache(len(prompt) + steps), reference.new_cache(len(prompt) + steps)
        widest = 0.0
        left = right = torch.empty(0)
        for start in range(0, len(prompt), _ROWS):
            rows = prompt[start : start + _ROWS]
            left = ours.logits(ours.forward(rows, mine)["final"])
            right = reference.logits(reference.forward(rows, theirs)["final"])
            widest = max(widest, float((left - right).abs().max()))
        largest.append(widest)
        agreed.append(_greedy(ours, mine, reference, theirs, (left[-1], right[-1]), steps))
    return {
        "prompts": len(prompts),
        "prompt_tokens": [len(prompt) for prompt in prompts],
        "largest_difference": max(largest, default=0.0),
        "largest_differences": largest,
        "steps": steps,
        "equal_tokens": agreed,
        "all_equal": all(count == steps for count in agreed),
    }


def _greedy(
    ours: Backbone,
    mine: Any,
    reference: Backbone,
    theirs: Any,
    last: tuple[torch.Tensor, torch.Tensor],
    steps: int,
) -> int:
    """How many greedy tokens are equal before the first difference; both engines go their own way."""
    left, right = last
    for step in range(steps):
        a, b = int(left.argmax()), int(right.argmax())
        if a != b:
            return step
        left = ours.logits(ours.forward([a], mine)["final"])[-1]
        right = reference.logits(reference.forward([b], theirs)["final"])[-1]
    return steps

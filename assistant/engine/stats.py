"""Counts and times of a generation, and the figures made of them, named as in the command line's JSON.

drafted: tokens proposed and run; accepted: those of them that the backbone confirmed, the bonus never among
them; a pass: one forward of the backbone after the prefill. Sums of several generations are made with `add`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class GenerationStats:
    """prefill_ms: until the prompt is read; first_token_ms: to the first token; decode_ms: from there on."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    new_tokens: int = 0
    first_tokens: int = 0  # new tokens that a prefill yielded, not a pass: at most one a generation
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    # Blocks where position n was drafted and 1..n-1 accepted, and those of them where n was accepted too.
    tried_by_position: list[int] = field(default_factory=list)
    accepted_by_position: list[int] = field(default_factory=list)
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    first_token_ms: float = 0.0

    def count_pass(self, drafted: int, tried: int, accepted: int) -> None:
        """One pass of `drafted` tokens; its walk met drafts at `tried` depths and accepted `accepted`."""
        self.passes += 1
        self.drafted += drafted
        self.accepted += accepted
        missing = tried - len(self.tried_by_position)
        self.tried_by_position += [0] * missing
        self.accepted_by_position += [0] * missing
        for depth in range(tried):
            self.tried_by_position[depth] += 1
            self.accepted_by_position[depth] += depth < accepted

    @property
    def tokens_per_pass(self) -> float:
        """New tokens a pass, the prefill's one left out; 0 without passes."""
        return (self.new_tokens - self.first_tokens) / self.passes if self.passes else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Decoding alone, the prefill's token left out; 0 without passes."""
        return 1000 * (self.new_tokens - self.first_tokens) / self.decode_ms if self.passes else 0.0

    def add(self, other: GenerationStats) -> None:
        """Sum `other` into this one, counts and times alike."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(value, list):
                length = max(len(mine), len(value))
                sums = [0] * length
                for counts in (mine, value):
                    for position, count in enumerate(counts):
                        sums[position] += count
                setattr(self, name, sums)
            else:
                setattr(self, name, mine + value)

    def summary(self) -> dict[str, Any]:
        """The JSON fields: counts, times in milliseconds, accepted_by_position as shares."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "reused_tokens": self.reused_tokens,
            "new_tokens": self.new_tokens,
            "passes": self.passes,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "tokens_per_pass": self.tokens_per_pass,
            "accepted_by_position": [
                accepted / tried
                for accepted, tried in zip(self.accepted_by_position, self.tried_by_position, strict=True)
            ],
            "first_token_ms": self.first_token_ms,
            "prefill_ms": self.prefill_ms,
            "decode_ms": self.decode_ms,
            "tokens_per_second": self.tokens_per_second,
        }

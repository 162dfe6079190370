"""What the screens show of the host's work: the latest generations of all clients and the figures made of them.

Plain values without Textual: events go in by `take`, everything else reads. A generation is named by its host's
process and its number there, so that what a host tells again after a new connection counts once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from assistant.service.protocol import Block, Committed, CompletionResult, Event, Finished, Started, Step

KEPT = 200
DRAFTED = ("mtp", "lookup")
KINDS = {"invoked": "asked", "automatic": "typing", "warm": "warming"}


@dataclass
class Generation:
    """One generation, running until `finished` is there."""

    host: int
    started: Started
    blocks: list[Block] = field(default_factory=list)
    step: Step | None = None
    finished: Finished | None = None

    @property
    def result(self) -> CompletionResult | None:
        return self.finished.result if self.finished is not None else None

    @property
    def kind(self) -> str:
        """Who wanted it, in a word."""
        request = self.started.request
        if not self.started.attended:
            return "ahead"
        return KINDS.get(request.trigger, request.trigger)

    @property
    def tokens(self) -> int:
        return sum(len(block.tokens) for block in self.blocks)

    @property
    def speed(self) -> float:
        """Tokens per second since the first token, of a running generation too; 0 when there is none yet."""
        if self.result is not None:
            return self.result.tokens_per_second
        if len(self.blocks) < 2:
            return 0.0
        elapsed = self.blocks[-1].ms - self.blocks[0].ms
        return 1000 * (self.tokens - len(self.blocks[0].tokens)) / elapsed if elapsed > 0 else 0.0

    @property
    def outcome(self) -> str:
        """A word for how it ended."""
        if self.finished is None:
            return "running"
        if self.finished.result is None:
            return "cancelled" if self.finished.code == "cancelled" else "failed"
        if self.kind == "warming":
            return "ready"
        return self.finished.result.finish_reason


def passes(blocks: list[Block]) -> Iterator[tuple[int, int]]:
    """(drafted, accepted) of each pass that drafted."""
    for block in blocks:
        if block.drafted:
            yield block.drafted, sum(token.origin in DRAFTED for token in block.tokens)


class Live:
    """All that is known. Not safe for use by several threads."""

    def __init__(self) -> None:
        self._all: dict[tuple[int, int], Generation] = {}
        self.running: Generation | None = None

    def take(self, host: int, event: Event) -> None:
        """`host`: the process that told it. Of a generation whose beginning was never told, nothing is kept."""
        key = (host, event.job)
        if isinstance(event, Started):
            self._all.setdefault(key, Generation(host, event))
            if self._all[key].finished is None:
                self.running = self._all[key]
            while len(self._all) > KEPT:
                del self._all[next(iter(self._all))]
            return
        known = self._all.get(key)
        if known is None or known.finished is not None:
            return
        if isinstance(event, Step):
            known.step = event
        elif isinstance(event, Committed):
            known.blocks.append(event.block)
        else:
            known.finished = event
            known.blocks = list(event.blocks)
            if self.running is known:
                self.running = None

    def lost(self) -> None:
        """The host went away, and what ran there with it."""
        if self.running is not None:
            self.take(self.running.host, Finished(0, self.running.started.job, None, "host", "the host went away"))

    def get(self, key: tuple[int, int]) -> Generation | None:
        return self._all.get(key)

    def latest(self) -> list[tuple[tuple[int, int], Generation]]:
        """The newest first; warming and what nobody waited for among them."""
        return list(reversed(self._all.items()))

    def measured(self) -> list[CompletionResult]:
        """Results of the model's own work, the oldest first."""
        found = [made.result for made in self._all.values()]
        return [result for result in found if result is not None and result.passes > 0]

    def acceptance(self) -> list[tuple[int, int]]:
        """For each position of a draft (accepted, tried there), where all before it had been accepted."""
        counts: list[list[int]] = []
        for made in self._all.values():
            for drafted, accepted in passes(made.blocks):
                tried = min(drafted, accepted + 1)
                counts += [[0, 0] for _ in range(tried - len(counts))]
                for position in range(tried):
                    counts[position][0] += position < accepted
                    counts[position][1] += 1
        return [(accepted, tried) for accepted, tried in counts]

    def reuse(self) -> float | None:
        """Share of prompt tokens that were kept from earlier."""
        results = [made.result for made in self._all.values() if made.result is not None]
        prompt = sum(result.prompt_tokens for result in results)
        return sum(result.reused_tokens for result in results) / prompt if prompt else None

    def trouble(self) -> Finished | None:
        """The latest generation's failure, unless it was only cancelled."""
        for made in reversed(self._all.values()):
            if made.finished is not None:
                failed = made.finished.result is None and made.finished.code != "cancelled"
                return made.finished if failed else None
        return None

    def asked_otherwise(self, values: dict[str, object]) -> dict[str, object]:
        """Of the settings in `values`, those for which the latest request of an editor had another value."""
        for made in reversed(self._all.values()):
            request = made.started.request
            if request.trigger == "automatic":
                asked = {name: getattr(request, name) for name in values if hasattr(request, name)}
                return {name: value for name, value in asked.items() if value != values[name]}
        return {}

"""How long to wait before a request that nobody asked for by hand goes to the engine.

Adaptive: about as long as the gaps between the last keys, less what an answer takes anyway, and half as long where
the text invites a suggestion. Nothing where an earlier answer goes on as typed: that costs no pass. Plain rules;
times are seconds and come from the caller.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import fmean

GAPS = 20
SLOWEST_GAP = 2.0  # a longer one is a pause, not typing
GAP_LIMITS = (0.1, 0.4)
DELAY_LIMITS = (0.02, 0.3)
_INVITING = tuple("([{.,=: \t")
_REMEMBERED = 16  # answers of one document
_TAIL = 64  # characters before and after the cursor by which an answer's place is known again


class Pace:
    """Learns the speed of typing and of answering."""

    def __init__(self) -> None:
        self._gaps: deque[float] = deque(maxlen=GAPS)
        self._last: float | None = None
        self._answer = 0.0

    def typed(self, now: float) -> None:
        """A small change was made."""
        if self._last is not None and 0 < now - self._last < SLOWEST_GAP:
            self._gaps.append(now - self._last)
        self._last = now

    def answered(self, seconds: float) -> None:
        """A request took this long, the delay not counted."""
        self._answer = seconds if self._answer == 0 else 0.8 * self._answer + 0.2 * seconds

    def delay(self, line_before: str) -> float:
        """Seconds to wait with the cursor behind `line_before`."""
        if not self._gaps:
            return DELAY_LIMITS[0]
        low, high = GAP_LIMITS
        gap = min(max(fmean(self._gaps), low), high)
        inviting = not line_before.strip() or line_before.endswith(_INVITING)
        least, most = DELAY_LIMITS
        return min(max(gap * (0.5 if inviting else 1.0) - self._answer, least), most)


@dataclass(frozen=True)
class _Given:
    before: str
    after: str
    text: str


class Expected:
    """The last answers of one document, to tell whether what was typed since goes along with one of them."""

    def __init__(self) -> None:
        self._given: deque[_Given] = deque(maxlen=_REMEMBERED)

    def add(self, prefix: str, suffix: str, text: str) -> None:
        if text:
            self._given.append(_Given(prefix[-_TAIL:], suffix[:_TAIL], text))

    def goes_on(self, prefix: str, suffix: str) -> bool:
        """The engine host most likely has this answer already."""
        return any(self._continues(given, prefix, suffix) for given in self._given)

    @staticmethod
    def _continues(given: _Given, prefix: str, suffix: str) -> bool:
        if suffix[:_TAIL] != given.after:
            return False
        start = prefix.rfind(given.before, max(0, len(prefix) - _TAIL - len(given.text)))
        if start < 0:
            return False
        typed = prefix[start + len(given.before) :]
        # All of it, too: what comes after it is prepared as if it were accepted.
        return given.text.startswith(typed)

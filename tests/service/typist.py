"""A desk, a model without an engine and a clock, all moved step by step by a test that types."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from assistant.service.answers import Answers
from assistant.service.desk import Desk
from assistant.service.engine_api import SoFar
from assistant.service.protocol import CompletionRequest, CompletionResult, Failure, Result

PROGRAM = "ab(a):\n  b = a\n\n  aab b\nba\n  abba(b)\n"


def says(prefix: str) -> str:
    """What the model answers: mostly the rest of PROGRAM, else something that only the prefix decides."""
    if PROGRAM.startswith(prefix):
        return PROGRAM[len(prefix) : len(prefix) + 14].rstrip()
    digest = hashlib.sha256(prefix.encode()).digest()
    return "".join("ab \n"[byte % 4] for byte in digest[: digest[0] % 12]).rstrip()


@dataclass
class Asked:
    """A request, and what came back for it."""

    request: CompletionRequest
    document: str
    messages: list = field(default_factory=list)

    @property
    def finals(self) -> list:
        return [message for message in self.messages if isinstance(message, Result | Failure)]

    @property
    def result(self) -> CompletionResult | None:
        (final,) = self.finals
        return final.result if isinstance(final, Result) else None


class Typist:
    """Asks at `prefix`, which a test changes as it likes; `step` moves the model on by one pass."""

    def __init__(self, limit: int = 4 << 20) -> None:
        self.now = 0.0
        self.desk = Desk(clock=lambda: self.now)
        self.desk.answers = Answers(limit)
        self.prefix = ""
        self.asked: list[Asked] = []
        self.runs: list[CompletionRequest] = []
        self._ticket = None
        self._position = 0

    def ask(self, document: str = "d", **change) -> Asked:
        options = {"trigger": "automatic", "ahead": True, "document": document, **change}
        asked = Asked(CompletionRequest(self.prefix, **options), document)
        self.asked.append(asked)
        number = len(self.asked)
        self.desk.submit(number, number, asked.request, document, asked.messages.append)
        return asked

    def cancel(self, number: int) -> None:
        self.desk.cancel(number)

    def step(self) -> bool:
        """One pass of three characters; False when there was nothing to do."""
        if self._ticket is None:
            self._ticket = self.desk.next()
            self._position = 0
            if self._ticket is None:
                return False
            self.runs.append(self._ticket.job.request)
            return True
        ticket, job = self._ticket, self._ticket.job
        text = "" if job.request.trigger == "warm" else says(job.request.prefix)
        stopped = self.desk.stopped(ticket)
        if not stopped and self._position < len(text):
            self.desk.told_first(job)
            self._position += 3
            raw = text[: self._position]
            self.desk.told_so_far(job, SoFar(raw, 10, 4, len(raw), self._position // 3))
            settled = raw if self._position >= len(text) else raw[: max(0, raw.rfind("\n"))].rstrip()
            if len(settled) > len(job.text):
                self.desk.told_text(job, settled[len(job.text) :])
            return True
        finish = "cancelled" if stopped else "stop" if text else "empty"
        kept = text[: self._position] if stopped else text
        result = CompletionResult(kept, finish, None if text else "end", "m", "int8", "auto", 10, 4, 5, 3)
        self._ticket = None
        self.desk.finish(ticket, result)
        return True

    def drain(self) -> None:
        for _ in range(10_000):
            if not self.step():
                return
        raise AssertionError("it never comes to rest")

    def answer(self, **change) -> CompletionResult | None:
        """Ask and let the model work until there is an answer."""
        asked = self.ask(**change)
        while not asked.finals:
            assert self.step()
        return asked.result

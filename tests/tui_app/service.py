"""A scripted Service, errands and figures for the interface: no host, no model, nothing that depends on time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assistant.errors import HostError, TokenleapError
from assistant.service import protocol
from assistant.service.errands import OnStep
from assistant.service.pending import Pending
from assistant.service.protocol import (
    Block,
    Committed,
    CompletionRequest,
    CompletionResult,
    Event,
    Finished,
    HostStatus,
    Started,
    Token,
)

STATUS = HostStatus(
    pid=4711, protocol=protocol.PROTOCOL, build="b", uptime_s=60.0, state="idle", model="qwen2.5-coder-0.5b",
    precision="int8", engine="cpu/c", engine_reason="avx512_vnni", rss_bytes=612_000_000, peak_rss_bytes=700_000_000,
    clients=2, requests=3, waiting=0, prefix_store_bytes=0, answer_cache_bytes=0, passes=9, prompt_tokens=100,
    reused_tokens=80, prepared=0, log="",
)  # fmt: skip
RESULT = CompletionResult(
    "return total", "scope", None, "qwen2.5-coder-0.5b", "int8", "auto", prompt_tokens=100, reused_tokens=80,
    new_tokens=7, passes=3, drafted=8, accepted=4, tokens_per_pass=2.0, accepted_by_position=(1.0, 0.5),
    prefill_ms=40.0, decode_ms=60.0, tokens_per_second=50.0,
)  # fmt: skip
BLOCKS = (
    Block(40.0, 0, (Token("return", "prompt"),)),
    Block(60.0, 4, (Token(" to", "mtp"), Token("tal", "mtp"), Token("[b", "lookup"), Token("]", "model"))),
    Block(100.0, 4, (Token("\n", "mtp"), Token("", "model"))),
)
CATALOG = [
    {
        "id": f"qwen2.5-coder-{size}", "bytes": count, "licence": "Apache-2.0", "ready": ready, "damaged": [],
        "source": "", "title": f"Qwen2.5-Coder {size.upper()}", "licence_note": "", "needs_consent": False,
        "needs_bytes": {"int8": count, "fp32": count * 4},
    }
    for size, count, ready in (("0.5b", 491_000_000, ["int8"]), ("1.5b", 1_117_000_000, []))
]  # fmt: skip
DOCTOR = {
    "healthy": False,
    "processor": {"state": "ok", "text": "a processor [x86_64], 2 usable cores"},
    "model": {"state": "problem", "text": "the model is not installed: run `tokenleap models pull`"},
}
MEASURED = {
    "rows_ms": {str(rows): 20.0 + rows for rows in range(1, 17)}, "prefill_tokens_per_second": 400.0,
    "model": "qwen2.5-coder-0.5b", "precision": "int8", "engine": "cpu/c", "draft_ms": 1.0, "threads": 2,
}  # fmt: skip
AT = 1_760_000_000.0


def spread(median: float | None) -> dict[str, Any]:
    return {"n": 0 if median is None else 9, "median_ms": median, "p95_ms": None if median is None else median * 2}


def span(count: int) -> dict[str, Any]:
    return {
        "answers": count, "shown": count, "accepted": count // 2, "partly_accepted": 1, "kept_share": 0.75,
        "characters": {"accepted": count * 30}, "stages_ms": {"answer": spread(120.0)}, "tokens_reused_share": 0.9,
    }  # fmt: skip


def tally() -> dict[str, dict[str, Any]]:
    return {"today": span(10), "7 days": span(70), "all": span(1234)}


def events(job: int = 1, path: str = "src/cart.py", **more: Any) -> list[Event]:
    """A whole generation as the host tells it."""
    request = CompletionRequest("", path=path, language="python", trigger="automatic", **more)
    return [
        Started(1, job, AT + job, request, True),
        *(Committed(1, job, block) for block in BLOCKS),
        Finished(1, job, RESULT, blocks=BLOCKS),
    ]


@dataclass
class Scripted:
    """The client's interface. `up`: a host runs. `answers`: what completes, by decode; an exception is raised."""

    up: bool = True
    status_now: HostStatus = STATUS
    answer: CompletionResult | TokenleapError | None = RESULT
    pieces: Sequence[str] = ("return ", "total")
    told: list[Event] = field(default_factory=list)
    asked: list[CompletionRequest] = field(default_factory=list)
    hold: threading.Event | None = None
    cancelled: list[int] = field(default_factory=list)
    connected: list[bool] = field(default_factory=list)
    _watching: list[Callable[[Event], None]] = field(default_factory=list)
    _ends: list[Callable[[str], None]] = field(default_factory=list)

    def connect(self, start: bool) -> Any:
        self.connected.append(start)
        if not self.up and not start:
            raise HostError("no engine host is running: any completion starts one")
        self.up = True
        return self

    def happen(self, *told: Event) -> None:
        for event in told:
            for on_event in self._watching:
                on_event(event)

    def go_away(self) -> None:
        self.up = False
        for on_end in self._ends:
            on_end("gone")
        self._watching, self._ends = [], []

    def watch(self, on_event: Callable[[Event], None], on_end: Callable[[str], None]) -> None:
        self._watching.append(on_event)
        self._ends.append(on_end)
        for event in self.told:
            on_event(event)

    def status(self) -> HostStatus:
        if not self.up:
            raise HostError("no engine host is running: any completion starts one")
        return self.status_now

    def submit(self, request: CompletionRequest, on_done: Callable[[Pending], None] | None = None) -> Pending:
        request.check()
        self.asked.append(request)
        number = len(self.asked)
        pending = Pending(number, self.cancelled.append, on_done=on_done)
        threading.Thread(target=self._answer, args=(number, pending, request), daemon=True).start()
        return pending

    def _answer(self, number: int, pending: Pending, request: CompletionRequest) -> None:
        pending.deliver(protocol.First(number))
        for piece in self.pieces if request.stream and isinstance(self.answer, CompletionResult) else ():
            pending.deliver(protocol.Text(number, piece))
        if self.hold is not None:
            self.hold.wait(30)
        if isinstance(self.answer, TokenleapError):
            pending.deliver(protocol.failure(number, self.answer))
        else:
            answer = self.answer and replace(self.answer, decode=request.decode)
            pending.deliver(protocol.Result(number, answer))

    def close(self) -> None:
        pass


@dataclass
class ScriptedErrand:
    name: str
    words: Sequence[str]
    answer: Any
    steps: Sequence[tuple[str, int, int]] = ()
    hold: threading.Event | None = None
    stopped: bool = False

    def run(self, on_step: OnStep = lambda step, done, total: None) -> Any:
        for step in self.steps:
            on_step(*step)
        if self.hold is not None:
            self.hold.wait(30)
        if isinstance(self.answer, TokenleapError):
            raise self.answer
        return self.answer

    def stop(self) -> None:
        self.stopped = True
        if self.hold is not None:
            self.hold.set()


@dataclass
class Errands:
    """Answers by name; what was asked is noted."""

    answers: dict[str, Any] = field(
        default_factory=lambda: {"catalog": CATALOG, "doctor": DOCTOR, "measure": MEASURED, "pull": ["folder"]}
    )
    steps: dict[str, Sequence[tuple[str, int, int]]] = field(default_factory=dict)
    holds: dict[str, threading.Event] = field(default_factory=dict)
    run: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def __call__(self, name: str, words: Sequence[str]) -> ScriptedErrand:
        self.run.append((name, tuple(words)))
        return ScriptedErrand(name, words, self.answers[name], self.steps.get(name, ()), self.holds.get(name))

"""Takes requests and answers each exactly once: from a stored answer, from a generation that runs, or from one of
its own; and decides what is prepared while nobody asks.

Plain rules, without threads or engine: the worker calls under its lock and tells what the engine does. `send` and
`tell` must return at once and must not call back. Nothing is sent for a request after its Result or Failure. What
goes on is told to `tell`, as Events of a Watch 0.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from assistant.errors import TokenleapError
from assistant.service import aim, protocol
from assistant.service.answers import Answers
from assistant.service.engine_api import SoFar
from assistant.service.protocol import Block, CompletionRequest, CompletionResult, Event, Message
from assistant.service.tickets import INLINE, WARM, Ticket, Tickets

Send = Callable[[Message], None]

AFTER_CANCEL = 0.5  # seconds that an answer which has begun goes on, for the next key to be typed along with it


@dataclass
class Listener:
    """One request that waits. `typed`: what it has more before the cursor than the generation it waits for."""

    request_id: int
    request: CompletionRequest
    document: Hashable | None
    send: Send
    deadline: float | None  # on the desk's clock; from then on the first line is enough
    typed: str = ""
    source: str = "model"


@dataclass
class Job:
    """One generation: what it is for, who waits for it, and how far it is."""

    request: CompletionRequest
    number: int = 0  # once it runs
    listeners: dict[Hashable, Listener] = field(default_factory=dict)
    first: bool = False
    text: str = ""  # sure to stay, whole lines
    so_far: SoFar = field(default_factory=lambda: SoFar(""))
    blocks: list[Block] = field(default_factory=list)
    given: str = ""  # its first line, when that was an answer already
    cancelled_at: float | None = None  # the last who waited has cancelled, on the desk's clock

    def says(self, typed: str) -> bool:
        """What was typed is what it says."""
        return bool(typed) and (self.so_far.raw.startswith(typed) or self.text.startswith(typed))


class Desk:
    """Requests in, messages out. Not safe for use by several threads at once."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, tell: Callable[[Event], None] = lambda event: None
    ) -> None:
        self.answers = Answers()
        self.tickets: Tickets[Job] = Tickets()
        self.answered = 0
        self.prepared = 0
        self._jobs: dict[Hashable, Job] = {}
        self._clock = clock
        self._tell = tell
        self._numbers = itertools.count(1)

    def submit(
        self,
        key: Hashable,
        request_id: int,
        request: CompletionRequest,
        document: Hashable | None,
        send: Send,
    ) -> None:
        """A checked and windowed request. KeyError when `key` waits already."""
        if key in self._jobs:
            raise KeyError(key)
        automatic = request.trigger == "automatic"
        known = self.answers.get(request) if automatic else None
        if known is not None:
            priority, identity = INLINE, request.identity()
            self._answer_nothing(self.tickets.supersede(document, priority, identity, served=True))
            send(protocol.First(request_id))
            send(protocol.Result(request_id, known))
            self.answered += 1
            number = self._tell_started(request, attended=True)
            self._tell(protocol.Finished(0, number, known))
            self._prepare(request, known)
            return
        hurried = automatic and request.budget_ms > 0 and not request.stream
        deadline = self._clock() + request.budget_ms / 1000 if hurried else None
        self._wait(key, Listener(request_id, request, document, send, deadline))

    def cancel(self, key: Hashable) -> None:
        """Answer `key` as cancelled now. Its generation stops when nobody else waits for it; if it has begun to
        speak and may go on `ahead`, only after AFTER_CANCEL: the next request may be for what it says. Unknown
        keys: nothing.
        """
        job = self._jobs.get(key)
        if job is None:
            return
        request = job.listeners[key].request
        running = self.tickets.running
        if running is not None and running.job is job and job.so_far.raw and _may_go_on(request):
            self.tickets.release(key)
            job.cancelled_at = self._clock() if running.unattended else None
        else:
            self.tickets.cancel(key)
        self._fail(key, protocol.RequestCancelled("the request was cancelled"))

    def close(self, error: TokenleapError) -> None:
        """Answer all that wait with `error`."""
        for key in self.tickets.clear():
            self._fail(key, error)

    def next(self) -> Ticket[Job] | None:
        """The generation to run now, or None."""
        ticket = self.tickets.next()
        self.prepared += ticket is not None and ticket.unattended
        if ticket is not None:
            ticket.job.number = self._tell_started(ticket.job.request, attended=not ticket.unattended)
        return ticket

    def finish(self, ticket: Ticket[Job], outcome: CompletionResult | TokenleapError) -> None:
        """The generation has ended: answer all who wait for it."""
        job = ticket.job
        keys = self.tickets.finish(ticket)
        self._tell(_finished(job, outcome))
        if isinstance(outcome, TokenleapError):
            for key in keys:
                self._fail(key, outcome)
            return
        self.answers.put(job.request, outcome, given=bool(keys))
        for key in keys:
            listener = job.listeners[key]
            left = aim.left_of(outcome.completion, listener.typed)
            if left is None:  # it came out otherwise, or all of it is typed: this request needs its own
                self._take_out(key)
                listener.typed, listener.source = "", "model"
                self._wait(key, listener)
                continue
            result = replace(outcome, completion=left, source=listener.source)
            self._answer(key, result)
            self._prepare(listener.request, result)
        if not keys and job.given:  # what was shown, unless it has a rest that will be asked for first
            whole = aim.left_of(outcome.completion, job.given) is not None
            self._prepare(job.request, outcome if whole else replace(outcome, completion=job.given))

    # What the engine tells about a running generation.

    def stopped(self, ticket: Ticket[Job]) -> bool:
        """Whether it is of no use any more; asked before every chunk and pass, so here the clock is read."""
        job = ticket.job
        self._in_time(job)
        since = job.cancelled_at
        if since is not None and ticket.unattended and self._clock() >= since + AFTER_CANCEL:
            self.tickets.drop_unattended()
        return ticket.abandoned

    def told_first(self, job: Job) -> None:
        if not job.first:
            job.first = True
            for listener in job.listeners.values():
                listener.send(protocol.First(listener.request_id))

    def told_so_far(self, job: Job, so_far: SoFar) -> None:
        job.so_far = so_far
        if so_far.block is not None:
            job.blocks.append(so_far.block)
            self._tell(protocol.Committed(0, job.number, so_far.block))

    def told_text(self, job: Job, text: str) -> None:
        job.text += text
        for listener in job.listeners.values():
            if listener.request.stream and text:
                listener.send(protocol.Text(listener.request_id, text))
        self._in_time(job)

    def told_progress(self, job: Job, step: str, done: int, total: int) -> None:
        self._tell(protocol.Step(0, job.number, step, done, total))
        for listener in job.listeners.values():
            listener.send(protocol.Progress(listener.request_id, step, done, total))

    def _wait(self, key: Hashable, listener: Listener) -> None:
        """Join the generation that answers the request too, or queue one for it."""
        request = listener.request
        running = self._speaking_for(request)
        added = self.tickets.add(
            key,
            Job(request),
            priority=WARM if request.trigger == "warm" else INLINE,
            document=listener.document,
            identity=request.identity(),
            join=running,
        )
        self._answer_nothing(added.superseded)
        job = added.ticket.job
        job.cancelled_at = None
        if added.ticket.running:
            listener.source = "running"
            listener.typed = request.prefix[len(job.request.prefix) :]
        job.listeners[key] = listener
        self._jobs[key] = job
        if job.first:
            listener.send(protocol.First(listener.request_id))
        if job.text and request.stream:
            listener.send(protocol.Text(listener.request_id, job.text))

    def _speaking_for(self, request: CompletionRequest) -> Ticket[Job] | None:
        """The running generation, when it says what was typed between its request and this one."""
        running = self.tickets.running
        if running is None or running.abandoned or request.trigger != "automatic" or request.stream:
            return None
        job = running.job
        if request.temperature > 0 or request.candidates > 1:
            return None
        typed = aim.typed_since(job.request, request)
        return running if typed is not None and job.says(typed) else None

    def _in_time(self, job: Job) -> None:
        """Answer those who waited long enough with the first line, if it is there; the rest goes on."""
        late = [
            (key, listener)
            for key, listener in job.listeners.items()
            if listener.deadline is not None and self._clock() >= listener.deadline
        ]
        for key, listener in late:
            line = aim.first_line(job.text, len(listener.typed)) if job.text.startswith(listener.typed) else None
            if line is None or self.tickets.running is None or self.tickets.running.job is not job:
                continue
            self.tickets.release(key)
            job.given = listener.typed + line
            result = _first_line_result(job, line, listener)
            self.answers.put(job.request, replace(result, completion=job.given, source="model"))
            self._answer(key, result)

    def _prepare(self, request: CompletionRequest, result: CompletionResult) -> None:
        """Queue what is likely asked after `result`: the rest of it, or what follows when it is accepted."""
        if not _may_go_on(request) or not result.completion or result.finish_reason == "cancelled":
            return
        if result.more:
            wanted = aim.quiet(request)
        else:
            wanted = aim.as_if_accepted(request, result.completion)
            if self.answers.has(wanted):
                return
        if self._speaking_for(wanted) is None:
            self.tickets.add_unattended(Job(wanted), wanted.identity())

    def _tell_started(self, request: CompletionRequest, attended: bool) -> int:
        number = next(self._numbers)
        bare = replace(request, prefix="", suffix="")
        self._tell(protocol.Started(0, number, time.time(), bare, attended))
        return number

    def _answer_nothing(self, keys: tuple[Hashable, ...]) -> None:
        for key in keys:
            self._answer(key, None)

    def _answer(self, key: Hashable, result: CompletionResult | None) -> None:
        listener = self._take_out(key)
        listener.send(protocol.Result(listener.request_id, result))
        self.answered += 1

    def _fail(self, key: Hashable, error: TokenleapError) -> None:
        listener = self._take_out(key)
        listener.send(protocol.failure(listener.request_id, error))
        self.answered += 1

    def _take_out(self, key: Hashable) -> Listener:
        return self._jobs.pop(key).listeners.pop(key)


def _may_go_on(request: CompletionRequest) -> bool:
    return request.ahead and request.trigger == "automatic" and request.temperature == 0


def _finished(job: Job, outcome: CompletionResult | TokenleapError) -> Event:
    if isinstance(outcome, TokenleapError):
        return protocol.Finished(0, job.number, None, outcome.code, str(outcome), tuple(job.blocks))
    return protocol.Finished(0, job.number, outcome, blocks=tuple(job.blocks))


def _first_line_result(job: Job, line: str, listener: Listener) -> CompletionResult:
    state, request = job.so_far, job.request
    return CompletionResult(
        line,
        "stop",
        None,
        request.model,
        request.precision,
        request.decode,
        prompt_tokens=state.prompt_tokens,
        reused_tokens=state.reused_tokens,
        new_tokens=state.new_tokens,
        passes=state.passes,
        drafted=state.drafted,
        accepted=state.accepted,
        tokens_per_pass=max(0, state.new_tokens - 1) / state.passes if state.passes else 0.0,
        source=listener.source,
        more=True,
    )

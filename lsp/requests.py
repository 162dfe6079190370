"""One request for a suggestion, from the editor's question to the texts: who waits, who gives way, who is asked.

Per document the newest request wins; an older one gets nothing (None) at once. A request nobody made by hand waits
a little first (`pace`), so that a burst of keys costs one generation. What the host is at work on for a request
that gave way is left running until the newer one is sent: most likely that goes on with it, and the host knows.
Where there is no newer one, the host is told to stop at once. Every call of `ask` returns or is cancelled, whatever
the host does.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from assistant.errors import HostError, TokenleapError
from assistant.service.protocol import CompletionRequest, CompletionResult
from assistant.settings.schema import SPECS, Settings
from lsp.hostlink import HostLink, Job, State
from lsp.pace import Expected, Pace

log = logging.getLogger(__name__)

AUTOMATIC, INVOKED = "automatic", "invoked"
LOAD_PATIENCE = 10.0  # seconds that a request nobody made by hand waits for an engine that it had brought back
ANSWER_PATIENCE = 60.0  # for the host's answer once the model is loaded
MORE_PATIENCE = 1.5  # for alternatives once the first answer is there
RETRY_EVERY = 10.0  # between two tries to reach an engine that cannot be had, unless asked by hand
_DOCUMENTS = 256  # whose last answers are remembered
ALTERNATIVES = 2  # besides the first
_ALTERNATIVE_TEMPERATURE = 0.6
_CARRIED = {field.name for field in dataclasses.fields(CompletionRequest)} & set(SPECS)


@dataclass(frozen=True)
class Ask:
    """One question. `revision` and the position tell two equal ones."""

    document: str  # canonical URI
    revision: int
    position: tuple[int, int, str]  # line, column, chosen text
    prefix: str
    suffix: str
    line_before: str
    path: str | None
    language: str | None
    trigger: str
    settings: Settings

    @property
    def signature(self) -> tuple[object, ...]:
        return self.document, self.revision, self.position, self.trigger


@dataclass(frozen=True)
class Answer:
    """Texts, the best first, or the reason why there is none. `result` is the host's, if it was asked."""

    texts: tuple[str, ...] = ()
    reason: str | None = None
    result: CompletionResult | None = None
    debounce_ms: float = 0.0


class _Turn:
    """A document's newest question, which several requests may have asked, and whether a newer one took its place."""

    def __init__(self, signature: tuple[object, ...], over: asyncio.Future[None]) -> None:
        self.signature = signature
        self.over = over
        self.users = 0
        self.brings = False  # the engine was away, and this question has it brought
        self.work: asyncio.Task[Answer] | None = None  # at the host, once for all
        self.sent = False


class Desk:
    """Takes the questions of all documents. On the loop's thread."""

    def __init__(
        self,
        link: HostLink,
        settled: Callable[[], Awaitable[None]],
        begin: Callable[[Settings], None],
        on_trouble: Callable[[TokenleapError], None],
    ) -> None:
        """`settled` waits until all that the editor has sent was read; `begin` has the engine brought."""
        self.pace = Pace()
        self._link = link
        self._settled = settled
        self._begin = begin
        self._on_trouble = on_trouble
        self._turns: dict[str, _Turn] = {}
        self._left: dict[str, Job] = {}  # document -> what runs for a question that gave way
        self._expected: dict[str, Expected] = {}
        self._tried = float("-inf")
        self._loop = asyncio.get_running_loop()

    async def ask(self, ask: Ask) -> Answer:
        """The answer, or nothing and why. Cancelled with its task."""
        turn = self._take_turn(ask)
        try:
            delay = await self._hold(ask, turn)
            if turn.over.done():
                return Answer(reason="superseded", debounce_ms=delay)
            reason = await self._prepared(ask, turn)
            if reason is not None:
                return Answer(reason=reason, debounce_ms=delay)
            if turn.work is None:
                turn.work = asyncio.ensure_future(self._asked(ask, turn))
            return replace(await asyncio.shield(turn.work), debounce_ms=delay)
        finally:
            turn.users -= 1
            if not turn.users:
                if turn.work is not None:
                    turn.work.cancel()
                if self._turns.get(ask.document) is turn:
                    del self._turns[ask.document]
                    self._stop_left(ask.document)

    def give_up(self, document: str) -> None:
        """The document was closed: nothing of it is wanted any more."""
        turn = self._turns.pop(document, None)
        if turn is not None and not turn.over.done():
            turn.over.set_result(None)
        self._expected.pop(document, None)
        self._stop_left(document)

    def forget(self) -> None:
        """Caches were cleared: no answer is expected to be there."""
        self._expected.clear()

    def warm(self, ask: Ask) -> None:
        """Have the text before the cursor read in, when nothing better is to be done."""
        self._link.look()
        if self._link.state is State.READY and ask.document not in self._turns:
            self._link.submit(request(ask, trigger="warm"))

    def _take_turn(self, ask: Ask) -> _Turn:
        turn = self._turns.get(ask.document)
        if turn is None or turn.signature != ask.signature:
            if turn is not None and not turn.over.done():
                turn.over.set_result(None)
            turn = self._turns[ask.document] = _Turn(ask.signature, self._loop.create_future())
        turn.users += 1
        return turn

    async def _hold(self, ask: Ask, turn: _Turn) -> float:
        """Lets the moment pass in which a cancel or a newer question may come; milliseconds of it on purpose."""
        await self._settled()
        delay = self._delay(ask)
        if delay > 0:
            await _first(turn.over, patience=delay)
        return delay * 1000

    def _delay(self, ask: Ask) -> float:
        if ask.trigger == INVOKED:
            return 0.0
        expected = self._expected.get(ask.document)
        if expected is not None and expected.goes_on(ask.prefix, ask.suffix):
            return 0.0
        return ask.settings.debounce_ms / 1000 if ask.settings.debounce_ms else self.pace.delay(ask.line_before)

    async def _prepared(self, ask: Ask, turn: _Turn) -> str | None:
        """A reason when there is no engine. Waits for one that loads where the user asked by hand, or where it had
        gone and this question has it brought.
        """
        by_hand = ask.trigger == INVOKED
        now = time.monotonic()
        self._link.look()
        retry = self._link.state is State.FAILED and (by_hand or now - self._tried > RETRY_EVERY)
        if self._link.state is State.AWAY or retry:
            turn.brings = self._link.state is State.AWAY
            self._tried = now
            self._begin(ask.settings)
        if self._link.state is State.LOADING and (by_hand or turn.brings):
            waiting = asyncio.ensure_future(self._link.ready(None if by_hand else LOAD_PATIENCE))
            try:
                await _first(waiting, turn.over)
            finally:
                waiting.cancel()
        if turn.over.done():
            return "superseded"
        return {State.READY: None, State.LOADING: "loading"}.get(self._link.state, "failed")

    async def _asked(self, ask: Ask, turn: _Turn) -> Answer:
        begun = time.monotonic()
        job = self._link.submit(request(ask))
        turn.sent = True
        self._left.pop(ask.document, None)  # the host settles what becomes of it
        more = self._link.submit(_alternatives(ask)) if ask.trigger == INVOKED else None
        try:
            await _first(job.answer, turn.over, patience=ANSWER_PATIENCE)
            if not job.answer.done():
                return Answer(reason="superseded" if turn.over.done() else self._silent())
            result = job.answer.result()
            if result is None:
                return Answer(reason="superseded")
            self.pace.answered(time.monotonic() - begun)
            texts = _several(result, await self._more(more, turn) if more is not None else None)
            self._remember(ask, result.completion)
            return Answer(texts, None if texts else result.empty_reason or "end", result)
        except TokenleapError as error:
            self._on_trouble(error)
            return Answer(reason="failed")
        finally:
            # The alternatives first: they wait behind the job, and would begin if it ended before them.
            if more is not None and not more.answer.done():
                self._link.cancel(more)
            if not job.answer.done():
                self._give_way(ask.document, turn, job)

    async def _more(self, more: Job, turn: _Turn) -> CompletionResult | None:
        """The alternatives, if they come in time."""
        await _first(more.answer, turn.over, patience=MORE_PATIENCE)
        return more.answer.result() if more.answer.done() and more.answer.exception() is None else None

    def _remember(self, ask: Ask, text: str) -> None:
        self._expected.setdefault(ask.document, Expected()).add(ask.prefix, ask.suffix, text)
        if len(self._expected) > _DOCUMENTS:  # files that are asked about without being opened
            del self._expected[next(iter(self._expected))]

    def _silent(self) -> str:
        self._on_trouble(HostError("the engine host does not answer: run `tokenleap host restart`"))
        return "failed"

    # What the host is at work on for a request that gave way.

    def _give_way(self, document: str, turn: _Turn, job: Job) -> None:
        """Leave the job to a newer question of the document that is still to be sent, or stop it."""
        newest = self._turns.get(document, turn)
        self._stop_left(document)
        if newest is turn or newest.sent:
            self._link.cancel(job)
        else:
            self._left[document] = job

    def _stop_left(self, document: str) -> None:
        job = self._left.pop(document, None)
        if job is not None and not job.answer.done():
            self._link.cancel(job)


async def _first(*futures: asyncio.Future[Any], patience: float | None = None) -> None:
    """Waits until one of them is done, or `patience` seconds."""
    await asyncio.wait(futures, timeout=patience, return_when=asyncio.FIRST_COMPLETED)


def request(ask: Ask, **changes: Any) -> CompletionRequest:
    """The question in the host's terms."""
    chosen: dict[str, Any] = {name: getattr(ask.settings, name) for name in _CARRIED}
    automatic = ask.trigger == AUTOMATIC
    made = CompletionRequest(
        prefix=ask.prefix,
        suffix=ask.suffix,
        path=ask.path,
        language=ask.language,
        document=ask.document,
        trigger=ask.trigger,
        budget_ms=ask.settings.first_line_ms if automatic else 0,
        ahead=automatic,
        **chosen,
    ).windowed()
    return replace(made, **changes) if changes else made


def _alternatives(ask: Ask) -> CompletionRequest:
    temperature = ask.settings.temperature or _ALTERNATIVE_TEMPERATURE
    return request(
        ask, document=f"{ask.document}#alternatives", candidates=ALTERNATIVES, temperature=temperature
    )


def _several(first: CompletionResult, more: CompletionResult | None) -> tuple[str, ...]:
    """Texts without repetition, the first answer's before the others."""
    others = (more.candidates or (more.completion,)) if more is not None else ()
    return tuple(dict.fromkeys(text for text in (first.completion, *others) if text))

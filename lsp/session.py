"""All that one editor's conversation is made of, in one place for the features to work on.

A Session is made when the server starts and is complete when the initialize request was answered. It owns no rule
of its own beyond where suggestions are off; everything here is used on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from assistant.errors import HostError, TokenleapError
from assistant.languages import language_of
from assistant.service.protocol import CompletionRequest
from assistant.settings.schema import Settings
from lsp import status, uris
from lsp.configuration import Configuration, words
from lsp.documents import Document, Documents
from lsp.given import Book
from lsp.hostlink import HostLink, State
from lsp.ledger import Ledger
from lsp.life import Watch
from lsp.notebooks import Notebooks
from lsp.requests import Desk
from lsp.rpc import Pump, Rpc, dig

log = logging.getLogger(__name__)

_REASONS = 256  # documents of which it is known why nothing was suggested
_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}


class Session:
    """The state of a conversation. `finish` ends the process with a code."""

    def __init__(self, rpc: Rpc, pump: Pump, watch: Watch, finish: Callable[[int], None]) -> None:
        self.rpc, self.pump, self.watch, self.finish = rpc, pump, watch, finish
        self.client: Any = {}  # the client's capabilities
        self.configuration = Configuration()
        self.documents = Documents()
        self.notebooks = Notebooks(self.documents)
        self.book = Book()
        self.ledger = Ledger()
        self.status = status.Status(self.rpc.notify)
        self.progress = status.Progress(self.rpc.notify, self._create_progress)
        self.link = HostLink(self._on_state, self.progress.step)
        self.desk = Desk(self.link, pump.settled, self.begin, self.on_trouble)
        self.overrides: dict[tuple[str, str], bool] = {}  # (scope, what) -> on
        self.reasons: dict[str, str] = {}  # document -> why the last answer was empty
        self._warned: set[str] = set()
        self.shows = False  # the client tells what it shows
        self.registered: set[str] = set()  # methods registered with the client while running
        self._loaded: tuple[object, ...] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # Settings.

    def apply_settings(self) -> None:
        """What depends on settings follows them; the user learns what was not taken."""
        settings = self.configuration.general
        logging.getLogger("lsp").setLevel(_LEVELS[settings.log_level])
        self.ledger.switch(settings.statistics)
        if settings.enabled and self._loaded != _engine_of(settings):
            self.begin(settings)
        self.show_whether_on()
        self.warn()

    def warn(self) -> None:
        """Settings that were not taken, as one message."""
        sentences = self.configuration.warnings()
        if sentences:
            self.status.say("Tokenleap: " + "; ".join(sentences))

    def language_of(self, document: Document) -> str | None:
        return document.language or language_of(uris.path_of(document.uri) or uris.name_of(document.uri))

    def is_on(self, uri: str, language: str | None, settings: Settings) -> bool:
        """Whether suggestions are wanted: what was said of the file, else of its language, else of the workspace."""
        named = (language or "").lower()
        for scope in (("file", uris.canonical(uri)), ("language", named)):
            if scope in self.overrides:
                return self.overrides[scope]
        on = self.overrides.get(("workspace", ""), settings.enabled)
        return on and named not in words(settings.languages_off)

    def show_whether_on(self) -> None:
        """The status follows what was said of the workspace, unless it tells of something else."""
        if self.status.kind in (status.NORMAL, status.INACTIVE) and not self.status.busy:
            self._well()

    def _well(self) -> None:
        if self.overrides.get(("workspace", ""), self.configuration.general.enabled):
            self.status.set(status.NORMAL)
        else:
            self.status.set(status.INACTIVE, "suggestions are off")

    def note_reason(self, document: str, reason: str) -> None:
        """Why the last answer in a document was empty."""
        self.reasons.pop(document, None)
        self.reasons[document] = reason
        if len(self.reasons) > _REASONS:
            del self.reasons[next(iter(self.reasons))]

    def tell(self, words: str) -> None:
        """An answer to what the user asked by a command."""
        self.rpc.notify(types.WINDOW_SHOW_MESSAGE, types.ShowMessageParams(types.MessageType.Info, words))

    # The engine.

    def begin(self, settings: Settings) -> None:
        """Have the engine brought and the model of these settings loaded."""
        self._loaded = _engine_of(settings)
        model, precision, device, threads = (getattr(settings, name) for name in _ENGINE)
        self.link.begin(
            CompletionRequest(
                "", model=model, precision=precision, device=device, threads=threads, trigger="warm"
            )
        )

    def on_trouble(self, error: TokenleapError) -> None:
        """A request failed. A host that went away is started again by the next request, and told of once."""
        if isinstance(error, HostError):
            self.link.lost(str(error))
        else:
            self.status.set(status.ERROR, str(error))
            self.status.say(f"Tokenleap: {error}")

    def on_answer(self, warning: str | None) -> None:
        """An answer came: whatever was wrong is over. What the engine wants known is said once."""
        if self.link.state is State.READY:
            self._well()
        if warning is not None and warning not in self._warned:
            self._warned.add(warning)
            self.status.say(f"Tokenleap: {warning}")

    def _on_state(self, state: State, sentence: str) -> None:
        if state is State.LOADING:
            self.status.set(status.NORMAL, "loading the model", busy=True)
            return
        self.progress.end()
        if state is State.READY:
            self._well()
        else:
            self.status.set(status.ERROR if state is State.FAILED else status.WARNING, sentence)
            self.status.say(f"Tokenleap: {sentence}")

    # The client.

    def can(self, *path: str) -> bool:
        """Whether the client has a capability; an empty object is one."""
        return dig(self.client, *path) not in (None, False)

    def names(self, *path: str) -> bool:
        """Whether the client names a capability at all: a client written in Lisp sends an empty object as null."""
        above = dig(self.client, *path[:-1])
        return isinstance(above, dict) and above.get(path[-1], False) is not False

    def spawn(self, work: Any) -> None:
        """Runs a coroutine beside the messages; what goes wrong in it is logged."""
        task = asyncio.ensure_future(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def request(self, method: str, params: object) -> Any:
        """The client's answer to a request, None when it refuses."""
        try:
            return await self.rpc.send_request_async(method, params)
        except (JsonRpcException, asyncio.CancelledError) as error:
            log.info("the editor refused %s: %s", method, error)
            if isinstance(error, asyncio.CancelledError) and not self.rpc.ended:
                raise
            return None

    def close(self) -> None:
        """Before the process ends."""
        self.ledger.close()

    def _create_progress(self, token: str, tell: Callable[[bool], None]) -> None:
        async def create() -> None:
            params = types.WorkDoneProgressCreateParams(token)
            try:
                await self.rpc.send_request_async(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params)
            except JsonRpcException:
                tell(False)
            else:
                tell(True)

        self.spawn(create())

    @staticmethod
    async def _guarded(work: Any) -> None:
        try:
            await work
        except asyncio.CancelledError:
            pass
        except Exception:
            log.exception("a task failed")


_ENGINE = ("model", "precision", "device", "threads")


def _engine_of(settings: Settings) -> tuple[object, ...]:
    return tuple(getattr(settings, name) for name in _ENGINE)

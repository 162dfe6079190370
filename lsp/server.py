"""The language server: which message goes where, over which channel, and how it ends.

`serve_stdio` and `serve_tcp` return never: the process ends with code 0 after shutdown and exit, else with 1, within
two seconds after the editor's process, its stream or its window has gone. Documents, cancelling and the answers'
order are ours (`rpc`, `documents`); pygls keeps the requests under way and the shapes of what is sent.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from lsp import life, status
from lsp.commands import execute
from lsp.features import fate, lifecycle, settings
from lsp.features.inline import inline_completion
from lsp.features.listed import completion
from lsp.features.sync import Sync
from lsp.life import Watch
from lsp.rpc import Pump, Rpc
from lsp.session import Session
from lsp.transport import StreamWriter, read_in_thread

log = logging.getLogger(__name__)

Handler = Callable[[Session, Any], Any]

FEATURES: dict[str, Handler] = {
    types.INITIALIZE: lifecycle.initialize,
    types.INITIALIZED: lifecycle.initialized,
    types.SHUTDOWN: lifecycle.shutdown,
    types.EXIT: lifecycle.leave,
    types.SET_TRACE: lifecycle.nothing,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL: lifecycle.nothing,
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: lifecycle.nothing,
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: settings.changed,
    types.WORKSPACE_EXECUTE_COMMAND: execute,
    types.TEXT_DOCUMENT_INLINE_COMPLETION: inline_completion,
    types.TEXT_DOCUMENT_COMPLETION: completion,
    "textDocument/didShowCompletion": fate.shown,
    "textDocument/didPartiallyAcceptCompletion": fate.partly_accepted,
}


class Server(LanguageServer):
    """pygls' server with our protocol. What goes wrong is logged, never shown in a window."""

    protocol: Rpc

    def report_server_error(self, error: Exception, source: Any) -> None:
        log.error("%s", error)


class EditorLog(logging.Handler):
    """Sends our own log to the editor, by the setting log_level, and leaves pygls' out."""

    def __init__(self, notify: status.Notify, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._notify, self._loop = notify, loop

    def emit(self, record: logging.LogRecord) -> None:
        kinds = types.MessageType
        kind = {logging.ERROR: kinds.Error, logging.WARNING: kinds.Warning, logging.INFO: kinds.Info}.get(
            record.levelno, kinds.Log
        )
        params = types.LogMessageParams(kind, f"{record.name}: {record.getMessage()}")
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify, types.WINDOW_LOG_MESSAGE, params)


class Conversation:
    """One editor, from its first byte to its last."""

    def __init__(self, writer: Any, parent: bool) -> None:
        """`parent`: the process that started this one is the editor's."""
        self._server = Server("tokenleap", _version(), protocol_cls=Rpc, converter_factory=default_converter)
        rpc = self._rpc = self._server.protocol
        rpc.set_writer(writer)
        rpc.on_gone = self.over
        self.pump = Pump(rpc.receive)
        self._watch = Watch(self._code, parent)
        self.session = Session(rpc, self.pump, self._watch, self._finish)
        self._register()
        logging.getLogger("lsp").addHandler(EditorLog(self._notify_when_open, asyncio.get_running_loop()))
        self._watch.start()

    def feed(self, data: bytes) -> None:
        self.pump.feed(data)

    async def run(self) -> None:
        """Until the editor's stream ends."""
        await self.pump.run()
        self.over()

    def over(self) -> None:
        """The editor has gone."""
        self._finish(self._code())

    def _code(self) -> int:
        return life.CLEAN if self._rpc.ended else life.ABRUPT

    def _finish(self, code: int) -> None:
        self._watch.end_soon()
        self.session.close()
        life.end(code)

    def _notify_when_open(self, method: str, params: Any) -> None:
        if self._rpc.initialized and not self._rpc.ended:
            self._rpc.notify(method, params)

    def _register(self) -> None:
        sync = Sync(self.session)
        own: dict[str, Callable[[Any], Any]] = {
            types.TEXT_DOCUMENT_DID_OPEN: sync.open,
            types.TEXT_DOCUMENT_DID_CHANGE: sync.change,
            types.TEXT_DOCUMENT_DID_CLOSE: sync.close,
            types.TEXT_DOCUMENT_DID_SAVE: sync.save,
            "textDocument/didFocus": sync.focus,
            types.NOTEBOOK_DOCUMENT_DID_OPEN: sync.open_notebook,
            types.NOTEBOOK_DOCUMENT_DID_CHANGE: sync.change_notebook,
            types.NOTEBOOK_DOCUMENT_DID_CLOSE: sync.close_notebook,
            types.NOTEBOOK_DOCUMENT_DID_SAVE: sync.save,
            types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: sync.folders,
        }
        own |= {method: partial(handler, self.session) for method, handler in FEATURES.items()}
        for method, handler in own.items():
            self._server.protocol.fm.features[method] = handler


def serve_stdio(channel: tuple[int, int]) -> None:
    """Serves the editor that started this process, over the descriptors of `claim_stdio`. Does not return."""
    _log_to_stderr()
    asyncio.run(_stdio(*channel))


async def _stdio(source: int, sink: int) -> None:
    loop = asyncio.get_running_loop()
    conversation = Conversation(StreamWriter(sink), parent=True)
    read_in_thread(
        source,
        lambda data: _soon(loop, conversation.feed, data),
        lambda: _soon(loop, conversation.pump.end),
    )
    await conversation.run()


def serve_tcp(port: int, announce: Callable[[str], None]) -> None:
    """Serves the first editor that connects to `port` of this machine (0: any free one), for debugging. `announce` is
    told the address. Does not return.
    """
    _log_to_stderr()
    asyncio.run(_tcp(port, announce))


async def _tcp(port: int, announce: Callable[[str], None]) -> None:
    conversation: list[Conversation] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if conversation:
            writer.close()
            return
        conversation.append(Conversation(writer, parent=False))
        running = asyncio.ensure_future(conversation[0].run())
        while data := await reader.read(1 << 16):
            conversation[0].feed(data)
        conversation[0].pump.end()
        await running

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    announce(f"listening on 127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await server.serve_forever()


def _soon(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> None:
    loop.call_soon_threadsafe(function, *arguments)


def _log_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # At INFO pygls writes every message, the suggestions' text included.
    logging.getLogger("pygls").setLevel(logging.ERROR)


def _version() -> str:
    try:
        return metadata.version("tokenleap")
    except metadata.PackageNotFoundError:
        return "0"

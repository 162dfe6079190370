"""JSON-RPC on top of pygls: every request is answered exactly once, in every state of the server.

Messages are handled in the order in which they came; between two of them the loop runs what the first one began
up to its first wait, so a handler sees the documents as they were when its request was sent. Parameters reach
handlers as plain JSON. Language Server Protocol 3.17, "Base Protocol" and "Server lifecycle".
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import (
    JsonRPCNotification,
    JsonRPCRequestMessage,
    JsonRPCResponseMessage,
    MsgId,
)

from lsp.transport import Frames, FramingError, frame

log = logging.getLogger(__name__)

PARSE_ERROR, INVALID_REQUEST, NOT_INITIALIZED = -32700, -32600, -32002
_TURNS = 20  # of the loop; a cancelled request is answered within two or three
Params = dict[str, Any]


class Rpc(LanguageServerProtocol):
    """The server's end of the conversation. Everything here runs on the loop's thread."""

    initialized = False  # the initialize request was answered
    on_gone: Callable[[], None]  # the editor cannot be written to any more

    def _register_builtin_features(self) -> None:
        """None: pygls' own keep whole documents and rewrite them at each change."""

    def get_message_type(self, method: str) -> None:  # type: ignore[override]  # pygls' own is cached
        """None: incoming messages stay plain JSON, outgoing ones carry their own types."""

    def get_result_type(self, method: str) -> None:  # type: ignore[override]
        """None, likewise."""

    @property
    def ended(self) -> bool:
        """A shutdown request was answered."""
        return self._shutdown

    async def shut_down(self) -> None:
        """From now on only `exit` is listened to; what is under way is answered as cancelled, and then this is."""
        self._shutdown = True
        mine = self.msg_id
        waiting = {key for key, future in list(self._request_futures.items()) if key != mine and future.cancel()}
        await self._answered(waiting)

    async def settle(self) -> None:
        """Before the end: lets the answers out that are on their way."""
        await self._answered(set(self._request_futures))

    async def _answered(self, waiting: set[MsgId]) -> None:
        for _ in range(_TURNS):
            if not waiting & self._request_futures.keys():
                return
            await asyncio.sleep(0)

    def receive(self, body: bytes) -> None:
        """Handles one message."""
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            self._refuse(None, PARSE_ERROR, "the message is not JSON")
            return
        if not isinstance(message, dict):
            self._refuse(None, INVALID_REQUEST, "the message is not an object")
            return
        method, request_id = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self._take_response(message)
        elif "id" not in message:
            if method == types.EXIT or (self.initialized and not self._shutdown):
                self.handle_message(JsonRPCNotification(method, self.VERSION, _params(message)))
        elif not isinstance(request_id, (int, str)) or isinstance(request_id, bool):
            self._refuse(None, INVALID_REQUEST, "the request's id is neither a number nor a text")
        elif self._shutdown:
            self._refuse(request_id, INVALID_REQUEST, "the server is shut down")
        elif self.initialized == (method == types.INITIALIZE):
            twice, early = (INVALID_REQUEST, "already initialized"), (NOT_INITIALIZED, "initialize first")
            self._refuse(request_id, *(twice if self.initialized else early))
        elif request_id in self._request_futures:
            self._refuse(request_id, INVALID_REQUEST, "this id is in use")
        else:
            self.handle_message(JsonRPCRequestMessage(request_id, method, self.VERSION, _params(message)))

    def _refuse(self, request_id: MsgId | None, code: int, words: str) -> None:
        error = {"code": code, "message": words}
        self._send_data({"jsonrpc": self.VERSION, "id": request_id, "error": error})

    def _take_response(self, message: Params) -> None:
        request_id, error = message.get("id"), message.get("error")
        if not isinstance(request_id, (int, str)) or request_id not in self._request_futures:
            return
        if isinstance(error, dict):
            code, words = error.get("code"), str(error.get("message"))
            known = types.ResponseError(code if isinstance(code, int) else INVALID_REQUEST, words)
            contextvars.copy_context().run(self._handle_response, request_id, None, known)
        else:
            self.handle_message(JsonRPCResponseMessage(request_id, self.VERSION, message.get("result")))

    def _handle_cancel_notification(self, msg_id: MsgId) -> None:
        """Cancels what runs; an id that is unknown or answered is no mistake, the two messages crossed."""
        future = self._request_futures.pop(msg_id, None)
        if future is not None:
            future.cancel()

    def _handle_notification(self, method_name: str, params: Any) -> None:
        if method_name == types.CANCEL_REQUEST:
            msg_id = params.get("id") if isinstance(params, dict) else None
            if isinstance(msg_id, (int, str)):
                self._handle_cancel_notification(msg_id)
            return
        super()._handle_notification(method_name, params)

    def _send_data(self, data: Any) -> None:
        if self.writer is None:
            return
        # ASCII: a lone surrogate in a document must not make a message that is no UTF-8.
        body = json.dumps(data, default=self._serialize_message, ensure_ascii=True, separators=(",", ":"))
        try:
            self.writer.write(frame(body.encode("ascii")))
        except (OSError, ValueError):
            self.on_gone()


def _params(message: Params) -> Any:
    params = message.get("params")
    return {} if params is None else params


class Pump:
    """Hands messages over in order, giving the loop a turn after each."""

    def __init__(self, handle: Callable[[bytes], None]) -> None:
        self._handle = handle
        self._frames = Frames()
        self._bodies: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._ended = False

    def feed(self, data: bytes) -> None:
        """More bytes from the editor; on the loop's thread."""
        try:
            for body in self._frames.feed(data):
                self._bodies.append(body)
                self._empty.clear()
        except FramingError as error:
            log.error("the editor sent %s: the connection ends", error)
            self._ended = True
        self._wake.set()

    def end(self) -> None:
        """No more will come."""
        self._ended = True
        self._wake.set()

    async def run(self) -> None:
        """Returns when the editor's stream has ended and all that came was handled."""
        while True:
            while self._bodies:
                self._handle(self._bodies.popleft())
                await asyncio.sleep(0)
            self._empty.set()
            if self._ended:
                return
            self._wake.clear()
            await self._wake.wait()

    async def settled(self) -> None:
        """Waits until every message that has come was handled: a cancel may be among them."""
        await self._empty.wait()


def need(params: Any, *path: str) -> Any:
    """The value at a path of keys in a request's parameters. Invalid params, naming the path, when it is missing."""
    value = params
    for key in path:
        if not isinstance(value, dict) or key not in value:
            raise JsonRpcInvalidParams(f"{'.'.join(path)} is missing")
        value = value[key]
    return value


def dig(value: Any, *path: str) -> Any:
    """The value at a path of keys, None when there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value

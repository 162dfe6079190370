"""Reaches the engine host: connects, starts it when nobody answers, and agrees with it on protocol and build.

The host is started by command, detached, its output in the log file; when several clients start one at once,
the hosts settle it among themselves by their lock and every client ends up at the winner. All waits have one
deadline.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import IO, Any

from assistant import locations, system_errors
from assistant.errors import HostError, from_wire
from assistant.service import protocol, wire
from assistant.service.endpoint import Endpoint, HostLock

LOG_LIMIT = 512 * 1024  # bytes
_LOOK_EVERY = 0.02  # seconds between two tries to connect, unless the child dies sooner
_MOST_STARTS = 5


@dataclass
class Reached:
    """An open connection past its handshake. `started`: the host was not there when we came."""

    socket: socket
    frames: wire.Frames
    welcome: protocol.Welcome
    started: bool


class _NobodyAnswers(Exception):
    pass


def reach(
    endpoint: Endpoint, *, start: bool = True, wait: float = 30.0, arguments: Sequence[str] = ()
) -> Reached:
    """A connection to the host. HostError says why there is none after `wait` seconds, or at once with
    start=False.
    """
    deadline = time.monotonic() + wait
    child: _Child | None = None
    starts = 0
    while True:
        try:
            reached = _greet(endpoint, max(0.1, deadline - time.monotonic()))
        except _NobodyAnswers:
            pass
        else:
            reached.started = starts > 0
            return reached
        if not start:
            raise HostError("no engine host is running: any completion starts one")
        if time.monotonic() >= deadline:
            raise HostError(
                f"the engine host did not answer within {wait:.0f} s: "
                f"run `tokenleap host restart` or see {endpoint.log}"
            )
        if child is None:
            if starts >= _MOST_STARTS:
                raise HostError(f"the engine host ends as soon as it starts: see {endpoint.log}")
            child, starts = _Child(endpoint, arguments), starts + 1
        if child.ended(_LOOK_EVERY):
            if child.code != 0:
                raise HostError(f"the engine host could not start: {child.last_line()} (log: {endpoint.log})")
            child = None  # it left to another host, which answers now or is gone too


def _greet(endpoint: Endpoint, timeout: float) -> Reached:
    """Connect and shake hands. _NobodyAnswers when there is no host or it leaves meanwhile."""
    deadline = time.monotonic() + timeout
    try:
        link, token = endpoint.open(timeout)
    except OSError:
        raise _NobodyAnswers from None
    try:
        link.sendall(
            protocol.encode(protocol.Hello(protocol.PROTOCOL, protocol.build_hash(), os.getpid(), token))
        )
        frames = wire.Frames()
        while True:
            link.settimeout(max(0.01, deadline - time.monotonic()))
            data = link.recv(65536)
            if not data:
                raise _NobodyAnswers
            for value in frames.feed(data):
                welcome = _welcome(value)
                link.settimeout(None)
                return Reached(link, frames, welcome, started=False)
    except TimeoutError:
        link.close()
        raise HostError(
            "the engine host takes the connection but does not answer: run `tokenleap host restart`"
        ) from None
    except OSError:
        link.close()
        raise _NobodyAnswers from None
    except BaseException:
        link.close()
        raise


def _welcome(value: dict[str, Any]) -> protocol.Welcome:
    mismatch = HostError(
        "another version of tokenleap answers on this version's socket: "
        "run `tokenleap host restart`, then restart the editor"
    )
    try:
        message = protocol.decode(value)
    except wire.WireError:
        raise mismatch from None
    if isinstance(message, protocol.Failure):
        raise from_wire(message.code, message.message)
    if not isinstance(message, protocol.Welcome):
        raise mismatch
    if (message.protocol, message.build) != (protocol.PROTOCOL, protocol.build_hash()):
        raise mismatch
    return message


def wait_gone(endpoint: Endpoint, timeout: float) -> bool:
    """Wait until no host holds the endpoint's lock; False when one still does after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    lock = HostLock(endpoint.lock)
    while lock.holder() is not None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_EVERY)
        reap()
    reap()
    return True


def kill(endpoint: Endpoint, timeout: float = 5.0) -> bool:
    """End a host that does not listen any more; False when there was none. HostError when that fails."""
    pid = HostLock(endpoint.lock).holder()
    if pid is None:
        return False
    if pid > 0:
        try:
            os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        except ProcessLookupError:
            pass
        except OSError as error:
            raise HostError(f"the engine host (process {pid}) cannot be ended: {error}") from error
    if not wait_gone(endpoint, timeout):
        raise HostError(f"the engine host (process {pid}) does not end: end it by hand")
    lock = HostLock(endpoint.lock)
    if lock.acquire():  # else the next host is there already, and cleans up itself
        endpoint.remove()
        lock.release()
    return True


class _Child:
    """A host process that we started; it may win or leave to another."""

    def __init__(self, endpoint: Endpoint, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", "assistant.service.host", "--transport", endpoint.transport]
        command += ["--build", protocol.build_hash(), *arguments]
        options: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            options = {
                "creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP,
            }
        try:
            with _open_log(endpoint.log) as output:
                self._log, self._from = endpoint.log, output.tell()
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=Path(sys.executable).anchor or "/",
                    env=child_environment(),
                    close_fds=True,
                    **options,
                )
        except OSError as error:
            reason = system_errors.os_sentence(error) or f"{error}: see `tokenleap doctor`"
            raise HostError(f"the engine host could not be started, {reason}") from error
        _children.append(self._process)

    @property
    def code(self) -> int | None:
        return self._process.returncode

    def ended(self, within: float) -> bool:
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def last_line(self) -> str:
        with open(self._log, "rb") as file:
            file.seek(self._from)
            lines = file.read(LOG_LIMIT).decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else f"it ended with code {self.code} and said nothing"


def child_environment() -> dict[str, str]:
    """For a process of ours in another folder: it must find the same places and the same source files as we do."""
    made = locations.environment()
    paths = [os.path.abspath(entry) for entry in made.get("PYTHONPATH", "").split(os.pathsep) if entry]
    root = Path(__file__).resolve().parents[2]
    if root.name not in ("site-packages", "dist-packages"):  # a checkout, perhaps known by the working folder alone
        paths.insert(0, os.fspath(root))
    if paths:
        made["PYTHONPATH"] = os.pathsep.join(paths)
    return made


def _open_log(path: Path) -> IO[bytes]:
    """The log file for appending, emptied first when over its limit. Only the user can read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    output = os.fdopen(descriptor, "ab")
    if os.fstat(descriptor).st_size > LOG_LIMIT:
        os.ftruncate(descriptor, 0)
    output.seek(0, os.SEEK_END)
    return output


# The hosts this process started outlive it; kept so that the ended ones are reaped and none is warned of.
_children: list[subprocess.Popen[bytes]] = []


def reap() -> None:
    """Collect the hosts of ours that have ended."""
    _children[:] = [child for child in _children if child.poll() is None]

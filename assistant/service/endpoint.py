"""Where the engine host of this user, data folder and build is found, and the lock that makes it the only
one.

Unix: a socket of mode 0600 in a folder of mode 0700. Elsewhere: a loopback port, written with a secret token
into a file of the same folder. The lock is held by the host for its life; the system drops it when the host
dies in any way.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from assistant import locations
from assistant.errors import HostError
from assistant.service import protocol

PATH_LIMIT = 103  # bytes of a socket's path on macOS, without the final zero; Linux allows 107
TRANSPORTS = ("unix", "tcp")
_LEAVING_SECONDS = 20.0  # for an earlier host to leave; clients wait longer, so they are told


def _folder(name: str) -> Path:
    """The runtime folder, or the one below the temporary folder where a socket's path would be too long."""
    folder = locations.runtime_folder()
    if len(os.fsencode(folder / name)) > PATH_LIMIT:
        folder = locations.temporary_folder()
    if len(os.fsencode(folder / name)) > PATH_LIMIT:
        raise HostError(
            f"the path of {folder} is too long for a socket: set XDG_RUNTIME_DIR to a shorter folder"
        )
    return folder


@dataclass(frozen=True)
class Endpoint:
    """The files of one host. `address` is the socket, or the file that names port and token."""

    transport: str
    address: Path
    lock: Path
    log: Path

    @classmethod
    def here(cls, transport: str | None = None, build: str | None = None) -> Endpoint:
        """The endpoint of this build and data folder. HostError when there is no safe place for it."""
        if transport is None:
            transport = "tcp" if sys.platform == "win32" else "unix"
        parts = (
            str(locations.data_folder().absolute()),
            str(protocol.PROTOCOL),
            build or protocol.build_hash(),
        )
        name = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        suffix = "sock" if transport == "unix" else "port"
        folder = _folder(f"{name}.{suffix}")
        log = locations.cache_folder() / "host.log"
        return cls(transport, folder / f"{name}.{suffix}", folder / f"{name}.lock", log)

    def open(self, timeout: float) -> tuple[socket.socket, str]:
        """A connected socket and the token to show; OSError when nobody answers there."""
        if self.transport == "unix":
            return _connected(socket.socket(socket.AF_UNIX), os.fspath(self.address), timeout), ""
        try:
            known = json.loads(self.address.read_text(encoding="utf-8"))
            where, token = ("127.0.0.1", int(known["port"])), str(known["token"])
        except (ValueError, KeyError, TypeError):
            raise ConnectionRefusedError("the port file is not finished") from None
        return _connected(socket.socket(socket.AF_INET), where, timeout), token

    def listen(self) -> tuple[socket.socket, str]:
        """A listening socket that only this user can reach, and the token that clients must show.

        Only for the holder of the lock: what an earlier host left behind at the address is removed.
        """
        self.remove()
        if self.transport == "unix":
            server = socket.socket(socket.AF_UNIX)
            old = os.umask(0o177)
            try:
                server.bind(os.fspath(self.address))
            finally:
                os.umask(old)
            server.listen(128)
            return server, ""
        server = socket.socket(socket.AF_INET)
        server.bind(("127.0.0.1", 0))
        server.listen(128)
        token = secrets.token_hex(32)
        draft = self.address.with_suffix(".new")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"port": server.getsockname()[1], "token": token}, file)
        os.replace(draft, self.address)
        return server, token

    def inode(self) -> tuple[int, int] | None:
        """Tells the file at the address from any later one; None when there is none."""
        try:
            status = os.lstat(self.address)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def remove(self) -> None:
        """Remove the file at the address, if any."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.address)


def _connected(made: socket.socket, where: str | tuple[str, int], timeout: float) -> socket.socket:
    try:
        made.settimeout(timeout)
        made.connect(where)
    except BaseException:
        made.close()
        raise
    return made


class HostLock:
    """An exclusive lock on a file that names the holder's process, held until `release` or the end of the
    process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock without waiting; False when another process holds it."""
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            if not _lock(descriptor):
                os.close(descriptor)
                return False
            # The holder before us may have removed the file between our open and our lock.
            if self._is_file(descriptor):
                with contextlib.suppress(OSError):  # on a full disk the lock is held all the same, by nobody known
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, str(os.getpid()).encode())
                self._descriptor = descriptor
                return True
            os.close(descriptor)

    def acquire_or_yield(self, endpoint: Endpoint, wait: float = _LEAVING_SECONDS) -> bool:
        """Take the lock, waiting for a host that is leaving; False when another host answers at `endpoint`.

        HostError when the other one neither answers nor leaves within `wait` seconds.
        """
        deadline = time.monotonic() + wait
        while not self.acquire():
            with contextlib.suppress(OSError):
                answering, _ = endpoint.open(1.0)
                answering.close()
                return False
            if time.monotonic() >= deadline:
                raise HostError(
                    "another engine host does not answer and does not leave: run `tokenleap host restart`"
                )
            time.sleep(0.01)
        return True

    def intact(self) -> bool:
        """Whether others can still see that we hold the lock: its file was not removed or replaced."""
        return self._descriptor is not None and self._is_file(self._descriptor)

    def release(self) -> None:
        """Remove the file, unless it is another holder's by now, then let go."""
        if self._descriptor is None:
            return
        if self.intact():
            with contextlib.suppress(OSError):  # Windows removes no open file: there it stays, unlocked
                os.unlink(self._path)
        os.close(self._descriptor)
        self._descriptor = None

    def _is_file(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except OSError:
            return False

    def holder(self) -> int | None:
        """The process that holds the lock now, 0 when it has not written its number yet, None when nobody
        does.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR)
        except OSError:
            return None
        try:
            if _lock(descriptor, shared=True):
                return None
            os.lseek(descriptor, 0, os.SEEK_SET)
            number = os.read(descriptor, 32)
            return int(number) if number.isdigit() else 0
        finally:
            os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int, shared: bool = False) -> bool:
        os.lseek(descriptor, 4096, os.SEEK_SET)  # past the number, which others may read
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _lock(descriptor: int, shared: bool = False) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

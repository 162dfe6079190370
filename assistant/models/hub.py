"""Downloads a file from the model hub over HTTP: resumable, checked, and never taken for a model when it is
something else.

What arrives goes to a `.part` file in the cache folder and gets its final name only with the right size and
SHA-256. A broken connection is tried again a few times and goes on where it stopped, also in a later run.
httpx is imported only here, when needed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from filelock import FileLock

from assistant import locations
from assistant.errors import DownloadError, NoSpaceError
from assistant.models.catalog import Hub
from assistant.models.parts import Parts, Progress

if TYPE_CHECKING:
    import httpx

PUBLIC_HUB = "https://huggingface.co"
ATTEMPTS = 4
BACKOFF_SECONDS = 0.5
CONNECT_SECONDS, READ_SECONDS = 10.0, 30.0

_RETRY_STATUSES = {408, 429, 500, 502, 503, 504}


class _Broken(Exception):
    """This attempt failed in a way that another may not."""


@dataclass
class _Expected:
    """What is known of the file; the server's answers fill in what the catalog leaves open."""

    sha256: str
    size: int


def endpoint() -> str:
    """Where the hub is; TOKENLEAP_HUB names another."""
    return (os.environ.get("TOKENLEAP_HUB") or PUBLIC_HUB).rstrip("/")


def folder() -> Path:
    """Where downloads lie."""
    return locations.cache_folder() / "downloads"


def path_of(source: Hub) -> Path:
    """Where the finished download of `source` lies or would lie."""
    return folder() / f"{source.repository.replace('/', '--')}--{source.revision[:12]}--{source.filename}"


def leftovers(source: Hub) -> list[Path]:
    """What downloads of `source`, finished or not, have left in the cache folder."""
    path = path_of(source)
    return [file for file in (path, _part(path), _note(path)) if file.exists()]


def download(source: Hub, *, sha256: str, size: int, again: str, progress: Progress | None = None) -> Path:
    """Fetches `source` and returns its path. Empty `sha256` and 0 `size` are taken from the server.

    `again` says in an error what to run next. Raises DownloadError or NoSpaceError.
    """
    path = path_of(source)
    folder().mkdir(parents=True, exist_ok=True)
    with FileLock(folder() / f".{path.name}.lock"):
        if path.is_file():
            return path
        url = f"{endpoint()}/{source.repository}/resolve/{source.revision}/{source.filename}"
        try:
            _Download(url, path, _Expected(sha256, size), again, progress).run()
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoSpaceError(f"no space left below {folder()}: free some room, then {again}") from error
            raise
    return path


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".part.json")


class _Download:
    def __init__(
        self, url: str, path: Path, expected: _Expected, again: str, progress: Progress | None
    ) -> None:
        self._url = url
        self._path = path
        self._part = _part(path)
        self._expected = expected
        self._again = again
        self._progress = progress
        self._kept = ""  # SHA-256 of the file that the kept part belongs to

    def run(self) -> None:
        import httpx

        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        trouble = ""
        with httpx.Client(
            follow_redirects=True, timeout=timeout, headers={"user-agent": "tokenleap"}
        ) as client:
            for attempt in range(ATTEMPTS):
                if attempt:
                    time.sleep(BACKOFF_SECONDS * 2 ** (attempt - 1))
                try:
                    self._attempt(client)
                    break
                except (_Broken, httpx.TransportError) as error:
                    trouble = str(error) or type(error).__name__
                except (httpx.HTTPError, httpx.InvalidURL) as error:
                    self._fail(f"it cannot be asked for ({error})")
            else:
                self._fail(f"{trouble}; what has arrived is kept, check the connection")
        self._finish()

    def _attempt(self, client: httpx.Client) -> None:
        have = self._resumable()
        headers = {"accept-encoding": "identity"}
        if have:
            headers["range"] = f"bytes={have}-"
        with client.stream("GET", self._url, headers=headers) as response:
            start, total = self._check_answer(response, have)
            self._check_space(total - start)
            if total > start:
                self._receive(response, start, total)

    def _resumable(self) -> int:
        """Bytes that may be kept of an earlier try: those of the same file, as far as the hash tells."""
        self._kept = ""
        try:
            note = json.loads(_note(self._path).read_text(encoding="utf-8"))
            known = str(note["sha256"])
        except (OSError, ValueError, KeyError, TypeError):
            known = ""
        if not known or (self._expected.sha256 and known != self._expected.sha256):
            self._part.unlink(missing_ok=True)
            return 0
        self._kept = known
        return self._part.stat().st_size if self._part.is_file() else 0

    def _check_answer(self, response: httpx.Response, have: int) -> tuple[int, int]:
        """(first byte of this answer, size of the whole). Raises when the answer is not the file."""
        status = response.status_code
        if status in _RETRY_STATUSES:
            raise _Broken(f"the server answered {status}")
        if status in (401, 403):
            self._fail(f"the server refused it ({status})")
        if status == 404:
            self._fail("the server does not have it (404)")
        if status == 416:
            # Nothing is left to send, or our part is longer than the file is now: the hash decides, else
            # start over.
            total = _number(response.headers.get("content-range", ""), r"\*/(\d+)$")
            if have and total == have and self._expected.size in (0, have):
                self._learn_hash(response)
                self._expected = _Expected(self._expected.sha256 or self._kept, have)
                return have, have
            self._part.unlink(missing_ok=True)
            raise _Broken("the server has another file than before")
        if status not in (200, 206):
            self._fail(f"the server answered {status}")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind.startswith("text/") or kind in ("application/json", "application/xhtml+xml"):
            self._fail(f"the server sent a page ({kind}) and not a model")
        self._learn_hash(response)
        self._expected.sha256 = self._expected.sha256 or (self._kept if status == 206 else "")
        if have and self._expected.sha256 and self._expected.sha256 != self._kept:
            self._part.unlink(missing_ok=True)
            raise _Broken("the server has another file than before")
        if status == 206:
            start = _number(response.headers.get("content-range", ""), r"bytes (\d+)-")
            total = _number(response.headers.get("content-range", ""), r"/(\d+)$")
            if start != have or total is None:
                self._part.unlink(missing_ok=True)
                raise _Broken("the server sent another range than asked for")
        else:
            start, total = 0, _number(response.headers.get("content-length", ""), r"^(\d+)$")
            total = total or self._expected.size
        if not total:
            self._fail("the server does not say how long it is")
        if self._expected.size and total != self._expected.size:
            self._fail(f"{self._expected.size} bytes were expected and the server has {total}")
        self._expected.size = total
        return start, total

    def _learn_hash(self, response: httpx.Response) -> None:
        # The hub names the SHA-256 of a large file on its own answer, before it redirects to where the bytes
        # are.
        for answer in (*response.history, response):
            for header in ("x-linked-etag", "etag"):
                found = re.fullmatch(r'(?:W/)?"?([0-9a-f]{64})"?', answer.headers.get(header, "").strip())
                if found is None:
                    continue
                if self._expected.sha256 and found[1] != self._expected.sha256:
                    if header == "x-linked-etag":
                        self._fail("the server has another file under this name (its SHA-256 differs)")
                    continue
                self._expected.sha256 = found[1]
                return

    def _check_space(self, needed: int) -> None:
        free = shutil.disk_usage(self._part.parent).free
        if free < needed:
            raise NoSpaceError(
                f"{needed} bytes are needed below {self._part.parent} and {free} are free: free some "
                f"room, then {self._again}"
            )

    def _receive(self, response: httpx.Response, start: int, total: int) -> None:
        if not start:
            _note(self._path).unlink(missing_ok=True)
        done = start
        with self._part.open("r+b" if start else "wb") as file:
            file.seek(start)
            if not start and self._expected.sha256:
                _note(self._path).write_text(json.dumps({"sha256": self._expected.sha256}), encoding="utf-8")
            for chunk in response.iter_raw():  # as it arrives: of larger blocks the last would be lost
                if done == 0 and chunk[:4] != b"GGUF"[: len(chunk)]:
                    break
                file.write(chunk)
                done += len(chunk)
                if done > total:
                    break
                if self._progress is not None:
                    self._progress("download", done, total)
            file.flush()
            os.fsync(file.fileno())
        if done == 0:
            self._part.unlink()
            _note(self._path).unlink(missing_ok=True)
            self._fail("what the server sent is not a GGUF file")
        if done < total:
            raise _Broken(f"the connection ended after {done} of {total} bytes")

    def _finish(self) -> None:
        with Parts([self._part]) as parts:
            size, found = parts.size, parts.sha256(self._progress)
        if size != self._expected.size or (self._expected.sha256 and found != self._expected.sha256):
            self._part.unlink()
            _note(self._path).unlink(missing_ok=True)
            self._fail(f"what arrived is not what was expected ({size} bytes, SHA-256 {found[:16]}...)")
        os.replace(self._part, self._path)
        _note(self._path).unlink(missing_ok=True)

    def _fail(self, why: str) -> NoReturn:
        raise DownloadError(f"downloading {self._url} failed: {why}; {self._again}")


def _number(text: str, pattern: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None

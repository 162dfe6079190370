"""A stand-in for the model hub: a local HTTP server that serves one file, well or badly.

It records what it was asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Hub:
    """What is served and how. Change the fields between requests; `asked` lists (path, range header)."""

    content: bytes
    url: str = ""
    content_type: str = "application/octet-stream"
    status: int = 0  # another answer than the file
    failures: list[int] = field(default_factory=list)  # statuses to answer with first
    cut_after: list[int] = field(
        default_factory=list
    )  # bytes after which the connection breaks, one a request
    ranges: bool = True
    wrong_range: bool = False
    says_hash: str | None = "x-linked-etag"
    hash: str = ""  # another hash than the content's
    says_length: bool = True
    redirects: bool = True
    asked: list[tuple[str, str]] = field(default_factory=list)

    @property
    def etag(self) -> str:
        """The SHA-256 that the server names."""
        return self.hash or hashlib.sha256(self.content).hexdigest()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            moved = self.path.startswith("/bytes/")
            if not moved:
                hub.asked.append((self.path, self.headers.get("range", "")))
                status = hub.failures.pop(0) if hub.failures else hub.status
                if status:
                    self._plain(status, b"<html>" + b"no " * 50, "text/html")
                    return
            if hub.redirects and not moved:
                self.send_response(302)
                if hub.says_hash == "x-linked-etag":
                    self.send_header("X-Linked-Etag", f'"{hub.etag}"')
                self.send_header("Location", "/bytes" + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self._file()

        def _plain(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _file(self) -> None:
            whole = len(hub.content)
            wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
            start = int(wanted[1]) if wanted and hub.ranges else 0
            if start >= whole:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{whole}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                shown = start + 1 if hub.wrong_range else start
                self.send_header("Content-Range", f"bytes {shown}-{whole - 1}/{whole}")
            self.send_header("Content-Type", hub.content_type)
            if hub.says_hash == "etag" or (hub.says_hash and not hub.redirects):
                self.send_header(hub.says_hash, f'"{hub.etag}"')
            if hub.says_length:
                self.send_header("Content-Length", str(whole - start))
            else:
                self.close_connection = True
            self.end_headers()
            stop = start + hub.cut_after.pop(0) if hub.cut_after else whole
            self.wfile.write(hub.content[start:stop])
            if stop < whole:
                self.close_connection = True

    return Handler


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that goes away before the end is what some tests do."""


@contextlib.contextmanager
def serving(content: bytes) -> Iterator[Hub]:
    """A running hub that serves `content` under every path."""
    hub = Hub(content)
    server = _Server(("127.0.0.1", 0), _handler(hub))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)

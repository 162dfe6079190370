"""Document URIs: one spelling for each document, and the file it names.

Clients write the same document as `file:///c%3A/a`, `file:///C:/a` or `file:/c:/a`, so documents are looked up
by `canonical`; answers carry the client's own spelling. Only a `file` URI has a path. Nothing here touches the
disk, and no text raises. RFC 3986, appendix B; RFC 8089.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_DRIVE = re.compile(rb"/?([A-Za-z]:)(?=[/\\]|$)")


class _Uri(NamedTuple):
    scheme: str
    host: bytes  # of a file: lower case, empty for this machine
    path: bytes  # decoded
    query: bytes
    fragment: bytes


def canonical(uri: str) -> str:
    """The one spelling of a document's URI: the key under which it is kept."""
    scheme, host, path, query, fragment = _parse(uri)
    if scheme == "file":
        if _DRIVE.match(path):
            path = path[:2].lower() + path[2:]
        rooted = host or path.startswith(b"/")
        made = "file:" + ("//" + quote(host, safe=":[]@") if rooted else "") + quote(path)
    else:
        made = scheme + ":" + quote(path, safe="/:@") if scheme else quote(path)
    if query:
        made += "?" + quote(query)
    if fragment:
        made += "#" + quote(fragment)
    return made


def path_of(uri: str) -> str | None:
    """The absolute path that a `file` URI names on this system; None for other schemes and other machines."""
    scheme, host, path, _, _ = _parse(uri)
    if scheme != "file" or not path.startswith(b"/"):  # a relative path would depend on the working folder
        return None
    if os.name == "nt":
        if host:
            path = b"//" + host + path
        elif _DRIVE.match(path):
            path = path[1:] if len(path) > 3 else path[1:] + b"/"
        return path.decode("utf-8", "replace").replace("/", "\\")
    return None if host else os.fsdecode(path)


def name_of(uri: str) -> str:
    """What to call the document in a message: the last part of its path, decoded."""
    path = _parse(uri).path.rstrip(b"/")
    return path[path.rfind(b"/") + 1 :].decode("utf-8", "replace")


def _parse(uri: str) -> _Uri:
    match = _PARTS.fullmatch(uri)
    assert match is not None  # the pattern takes every text
    # Decoded as bytes: a file's name need not be UTF-8.
    host, path, query, fragment = (_decode(part or "") for part in match.groups()[1:])
    named = (match[1] or "").lower()
    if named != "file":
        return _Uri(named, b"", (b"//" + host if match[2] is not None else b"") + path, query, fragment)
    host = host.lower()
    if _DRIVE.fullmatch(host):  # `file://c:/a`: the drive stands where the machine should
        host, path = b"", b"/" + host + path
    if host == b"localhost":
        host = b""
    if not host and _DRIVE.match(path):
        path = b"/" + path.lstrip(b"/").replace(b"\\", b"/")
    return _Uri(named, host, path, query, fragment)


def _decode(part: str) -> bytes:
    return unquote_to_bytes(part.encode("utf-8", "surrogatepass"))

"""Frozen dataclasses <-> JSON <-> length-prefixed frames, for the messages of protocol.py.

A frame is a 4-byte big-endian length and that many bytes of JSON, at most FRAME_LIMIT. What arrives is
checked field by field against the dataclass; anything else raises WireError and never a Python error of
another kind.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import struct
import types
import typing
from collections.abc import Iterator
from typing import Any

from assistant.errors import HostError

FRAME_LIMIT = 16 * 1024 * 1024
_LENGTH = struct.Struct(">I")


class WireError(HostError):
    """Bytes that are no message of this protocol."""


def pack(value: dict[str, Any]) -> bytes:
    """One frame. ASCII JSON, so that text with unpaired surrogates travels unharmed. WireError when it is too
    long.
    """
    body = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    if len(body) > FRAME_LIMIT:
        raise WireError(f"a message of {len(body)} bytes is over the limit of {FRAME_LIMIT}: send less text")
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Takes bytes as they come and gives whole frames as JSON objects; keeps one unfinished frame."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Every frame that `data` completes, in order. WireError when the stream cannot be followed on."""
        self._held += data
        while len(self._held) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._held)
            if length > FRAME_LIMIT:
                raise WireError(f"a message of {length} bytes is over the limit of {FRAME_LIMIT}")
            end = _LENGTH.size + length
            if len(self._held) < end:
                return
            body = bytes(self._held[_LENGTH.size : end])
            del self._held[:end]
            try:
                value = json.loads(body)
            except (ValueError, RecursionError):
                raise WireError("a message is not JSON") from None
            if not isinstance(value, dict):
                raise WireError("a message is not a JSON object")
            yield value


def to_json(value: Any) -> Any:
    """A dataclass instance as JSON values: fields in order, tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    return value


@functools.cache
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Field name -> (annotation, has a default)."""
    hints = typing.get_type_hints(kind)
    return {
        field.name: (
            hints[field.name],
            field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
    }


def from_json(kind: Any, value: Any, where: str = "message") -> Any:
    """`value` as a `kind`: dataclass, str, int, float, bool, None, a union, a tuple of one kind."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        for option in typing.get_args(kind):
            try:
                return from_json(option, value, where)
            except WireError:
                continue
        raise WireError(f"{where} has a value of the wrong kind")
    if origin is tuple:
        if not isinstance(value, list):
            raise WireError(f"{where} is not a list")
        item_kind = typing.get_args(kind)[0]
        return tuple(from_json(item_kind, item, where) for item in value)
    if kind is types.NoneType or kind is None:
        if value is None:
            return None
    elif dataclasses.is_dataclass(kind):
        return _from_object(kind, value, where)
    elif kind is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                pass
    elif kind is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif isinstance(value, kind):
        return value
    raise WireError(f"{where} has a value of the wrong kind")


def _from_object(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise WireError(f"{where} is not an object")
    fields = _fields(kind)
    unknown = value.keys() - fields.keys()
    if unknown:
        raise WireError(f"{where} has fields that nobody knows")
    made: dict[str, Any] = {}
    for name, (annotation, optional) in fields.items():
        if name in value:
            made[name] = from_json(annotation, value[name], f"{where}.{name}")
        elif not optional:
            raise WireError(f"{where} lacks {name}")
    return kind(**made)

"""Messages survive the wire in any pieces, and nothing else gets through."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.errors import UsageError, from_wire
from assistant.service import protocol, wire
from assistant.service.protocol import CompletionRequest, CompletionResult

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)  # unpaired surrogates too
REQUESTS = st.builds(
    CompletionRequest,
    prefix=TEXT,
    suffix=TEXT,
    path=st.none() | TEXT,
    max_tokens=st.integers(1, 100),
    temperature=st.floats(0, 2),
    stream=st.booleans(),
)
RESULTS = st.builds(
    CompletionResult,
    completion=TEXT,
    finish_reason=st.just("stop"),
    empty_reason=st.none(),
    model=TEXT,
    precision=TEXT,
    decode=TEXT,
    accepted_by_position=st.lists(st.floats(0, 1), max_size=4).map(tuple),
    candidates=st.none() | st.lists(TEXT, max_size=3).map(tuple),
)
MESSAGES = st.one_of(
    st.builds(protocol.Hello, st.integers(), TEXT, st.integers(), TEXT),
    st.builds(protocol.Complete, st.integers(1, 9), REQUESTS),
    st.builds(protocol.Result, st.integers(1, 9), st.none() | RESULTS),
    st.builds(protocol.Text, st.integers(1, 9), TEXT),
    st.builds(protocol.Failure, st.integers(1, 9), TEXT, TEXT),
    st.builds(protocol.Cancel, st.integers(1, 9)),
)


@given(st.lists(MESSAGES, max_size=5), st.data())
def test_messages_come_out_as_they_went_in_however_the_bytes_are_cut(messages, data):
    stream = b"".join(protocol.encode(message) for message in messages)
    frames, got = wire.Frames(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += [protocol.decode(value) for value in frames.feed(stream[:size])]
        stream = stream[size:]
    assert got == messages


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_raise_only_wire_errors(data):
    for framed in (data, struct.pack(">I", len(data)) + data):
        try:
            for value in wire.Frames().feed(framed):
                protocol.decode(value)
        except wire.WireError:
            pass


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(
    st.sampled_from(sorted(protocol._KINDS)),
    st.dictionaries(st.sampled_from(["id", "request", "result", "pid"]), JSON),
)
def test_json_of_the_wrong_shape_raises_only_wire_errors(kind, fields):
    with contextlib.suppress(wire.WireError):
        protocol.decode({"type": kind, **fields})


@pytest.mark.parametrize(
    "body",
    [
        {"type": "Cancel", "id": True},
        {"type": "Cancel", "id": 1.5},
        {"type": "Cancel"},
        {"type": "Cancel", "id": 1, "more": 2},
        {"type": "Cancel", "id": "1"},
        {"type": "Nothing", "id": 1},
        {"id": 1},
        {"type": "Complete", "id": 1, "request": {"prefix": None}},
        {"type": "Result", "id": 1, "result": 5},
    ],
)
def test_a_field_of_the_wrong_kind_missing_or_unknown_is_refused(body):
    with pytest.raises(wire.WireError):
        protocol.decode(body)


def test_a_length_over_the_limit_is_refused_before_its_bytes_come():
    with pytest.raises(wire.WireError):
        list(wire.Frames().feed(struct.pack(">I", wire.FRAME_LIMIT + 1)))
    with pytest.raises(wire.WireError):
        wire.pack({"text": "x" * (wire.FRAME_LIMIT + 1)})


def test_deep_nesting_is_refused():
    body = b"[" * 100_000
    with pytest.raises(wire.WireError):
        list(wire.Frames().feed(struct.pack(">I", len(body)) + body))


def test_the_json_of_a_result_has_exactly_the_fields_of_the_contract():
    fields = {
        *("completion", "finish_reason", "empty_reason", "model", "precision", "decode", "prompt_tokens"),
        *("reused_tokens", "new_tokens", "passes", "drafted", "accepted", "tokens_per_pass"),
        *("accepted_by_position", "first_token_ms", "total_ms", "prefill_ms", "decode_ms", "load_ms"),
        *("startup_ms", "tokens_per_second"),
    }
    result = CompletionResult("x", "stop", None, "m", "int8", "auto")
    assert result.to_json().keys() == fields
    several = dataclasses.replace(result, candidates=("x", "y")).to_json()
    assert several.keys() == fields | {"candidates"}
    json.dumps(several)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", 0),
        ("temperature", float("nan")),
        ("temperature", -1.0),
        ("top_p", 1.5),
        ("candidates", 0),
        ("decode", "fast"),
        ("multiline", ""),
        ("trigger", "other"),
    ],
)
def test_a_value_out_of_range_is_a_usage_error_that_names_it(field, value):
    with pytest.raises(UsageError, match=field):
        dataclasses.replace(CompletionRequest("x"), **{field: value}).check()


def test_cancelled_keeps_its_number_over_the_wire():
    sent = protocol.failure(3, protocol.RequestCancelled("the request was cancelled"))
    error = from_wire(sent.code, sent.message)
    assert isinstance(error, protocol.RequestCancelled)
    assert error.number == -32800


@given(st.integers(0, 3 * protocol.PREFIX_WINDOW))
def test_a_window_keeps_the_text_next_to_the_cursor_and_moves_in_steps(length):
    text = "".join(chr(97 + n % 26) for n in range(26)) * (length // 26 + 2)
    text = text[:length]
    kept = CompletionRequest(text, text).windowed()
    assert text.endswith(kept.prefix) and text.startswith(kept.suffix)
    assert min(length, protocol.PREFIX_WINDOW) <= len(kept.prefix) < protocol.PREFIX_WINDOW + 64 * 1024
    assert (length - len(kept.prefix)) % (64 * 1024) == 0


def test_the_build_is_the_same_for_two_processes_of_one_tree_and_fixed_in_each():
    assert protocol.build_hash() == protocol.build_hash()
    assert len(protocol.build_hash()) == 24

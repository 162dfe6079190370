"""Frames, whatever pieces they come in, and a standard output that is the protocol's alone."""

from __future__ import annotations

import io
import json
import os
import subprocess
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp.transport import Frames, FramingError, frame
from tests.lsp_server.client import COMMAND, read_message

BODIES = st.lists(st.binary(max_size=300), max_size=8)


@given(BODIES, st.lists(st.integers(1, 40), min_size=1))
def test_bodies_come_out_as_they_went_in_whatever_the_pieces(bodies, sizes):
    stream = b"".join(map(frame, bodies))
    frames, found, place = Frames(), [], 0
    while place < len(stream):
        size = sizes[place % len(sizes)]
        found += frames.feed(stream[place : place + size])
        place += size
    assert found == bodies


def test_headers_in_any_order_and_case():
    data = b"content-type: application/vscode-jsonrpc; charset=utf-8\r\nCONTENT-LENGTH:  2 \r\n\r\n{}"
    assert list(Frames().feed(data)) == [b"{}"]


@pytest.mark.parametrize(
    "data", [b"{}\r\n\r\n", b"Content-Length: -1\r\n\r\n", b"Content-Length: 1e9\r\n\r\n", b"x" * 5000]
)
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(FramingError):
        list(Frames().feed(data))


def test_only_frames_on_standard_output_with_warnings_and_a_library_that_prints(own_home, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent(
            """
            import sys
            print("a site that prints at start")

            class Finder:
                def find_spec(self, name, path=None, target=None):
                    if name in ("pygls", "platformdirs", "sqlite3", "lsp.convert"):
                        import os, subprocess, warnings
                        print(f"{name} prints at import", flush=name == "pygls")
                        warnings.warn(f"{name} warns")
                        if name == "pygls":
                            os.write(1, b"C code that writes to the descriptor")
                            subprocess.run(["echo", "a child that prints"], check=True)

            sys.meta_path.insert(0, Finder())
            """
        ),
        encoding="utf-8",
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), root]),
        "PYTHONWARNINGS": "default",
        "TOKENLEAP_ENABLED": "off",  # no engine for this
    }
    environment.pop("PYTHONUNBUFFERED", None)
    server = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    messages = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    ]
    bodies = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
    output, errors = server.communicate(b"".join(map(frame, bodies)), timeout=120)
    assert server.returncode == 0, errors.decode()
    assert b"a site that prints at start" in errors and b"pygls prints at import" in errors
    assert b"C code that writes" in errors and b"a child that prints" in errors
    stream = io.BytesIO(output)
    answered = [message["id"] for message in iter(lambda: read_message(stream), None) if "id" in message]
    assert answered == [1, 2]


def test_a_stream_that_is_no_protocol_ends_the_server(own_home):
    done = subprocess.run(
        COMMAND,
        input=b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        capture_output=True,
        timeout=120,
        env=os.environ | {"TOKENLEAP_ENABLED": "off"},
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"Content-Length" in done.stderr and b"Traceback" not in done.stderr

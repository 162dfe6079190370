"""`tokenleap tui` outside a terminal, and the commands that the interface runs for longer work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assistant.errors import TokenleapError, UsageError
from assistant.service.errands import Errand
from tests.conftest import OwnHome


def test_without_a_terminal_it_says_so_and_ends_with_2(own_home: OwnHome) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assistant.cli.main", "tui"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert "needs a terminal" in done.stderr and len(done.stderr.splitlines()) == 1


def test_an_errand_brings_json_and_a_failing_one_its_own_sentence(own_home: OwnHome) -> None:
    rows = Errand("catalog").run()
    assert "qwen2.5-coder-0.5b" in [row["id"] for row in rows]
    with pytest.raises(TokenleapError, match="there is no model 'nope'"):
        Errand("pull", ["nope"]).run()
    with pytest.raises(UsageError, match="no errand"):
        Errand("dance")


def test_a_stopped_errand_does_not_begin(own_home: OwnHome) -> None:
    errand = Errand("doctor")
    errand.stop()
    with pytest.raises(TokenleapError, match="stopped"):
        errand.run()

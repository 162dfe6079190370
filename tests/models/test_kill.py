"""Killed at any moment, a conversion leaves nothing that the next one does not put right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import OwnHome

SCRIPT = Path(__file__).with_name("kill_points.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to kill a conversion at a chosen step")
@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_killed_at_ten_random_steps(own_home: OwnHome, tiny_path: Path, precision: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tiny_path), precision, "10", "2"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(report["runs"]) == 10 and report["steps"] > 30
    for run in report["runs"]:
        assert run == {"step": run["step"], "signal": signal.SIGKILL, "same": True, "strays": []}

"""bench memory reads the system's own lists: a shared mapping is told from a copy."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import pytest

from assistant.bench import memory
from assistant.errors import UsageError

linux = pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's /proc")

SMAPS = """\
7f0000000000-7f0000400000 r--s 00000000 08:01 42    /data/models/a b/int8/weights.safetensors
Size:               4096 kB
Rss:                2048 kB
Shared_Clean:          0 kB
Private_Clean:      2048 kB
Private_Dirty:         0 kB
Anonymous:             0 kB
VmFlags: rd sh mr mw me
7f1000000000-7f1000400000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                4096 kB
Private_Dirty:      4096 kB
Anonymous:          4096 kB
"""


def test_a_shared_mapping_is_sound_and_a_written_one_is_not() -> None:
    found = memory.weights(memory.parse_smaps(SMAPS))
    assert found == {"mapped_bytes": 4 << 20, "resident_bytes": 2 << 20, "copied_bytes": 0, "shared": True}
    assert memory.anonymous(memory.parse_smaps(SMAPS)) == 4 << 20
    written = SMAPS.replace("Anonymous:             0", "Anonymous:             4", 1)
    assert not memory.weights(memory.parse_smaps(written))["shared"]
    assert not memory.weights([])["shared"]


@linux
def test_a_real_process(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(bytes(1 << 20))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        assert sum(data[:: mmap.PAGESIZE]) == 0
        found = memory.of_process(os.getpid())
    assert found["peak_resident_bytes"] >= found["resident_bytes"] > 1 << 20
    assert found["weights"]["shared"] and found["weights"]["mapped_bytes"] == 1 << 20


@linux
def test_a_process_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="no process"):
        memory.of_process(2**22 + 1)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX resource usage")
def test_the_peak_of_a_command_is_its_own_and_not_its_parents() -> None:
    ballast = bytearray(os.urandom(1)) * (256 << 20)
    found = memory.peak_of_command(["--version"])
    assert found["exit"] == 0
    assert 1 << 20 < found["peak_resident_bytes"] < len(ballast)

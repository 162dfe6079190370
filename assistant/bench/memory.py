"""`tokenleap bench memory`: what a running process holds, and that it shares its weights instead of copying
them.

Reads Linux's /proc; elsewhere it raises UnsupportedError. Sizes are bytes. A mapping of the weights is sound
when it is backed by the file and none of its pages is anonymous (an anonymous page is this process's own
copy).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assistant.errors import UnsupportedError, UsageError

_HEADER = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (\S{4}) \S+ \S+ \d+\s*(.*)$")
_FIELD = re.compile(r"^(\w+):\s+(\d+) kB$")


def parse_smaps(text: str) -> list[dict[str, Any]]:
    """Mappings of /proc/PID/smaps: {"path", "flags", and the sizes that the system lists, in bytes}."""
    mappings: list[dict[str, Any]] = []
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header:
            mappings.append({"flags": header[1], "path": header[2]})
            continue
        field = _FIELD.match(line)
        if field and mappings:
            mappings[-1][field[1]] = int(field[2]) * 1024
    return mappings


def weights(mappings: Sequence[dict[str, Any]], marker: str = "weights.safetensors") -> dict[str, Any]:
    """What the mappings say about the weights file: mapped, resident, and pages copied for this process."""
    found = [mapping for mapping in mappings if marker in mapping["path"]]

    def total(name: str) -> int:
        return sum(mapping.get(name, 0) for mapping in found)

    # Not Private_Dirty: it also counts pages of the file itself that the system has yet to write to the disk.
    copied = total("Anonymous")
    return {
        "mapped_bytes": total("Size"),
        "resident_bytes": total("Rss"),
        "copied_bytes": copied,
        "shared": bool(found) and copied == 0 and all("w" not in mapping["flags"] for mapping in found),
    }


def anonymous(mappings: Sequence[dict[str, Any]]) -> int:
    """Bytes that belong to the process alone and to no file: where a private copy of the weights would be."""
    return sum(mapping.get("Anonymous", 0) for mapping in mappings)


def of_process(pid: int) -> dict[str, Any]:
    """Memory of a process. Raises UsageError when there is none of that number, UnsupportedError without
    /proc.
    """
    folder = Path("/proc") / str(pid)
    if not Path("/proc/self/smaps").exists():
        raise UnsupportedError("Measuring memory needs Linux's /proc, which this system does not have.")
    try:
        status, mappings = (folder / "status").read_text(), parse_smaps((folder / "smaps").read_text())
    except (FileNotFoundError, ProcessLookupError) as error:
        raise UsageError(f"There is no process {pid}; give the number that `tokenleap host status` shows.") from error
    sizes = {name: int(kb) * 1024 for name, kb in re.findall(r"^(Vm\w+):\s+(\d+) kB$", status, re.MULTILINE)}
    return {
        "pid": pid,
        "peak_resident_bytes": sizes.get("VmHWM", 0),
        "resident_bytes": sizes.get("VmRSS", 0),
        "anonymous_bytes": anonymous(mappings),
        "weights": weights(mappings),
    }


# A new process starts with its parent's peak, so a small one stands between: its children's peak is the
# command's own.
_BETWEEN = """
import resource, subprocess, sys
none = subprocess.DEVNULL
done = subprocess.run(sys.argv[1:], stdin=none, stdout=none, stderr=none)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_of_command(words: Sequence[str]) -> dict[str, Any]:
    """Run `tokenleap WORDS` to its end as a process of its own; its exit status and peak resident memory."""
    command = [sys.executable, "-m", "assistant.cli.main", *words]
    between = [sys.executable, "-S", "-c", _BETWEEN, *command]
    done = subprocess.run(between, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise UnsupportedError("Measuring a command's memory needs Linux or macOS.")
    status, peak = (int(word) for word in done.stdout.split())
    return {"exit": status, "peak_resident_bytes": peak * (1 if sys.platform == "darwin" else 1024)}

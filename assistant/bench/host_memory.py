"""What the engine host holds after a long request, and what the command that asked it holds.

Starts a host of its own in a home of its own (the models of this machine linked in), so that a running host's
history does not count, and stops it afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assistant import locations
from assistant.bench import memory, sources
from assistant.service.client import Client
from assistant.service.protocol import CompletionRequest

_CHARACTERS = 5.0  # a token, more than Python has: the prompt is then cut to the budget
_SLACK = 1.4  # the cut goes to a coarse grid and may leave less than the budget; what was read is in the result


@contextmanager
def own_host() -> Iterator[None]:
    """This process and its children see a home of their own, whose host is stopped at the end."""
    models, kernels = locations.models_folder(), locations.cache_folder() / "kernels"
    # Not below a deep folder: a socket's whole path must stay under 104 bytes.
    home = Path(tempfile.mkdtemp(prefix="tokenleap-"))
    names = ("TOKENLEAP_HOME", "XDG_RUNTIME_DIR")
    before = {name: os.environ.get(name) for name in names}
    try:
        (home / "data").mkdir()
        (home / "cache").mkdir()
        (home / "data" / "models").symlink_to(models, target_is_directory=True)
        if kernels.is_dir():
            shutil.copytree(kernels, home / "cache" / "kernels")
        os.environ |= dict.fromkeys(names, str(home))
        yield
    finally:
        command = [sys.executable, "-m", "assistant.cli.main", "host", "stop"]
        subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(home, ignore_errors=True)


def _text(tokens: int) -> str:
    """Real Python of more than `tokens` tokens that ends inside a function."""
    text = ""
    for source in sources.drawn([sources.STDLIB], 0):
        text += source.text
        if len(text) > tokens * _CHARACTERS:
            break
    return text[: int(tokens * _CHARACTERS)].rsplit("\n", 1)[0] + "\n\n\ndef read(path):\n    "


def measure(model: str, context: int = 2000) -> dict[str, Any]:
    """`{"host": .., "client": .., "context"}` after a completion with about `context` tokens before the
    cursor.

    `context` in the result is what the prompt really held.
    """
    budget = int(context * _SLACK)
    text = _text(budget)
    with own_host(), tempfile.TemporaryDirectory() as folder:
        request = CompletionRequest(
            prefix=text, path="bench.py", language="python", model=model, max_tokens=16, prefix_tokens=budget
        )
        with Client.connect() as client:
            result = client.complete(request)
            pid = client.status().pid
        host = memory.of_process(pid)
        path = Path(folder) / "bench.py"
        path.write_text(text[-2000:], encoding="utf-8")
        asking = memory.peak_of_command(["complete", str(path), "--max-tokens", "8", "--model", model])
    return {
        "host": host,
        "client": asking,
        "context": result.prompt_tokens if result else None,
        "model": model,
    }

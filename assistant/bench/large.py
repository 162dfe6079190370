"""Large files over the language server: what one change costs it, and how long an answer takes beside a small file.

Three documents: small (the text around the cursor alone), large (LARGE characters around it) and one line of LINE
characters. A change is timed until the server is through with it, less what an empty round trip takes. Answers are to
automatic requests after one key, each at a cursor that was warmed by an answer before; they take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assistant.bench import intervals
from assistant.bench.editor import Editor
from assistant.bench.host_memory import own_host
from assistant.settings.schema import Settings

LARGE = 5_000_000
LINE = 300_000
ROUNDS = 7
_KEYS = "total"
_CARRIED = ("model", "precision", "device", "threads", "decode", "draft")
_PIECE = "def area_{n}(width, height):\n    return width * height + {n}\n\n\n"
_START = "def perimeter(width, height):\n    "


def _texts() -> dict[str, tuple[str, str]]:
    """Before and behind the cursor, by name."""
    near = "".join(_PIECE.format(n=n) for n in range(40))
    far = "".join(_PIECE.format(n=n) for n in range(LARGE // 2 // 56))
    line = "numbers = [" + "12, " * (LINE // 4)
    return {"small": (near + _START, "\n\n" + near), "large": (far + _START, "\n\n" + far), "line": (line, "]\n")}


def measure(settings: Settings, report: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Medians in milliseconds, and answers' ratios to the small file's. HostError when there is no answer."""
    changes: dict[str, list[float]] = {}
    answers: dict[str, list[float]] = {}
    texts = _texts()
    with own_host():
        editor = Editor({name: getattr(settings, name) for name in _CARRIED})
        try:
            editor.ready()
            for number in range(ROUNDS):
                report(f"round {number + 1} of {ROUNDS}")
                for name, (before, after) in texts.items():
                    editor.open(f"file:///bench/{name}-{number}.py", "python", before, after)
                    editor.look()
                    empty = intervals.median([editor.change_and_wait("") for _ in range(5)])
                    taken = [editor.change_and_wait(character) for character in _KEYS]
                    changes.setdefault(name, []).append(1000 * (intervals.median(taken) - empty))
                    asked = editor.type(" ")
                    editor.wait(asked)
                    answers.setdefault(name, []).append(1000 * (asked.answered - asked.sent))
        finally:
            editor.close()
    found: dict[str, Any] = {}
    for name, (before, after) in texts.items():
        found[f"{name}_characters"] = len(before) + len(after)
        found[f"{name}_change_ms"] = intervals.median(changes[name])
        found[f"{name}_answer_ms"] = intervals.median(answers[name])
    found["large_to_small"] = found["large_answer_ms"] / found["small_answer_ms"]
    found["line_to_small"] = found["line_answer_ms"] / found["small_answer_ms"]
    return found

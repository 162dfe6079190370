"""How requests of one place in a document relate while the user types: what was typed since an earlier one, what
will be asked after an answer, and what of an answer is its first line.

Plain functions of texts; typed text is always the end of the newer request's prefix.
"""

from __future__ import annotations

from dataclasses import replace

from assistant.service.protocol import CompletionRequest

LOOK_BACK = 512  # characters that may be typed along with one answer


def typed_since(older: CompletionRequest, newer: CompletionRequest) -> str | None:
    """What was typed between two requests that are otherwise for the same; None when it was not typing alone."""
    typed = len(newer.prefix) - len(older.prefix)
    if not 0 <= typed <= LOOK_BACK or not newer.prefix.startswith(older.prefix):
        return None
    if replace(older, prefix="").identity() != replace(newer, prefix="").identity():
        return None
    return newer.prefix[len(older.prefix) :]


def left_of(completion: str, typed: str) -> str | None:
    """What is left of `completion` to suggest once `typed` was typed; None when nothing is or it says otherwise."""
    if not completion.startswith(typed):
        return None
    left = completion[len(typed) :]
    return left if left.strip() or not typed else None


def as_if_accepted(request: CompletionRequest, completion: str) -> CompletionRequest:
    """What will be asked when the user has accepted `completion`."""
    return quiet(replace(request, prefix=request.prefix + completion)).windowed()


def quiet(request: CompletionRequest) -> CompletionRequest:
    """The same, asked by nobody: it streams nothing, hurries nothing and prepares nothing further."""
    return replace(request, trigger="automatic", stream=False, budget_ms=0, ahead=False)


def first_line(settled: str, start: int) -> str | None:
    """settled[start:] up to the end of its first line that is not blank; None while there is none.

    `settled` consists of whole lines.
    """
    blank = len(settled[start:]) - len(settled[start:].lstrip())
    if start + blank >= len(settled):
        return None
    end = settled.find("\n", start + blank)
    return settled[start:] if end < 0 else settled[start:end]

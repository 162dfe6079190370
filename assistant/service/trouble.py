"""Makes one clear error for the client of anything that an engine raises, and a log line without text of the
user's.
"""

from __future__ import annotations

import logging
import os
import traceback

from assistant import system_errors
from assistant.errors import HostError, OutOfMemoryError, TokenleapError
from assistant.system_errors import out_of_memory

__all__ = ["described", "out_of_memory", "understood"]

log = logging.getLogger(__name__)


def understood(error: BaseException) -> TokenleapError:
    """The error to answer a request with; logs what is not the user's to mend."""
    if isinstance(error, TokenleapError):
        log.info("request refused: %s", error.code)
        return error
    log.error("request failed: %s", described(error))
    known = system_errors.understood(error)
    if isinstance(known, OutOfMemoryError):
        return OutOfMemoryError(
            "there was not enough memory for this request: close other programs or choose a smaller model"
        )
    if known is not None:
        return known
    if isinstance(error, ImportError):
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), error.name)
        return HostError(f"the engine cannot be imported ({reason}): install tokenleap again")
    return TokenleapError(
        f"the engine failed on this request ({type(error).__name__}): try again, "
        "and see the host's log if it stays"
    )


def described(error: BaseException) -> str:
    """Where an error comes from, without its message, which may hold text of the user's."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return f"{type(error).__name__} at " + " > ".join(
        f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in frames
    )

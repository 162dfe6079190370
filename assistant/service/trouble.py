"""Makes one clear error for the client of anything that an engine raises, and a log line without text of the
user's.
"""

from __future__ import annotations

import errno
import logging
import os
import traceback

from assistant.errors import HostError, NoSpaceError, OutOfMemoryError, TokenleapError

log = logging.getLogger(__name__)


def understood(error: BaseException) -> TokenleapError:
    """The error to answer a request with; logs what is not the user's to mend."""
    if isinstance(error, TokenleapError):
        log.info("request refused: %s", error.code)
        return error
    if out_of_memory(error):
        log.error("out of memory: %s", described(error))
        return OutOfMemoryError(
            "there was not enough memory for this request: close other programs or choose a smaller model"
        )
    log.error("request failed: %s", described(error))
    if isinstance(error, ImportError):
        return HostError(f"the engine cannot be imported ({error}): install tokenleap again")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpaceError("there is no space left on the disk: free some and try again")
    if isinstance(error, OSError) and error.filename:
        return TokenleapError(f"the system reported '{error.strerror}' at {os.fsdecode(error.filename)}")
    return TokenleapError(
        f"the engine failed on this request ({type(error).__name__}): try again, "
        "and see the host's log if it stays"
    )


def out_of_memory(error: BaseException) -> bool:
    """MemoryError, torch's OutOfMemoryError, ours, or the plain RuntimeError of torch's CPU allocator."""
    if isinstance(error, (MemoryError, OutOfMemoryError)):
        return True
    if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    text = str(error) if isinstance(error, RuntimeError) else ""
    return "can't allocate memory" in text or "not enough memory" in text


def described(error: BaseException) -> str:
    """Where an error comes from, without its message, which may hold text of the user's."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return f"{type(error).__name__} at " + " > ".join(
        f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in frames
    )

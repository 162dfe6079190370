"""What an error of the operating system or of an allocator means, as one of our errors that says what to do.

`understood` gives None for what is no such error, or for one whose place is unknown. Standard library only: torch's
errors are known by their names, never imported.
"""

from __future__ import annotations

import errno
import os

from assistant.errors import NoSpaceError, OutOfMemoryError, TokenleapError

_RIGHTS = "check who owns it and its rights"
# Number -> (what is wrong with the place, what to do).
_PLACES = {
    errno.EACCES: ("access was refused", _RIGHTS),
    errno.EPERM: ("access was refused", _RIGHTS),
    errno.EROFS: ("the disk is read-only", "choose another place, or mount it for writing"),
    errno.ENOENT: ("there is nothing", "check the path"),
    errno.EEXIST: ("something else is in the way", "remove it"),
    errno.ENOTDIR: ("a file is where a folder should be", "remove it or choose another place"),
    errno.EISDIR: ("a folder is where a file should be", "remove it or choose another place"),
    errno.ENAMETOOLONG: ("the path is too long for this system", "choose a shorter one"),
    errno.ELOOP: ("the links go in a circle", "correct them"),
    errno.EIO: ("the disk failed", "check the disk"),
}
_TOO_MANY = {
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n) or close some programs",
    errno.ENFILE: "too many files are open: raise the limit (ulimit -n) or close some programs",
    errno.EAGAIN: "the system allows no more processes: raise the limit (ulimit -u) or close some programs",
}
_NO_MEMORY_WORDS = (
    "can't allocate memory",
    "not enough memory",
    "cannot allocate memory",
    "can't start new thread",
    "failed to map segment",  # a library that found no room to be loaded in
)


def understood(error: BaseException) -> TokenleapError | None:
    """The error to show for `error`, itself when it is ours already."""
    if isinstance(error, TokenleapError):
        return error
    if out_of_memory(error):
        return OutOfMemoryError(
            "there is not enough memory: close other programs, or choose a smaller model or prefix_tokens"
        )
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpaceError(f"there is no space left on the disk{_at(error)}: free some and try again")
    sentence = os_sentence(error)
    return TokenleapError(sentence) if sentence else None


def os_sentence(error: OSError) -> str | None:
    """What the system complains of and what to do about it; None when it names no place and is not known."""
    if error.errno in _TOO_MANY:
        return _TOO_MANY[error.errno]
    at = _at(error)
    if not at:
        return None
    wrong, advice = _PLACES.get(error.errno or 0, (None, None))
    if wrong is None:
        reason = (error.strerror or type(error).__name__).lower()
        return f"the system reported '{reason}'{at}: check the disk and the path"
    return f"{wrong}{at}: {advice}"


def out_of_memory(error: BaseException) -> bool:
    """MemoryError, torch's OutOfMemoryError, ours, ENOMEM, or what allocators and loaders say in other errors."""
    if isinstance(error, (MemoryError, OutOfMemoryError)):
        return True
    if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, (RuntimeError, ImportError)):
        text = str(error).lower()
        return any(words in text for words in _NO_MEMORY_WORDS)
    return False


def _at(error: OSError) -> str:
    return f" at {os.fsdecode(error.filename)}" if isinstance(error.filename, (str, bytes)) else ""

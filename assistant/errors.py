"""The product's errors: few, named, each one sentence that says what to do next.

`exit_code` follows the command line's contract: 2 wrong use or unreadable input, 3 environment.
`code` is the stable name used in messages between processes; `from_wire` turns it back into the same class.
"""

from __future__ import annotations


class TokenleapError(Exception):
    """Base of every error a user may meet. The text is one sentence that says what to do."""

    exit_code = 3
    code = "error"


class UsageError(TokenleapError):
    """Wrong use: an option, a position or a value that cannot be."""

    exit_code = 2
    code = "usage"


class SettingsError(UsageError):
    """A settings file or a setting that cannot be used."""

    code = "settings"


class UnknownModelError(UsageError):
    """A model name that is neither in the catalog nor a path."""

    code = "unknown-model"


class UnreadableFileError(UsageError):
    """A file that cannot be read as text."""

    code = "unreadable-file"


class ModelMissingError(TokenleapError):
    """The model is not on this machine."""

    code = "model-missing"


class ModelCorruptError(TokenleapError):
    """A model file that is truncated, altered or not what its name says."""

    code = "model-corrupt"


class UnsupportedModelError(TokenleapError):
    """A sound model file of a kind that this engine cannot run."""

    code = "unsupported-model"


class HeadError(TokenleapError):
    """A draft head that is damaged, or made for another model than the one that runs."""

    code = "head"


class UnsupportedError(TokenleapError):
    """A choice that this machine or this version cannot serve."""

    code = "unsupported"


class DownloadError(TokenleapError):
    """A download that failed; what was fetched so far is kept for the next try."""

    code = "download"


class NoSpaceError(TokenleapError):
    """Not enough room on the disk."""

    code = "no-space"


class OutOfMemoryError(TokenleapError):
    """Not enough memory."""

    code = "out-of-memory"


class HostError(TokenleapError):
    """The engine host could not be started, or went away."""

    code = "host"


def _all(base: type[TokenleapError]) -> list[type[TokenleapError]]:
    found = [base]
    for child in base.__subclasses__():
        found.extend(_all(child))
    return found


def from_wire(code: str, message: str) -> TokenleapError:
    """The error that `code` names, with its message; an unknown code gives the base class."""
    for kind in _all(TokenleapError):
        if kind.code == code:
            return kind(message)
    return TokenleapError(message)

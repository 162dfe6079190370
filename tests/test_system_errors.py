"""Errors of the system become one sentence that names the place and says what to do."""

from __future__ import annotations

import errno

import pytest

from assistant import system_errors
from assistant.cli import failures
from assistant.errors import NoSpaceError, OutOfMemoryError, TokenleapError, UsageError
from assistant.service import trouble


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        ImportError("advice\n" * 30 + "Original error was: x.so: failed to map segment from shared object"),
    ],
    ids=str,
)
def test_too_little_memory_is_known_whoever_complains(error: BaseException) -> None:
    assert isinstance(system_errors.understood(error), OutOfMemoryError)
    assert isinstance(trouble.understood(error), OutOfMemoryError)
    assert "not enough memory" in failures.describe(error).message


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "access was refused at /a/b: check who owns it"),
        (errno.EROFS, "read-only at /a/b: "),
        (errno.ENOENT, "nothing at /a/b: check the path"),
        (errno.ENOTDIR, "at /a/b: remove it or choose another place"),
        (errno.ENAMETOOLONG, "at /a/b: choose a shorter one"),
        (errno.EMFILE, "too many files are open: raise the limit"),
        (errno.EXDEV, "at /a/b: check the disk"),
    ],
)
def test_every_sentence_says_what_to_do_on_both_sides(number: int, words: str) -> None:
    error = OSError(number, "As The System Says", "/a/b")
    assert words in str(system_errors.understood(error))
    assert words in failures.describe(error).message and words in str(trouble.understood(error))
    assert "Errno" not in str(system_errors.understood(error))


def test_what_is_not_the_systems_is_left_to_others() -> None:
    ours = UsageError("mine")
    assert system_errors.understood(ours) is ours
    for error in (ValueError("x"), RuntimeError("shape mismatch"), ImportError("no"), OSError(errno.EPIPE, "x")):
        assert system_errors.understood(error) is None
    assert isinstance(system_errors.understood(OSError(errno.ENOSPC, "x")), NoSpaceError)


def test_a_wall_of_text_from_an_import_is_one_short_sentence() -> None:
    found = trouble.understood(ImportError("\n\nthe first line\n" + "advice " * 500))
    assert isinstance(found, TokenleapError) and "the first line" in str(found) and len(str(found)) < 200

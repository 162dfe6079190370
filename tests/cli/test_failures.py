"""Any exception becomes one line and an exit code; what nobody foresaw leaves a report."""

from __future__ import annotations

import errno

import pytest

from assistant import errors
from assistant.cli import failures
from assistant.cli.output import OutputClosed
from tests.conftest import OwnHome


def every_error(base: type[errors.TokenleapError]) -> list[type[errors.TokenleapError]]:
    return [base, *(found for child in base.__subclasses__() for found in every_error(child))]


@pytest.mark.parametrize("kind", every_error(errors.TokenleapError))
def test_our_own_errors_keep_their_sentence_and_code(kind: type[errors.TokenleapError]) -> None:
    failure = failures.describe(kind("do\nthis  first"))
    assert failure == failures.Failure("do this first", kind.exit_code)


class OutOfMemoryError(RuntimeError):
    """Stands in for torch's, which is known by its name."""


FORESEEN: list[tuple[BaseException, int, str]] = [
    (KeyboardInterrupt(), 130, "interrupted"),
    (OutputClosed(), 141, ""),
    (MemoryError(), 3, "not enough memory"),
    (OutOfMemoryError("CUDA"), 3, "not enough memory"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 3, "not enough memory"),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), 3, "not enough memory"),
    (OSError(errno.ENOSPC, "No space left on device", "/a/b"), 3, "no space left on the disk at /a/b"),
    (OSError(errno.ENOSPC, "No space left on device"), 3, "no space left"),
    (PermissionError(errno.EACCES, "Permission denied", "/a"), 3, "access was refused at /a"),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "/a"), 3, "at /a"),
    (ModuleNotFoundError("No module named 'torch'", name="torch._C"), 3, "the package torch is missing"),
]


@pytest.mark.parametrize(("error", "code", "words"), FORESEEN, ids=lambda value: type(value).__name__)
def test_foreseen_errors_of_the_system(
    own_home: OwnHome, error: BaseException, code: int, words: str
) -> None:
    failure = failures.describe(error)
    assert failure.exit_code == code
    assert words in failure.message and "\n" not in failure.message
    assert not own_home.path.exists(), "nothing to report"


def test_an_unforeseen_error_is_one_line_that_names_its_report(own_home: OwnHome) -> None:
    try:
        raise ZeroDivisionError("very\nodd")
    except ZeroDivisionError as error:
        failure = failures.describe(error)
    (report,) = (own_home.path / "cache" / "errors").iterdir()
    assert failure.exit_code == 3 and "\n" not in failure.message
    assert "ZeroDivisionError: very odd" in failure.message and str(report) in failure.message
    assert "Traceback" in report.read_text()


def test_a_report_that_cannot_be_written_hides_nothing(own_home: OwnHome) -> None:
    own_home.path.parent.joinpath("home").write_text("a file where a folder should be")
    failure = failures.describe(ValueError("odd"))
    assert failure.exit_code == 3 and "ValueError: odd" in failure.message

"""`tokenleap doctor`: every check answers, whatever the others do, and the exit code follows the findings."""

from __future__ import annotations

import json

import pytest

from assistant.cli import doctor
from assistant.cli import main as cli
from assistant.errors import UnsupportedError
from assistant.settings.load import Loaded
from tests.conftest import OwnHome


def report(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object], str]:
    code = cli.main(["doctor", "--json", *words])
    said = capfd.readouterr()
    return code, json.loads(said.out), said.err


def test_every_check_answers_in_one_line(own_home: OwnHome, capfd: pytest.CaptureFixture[str]) -> None:
    own_home.link_kernels()
    code, found, err = report(capfd)
    assert list(found) == ["healthy", *doctor.CHECKS]
    for name in doctor.CHECKS:
        finding = found[name]
        assert isinstance(finding, dict)
        assert finding["state"] in ("ok", "warning", "problem")
        assert finding["text"] and "\n" not in finding["text"]
        assert "unexpected error" not in finding["text"], finding["text"]
    assert code == (0 if found["healthy"] else 3)
    assert err.count("\n") == (0 if found["healthy"] else 1)


def only(monkeypatch: pytest.MonkeyPatch, **checks: object) -> None:
    monkeypatch.setattr(doctor, "CHECKS", checks)


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("warning", 0), ("problem", 3)])
def test_only_a_problem_is_unhealthy(
    own_home: OwnHome,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    code: int,
) -> None:
    only(
        monkeypatch,
        one=lambda loaded: doctor.Finding(state, "words"),
        two=lambda loaded: doctor.Finding("ok", ""),
    )
    assert cli.main(["doctor"]) == code
    said = capfd.readouterr()
    assert said.out.splitlines()[0].split() == {"ok": ["one", "words"], "warning": ["!", "one", "words"]}.get(
        state, ["x", "one", "words"]
    )


def test_a_check_that_fails_does_not_stop_the_others(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(loaded: Loaded) -> doctor.Finding:
        raise UnsupportedError("choose another")

    def surprised(loaded: Loaded) -> doctor.Finding:
        raise RuntimeError("odd")

    only(monkeypatch, one=unsupported, two=surprised, three=lambda loaded: doctor.Finding("ok", "fine"))
    code, found, _ = report(capfd)
    assert code == 3
    assert found["one"] == {"state": "problem", "text": "choose another"}
    assert "RuntimeError: odd" in str(found["two"])
    assert found["three"] == {"state": "ok", "text": "fine"}


def test_settings_warnings_are_findings_and_do_not_stop_it(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own_home.settings("seeed = 1\n")
    monkeypatch.setenv("TOKENLEAP_SEED", "many")
    monkeypatch.setattr(doctor, "CHECKS", {"settings": doctor.CHECKS["settings"]})
    code, found, err = report(capfd)
    assert code == 0 and err == ""
    text = str(found["settings"])
    assert "seeed" in text and "TOKENLEAP_SEED" in text


def test_without_a_compiler_it_warns_and_says_what_to_do(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(doctor, "CHECKS", {"compiler": doctor.CHECKS["compiler"]})
    code, found, _ = report(capfd)
    assert code == 0 and "install gcc or clang" in str(found["compiler"])


def test_a_precision_without_its_hardware_says_what_to_use_instead(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    monkeypatch.setattr(doctor, "CHECKS", {"engine": doctor.CHECKS["engine"]})
    code, found, _ = report(capfd, "--precision", "nf4")
    assert code == 3 and "--precision int8" in str(found["engine"])

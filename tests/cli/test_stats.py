"""`tokenleap stats`: the figures of the language server's file, today, in 7 days and in all."""

from __future__ import annotations

import json
import time

import pytest

from assistant.cli import main as cli
from assistant.service import history
from assistant.service.history import History
from assistant.service.protocol import CompletionResult
from tests.conftest import OwnHome

RESULT = CompletionResult("x = 1", "stop", None, "m", "int8", "auto", total_ms=20.0, drafted=4, accepted=3)
NOTHING = CompletionResult("", "empty", "scope", "m", "int8", "auto")


@pytest.fixture
def counted(own_home: OwnHome) -> None:
    day = 86400.0
    for age, count in ((100 * day, 4), (3 * day, 2), (0.0, 1)):
        kept = History.open(clock=lambda age=age: time.time() - age)  # type: ignore[misc]
        for _ in range(count):
            kept.accepted(kept.answered(RESULT, trigger="automatic", language="python"))
            kept.answered(NOTHING, trigger="automatic", language="python")
        kept.close()


@pytest.mark.usefixtures("counted")
def test_json_holds_the_three_spans(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stats", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [found[span]["accepted"] for span in ("today", "7_days", "all")] == [1, 3, 7]
    assert found["all"]["empty"] == {"scope": 7} and found["statistics"] is True
    assert found["file"] == str(history.file())


@pytest.mark.usefixtures("counted")
def test_people_get_a_table_with_reasons_in_words(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stats"]) == 0
    said = capfd.readouterr()
    rows = {line[:28].strip(): line[28:].split() for line in said.out.splitlines()}
    assert rows["accepted"] == ["1", "3", "7"]
    assert rows["accepted of those shown"] == ["100%", "100%", "100%"]
    assert rows["drafted tokens accepted"] == ["75%", "75%", "75%"]
    assert "7  the block that the cursor is in is complete" in said.out
    assert said.err == ""


def test_without_a_file_none_is_made(own_home: OwnHome, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stats"]) == 0
    assert "nothing was counted yet" in capfd.readouterr().out
    assert cli.main(["stats", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["all"]["answers"] == 0
    assert not history.file().exists()


@pytest.mark.usefixtures("counted")
def test_switched_off_it_says_so_and_shows_what_there_is(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENLEAP_STATISTICS", "false")
    assert cli.main(["stats"]) == 0
    said = capfd.readouterr()
    assert "counting is off" in said.err and "accepted" in said.out

"""Log and doctor: lines as the file grows, filtered; the report with what is wrong first, copied."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input

from assistant import locations
from tests.tui_app.conftest import Stage, play
from tui.logfile import Tail


def test_lines_appear_as_they_are_written_and_a_filter_leaves_some(stage: Stage) -> None:
    async def scene() -> None:
        log = locations.cache_folder() / "host.log"
        log.parent.mkdir(parents=True)
        log.write_text("one [b open\n", encoding="utf-8")
        async with stage.show((120, 40), "log") as pilot:
            await stage.seen(pilot, "one [b open")
            with log.open("a", encoding="utf-8") as file:
                file.write("two\n")
            await stage.seen(pilot, "two")
            stage.app.screen.query_one("#filter", Input).value = "ONE"
            await stage.until(pilot, lambda: "two" not in stage.text())
            assert "one [b open" in stage.text()

    play(scene)


def test_the_doctors_report_has_problems_first_and_is_copied(stage: Stage) -> None:
    async def scene() -> None:
        async with stage.show((120, 40), "log") as pilot:
            await stage.seen(pilot, "✗ model")
            text = stage.text()
            assert text.index("✗ model") < text.index("✓ processor")
            await pilot.press("c")
            assert stage.app.clipboard.splitlines()[1] == "✓ processor  a processor [x86_64], 2 usable cores"

    play(scene)


def test_a_log_is_followed_through_halves_of_lines_and_being_emptied(tmp_path: Path) -> None:
    file = tmp_path / "host.log"
    tail = Tail(file)
    assert tail.read() == []
    file.write_bytes(b"first\r\nhal")
    assert tail.read() == ["first"]
    file.write_bytes(b"first\r\nhalf\n")
    assert tail.read() == ["half"]
    file.write_bytes(b"x\n")
    assert tail.read() == ["x"]

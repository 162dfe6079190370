"""Every screen as it looks, at two sizes: text grids beside this file. TUI_SNAPSHOTS=write makes them anew.

Plain text and not pictures, because a reviewer can read a difference; colours have tests of their own.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.tui_app.conftest import Screens, Stage, play
from tests.tui_app.service import CATALOG, events

GRIDS = Path(__file__).parent / "snapshots"
SIZES = ((80, 24), (120, 40))
SCENES = ("dashboard", "detail", "try", "configuration", "log", "help", "first-run", "asleep")


async def arrange(stage: Stage, pilot: Screens, scene: str) -> None:
    """Bring about what the picture shows."""
    if scene in ("dashboard", "detail"):
        await stage.until(pilot, lambda: len(stage.app.live.latest()) == 2)
    if scene == "detail":
        await pilot.press("enter")
        await stage.seen(pilot, "drafted by the heads")
    if scene == "try":
        await pilot.press("ctrl+t")
        await stage.seen(pilot, "return total")
        await stage.until(pilot, lambda: " ms, " in stage.text())
    if scene == "log":
        await stage.seen(pilot, "✓ processor")
    if scene == "help":
        await pilot.press("f1")
        await stage.seen(pilot, "every action by name")
    if scene == "first-run":
        await stage.seen(pilot, "None is here yet")


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("name", SCENES)
def test_it_looks_as_it_did(
    stage: Stage, name: str, size: tuple[int, int], theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15" if theme == "light" else "15;0")
    monkeypatch.setattr("tui.widgets.models.psutil.virtual_memory", lambda: type("M", (), {"total": 16e9}))
    grid = GRIDS / f"{name}-{size[0]}x{size[1]}.txt"

    async def scene() -> None:
        if name in ("dashboard", "detail"):
            stage.service.told = [*events(job=1), *events(job=2, path="src/account.py")]
        if name in ("first-run", "asleep"):
            stage.service.up = False
        if name == "first-run":
            stage.errands.answers["catalog"] = [{**row, "ready": []} for row in CATALOG]
        place = name if name in ("try", "configuration", "log") else "dashboard"
        async with stage.show(size, place) as pilot:
            await arrange(stage, pilot, name)
            await pilot.pause(0.05)
            text = steady(stage.text())
            if os.environ.get("TUI_SNAPSHOTS") == "write":
                grid.parent.mkdir(exist_ok=True)
                grid.write_text(text, encoding="utf-8")
            assert text == grid.read_text(encoding="utf-8")

    play(scene)


def steady(text: str) -> str:
    """Times that are measured are no part of the look."""
    import re

    return re.sub(r"\d+ ms, 7 tokens", "N ms, 7 tokens", text)

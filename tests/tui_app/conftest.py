"""The interface in a terminal of a fixed size, with a scripted service and a home of its own."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from assistant.settings.load import load
from tests.tui_app.service import Errands, Scripted, tally
from tui.app import TokenleapApp
from tui.bridge import Bridge

PATIENCE = 15.0
Screens = Pilot[None]


class Stage:
    """What a test runs the interface with."""

    def __init__(self) -> None:
        self.service, self.errands = Scripted(), Errands()
        self.app: TokenleapApp

    @asynccontextmanager
    async def show(
        self, size: tuple[int, int] = (80, 24), place: str = "dashboard", first_run: bool = True
    ) -> AsyncIterator[Screens]:
        """The interface, past its first paint and all that follows from it."""
        self.app = TokenleapApp(
            lambda post: Bridge(post, self.service.connect, self.errands, interval=0.1),
            lambda: load(strict=False, target=self.folder),
            tally,
            place,
            first_run,
        )
        async with self.app.run_test(size=size) as pilot:
            await self.until(pilot, lambda: self.app.catalog is not None and bool(self.app.history))
            await self.until(pilot, lambda: (self.app.status is not None) == self.service.up)
            yield pilot

    async def until(self, pilot: Screens, condition: Callable[[], Any]) -> None:
        """Lets the interface go on until `condition`."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "it never came to pass:\n" + self.text()
            await pilot.pause(0.005)
        await pilot.pause()

    async def seen(self, pilot: Screens, words: str) -> None:
        await self.until(pilot, lambda: words in self.text())

    async def told(self, pilot: Screens, words: str) -> None:
        """The user was notified."""
        await self.until(pilot, lambda: any(words in said.message for said in self.app._notifications))

    def text(self) -> str:
        """The terminal's contents, line by line."""
        return text_of(self.app)


def text_of(app: TokenleapApp) -> str:
    width, height = app.size
    strips = app.screen._compositor.render_strips()
    lines = ["".join(segment.text for segment in strip) for strip in strips]
    return "\n".join(line[:width].rstrip() for line in lines[:height]) + "\n"


@pytest.fixture
def stage(own_home: Any, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLORFGBG", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    made = Stage()
    made.home, made.folder = own_home, own_home.path
    return made


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a test's conversation with the interface."""
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    asyncio.run(scene())

"""A screen as an SVG, without a terminal: `python -m tui.picture SCREEN FILE`, at the real host and its model.

A few completions are asked for first, so that there is something to see.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from assistant.service.client import Client
from assistant.service.protocol import CompletionRequest
from tui.app import TokenleapApp
from tui.screens.trial import EXAMPLE

_PROMPTS = (EXAMPLE, "def fibonacci(n):\n    ", "class Stack:\n    def __init__(self):\n        ")
_PATIENCE = 60.0


async def take(place: str, file: Path) -> None:
    """Draw `place` into `file`."""
    app = TokenleapApp(place=place, first_run=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(2.0)
        if place == "try":
            await pilot.press("ctrl+r")
            for _ in range(int(_PATIENCE)):
                await pilot.pause(1.0)
                if not app.live.running:
                    break
        await pilot.pause(2.0)
        file.write_text(app.export_screenshot(title=f"tokenleap tui: {place}"), encoding="utf-8")


def main(words: list[str]) -> None:
    place, file = words
    with Client.connect() as client:
        for number, prompt in enumerate(_PROMPTS):
            path = f"example{number}.py"
            client.complete(CompletionRequest(prompt, path=path, language="python", multiline="always"))
        asyncio.run(take(place, Path(file)))


if __name__ == "__main__":
    main(sys.argv[1:])

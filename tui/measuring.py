"""The measured halves of `tokenleap bench tui`, each run in a process of its own: `python -m tui.measuring WHAT FILE`.

"empty" and "ours" write into FILE the time.time() at which the first whole frame was drawn, and end. "keys" types into
the editor of Try, N keys at PAUSE seconds, and writes the milliseconds from each key's posting until the text had it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from textual import events
from textual.app import App

KEYS = 150
PAUSE = 0.08


def paint(app: App[Any], out: Path, drawn: str) -> None:
    """Run `app` until what the selector `drawn` names was drawn ("": anything)."""

    def look() -> None:
        if drawn and not app.screen.query(drawn):
            app.call_after_refresh(look)
            return
        out.write_text(json.dumps(time.time()), encoding="utf-8")
        app.exit()

    class Watched(type(app)):  # type: ignore[misc]
        def on_ready(self) -> None:
            self.call_after_refresh(look)

    app.__class__ = Watched
    app.run()


async def keys(out: Path) -> None:
    """Type into a real interface at a real host."""
    from tui.app import TokenleapApp
    from tui.widgets.ghost import GhostEditor

    app = TokenleapApp(place="try", first_run=False)
    taken: list[float] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(1.0)
        editor = app.screen.query_one(GhostEditor)
        for number in range(KEYS):
            letter = "abcdefghij"[number % 10]
            before, begun = len(editor.text), time.perf_counter()
            app.post_message(events.Key(letter, letter))
            while len(editor.text) == before:
                await asyncio.sleep(0)
            taken.append((time.perf_counter() - begun) * 1000)
            await asyncio.sleep(PAUSE)
    out.write_text(json.dumps(taken), encoding="utf-8")


def main(words: list[str]) -> None:
    what, out = words[0], Path(words[1])
    if what == "empty":
        paint(App(), out, "")
    elif what == "ours":
        from tui.app import TokenleapApp

        paint(TokenleapApp(first_run=False), out, "#requests")
    else:
        asyncio.run(keys(out))


if __name__ == "__main__":
    main(sys.argv[1:])

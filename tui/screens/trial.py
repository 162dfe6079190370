"""Try: an editor with the engine's own suggestions, and a race of the same prompt plain against drafting.

Suggestions are asked as an editor asks them, so they share the host's caches. The racers run one after the other,
because the engine does one thing at a time; what is compared is the time of decoding.
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.timer import Timer
from textual.widgets import TextArea

from assistant.service.protocol import RequestCancelled
from assistant.service.reasons import SENTENCES
from tui.messages import Answered, Streamed
from tui.screens.base import Place
from tui.widgets.ghost import GhostEditor
from tui.widgets.text import Words

_PAUSE = 0.15  # seconds without a key before the engine is asked
_RACERS = ("plain", "auto")
_RACE_TOKENS = 96
EXAMPLE = '''class Account:
    """Money of one customer, in cents."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.balance = 0

    def deposit(self, amount: int) -> None:
        if amount <= 0:
            raise ValueError("the amount must be positive")
        self.balance += amount

    def withdraw(self, amount: int) -> None:
        '''


class TrialScreen(Place):
    """One text to type in; suggestions belong to its latest state only."""

    place = "try"

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        self._tag = ""
        self._timer: Timer | None = None
        self._speeds: dict[str, float] = {}
        self._raced: dict[str, str] = {}
        self._race_text = ("", "")

    def body(self) -> ComposeResult:
        yield GhostEditor(EXAMPLE, id="trial", soft_wrap=False, tab_behavior="indent", show_line_numbers=True)
        with Horizontal(id="race"):
            for name in _RACERS:
                with Vertical(classes="racer"):
                    yield Words(name, id=f"{name}-title", classes="title")
                    yield Words(id=f"{name}-text")
        yield Words("type, or press ctrl+t", id="said")

    def begin(self) -> None:
        editor = self.query_one(GhostEditor)
        editor.move_cursor(editor.document.end)
        editor.focus()
        self.query_one("#race").display = False

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self._later()

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        self.query_one(GhostEditor).settle()

    def _later(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self.query_one(GhostEditor).settle()
        self._timer = self.set_timer(_PAUSE, lambda: self._ask("automatic"))

    def action_ask(self) -> None:
        self._ask("invoked")

    def _ask(self, trigger: str) -> None:
        editor = self.query_one(GhostEditor)
        if editor.ghost and trigger == "automatic":
            return
        before, after = editor.before_and_after()
        self._count += 1
        self._tag = f"try-{self._count}"
        self._say("asking")
        request = self.home.request(
            before, after, path="try.py", language="python", document="tui:try", trigger=trigger, candidates=1
        )
        self.home.bridge.submit(self._tag, request)

    def on_streamed(self, message: Streamed) -> None:
        name = message.tag.removeprefix("race-")
        if name in _RACERS:
            self._raced[name] = self._raced.get(name, "") + message.text
            self.query_one(f"#{name}-text", Words).say(self._raced[name])

    def on_answered(self, message: Answered) -> None:
        if message.tag.startswith("race-"):
            self._finished(message)
            return
        if message.tag != self._tag:
            return
        if message.error is not None:
            self._say("" if isinstance(message.error, RequestCancelled) else str(message.error))
            return
        result = message.result
        if result is None:
            return
        self.query_one(GhostEditor).offer(result.completion)
        if result.completion:
            self._say(
                f"{result.total_ms:.0f} ms, {result.new_tokens} tokens in {result.passes} passes, from {result.source}"
            )
        else:
            self._say(SENTENCES.get(result.empty_reason or "end", result.empty_reason or ""))

    def _say(self, words: str) -> None:
        self.query_one("#said", Words).say(words)

    # Taking it.

    def action_accept(self) -> None:
        editor = self.query_one(GhostEditor)
        if editor.ghost:
            editor.take(editor.ghost)
        else:
            editor.insert(" " * editor.indent_width)

    def action_accept_line(self) -> None:
        editor = self.query_one(GhostEditor)
        editor.take(editor.first_line())

    def action_accept_word(self) -> None:
        editor = self.query_one(GhostEditor)
        if editor.ghost:
            editor.take(editor.first_word())
        else:
            editor.action_cursor_word_right()

    def action_put_away(self) -> None:
        self.query_one(GhostEditor).offer("")
        if self._tag:
            self.home.bridge.cancel(self._tag)
            self._tag = ""

    # The race.

    def action_race(self) -> None:
        if any(name not in self._speeds for name in _RACERS) and self._raced:
            return  # one is being run
        self._speeds, self._raced = {}, dict.fromkeys(_RACERS, "")
        self.query_one("#race").display = True
        for name in _RACERS:
            self.query_one(f"#{name}-title", Words).say(f"{name}: waits")
            self.query_one(f"#{name}-text", Words).say("")
        self._race_text = self.query_one(GhostEditor).before_and_after()
        self._run(_RACERS[0])

    def _run(self, name: str) -> None:
        before, after = self._race_text
        self.query_one(f"#{name}-title", Words).say(f"{name}: runs")
        request = self.home.request(
            before, after, path="try.py", language="python", stream=True, decode=name, multiline="always",
            max_tokens=_RACE_TOKENS, candidates=1,
        )  # fmt: skip
        self.home.bridge.submit(f"race-{name}", request)

    def _finished(self, message: Answered) -> None:
        name = message.tag.removeprefix("race-")
        title = self.query_one(f"#{name}-title", Words)
        if message.error is not None or message.result is None:
            title.say(f"{name}: {message.error or 'nothing'}")
            self._raced = {}
            return
        result = message.result
        self._speeds[name] = result.tokens_per_second
        self.query_one(f"#{name}-text", Words).say(result.completion)
        title.say(f"{name}: {result.tokens_per_second:.0f} tokens/s, {result.passes} passes, {result.decode_ms:.0f} ms")
        after = _RACERS.index(name) + 1
        if after < len(_RACERS):
            self._run(_RACERS[after])
        elif self._speeds["plain"] > 0:
            ratio = self._speeds["auto"] / self._speeds["plain"]
            same = self.query_one("#plain-text", Words).shown == self.query_one("#auto-text", Words).shown
            self._say(f"auto decodes {ratio:.2f} times as fast; {'the same text' if same else 'other text'}")

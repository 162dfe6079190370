"""The terminal interface: its screens by name, what they share, and the way of messages to the screen in front.

Every screen of PLACES is imported when it is first shown; one line adds one. What the bridge tells is taken into
`live`, `status` and `catalog` here, once, and the screen in front learns by Refreshed what has changed. Nothing here
waits for the host, a file or a process.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from assistant.errors import TokenleapError
from assistant.service.protocol import CompletionRequest, HostStatus
from assistant.settings.load import Loaded, load
from assistant.settings.save import save
from assistant.settings.schema import SPECS
from tui import actions, messages, state, themes
from tui.actions import ACTIONS, Action
from tui.bridge import Bridge
from tui.live import Live
from tui.widgets.header import Tab


@dataclass(frozen=True)
class Place:
    """A screen: where its class is, and how one goes there."""

    name: str
    title: str
    key: str
    module: str
    attribute: str

    @property
    def there(self) -> bool:
        return importlib.util.find_spec(self.module) is not None


PLACES = (
    Place("dashboard", "Dashboard", "f2", "tui.screens.dashboard", "DashboardScreen"),
    Place("chat", "Chat", "f3", "tui.screens.chat", "ChatScreen"),
    Place("try", "Try", "f4", "tui.screens.trial", "TrialScreen"),
    Place("configuration", "Configuration", "f5", "tui.screens.configuration", "ConfigurationScreen"),
    Place("log", "Log and doctor", "f6", "tui.screens.log", "LogScreen"),
)
_GOING = tuple(actions.go(place.name, place.title, place.key) for place in PLACES)
EVERY_ACTION: tuple[Action, ...] = (*_GOING, *ACTIONS)
_HISTORY_SECONDS = 15.0


class TokenleapApp(App[None]):
    """`bridge_of` makes the bridge, given what posts messages; `loading` reads the settings."""

    TITLE = "Tokenleap"
    CSS_PATH = "styles/app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("app", _GOING)]
    COMMAND_PALETTE_BINDING = "ctrl+p"
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012

    def __init__(
        self,
        bridge_of: Callable[[Callable[[Any], object]], Bridge] = Bridge,
        loading: Callable[[], Loaded] = lambda: load(strict=False),
        tally: Callable[[], dict[str, dict[str, Any]]] | None = None,
        place: str = "dashboard",
        first_run: bool = True,
    ) -> None:
        self.DEFAULT_MODE = place  # type: ignore[misc]  # so that no other screen is made first
        super().__init__()
        self.loading, self._first_run = loading, first_run
        self.loaded = loading()
        self.bridge = bridge_of(self.post_message)
        self._tally = tally
        self.live = Live()
        self.status: HostStatus | None = None
        self.gone = ""
        self.catalog: list[dict[str, Any]] | None = None
        self.download: state.Download | None = None
        self.history: dict[str, dict[str, Any]] = {}
        for theme in themes.THEMES.values():
            self.register_theme(theme)
        self.places = {place.name: place for place in PLACES if place.there}
        for name in self.places:
            self.add_mode(name, self._screen_of(name))
        # Before anything is drawn, so that no sheet is read twice.
        self.theme = themes.chosen(self.loaded.settings.theme)

    def _screen_of(self, name: str) -> Callable[[], Screen[Any]]:
        def make() -> Screen[Any]:
            place = self.places[name]
            made: Screen[Any] = getattr(importlib.import_module(place.module), place.attribute)()
            return made

        return make

    def on_mount(self) -> None:
        self.apply_settings()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """The first paint is out: now the rest of the world."""
        self.bridge.begin()
        self.bridge.errand("catalog")
        self.count()
        self.set_interval(_HISTORY_SECONDS, self.count)
        for warning in self.loaded.warnings:
            self.notify(warning, title="Settings", severity="warning", markup=False, timeout=15)

    def apply_settings(self) -> None:
        """Colours and keys follow the settings."""
        self.theme = themes.chosen(self.loaded.settings.theme)
        found, problems = actions.keymap(self.loaded.settings.keys, EVERY_ACTION)
        self.set_keymap(found)
        for problem in problems:
            self.notify(problem, title="Keys", severity="warning", markup=False)

    def reload_settings(self) -> None:
        """The settings were changed: read them again and tell the screen in front."""
        before, self.loaded = self.loaded, self.loading()
        if (before.settings.theme, before.settings.keys) != (self.loaded.settings.theme, self.loaded.settings.keys):
            self.apply_settings()
        self.refreshed("settings")

    def reload_engine(self) -> None:
        """Have a running host load what the settings name; without one there is nothing to do."""
        if self.status is not None:
            self.bridge.submit("reload", self.request("", trigger="warm"))

    def request(self, prefix: str, suffix: str = "", **more: Any) -> CompletionRequest:
        """A request by the settings."""
        named = CompletionRequest.__dataclass_fields__
        given = {name: getattr(self.loaded.settings, name) for name in SPECS if name in named}
        return CompletionRequest(prefix, suffix, **{**given, **more})

    def count(self) -> None:
        self.bridge.work(self._counted)

    def _counted(self) -> messages.Counted:
        if self._tally is not None:
            return messages.Counted(self._tally())
        from tui.tally import counted

        return messages.Counted(counted())

    @property
    def has_model(self) -> bool | None:
        settings = self.loaded.settings
        return state.ready(self.catalog, settings.model, settings.precision)

    def state(self) -> state.State:
        return state.derive(self.status, self.live, self.download, self.has_model, self.gone)

    def tabs(self) -> list[tuple[str, str]]:
        """(name, text) of each screen."""
        keys, _ = actions.keymap(self.loaded.settings.keys, EVERY_ACTION)
        return [
            (name, f"{keys.get(f'app.{name}', place.key).upper()} {place.title}")
            for name, place in self.places.items()
        ]

    def refreshed(self, *what: str) -> None:
        for each in what:
            for screen in self.screen_stack:
                screen.post_message(messages.Refreshed(each))

    # What the bridge tells.

    def on_refreshed(self, message: messages.Refreshed) -> None:
        self.refreshed(message.what)

    def on_happened(self, message: messages.Happened) -> None:
        for host, event in self.bridge.taken():
            self.live.take(host, event)
        self.refreshed("live", "state")

    def on_host_seen(self, message: messages.HostSeen) -> None:
        lost = self.status is not None and message.status is None
        self.status, self.gone = message.status, message.words
        if lost:
            self.live.lost()
            self.refreshed("live")
        self.refreshed("state")

    def on_counted(self, message: messages.Counted) -> None:
        if message.spans != self.history:
            self.history = message.spans
            self.refreshed("history")

    def on_errand_step(self, message: messages.ErrandStep) -> None:
        if message.name == "pull" and self.download is not None:
            self.download = state.Download(self.download.model, message.step, message.done, message.total)
            self.refreshed("state")
        self._pass_on(messages.ErrandStep(message.name, message.step, message.done, message.total))

    def on_errand_done(self, message: messages.ErrandDone) -> None:
        if message.name == "catalog" and message.error is None:
            self.catalog = message.answer
            self.refreshed("catalog", "state")
            if self.has_model is False and self._first_run:
                self._first_run = False
                self.welcome()
        elif message.name == "pull":
            self.download = None
            self.bridge.errand("catalog")
            self.refreshed("state")
        self._pass_on(messages.ErrandDone(message.name, message.answer, message.error))

    def on_streamed(self, message: messages.Streamed) -> None:
        self._pass_on(messages.Streamed(message.tag, message.text))

    def on_answered(self, message: messages.Answered) -> None:
        if message.tag == "reload":
            if message.error is not None:
                self.notify(str(message.error), title="Settings", severity="error", markup=False)
        else:
            self._pass_on(messages.Answered(message.tag, message.result, message.error))

    def on_logged(self, message: messages.Logged) -> None:
        self._pass_on(messages.Logged(message.lines))

    def _pass_on(self, message: Any) -> None:
        """To every screen that has been shown: one that asked may be behind by now."""
        for stack in self._screen_stacks.values():
            for screen in stack:
                screen.post_message(message)

    # Actions.

    def welcome(self) -> None:
        """The guided first run."""
        from tui.screens.first_run import FirstRun

        self.push_screen(FirstRun())

    def action_go(self, place: str) -> None:
        if place in self.places:
            while len(self.screen_stack) > 1:
                self.pop_screen()
            self.switch_mode(place)

    def on_tab_chosen(self, message: Tab.Chosen) -> None:
        self.action_go(message.place)

    def action_help(self) -> None:
        from tui.screens.help import Help

        if isinstance(self.screen, Help):
            self.screen.dismiss()
        else:
            self.push_screen(Help(self.screen))

    def action_next_theme(self) -> None:
        order = SPECS["theme"].choices
        after = order[(order.index(self.loaded.settings.theme) + 1) % len(order)]
        self.change({"theme": after})
        self.notify(f"colours: {after}", markup=False)

    def change(self, changes: dict[str, object]) -> bool:
        """Write the user's settings file. False when it could not be, which the user is told."""
        try:
            save(changes)
        except (TokenleapError, OSError) as error:
            words = str(error) if isinstance(error, TokenleapError) else f"it could not be saved: {error.strerror}"
            self.notify(words, title="Settings", severity="error", markup=False, timeout=15)
            return False
        self.reload_settings()
        return True

    def action_picture(self) -> None:
        with contextlib.suppress(OSError):
            self.notify(f"saved {self.save_screenshot()}", markup=False)

    async def action_quit(self) -> None:
        self.exit()

    def on_unmount(self) -> None:
        self.bridge.close()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action that is in force on the screen, by its words."""
        place = getattr(screen, "place", "")
        for action in EVERY_ACTION:
            if action.place not in ("app", place) or action.id == "app.palette":
                continue
            if action in _GOING and action.id.removeprefix("app.") not in self.places:
                continue
            yield SystemCommand(action.words, action.help, self._runner(screen, action))

    def _runner(self, screen: Screen[Any], action: Action) -> Callable[[], None]:
        def run() -> None:
            namespace = self if action.does.startswith("app.") else screen
            self.call_later(self.run_action, action.does, namespace)

        return run


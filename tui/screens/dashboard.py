"""Is it working, is it fast: charts of all clients' requests, what was accepted, and the latest requests."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import DataTable

from tui.actions import bindings
from tui.live import Generation
from tui.screens.base import Place
from tui.tally import SPANS
from tui.widgets.chart import Acceptance, Chart
from tui.widgets.text import Words, plain

_COLUMNS = ("time", "file", "kind", "ms", "tokens", "passes", "per pass", "outcome")
_SHOWN = 50
_CHARTED = 60
_COLUMN_WIDTH = 9


class DashboardScreen(Place):
    """Live figures of the host, also of what other clients ask."""

    place = "dashboard"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("dashboard")]
    HELP = "Figures of every request to the engine host, whoever asked. Enter on a row shows where its time went."

    def __init__(self) -> None:
        super().__init__()
        self._warming = False
        self._rows: dict[str, tuple[str, ...]] = {}
        self._keys: dict[str, tuple[int, int]] = {}

    def body(self) -> ComposeResult:
        with Horizontal(id="charts"):
            yield Chart("decoding", "tokens/s", 0, "speed")
            yield Chart("pass", "tokens per pass", 2, "passes")
            yield Chart("first token", "ms", 0, "first")
        with Horizontal(id="counts"):
            yield Acceptance(id="acceptance")
            yield Words(id="tally")
        yield DataTable(id="requests", cursor_type="row", zebra_stripes=False)

    def begin(self) -> None:
        table = self.query_one(DataTable)
        for name in _COLUMNS:
            table.add_column(name, key=name)
        table.focus()

    def show(self, what: str) -> None:
        super().show(what)
        if what == "live":
            self._show_charts()
            self._show_requests()
        if what in ("history", "live"):
            self.query_one("#tally", Words).say(tally(self.home.history, self.home.live.reuse()))

    def _show_charts(self) -> None:
        live = self.home.live
        results = live.measured()[-_CHARTED:]
        running = live.running.speed if live.running is not None and live.running.speed else None
        self.query_one("#speed", Chart).show([result.tokens_per_second for result in results], running)
        self.query_one("#passes", Chart).show([result.tokens_per_pass for result in results])
        self.query_one("#first", Chart).show([result.prefill_ms for result in results])
        self.query_one(Acceptance).show(live.acceptance())

    def _show_requests(self) -> None:
        """Only cells that differ are drawn anew, unless rows came or went."""
        table = self.query_one(DataTable)
        shown = [
            (f"{host}/{job}", (host, job), row_of(made))
            for (host, job), made in self.home.live.latest()
            if self._warming or made.kind not in ("warming", "ahead")
        ][:_SHOWN]
        rows = {name: cells for name, _, cells in shown}
        if list(rows) != list(self._rows):
            chosen = list(self._rows)[table.cursor_row] if self._rows and table.cursor_row > 0 else None
            table.clear()
            for name, cells in rows.items():
                table.add_row(*map(plain, cells), key=name)
            if chosen in rows:
                table.move_cursor(row=list(rows).index(chosen))
        else:
            for name, cells in rows.items():
                for column, old, new in zip(_COLUMNS, self._rows[name], cells, strict=True):
                    if old != new:
                        table.update_cell(name, column, plain(new), update_width=True)
        self._rows, self._keys = rows, {name: key for name, key, _ in shown}

    def action_warming(self) -> None:
        self._warming = not self._warming
        self.show("live")

    def action_detail(self) -> None:
        table = self.query_one(DataTable)
        if self._rows:
            self._open(list(self._rows)[table.cursor_row])

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if event.row_key.value is not None:
            self._open(event.row_key.value)

    def _open(self, name: str) -> None:
        from tui.screens.detail import Detail

        made = self.home.live.get(self._keys[name])
        if made is not None:
            self.app.push_screen(Detail(made))


def row_of(made: Generation) -> tuple[str, ...]:
    """The cells of a request's row."""
    request, result = made.started.request, made.result
    file = (request.path or "").replace("\\", "/").rpartition("/")[2]
    clock = time.strftime("%H:%M:%S", time.localtime(made.started.at))
    outcome = made.outcome
    if result is not None and result.empty_reason:
        outcome = f"{outcome}: {result.empty_reason}"
    if made.finished is not None and made.finished.message and outcome == "failed":
        outcome = f"failed: {made.finished.message}"
    kind = made.kind if result is None or result.source == "model" else f"{made.kind}, {result.source}"
    if result is None:
        return (clock, file, kind, "", str(made.tokens or ""), str(max(0, len(made.blocks) - 1) or ""), "", outcome)
    taken = result.prefill_ms + result.decode_ms + result.load_ms
    per_pass = f"{result.tokens_per_pass:.2f}" if result.passes else ""
    return (clock, file, kind, f"{taken:.0f}", str(result.new_tokens), str(result.passes), per_pass, outcome)


def tally(spans: dict[str, dict[str, Any]], reuse: float | None) -> str:
    """What was shown, accepted and kept, by span, as lines."""
    head = " " * 15 + "".join(f"{name:>{_COLUMN_WIDTH}}" for name in SPANS)
    if not spans or not any(span["answers"] for span in spans.values()):
        kept = "" if reuse is None else f"\nprompt reused {reuse:.0%} (these requests)"
        return f"{head}\nnothing was counted yet: the language server\ncounts while you work{kept}"

    def line(words: str, cells: list[str]) -> str:
        return f"{words:<15}" + "".join(f"{cell:>{_COLUMN_WIDTH}}" for cell in cells)

    each = [spans[name] for name in SPANS]
    return "\n".join(
        (
            head,
            line("shown", [f"{span['shown']:,}" for span in each]),
            line("accepted", [f"{span['accepted'] + span['partly_accepted']:,}" for span in each]),
            line("still there", [_percent(span["kept_share"]) for span in each]),
            line("characters", [f"{span['characters']['accepted']:,}" for span in each]),
            line("answer ms", [_middle(span["stages_ms"]["answer"], "median_ms") for span in each]),
            line("  95 of 100", [_middle(span["stages_ms"]["answer"], "p95_ms") for span in each]),
            line("prompt reused", [_percent(span["tokens_reused_share"]) for span in each]),
        )
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _middle(spread: dict[str, Any], name: str) -> str:
    return f"{spread[name]:.0f}" if spread["n"] else "-"

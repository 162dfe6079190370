"""One request: where its time went, what it cost, and which tokens came from where."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

from assistant.service.reasons import SENTENCES
from tui.actions import bindings
from tui.live import Generation
from tui.widgets.text import Words
from tui.widgets.tokens import coloured, legend

_BAR = 30


class Detail(ModalScreen[None]):
    """Opened from the list of requests."""

    place = "detail"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("detail")]
    HELP = "Where the time of one request went. Tokens that were drafted and stood cost no pass of their own."

    def __init__(self, made: Generation) -> None:
        super().__init__()
        self._made = made

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="detail"):
            yield Words(facts(self._made), id="facts")
            yield Words(stages(self._made), id="stages")
            yield Words(legend(), id="legend")
            yield Words(coloured(self._made.blocks), id="tokens")

    def action_dismiss_it(self) -> None:
        self.dismiss()


def facts(made: Generation) -> str:
    """The request in a few lines."""
    request, result = made.started.request, made.result
    lines = [f"{request.path or 'no file'}   {request.language or ''}   {made.kind}, {made.outcome}".rstrip()]
    lines.append(f"{request.model} {request.precision}, decode {request.decode}, draft {request.draft or 'auto'}")
    if made.finished is not None and made.finished.message:
        lines.append(made.finished.message)
    if result is not None:
        if result.empty_reason:
            lines.append(SENTENCES.get(result.empty_reason, result.empty_reason))
        lines.append(
            f"{result.new_tokens} tokens in {result.passes} passes ({result.tokens_per_pass:.2f} a pass), "
            f"{result.accepted} of {result.drafted} drafted stood"
        )
        lines.append(f"prompt {result.prompt_tokens} tokens, {result.reused_tokens} of them kept from before")
        if result.warning:
            lines.append(result.warning)
    return "\n".join(lines)


def stages(made: Generation) -> str:
    """Milliseconds of each stage as bars."""
    result = made.result
    if result is None:
        return ""
    times = {"load": result.load_ms, "prefill": result.prefill_ms, "decode": result.decode_ms}
    whole = max(sum(times.values()), 1e-9)
    spent = {name: ms for name, ms in times.items() if ms or name != "load"}
    return "\n".join(f"{name:<8}{ms:>9.1f} ms  {'█' * round(ms / whole * _BAR)}" for name, ms in spent.items())

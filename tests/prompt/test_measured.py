"""An engine's prompts get the size that suits its measured speed, once, and never move again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from assistant.engine import generate
from assistant.prompt.budget import DEFAULT_BUDGET, FRESH_MILLISECONDS, choose
from assistant.prompt.tokenizer import Tokenizer
from assistant.service.engine_api import Hooks
from assistant.service.pipeline import Completer, LoadedEngine
from assistant.service.protocol import CompletionRequest
from tests.service.spelling import SpellingBackbone

LINES = "".join(f"value_{n} = compute(payload, {n})\n" for n in range(3000))
REQUEST = CompletionRequest(prefix=LINES, suffix="\nend()\n" + LINES, language="python", max_tokens=4)
QUIET = Hooks(lambda: False, lambda: None, lambda text: None)


class Timed(SpellingBackbone):
    """A backbone that takes a known time for every row, on a clock of its own."""

    now = 0.0
    tokens_per_second = 1.0

    def forward(self, ids: Any, cache: Any, parents: Any = None, taps: Any = ()) -> Any:
        self.now += len(ids) / self.tokens_per_second
        return super().forward(ids, cache, parents, taps)  # type: ignore[no-untyped-call]


def timed(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, speed: float) -> tuple[Completer, Timed]:
    backbone = Timed(tokenizer, "x", context=32768)
    backbone.tokens_per_second = speed
    monkeypatch.setattr(generate, "perf_counter", lambda: backbone.now)
    loaded = LoadedEngine(backbone, tokenizer, tokenizer.end_ids, "m", "none", "here", "a test", 0.0)  # type: ignore[arg-type]
    return Completer(loaded, 0), backbone


@pytest.mark.parametrize("speed", [100, 500, 3000])
def test_prompts_get_the_size_that_suits_the_speed(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, speed: float
) -> None:
    completer, backbone = timed(tokenizer, monkeypatch, speed)

    def size(request: CompletionRequest = REQUEST) -> int:
        return completer.complete(request, QUIET).prompt_tokens

    first = size()
    assert first <= DEFAULT_BUDGET.prefix_tokens + DEFAULT_BUDGET.suffix_tokens + 16
    assert size(replace(REQUEST, prefix="x = ", suffix="\ny\n")) < 128  # says nothing of the speed
    assert size() == first
    suited = choose(speed, FRESH_MILLISECONDS)
    assert 0.4 * suited.prefix_tokens < size() <= suited.prefix_tokens + suited.suffix_tokens + 16
    settled = size()
    backbone.tokens_per_second *= 10  # a later measurement moves nothing
    assert size() == size() == settled
    assert size(replace(REQUEST, prefix_tokens=300, suffix_tokens=100)) <= 416  # what is asked for goes first


def test_a_cancelled_prefill_measures_nothing(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    completer, backbone = timed(tokenizer, monkeypatch, 1e9)
    rows: list[int] = []
    for _ in range(3):
        begun = backbone.rows
        stopped = completer.complete(REQUEST, Hooks(lambda: backbone.rows > begun, lambda: None, lambda text: None))  # noqa: B023
        assert stopped.finish_reason == "cancelled"
        rows.append(stopped.prompt_tokens)
    assert len(set(rows)) == 1

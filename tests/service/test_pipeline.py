"""One completion end to end on a backbone that spells: text in, text out, the figures true."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assistant.errors import HeadError, OutOfMemoryError, UnsupportedError
from assistant.prompt.tokenizer import Tokenizer
from assistant.service.engine_api import Hooks
from assistant.service.local import LocalService
from assistant.service.pipeline import Completer, LoadedEngine
from assistant.service.protocol import CompletionRequest, RequestCancelled
from tests.prompt.conftest import write_tokenizer
from tests.service.spelling import SpellingBackbone

REQUEST = CompletionRequest(
    prefix="def send(payload):\n    ",
    suffix="\n\n\nprint(send(1))\n",
    language="python",
    max_tokens=64,
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"))


class Events:
    """Hooks that remember what they were told."""

    def __init__(self, cancelled=lambda: False):
        self.told = []
        self.firsts = 0
        self.states = []
        self.hooks = Hooks(cancelled, self.first, self.told.append, self.states.append)

    def first(self):
        self.firsts += 1


@pytest.fixture
def engine(tokenizer):
    def make(text, before=REQUEST.prefix, store_bytes=1 << 20, **options):
        backbone = SpellingBackbone(tokenizer, text, **options)
        backbone.before = before
        loaded = LoadedEngine(backbone, tokenizer, tokenizer.end_ids, "m", "none", "here", "a test", 2.0)
        return Completer(loaded, store_bytes), backbone

    return make


def ask(completer, request=REQUEST, **change):
    return completer.complete(replace(request, **change), Events().hooks)


def test_the_answer_is_the_new_text_without_the_piece_that_the_file_has(engine):
    completer, _ = engine("return payload")
    result = ask(completer)
    assert (result.completion, result.finish_reason, result.empty_reason) == ("return payload", "stop", None)
    assert (result.model, result.precision, result.candidates) == ("m", "none", None)
    completer, _ = engine("urn payload", before="def send(payload):\n    ret")
    assert ask(completer, prefix="def send(payload):\n    ret").completion == "urn payload"


def test_the_figures_are_those_of_the_work_done(engine):
    completer, backbone = engine("return payload")
    first = ask(completer, decode="plain")
    assert first.decode == "plain"
    assert first.reused_tokens == 0 and first.passes == first.new_tokens - 1
    assert backbone.rows == first.prompt_tokens + first.passes
    second = ask(completer, decode="lookup")
    assert second.completion == first.completion and second.new_tokens == first.new_tokens
    assert second.reused_tokens == first.prompt_tokens - 1
    assert second.decode == "lookup" == ask(completer, decode="auto").decode
    assert second.first_token_ms > 0 and second.tokens_per_pass >= 1


def test_generation_ends_where_the_answer_does(engine):
    completer, _ = engine("return payload\nprint(1)\nprint(2)\nprint(3)\n")
    result = ask(completer)
    assert (result.completion, result.finish_reason) == ("return payload", "scope")
    whole = ask(engine("return payload")[0])
    assert result.new_tokens <= whole.new_tokens + 2


def test_an_answer_that_is_too_long_says_so(engine):
    result = ask(engine("return payload")[0], max_tokens=3)
    assert result.finish_reason in ("length", "empty") and result.new_tokens == 3


def test_nothing_has_a_reason(engine):
    result = ask(engine("")[0])
    assert (result.completion, result.finish_reason, result.empty_reason) == ("", "empty", "end")


def test_a_cancel_is_heard_before_the_next_pass(engine):
    completer, backbone = engine("return payload")
    result = completer.complete(REQUEST, Events(lambda: True).hooks)
    assert (result.finish_reason, result.completion, backbone.rows) == ("cancelled", "", 0)
    events = Events(lambda: events.firsts > 0)
    result = completer.complete(REQUEST, events.hooks)
    assert result.finish_reason == "cancelled" and result.new_tokens == 1
    assert ask(completer).completion == "return payload"


def test_warming_reads_the_prompt_in_and_says_nothing(engine):
    completer, _ = engine("return payload")
    warm = ask(completer, trigger="warm")
    assert (warm.new_tokens, warm.completion) == (0, "")
    assert ask(completer).reused_tokens == warm.prompt_tokens - 1


def test_candidates_are_different_and_reproducible_and_one_when_greedy(engine):
    completer, backbone = engine("return payload")
    backbone.even = True
    options = {"candidates": 4, "temperature": 1.0, "seed": 5}
    several = ask(completer, **options)
    assert (
        several.candidates == ask(completer, **options).candidates == ("return payload",)
    )  # equal texts once
    assert several.new_tokens > ask(completer, temperature=1.0, seed=5).new_tokens
    assert ask(completer, candidates=3).candidates == ("return payload",)


def test_modes_that_are_not_there_are_refused_by_name(engine):
    with pytest.raises(UnsupportedError, match="tree"):
        ask(engine("x")[0], decode="tree")
    with pytest.raises(HeadError, match="no trained draft head"):
        ask(engine("x")[0], decode="mtp")


@pytest.mark.parametrize("context", [96, 200])
def test_a_prompt_fits_into_a_short_context(engine, context):
    completer, _ = engine("return payload", context=context)
    text = "import os\n" * 500 + REQUEST.prefix
    result = ask(completer, prefix=text, suffix=REQUEST.suffix * 50, max_tokens=40)
    assert result.completion == "return payload"
    assert result.prompt_tokens + 40 <= context


def test_budgets_are_kept(engine):
    completer, _ = engine("return payload")
    long = {"prefix": "import os\n" * 500 + REQUEST.prefix, "suffix": REQUEST.suffix * 50}
    small = ask(completer, **long, prefix_tokens=60, suffix_tokens=20)
    assert small.prompt_tokens <= 60 + 20 + 16
    assert ask(completer, **long).prompt_tokens > 300


LINES = st.sampled_from(
    [
        "return payload",
        "    x = 1",
        "    if x:",
        "        y = 2",
        "",
        "x",
        "print(send(1))",
        "```",
        "    )",
        "é😀",
    ]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    st.lists(LINES, min_size=1, max_size=8), st.sampled_from(["auto", "always", "never"]), st.integers(1, 60)
)
def test_streamed_text_is_the_completion_and_never_taken_back(engine, lines, multiline, max_tokens):
    completer, _ = engine("\n".join(lines))
    request = replace(REQUEST, stream=True, multiline=multiline, max_tokens=max_tokens)
    events = Events()
    result = completer.complete(request, events.hooks)
    assert "".join(events.told) == result.completion
    assert (result.completion == "") == (result.finish_reason == "empty") == (result.empty_reason is not None)
    assert ask(completer, request, stream=False).completion == result.completion


def test_what_there_is_so_far_is_told_after_every_pass_with_the_work_done_for_it(engine):
    completer, _ = engine("x = 1\n    y = 2\n    return x")
    ask(completer, trigger="warm")
    events = Events()
    result = completer.complete(replace(REQUEST, decode="plain", stream=False), events.hooks)
    assert "".join(events.told) == result.completion
    raws = [state.raw for state in events.states]
    assert all(after.startswith(before) for before, after in itertools.pairwise(raws))
    assert raws[-1].startswith(result.completion)
    assert [state.passes for state in events.states] == list(range(result.passes + 1))
    assert {(state.prompt_tokens, state.reused_tokens) for state in events.states} == {
        (result.prompt_tokens, result.reused_tokens)
    }
    assert result.reused_tokens > 0


def test_text_is_streamed_before_the_end(engine):
    completer, _ = engine("x = 1\n    y = 2\n    z = 3\n    return x")
    events = Events()
    result = completer.complete(replace(REQUEST, stream=True), events.hooks)
    assert result.completion == "x = 1\n    y = 2\n    z = 3\n    return x"
    assert len(events.told) >= 3 and events.firsts == 1


def test_out_of_memory_in_a_forward_drops_the_caches_and_the_next_request_works(engine):
    completer, backbone = engine("return payload")
    with LocalService(lambda wanted, progress: completer) as service:
        service.complete(REQUEST)
        assert service.status().prefix_store_bytes > 0
        backbone.fail = torch.OutOfMemoryError("CUDA out of memory")
        with pytest.raises(OutOfMemoryError):
            service.complete(REQUEST)
        assert service.status().prefix_store_bytes == 0
        again = service.complete(REQUEST)
        assert (again.completion, again.reused_tokens, again.load_ms) == ("return payload", 0, 0.0)


def test_a_cancelled_generation_leaves_a_sound_prefix(engine):
    completer, _ = engine("return payload")
    with LocalService(lambda wanted, progress: completer) as service:
        for _ in range(20):
            pending = service.submit(REQUEST)
            pending.cancel()
            try:
                assert pending.result().completion == "return payload"
            except RequestCancelled:
                continue
        assert service.complete(REQUEST).completion == "return payload"

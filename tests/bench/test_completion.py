"""What the benches measure is what the product does: the same prompts, ends and texts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assistant.bench import completion
from assistant.bench.model import Model
from assistant.bench.rows import Case, PromptRow
from assistant.errors import HeadError, UnsupportedError, UsageError
from assistant.post import clean, scan
from assistant.prompt.fim import DEFAULT_LAYOUT
from assistant.prompt.tokenizer import Tokenizer
from assistant.service.engine_api import Hooks
from assistant.service.pipeline import Completer, LoadedEngine
from assistant.service.protocol import CompletionRequest
from assistant.settings.schema import Settings
from tests.prompt.conftest import write_tokenizer
from tests.service.spelling import SpellingBackbone

PREFIX = "def send(payload):\n    "
SUFFIX = "\n\n\nprint(send(1))\n"
ANSWERS = [
    "return payload",
    "return payload\nprint(1)\nprint(2)\nprint(3)\n",
    "payload = os.read(payload)\n    return payload\n\n\ndef receive():\n    pass\n",
    "```python\nreturn payload\n```\nThis returns it.",
    "print(send(1))\n",
    "",
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path: Path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    return Tokenizer(write_tokenizer(path))


def spelling(tokenizer: Tokenizer, text: str) -> Any:
    backbone = SpellingBackbone(tokenizer, text)
    backbone.before = PREFIX
    return backbone


def product(tokenizer: Tokenizer, text: str) -> completion.Product:
    stored: Any = SimpleNamespace(end_ids=())
    plan: Any = SimpleNamespace(path="here", threads=1)
    return completion.Product(Model(spelling(tokenizer, text), tokenizer, stored, plan))


@pytest.mark.parametrize("text", ANSWERS)
@pytest.mark.parametrize("multiline", ["auto", "never", "always"])
@pytest.mark.parametrize("mode", ["plain", "lookup"])
def test_a_bench_completes_as_the_product_does(tokenizer: Tokenizer, text: str, multiline: str, mode: str) -> None:
    loaded = LoadedEngine(spelling(tokenizer, text), tokenizer, tokenizer.end_ids, "m", "none", "", "", 0.0)
    request = CompletionRequest(
        prefix=PREFIX, suffix=SUFFIX, language="python", decode=mode, max_tokens=40, multiline=multiline
    )
    quiet = Hooks(lambda: False, lambda: None, lambda text: None)
    real = Completer(loaded, 0).complete(request, quiet)
    options = completion.Options(max_tokens=40, multiline=multiline)
    row = PromptRow("x", PREFIX, SUFFIX, "python", "k", None)
    made = product(tokenizer, text).decode(row, mode, 0, options)
    assert made.text == real.completion
    assert (made.finish, made.empty_reason) == (real.finish_reason, real.empty_reason)
    for name in ("prompt_tokens", "new_tokens", "passes", "drafted", "accepted"):
        assert getattr(made.stats, name) == getattr(real, name)


def test_every_run_starts_from_an_empty_cache_unless_told_otherwise(tokenizer: Tokenizer) -> None:
    ours = product(tokenizer, "return payload")
    case = Case("a", PREFIX, "return payload", SUFFIX, "python", "k", None, "a")
    cold = ours.infiller("plain", completion.Options())
    assert [cast(Any, cold(case, None)).stats.reused_tokens for _ in range(3)] == [0, 0, 0]
    warm = ours.infiller("plain", completion.Options(reuse=True))
    assert cast(Any, warm(case, None)).stats.reused_tokens == 0
    assert cast(Any, warm(case, None)).stats.reused_tokens > 0


def test_a_script_is_drafted_whole(tokenizer: Tokenizer) -> None:
    ours = product(tokenizer, "return payload")
    case = Case("a", PREFIX, "return payload", SUFFIX, "python", "k", None, "a")
    run = ours.infiller("plain", completion.Options(draft=1))
    first = cast(completion.Completed, run(case, None))
    again = cast(completion.Completed, run(case, first.ids))
    assert (again.text, again.ids) == (first.text, first.ids)
    assert again.stats.passes == 1 < first.stats.passes


def test_a_filter_is_left_out_only_where_asked(tokenizer: Tokenizer) -> None:
    rules, tidying = scan.RULES, clean.FILTERS
    case = Case("a", PREFIX, "", SUFFIX, "python", "k", None, "a")
    ours = product(tokenizer, "return payload\nprint(1)\nprint(2)\nprint(3)\n")
    assert "scope" in completion.filters()
    usual = ours.infiller("plain", completion.Options())(case, None)
    wild = ours.infiller("plain", completion.Options(without=("scope",)))(case, None)
    assert usual.text == "return payload" and "print(3)" in wild.text
    assert (rules, tidying) == (scan.RULES, clean.FILTERS)
    with pytest.raises(UsageError, match="scope"):
        ours.infiller("plain", completion.Options(without=("no-such",)))


def test_layouts_are_named() -> None:
    assert completion.layout("") == DEFAULT_LAYOUT
    made = completion.layout("spm+repository")
    assert (made.order, made.header) == ("spm", "repository")
    with pytest.raises(UsageError, match="psm"):
        completion.layout("nonsense")


def test_modes_that_are_missing_say_so(tokenizer: Tokenizer) -> None:
    row = PromptRow("x", PREFIX, SUFFIX, "python", "k", None)
    with pytest.raises(UnsupportedError):
        product(tokenizer, "x").decode(row, "tree", 0, completion.Options())
    with pytest.raises(HeadError):
        product(tokenizer, "x").decode(row, "mtp", 0, completion.Options())


def test_options_come_from_the_settings() -> None:
    options = completion.Options.of(Settings(max_tokens=7, temperature=0.5, seed=3, multiline="never"))
    assert (options.max_tokens, options.temperature, options.seed, options.multiline) == (7, 0.5, 3, "never")

"""One completion as the product makes it, with what a bench needs besides: ids, counts, and a choice of
parts.

The prompt, the constraint, the stop rule, the cleaning and their order are service.pipeline's; a test holds
the two together. Here a bench may choose the drafter, the prompt's layout and the filters, and says whether
prefixes are kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assistant.bench import infill, model
from assistant.bench.rows import Case, PromptRow
from assistant.engine.draft import Drafter, make_drafter
from assistant.engine.generate import generate
from assistant.engine.prefix import PrefixStore
from assistant.engine.sampling import Sampling
from assistant.engine.stats import GenerationStats
from assistant.errors import UsageError
from assistant.models.parts import Progress
from assistant.post import clean, multiline, scan
from assistant.post.context import AnswerContext
from assistant.prompt import fim
from assistant.prompt.fim import DEFAULT_LAYOUT, Layout
from assistant.prompt.healing import Healing
from assistant.service.engine_api import Hooks
from assistant.service.pipeline import Watch
from assistant.settings.schema import Settings

_STORE_BYTES = 256 << 20
_QUIET = Hooks(cancelled=lambda: False, first=lambda: None, text=lambda text: None)

_VARIANTS: dict[str, dict[str, Any]] = {
    "psm": {"order": "psm", "near": 0},
    "spm": {"order": "spm"},
    "joint": {"order": "joint"},
    "repository": {"header": "repository"},
    "blank-suffix": {"blank_suffix": True},
    "fim-always": {"without_suffix": "fim"},
    "keep-spaces": {"heal_spaces": False},
}


def layout(names: str) -> Layout:
    """The layout that variants' names joined by "+" describe; "" is the product's. UsageError for others."""
    made = DEFAULT_LAYOUT
    for name in filter(None, (word.strip() for word in names.split("+"))):
        if name not in _VARIANTS:
            raise UsageError(f"There is no layout variant {name!r}; choose from {', '.join(_VARIANTS)}.")
        made = dataclasses.replace(made, **_VARIANTS[name])
    return made


def filters() -> tuple[str, ...]:
    """Names that `without` may leave out: codes of the rules and filters, in their order."""
    codes = [*(rule.code for rule in scan.RULES), *(code for code, _ in clean.FILTERS)]
    return tuple(dict.fromkeys(codes))


@contextlib.contextmanager
def leaving_out(names: Sequence[str]) -> Iterator[None]:
    """Within this block answers are made without these rules and filters. UsageError for unknown names.

    The product has one list and no switch; so this bench takes it apart, and puts it together again.
    """
    if unknown := [name for name in names if name not in filters()]:
        raise UsageError(f"There is no filter {unknown[0]!r}; choose from {', '.join(filters())}.")
    rules, tidying = scan.RULES, clean.FILTERS
    scan.RULES = tuple(rule for rule in rules if rule.code not in names)
    clean.FILTERS = tuple(pair for pair in tidying if pair[0] not in names)
    try:
        yield
    finally:
        scan.RULES, clean.FILTERS = rules, tidying


@dataclass(frozen=True)
class Options:
    """What is the same for all completions of a run. draft 0: the drafter's own length."""

    max_tokens: int = 128
    temperature: float = 0.0
    seed: int = 0
    draft: int = 0
    multiline: str = "auto"
    layout: Layout = DEFAULT_LAYOUT
    without: tuple[str, ...] = ()
    reuse: bool = False

    @classmethod
    def of(cls, settings: Settings, **more: Any) -> Options:
        """The options that the settings carry, and others by name."""
        carried = ("max_tokens", "temperature", "seed", "draft", "multiline")
        return cls(**{name: getattr(settings, name) for name in carried}, **more)


@dataclass(frozen=True)
class Completed:
    """One completion: what would be shown, all new ids, counts and times, milliseconds in all."""

    text: str
    ids: tuple[int, ...]
    stats: GenerationStats
    finish: str
    empty_reason: str | None
    total_ms: float


class Product:
    """An opened model that completes, each time from an empty cache unless the options say `reuse`."""

    def __init__(self, opened: model.Model) -> None:
        self.model = opened
        self._end_ids = opened.tokenizer.end_ids | frozenset(opened.stored.end_ids)
        self._kept = PrefixStore(opened.backbone, _STORE_BYTES)

    @classmethod
    def load(cls, name: str, precision: str, threads: int = 0, progress: Progress | None = None) -> Product:
        """As model.load."""
        return cls(model.load(name, precision, threads, progress))

    def complete(
        self,
        prefix: str,
        suffix: str,
        *,
        path: str | None = None,
        language: str | None = None,
        drafter: Drafter | None = None,
        seed: int | None = None,
        options: Options = Options(),
    ) -> Completed:
        """Complete at the place between `prefix` and `suffix`."""
        begun = time.perf_counter()
        tokenizer, backbone = self.model.tokenizer, self.model.backbone
        block = multiline.decide(prefix, suffix, language, options.multiline)
        context = AnswerContext(prefix, suffix, language, block)
        prompt = fim.build(tokenizer, prefix, suffix, path=path, language=language, layout=options.layout)
        watch = Watch(tokenizer, len(prompt.healed), context, _QUIET, stream=False)
        generation = generate(
            backbone,
            prompt.ids,
            store=self._kept if options.reuse else PrefixStore(backbone, 0),
            sampling=Sampling(temperature=options.temperature, seed=options.seed if seed is None else seed),
            max_new_tokens=options.max_tokens,
            end_ids=self._end_ids,
            drafter=drafter,
            draft_length=options.draft or None,
            stop=watch.stop,
            constraint=Healing(tokenizer, prompt.healed) if prompt.healed else None,
        )
        answer = clean.answer(watch.read(generation.ids), context, generation.finish)
        return Completed(
            text=answer.text,
            ids=tuple(generation.ids),
            stats=generation.stats,
            finish=answer.finish,
            empty_reason=answer.reason if not answer.text else None,
            total_ms=(time.perf_counter() - begun) * 1e3,
        )

    def decode(self, row: PromptRow, mode: str, seed: int, options: Options) -> Completed:
        """`row` completed in a decoding mode, for bench decode."""
        return self.complete(
            row.prefix,
            row.suffix,
            path=row.path,
            language=row.language,
            drafter=make_drafter(mode, head=self.model.head),
            seed=seed,
            options=options,
        )

    def infiller(self, mode: str, options: Options) -> infill.Run:
        """What answers a case for bench infill; where ids to draft from are given, they are the draft."""
        named = options.layout.header == "repository"  # a header needs some name
        with leaving_out(options.without):
            pass  # unknown names are an error now, not at the first case

        def run(case: Case, script: Sequence[int] | None) -> Completed:
            drafter = make_drafter(mode, head=self.model.head) if script is None else infill.Scripted(script)
            with leaving_out(options.without):
                return self.complete(
                    case.prefix,
                    case.suffix,
                    path=case.path or ("solution.py" if named else None),
                    language=case.language,
                    drafter=drafter,
                    # A script is drafted whole.
                    options=options if script is None else dataclasses.replace(options, draft=0),
                )

        return run

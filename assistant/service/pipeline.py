"""One completion from end to end: prompt, generation, cleaned answer, and the figures of all its candidates.

Text lives here and tokens in the engine: the stop callback reads the new tokens as text, the healing
constraint spells the word before the cursor first. Text is streamed once the stop rule says that it is sure
to stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from assistant.engine.backbone import Backbone, Cache
from assistant.engine.draft import Draft, make_drafter
from assistant.engine.generate import generate
from assistant.engine.mtp import MtpHead
from assistant.engine.prefix import PrefixStore
from assistant.engine.sampling import Sampling
from assistant.engine.stats import GenerationStats
from assistant.errors import HeadError
from assistant.post import clean, multiline
from assistant.post.context import AnswerContext
from assistant.post.stop import StopRule
from assistant.prompt import fim
from assistant.prompt.budget import MeasuredBudget, PromptBudget
from assistant.prompt.healing import Healing
from assistant.prompt.tokenizer import StreamDecoder, Tokenizer
from assistant.service.engine_api import Hooks, SoFar
from assistant.service.protocol import Block, CompletionRequest, CompletionResult, Token

_MARKS = 16  # tokens of a prompt besides prefix and suffix, at most


@dataclass(frozen=True)
class LoadedEngine:
    """A model ready to run. path, reason: how it runs on this machine and why; load_ms: without imports; head: its
    draft head, or what is wrong with it.
    """

    backbone: Backbone
    tokenizer: Tokenizer
    end_ids: frozenset[int]
    model: str
    precision: str
    path: str
    reason: str
    load_ms: float
    head: MtpHead | HeadError | None = None


class Completer:
    """The worker's Engine around a loaded model; keeps the caches of prompts between requests. One thread."""

    def __init__(self, loaded: LoadedEngine, store_bytes: int) -> None:
        self.model = loaded.model
        self.precision = loaded.precision
        self.path = loaded.path
        self.reason = loaded.reason
        self.load_ms = loaded.load_ms
        self._engine = loaded
        self._store = _Store(loaded.backbone, store_bytes)
        self._measured = MeasuredBudget()

    def complete(self, request: CompletionRequest, hooks: Hooks) -> CompletionResult:
        """The answer to `request`; a warm one only reads the prompt in. UsageError, UnsupportedError."""
        tokenizer = self._engine.tokenizer
        block = multiline.decide(request.prefix, request.suffix, request.language, request.multiline)
        context = AnswerContext(request.prefix, request.suffix, request.language, block)
        prompt = fim.build(
            tokenizer,
            request.prefix,
            request.suffix,
            budget=self._budget(request),
            path=request.path,
            language=request.language,
        )
        healing = Healing(tokenizer, prompt.healed) if prompt.healed else None
        stats = GenerationStats()
        answers: list[clean.Answer] = []
        drafter = None
        # Greedy candidates are all alike, so one is enough.
        for number in range(request.candidates if request.temperature > 0 else 1):
            drafter = make_drafter(request.decode, head=self._engine.head)
            watch = Watch(tokenizer, len(prompt.healed), context, hooks, number == 0, self._so_far(prompt.ids))
            generation = generate(
                self._engine.backbone,
                prompt.ids,
                store=self._store,
                sampling=_sampling(request, number),
                max_new_tokens=0 if request.trigger == "warm" else request.max_tokens,
                end_ids=self._engine.end_ids,
                drafter=drafter,
                draft_length=request.draft or None,
                stop=watch.stop,
                constraint=healing,
                cancelled=hooks.cancelled,
                on_pass=watch.passed,
                on_tokens=watch.committed,
            )
            stats.add(generation.stats)
            if generation.finish != "cancelled":
                computed = generation.stats.prompt_tokens - generation.stats.reused_tokens
                self._measured.observe(computed, generation.stats.prefill_ms)
            if not answers:
                stats.first_token_ms = generation.stats.first_token_ms
            answers.append(clean.answer(watch.read(generation.ids), context, generation.finish))
            if number == 0:
                watch.finish(answers[0].text)
            if generation.finish == "cancelled":
                break
        return self._result(request, answers, stats, drafter.name if drafter else "plain")

    def drop_caches(self) -> None:
        self._store.clear()

    def store_bytes(self) -> int:
        return self._store.bytes

    def close(self) -> None:
        self._store.clear()

    def _so_far(self, prompt: Sequence[int]) -> Callable[[str, int, int], SoFar]:
        return lambda raw, new, passes: SoFar(raw, len(prompt), self._store.reused, new, passes)

    def _budget(self, request: CompletionRequest) -> PromptBudget:
        """What was asked for, else what suits this engine's speed; less where the model's context is too short."""
        prefix = request.prefix_tokens or self._measured.current.prefix_tokens
        suffix = request.suffix_tokens or self._measured.current.suffix_tokens
        context = self._engine.backbone.config.context_length
        room = max(2, context - _MARKS - min(request.max_tokens, context // 2))
        suffix = min(suffix, max(1, room // 4)) if prefix + suffix > room else suffix
        return PromptBudget(prefix_tokens=min(prefix, room - suffix), suffix_tokens=suffix)

    def _result(
        self, request: CompletionRequest, answers: Sequence[clean.Answer], stats: GenerationStats, decode: str
    ) -> CompletionResult:
        # The first candidate that is not empty; the first one's reason when all are.
        best = next((answer for answer in answers if answer.text), answers[0])
        texts = tuple(dict.fromkeys(answer.text for answer in answers if answer.text))
        figures = stats.summary()
        figures["accepted_by_position"] = tuple(figures["accepted_by_position"])
        return CompletionResult(
            completion=best.text,
            finish_reason=best.finish,
            empty_reason=best.reason if not best.text else None,
            model=self.model,
            precision=self.precision,
            decode=decode,
            candidates=texts if request.candidates > 1 else None,
            warning=self._warning(request),
            **figures,
        )

    def _warning(self, request: CompletionRequest) -> str | None:
        """Auto does without a head that cannot be used, but not in silence."""
        head = self._engine.head
        return str(head) if request.decode == "auto" and isinstance(head, HeadError) else None


class _Store(PrefixStore):
    """Remembers how much of the last prompt was there already."""

    reused = 0

    def take(self, ids: Sequence[int], room: int = 0) -> tuple[Cache, int]:
        cache, self.reused = super().take(ids, room)
        return cache, self.reused


def _sampling(request: CompletionRequest, candidate: int) -> Sampling:
    return Sampling(
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        min_p=request.min_p,
        seed=request.seed,
        candidate=candidate,
    )


@dataclass
class Watch:
    """Reads the tokens of one generation as text: says when to stop, and after each pass, when told to `stream`,
    what there is and what is sure to stay.
    """

    tokenizer: Tokenizer
    healed: int  # bytes at the start that the file has already
    context: AnswerContext
    hooks: Hooks
    stream: bool
    so_far: Callable[[str, int, int], SoFar] = lambda raw, new, passes: SoFar(raw, 0, 0, new, passes)
    text: str = ""
    _passes: int = -1  # the first block is the prefill's
    _read: int = 0
    _told: str = ""
    _drafted: int = 0  # in the latest pass
    _all_drafted: int = 0
    _all_accepted: int = 0
    _origins: tuple[str, ...] = ("prompt",)  # of the block that comes next; what is left over, the pass chose itself
    _pieces: list[str] = field(default_factory=list)  # text of each token
    _counted: int = 0  # tokens that were told in blocks
    _started: float = field(default_factory=time.perf_counter)
    _begun: bool = False
    _decoder: StreamDecoder = field(init=False)
    _rule: StopRule = field(init=False)

    def __post_init__(self) -> None:
        self._decoder = StreamDecoder(self.tokenizer, skip=self.healed)
        self._rule = StopRule(self.context)

    def stop(self, ids: Sequence[int]) -> bool:
        """The engine's stop callback."""
        text = self.read(ids)
        return bool(text) and self._rule(text)

    def read(self, ids: Sequence[int]) -> str:
        """The text of all new ids so far, without the healed piece; ids only ever go on."""
        for token in ids[self._read :]:
            self._pieces.append(self._decoder.push((token,)))
        self.text += "".join(self._pieces[self._read :])
        self._read = len(ids)
        return self.text

    def passed(self, draft: Draft, accepted: Sequence[int]) -> None:
        """The engine's on_pass."""
        self._drafted, self._origins = len(draft.ids), (draft.by,) * len(accepted)
        self._all_drafted += len(draft.ids)
        self._all_accepted += len(accepted)

    def committed(self, block: Sequence[int]) -> None:
        """The engine's on_tokens."""
        if not self._begun:
            self._begun = True
            self.hooks.first()
        self._passes += 1
        if self.stream:
            state = self.so_far(self.text, self._read, self._passes)
            told = self._block(len(block))
            self.hooks.so_far(
                replace(state, drafted=self._all_drafted, accepted=self._all_accepted, block=told)
            )
            self._tell(self._rule.settled())

    def _block(self, count: int) -> Block:
        """The last `count` tokens. An end id is none of the text and may not have been read yet."""
        ms = (time.perf_counter() - self._started) * 1000
        pieces = self._pieces[self._counted : self._counted + count]
        self._counted += count
        pieces += [""] * (count - len(pieces))
        origins = (*self._origins, *("model",) * (count - len(self._origins)))
        return Block(ms, self._drafted, tuple(map(Token, pieces, origins)))

    def finish(self, answer: str) -> None:
        """The cleaned answer is known: tell the rest of it."""
        if self.stream:
            self._tell(answer)

    def _tell(self, text: str) -> None:
        if len(text) > len(self._told) and text.startswith(self._told):
            self.hooks.text(text[len(self._told) :])
            self._told = text

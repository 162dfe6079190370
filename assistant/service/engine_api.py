"""What the worker asks of an engine, and what it offers to a running completion. Light: nothing of the
engine's is imported before a factory is looked up.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from assistant.service.protocol import Block, CompletionRequest, CompletionResult

ProgressHook = Callable[[str, int, int], None]  # step, done, total (0: unknown)


@dataclass(frozen=True)
class SoFar:
    """A running completion after a pass: its text as it came from the model, and the work done for it."""

    raw: str
    prompt_tokens: int = 0
    reused_tokens: int = 0
    new_tokens: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    block: Block | None = None  # what the latest pass committed


@dataclass(frozen=True)
class Hooks:
    """How a running completion talks to the outside. `cancelled` is read before every chunk and pass. `text`
    gets what is sure to stay of the answer, in whole lines; `so_far` is told before it.
    """

    cancelled: Callable[[], bool]
    first: Callable[[], None]
    text: Callable[[str], None]
    so_far: Callable[[SoFar], None] = lambda state: None


class Engine(Protocol):
    """A loaded model that completes. Used on the worker's thread only."""

    model: str
    precision: str
    path: str  # which way the engine takes on this machine
    reason: str  # why
    load_ms: float  # mapping the weights until ready, imports excluded

    def complete(self, request: CompletionRequest, hooks: Hooks) -> CompletionResult: ...

    def drop_caches(self) -> None: ...

    def store_bytes(self) -> int: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Wanted:
    """Which engine a request needs: a change loads another one. store_bytes: for kept prefixes."""

    model: str
    precision: str
    device: str
    threads: int
    store_bytes: int


EngineFactory = Callable[[Wanted, ProgressHook], Engine]
STORE_BYTES = 256 * 1024 * 1024


def named_factory(name: str | None) -> Callable[[], EngineFactory]:
    """What imports the factory "module:function" when called; None is the real one."""

    def find() -> EngineFactory:
        if name is None:
            from assistant.service.engines import load

            return load
        module, _, attribute = name.partition(":")
        factory: EngineFactory = getattr(importlib.import_module(module), attribute)
        return factory

    return find

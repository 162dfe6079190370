"""The messages between the engine host and its clients, and nothing else knows them.

A client says Hello and is answered Welcome; then it sends Complete, Cancel, StatusQuery, Clear, Watch and Stop in
any order. Every Complete is answered by exactly one Result (null: superseded) or Failure; Progress, First and
Text may come before it. PROTOCOL changes with any message; build_hash() tells two builds of the program
apart. Whoever sends Watch is told of all clients' work by Events until its connection ends. Light: standard library
only.
"""

from __future__ import annotations

import functools
import math
import typing
from dataclasses import dataclass, replace
from typing import Any

from assistant.errors import TokenleapError, UsageError
from assistant.service import sources, wire

PROTOCOL = 4
CANCELLED_NUMBER = -32800  # JSON-RPC's RequestCancelled

DECODE_MODES = ("plain", "lookup", "mtp", "tree", "auto", "draft-model")
MULTILINE = ("auto", "always", "never")
TRIGGERS = ("invoked", "automatic", "warm")
SOURCES = ("model", "cache", "type_through", "running")
PREFIX_WINDOW = 256 * 1024  # characters; more than any budget of the prompt
SUFFIX_WINDOW = 64 * 1024
WINDOW_STEP = 64 * 1024  # the window of a long prefix moves in steps, so that reuse survives typing


class RequestCancelled(TokenleapError):
    """The request was cancelled by the one who made it."""

    code = "cancelled"
    number = CANCELLED_NUMBER


@dataclass(frozen=True)
class CompletionRequest:
    """What to complete and how. Requests have equal answers when they differ in nothing but document, stream,
    trigger, budget_ms and ahead.

    An "invoked" request reads no stored answer; it shares an equal generation that runs. An "automatic" one
    takes what there is: a stored answer, also what is left of one when the text typed since goes along with it,
    or the running answer of its document. A "warm" one makes model and prefix ready and says nothing.
    """

    prefix: str
    suffix: str = ""
    path: str | None = None
    language: str | None = None
    model: str = "qwen2.5-coder-0.5b"
    precision: str = "int8"
    device: str = "auto"
    threads: int = 0  # of the engine; 0: it chooses
    decode: str = "auto"
    draft: int = 0  # longest draft, tokens; 0: the drafter chooses
    max_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    multiline: str = "auto"
    prefix_tokens: int = 0  # most tokens of the prefix in the prompt; 0: the prompt's own budget
    suffix_tokens: int = 0
    candidates: int = 1
    document: str | None = None  # key of the open document: the newest request of a document wins
    stream: bool = False
    trigger: str = "invoked"
    budget_ms: int = 0  # automatic: from then on the first line is answer enough; 0: wait for the whole
    ahead: bool = False  # automatic: what is likely asked next is prepared, while nobody asks for anything

    def windowed(self) -> CompletionRequest:
        """The same request with no more text around the cursor than any prompt can use."""
        prefix, suffix = self.prefix, self.suffix[:SUFFIX_WINDOW]
        if len(prefix) > PREFIX_WINDOW:
            prefix = prefix[(len(prefix) - PREFIX_WINDOW) // WINDOW_STEP * WINDOW_STEP :]
        return (
            self
            if (prefix, suffix) == (self.prefix, self.suffix)
            else replace(self, prefix=prefix, suffix=suffix)
        )

    def identity(self) -> CompletionRequest:
        """Equal for requests that may share one generation."""
        kind = "warm" if self.trigger == "warm" else "invoked"
        return replace(self, document=None, stream=False, trigger=kind, budget_ms=0, ahead=False)

    def check(self) -> None:
        """UsageError names the first field that cannot be."""
        ranges: tuple[tuple[str, float, float], ...] = (
            ("threads", 0, 1024),
            ("draft", 0, 64),
            ("prefix_tokens", 0, 131072),
            ("suffix_tokens", 0, 131072),
            ("max_tokens", 1, 32768),
            ("temperature", 0, 10),
            ("top_k", 0, 1_000_000),
            ("top_p", 0, 1),
            ("min_p", 0, 1),
            ("seed", -(2**63), 2**64 - 1),
            ("candidates", 1, 32),
            ("budget_ms", 0, 60_000),
        )
        for name, low, high in ranges:
            value = getattr(self, name)
            if not math.isfinite(value) or not low <= value <= high:
                raise UsageError(f"{name} must be from {low} to {high}, not {value}")
        choices = (("decode", DECODE_MODES), ("multiline", MULTILINE), ("trigger", TRIGGERS))
        for name, allowed in choices:
            if getattr(self, name) not in allowed:
                raise UsageError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}")


@dataclass(frozen=True)
class CompletionResult:
    """One answer, with the fields of `tokenleap complete --json`. Times in milliseconds. Counts are of the work
    done for it: a stored answer cost no pass.
    """

    completion: str
    finish_reason: str  # stop, length, scope, cancelled or empty
    empty_reason: str | None
    model: str
    precision: str
    decode: str
    prompt_tokens: int = 0
    reused_tokens: int = 0
    new_tokens: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    tokens_per_pass: float = 0.0
    accepted_by_position: tuple[float, ...] = ()
    first_token_ms: float = 0.0  # from the client sending the request, as total_ms
    total_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    load_ms: float = 0.0
    startup_ms: float = 0.0
    tokens_per_second: float = 0.0
    candidates: tuple[str, ...] | None = None  # None unless several were asked for
    source: str = "model"  # one of SOURCES: "type_through" is what typing left of a stored answer
    more: bool = False  # the first line alone, in time; the rest goes on into the stored answers
    warning: str | None = None  # what the user should know, in one sentence: the draft head cannot be used

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints; "candidates" and "warning" only when there are any."""
        made: dict[str, Any] = wire.to_json(self)
        optional = [name for name in ("candidates", "warning") if made[name] is None]
        for name in ("source", "more", *optional):
            del made[name]
        return made


@dataclass(frozen=True)
class HostStatus:
    """What the host is and does. Bytes and seconds."""

    pid: int
    protocol: int
    build: str
    uptime_s: float
    state: str  # idle, loading, busy, stopping
    model: str | None
    precision: str | None
    engine: str | None  # the path that the engine took on this machine
    engine_reason: str | None
    rss_bytes: int
    peak_rss_bytes: int
    clients: int
    requests: int  # completions answered since the start
    waiting: int
    prefix_store_bytes: int
    answer_cache_bytes: int
    passes: int  # these four: all work since the start, answered or not
    prompt_tokens: int
    reused_tokens: int
    prepared: int  # generations begun that nobody had asked for yet
    log: str

    def to_json(self) -> dict[str, Any]:
        made: dict[str, Any] = wire.to_json(self)
        return made


@dataclass(frozen=True)
class Hello:
    protocol: int
    build: str
    pid: int
    token: str = ""  # proves on a loopback port that the client may read the user's files


@dataclass(frozen=True)
class Welcome:
    protocol: int
    build: str
    pid: int


@dataclass(frozen=True)
class Complete:
    id: int
    request: CompletionRequest


@dataclass(frozen=True)
class Cancel:
    id: int


@dataclass(frozen=True)
class StatusQuery:
    id: int


@dataclass(frozen=True)
class Clear:
    id: int


@dataclass(frozen=True)
class Stop:
    id: int


@dataclass(frozen=True)
class Progress:
    """A long step before the first token, such as converting a model. total 0: unknown."""

    id: int
    step: str
    done: int
    total: int


@dataclass(frozen=True)
class First:
    """The first token of the answer was chosen."""

    id: int


@dataclass(frozen=True)
class Text:
    """More of the completion that is sure to stay, for a request with `stream`."""

    id: int
    text: str


@dataclass(frozen=True)
class Result:
    id: int
    result: CompletionResult | None  # None: superseded by a newer request of the same document


@dataclass(frozen=True)
class Failure:
    """id 0: about the connection, which then ends."""

    id: int
    code: str
    message: str


@dataclass(frozen=True)
class StatusReply:
    id: int
    status: HostStatus


@dataclass(frozen=True)
class Cleared:
    id: int


@dataclass(frozen=True)
class Stopping:
    id: int


# What everybody may watch: the generations of all clients, and the answers that took none.

# What chose a token: the prefill, a draft that stood, or the pass itself.
ORIGINS = ("prompt", "mtp", "lookup", "model")


@dataclass(frozen=True)
class Token:
    """One new token; its text is empty where it completes no character."""

    text: str
    origin: str  # one of ORIGINS


@dataclass(frozen=True)
class Block:
    """What the prefill (drafted 0, one token) or one pass committed, `ms` after the generation began."""

    ms: float
    drafted: int
    tokens: tuple[Token, ...]


@dataclass(frozen=True)
class Watch:
    """Tell all that goes on from now on, after what ended lately."""

    id: int


@dataclass(frozen=True)
class _Happening:
    """id: the Watch's; job: the generation's number, counted by the host."""

    id: int
    job: int


@dataclass(frozen=True)
class Started(_Happening):
    at: float  # seconds since 1970
    request: CompletionRequest  # with the text around the cursor left out
    attended: bool  # somebody waits for it


@dataclass(frozen=True)
class Step(_Happening):
    """A long step before the first token, as Progress."""

    step: str
    done: int
    total: int


@dataclass(frozen=True)
class Committed(_Happening):
    block: Block


@dataclass(frozen=True)
class Finished(_Happening):
    """`result` or, when it failed, code and message. Times in the result as the engine knows them."""

    result: CompletionResult | None
    code: str = ""
    message: str = ""
    blocks: tuple[Block, ...] = ()


Event = Started | Step | Committed | Finished
Request = Hello | Complete | Cancel | StatusQuery | Clear | Stop | Watch
Reply = Welcome | Progress | First | Text | Result | Failure | StatusReply | Cleared | Stopping | Event
Message = Request | Reply
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in typing.get_args(Message)}


def encode(message: Message) -> bytes:
    """One frame."""
    return wire.pack({"type": type(message).__name__, **wire.to_json(message)})


def decode(value: dict[str, Any]) -> Message:
    """The message in one frame's JSON object; WireError when there is none."""
    kind = _KINDS.get(str(value.get("type")))
    if kind is None:
        raise wire.WireError("a message of an unknown type arrived")
    made: Message = wire.from_json(
        kind, {key: item for key, item in value.items() if key != "type"}, kind.__name__
    )
    return made


def failure(request_id: int, error: TokenleapError) -> Failure:
    return Failure(request_id, error.code, str(error))


@functools.cache
def build_hash() -> str:
    """Names this build of the program; fixed at the first call."""
    return sources.named(PROTOCOL)

"""The prompt for a hole in a file: Qwen2.5-Coder's fill-in-the-middle layout, or plain text where nothing
follows.

Texts come with line ends as newline characters. The prefix is cut at its front, the suffix at its end, to a
token budget. `Layout` names every variant; DEFAULT_LAYOUT is frozen, since heads are trained in it: a change of
it is a change of format. docs/prompt-layout.md says why it is what it is.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

from assistant.prompt.budget import DEFAULT_BUDGET, Part, PromptBudget, cut_prefix, cut_suffix, near_start
from assistant.prompt.healing import taken_back
from assistant.prompt.tokenizer import Tokenizer


@dataclass(frozen=True)
class Layout:
    """One form of prompt.

    order: "psm" = prefix, suffix, middle; "spm" = suffix, prefix, middle; "joint" = suffix first, then the
    middle token and behind it the prefix. near: with "psm" the lines of the prefix from `near` to twice as many
    characters before the cursor's on stand behind the middle token, as if the hole had begun above them, so
    that the answer goes on from its own text; 0 is the plain form, and a file shorter than that has "joint".
    header: "repository" puts the repository's and the file's name in front. blank_suffix: whether a suffix of
    white space alone counts (it says that the file ends here, which invites the model to end too).
    without_suffix: what to do when there is none. heal_spaces: whether blanks before the cursor are taken back
    as word pieces are.
    """

    order: Literal["psm", "spm", "joint"] = "psm"
    near: int = 400
    header: Literal["none", "repository"] = "none"
    blank_suffix: bool = False
    without_suffix: Literal["left-to-right", "fim"] = "left-to-right"
    heal_spaces: bool = True


DEFAULT_LAYOUT = Layout()


@dataclass(frozen=True)
class Prompt:
    """Ids to prefill, and the bytes that the first new tokens must spell (see `healing`).

    `prefix_start` and `suffix_end` are character offsets into the prefix and the suffix: what of them is in
    the prompt.
    """

    ids: list[int]
    healed: bytes
    kind: Literal["fim", "left-to-right"]
    prefix_start: int
    suffix_end: int


def build(
    tokenizer: Tokenizer,
    prefix: str,
    suffix: str,
    *,
    budget: PromptBudget = DEFAULT_BUDGET,
    path: str | None = None,
    repository: str | None = None,
    language: str | None = None,
    healing: bool = True,
    layout: Layout = DEFAULT_LAYOUT,
) -> Prompt:
    """The prompt for the hole between `prefix` and `suffix`; `path` and `repository` matter to a header
    alone.

    A tokenizer without fill-in-the-middle tokens (`tokenizer.fim is None`) gets the left-to-right form.
    """
    before = cut_prefix(tokenizer, prefix, budget.prefix_tokens)
    ids, healed = before.encoded.ids, b""
    if healing:
        count = taken_back(tokenizer, before.encoded, spaces=layout.heal_spaces)
        if count:
            healed = tokenizer.spell(ids[-count:])
            ids = ids[:-count]
    head = _header(tokenizer, layout, path, repository)
    fim = tokenizer.fim
    has_suffix = bool(suffix if layout.blank_suffix else suffix.strip()) and budget.suffix_tokens > 0
    if fim is None or not (has_suffix or layout.without_suffix == "fim"):
        return Prompt(head + ids or _start(tokenizer), healed, "left-to-right", before.start, 0)
    after = cut_suffix(tokenizer, suffix, budget.suffix_tokens)
    behind = after.encoded.ids
    if layout.order == "psm":
        far = _far(before, prefix, len(ids), layout.near)
        body = [fim.prefix, *ids[:far], fim.suffix, *behind, fim.middle, *ids[far:]]
    elif layout.order == "spm":
        body = [fim.suffix, *behind, fim.prefix, *ids, fim.middle]
    else:
        body = [fim.prefix, fim.suffix, *behind, fim.middle, *ids]
    return Prompt(head + body, healed, "fim", before.start, after.end)


def _far(before: Part, prefix: str, count: int, near: int) -> int:
    """How many of the prefix's first `count` tokens stand in front of the suffix."""
    if not near:
        return count
    offset = near_start(prefix, near) - before.start
    # A token across the border goes to the front, as the border itself does not move.
    return min(count, bisect_left(before.encoded.ends, offset) + 1) if offset > 0 else 0


def _header(tokenizer: Tokenizer, layout: Layout, path: str | None, repository: str | None) -> list[int]:
    """`<|repo_name|>name` newline, `<|file_sep|>path` newline; without a path nothing."""
    fim = tokenizer.fim
    if layout.header == "none" or fim is None or fim.file_sep is None or path is None:
        return []
    ids: list[int] = []
    if repository is not None and fim.repo_name is not None:
        ids += [fim.repo_name, *tokenizer.encode(f"{repository}\n")]
    return [*ids, fim.file_sep, *tokenizer.encode(f"{path}\n")]


def _start(tokenizer: Tokenizer) -> list[int]:
    """What stands in for an empty prompt, since a model needs at least one token: the mark between two
    documents.
    """
    for name in ("<|endoftext|>", "<|begin_of_text|>", "<s>"):
        if name in tokenizer.special:
            return [tokenizer.special[name]]
    return tokenizer.encode("\n")

"""Qwen2.5's chat form as ids: what a person writes is ordinary text, whatever tokens it spells.

One turn is `<|im_start|>role`, newline, text, `<|im_end|>`, newline; the prompt ends where the assistant's
words begin.
"""

from __future__ import annotations

from collections.abc import Sequence

from assistant.errors import UnsupportedModelError
from assistant.prompt.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant")
DEFAULT_SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."


def build(tokenizer: Tokenizer, messages: Sequence[tuple[str, str]]) -> list[int]:
    """Ids of a conversation, `messages` being (role, text) in order; a system turn is put in front when
    there is none.

    Raises UnsupportedModelError for a model without chat tokens, ValueError for another role.
    """
    start, end = tokenizer.special.get("<|im_start|>"), tokenizer.special.get("<|im_end|>")
    if start is None or end is None:
        raise UnsupportedModelError("this model has no chat form: choose an instruct model with --model")
    turns = list(messages)
    if not turns or turns[0][0] != "system":
        turns.insert(0, ("system", DEFAULT_SYSTEM))
    newline = tokenizer.encode("\n")
    ids: list[int] = []
    for role, text in turns:
        if role not in ROLES:
            raise ValueError(f"a message's role is one of {', '.join(ROLES)}, not {role!r}")
        ids += [start, *tokenizer.encode(f"{role}\n{text}"), end, *newline]
    return [*ids, start, *tokenizer.encode("assistant\n")]

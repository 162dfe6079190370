"""Builds the `tokenizers` library's JSON out of a GGUF file's own vocabulary.

Only byte-level BPE ("gpt2") with a pre-tokenizer that is known here; anything else raises
UnsupportedModelError, because a nearly right tokenizer spoils every prompt silently. Equal to what
transformers builds for the same vocabulary (a test compares ids).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from assistant.errors import ModelCorruptError, UnsupportedModelError

_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = _QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|", 1)

# Name in the file -> (split pattern or None for GPT-2's own, Unicode normalisation, whole words looked up
# before merging).
_KINDS: dict[str, tuple[str | None, str | None, bool]] = {
    "qwen2": (_QWEN2, "NFC", False),
    "deepseek-r1-qwen": (_QWEN2, "NFC", False),
    "llama-bpe": (_LLAMA3, None, True),
    "llama3": (_LLAMA3, None, True),
    "llama-v3": (_LLAMA3, None, True),
    "gpt-2": (None, None, False),
    "default": (None, None, False),
}

_CONTROL, _USER, _UNUSED = 3, 4, 5


def build(fields: Mapping[str, Any], name: str) -> str:
    """The JSON text. `fields` are the header values of the file called `name`."""
    model, pre = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre", "default")
    if model != "gpt2" or pre not in _KINDS:
        raise UnsupportedModelError(
            f"{name} has a tokenizer of the kind {model}/{pre}: only gpt2 with {', '.join(_KINDS)} can "
            "be used"
        )
    tokens, merges = fields.get("tokenizer.ggml.tokens"), fields.get("tokenizer.ggml.merges")
    if not tokens or merges is None:
        raise ModelCorruptError(f"{name} holds no vocabulary: fetch the file again")
    kinds = fields.get("tokenizer.ggml.token_type")
    types = [1] * len(tokens) if kinds is None else [int(kind) for kind in kinds]
    pattern, normal, whole = _KINDS[pre]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": pattern is None,
    }
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    added = [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == _CONTROL,
        }
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (_CONTROL, _USER)
    ]
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": {"type": normal} if normal else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}
            if pattern
            else byte_level,
            "post_processor": _post_processor(fields, tokens, byte_level),
            "decoder": {**byte_level, "use_regex": True},
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": "",
                "end_of_word_suffix": "",
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": whole,
                "vocab": {
                    token: index
                    for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
                    if kind != _UNUSED
                },
                "merges": [merge.split(" ", 1) for merge in merges],
            },
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def check(text: str, name: str) -> None:
    """ModelCorruptError unless the `tokenizers` library can use this JSON, so that no model is made with it."""
    import tokenizers

    try:
        tokenizers.Tokenizer.from_str(text)
    except Exception:  # the library raises bare Exception
        raise ModelCorruptError(f"{name} holds no tokenizer that can be used: fetch the model again") from None


def _post_processor(
    fields: Mapping[str, Any], tokens: list[str], byte_level: dict[str, Any]
) -> dict[str, Any]:
    first = fields.get("tokenizer.ggml.bos_token_id")
    if not fields.get("tokenizer.ggml.add_bos_token", False) or first is None:
        return {**byte_level, "use_regex": True}
    token = tokens[int(first)]
    start = {"SpecialToken": {"id": token, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [start, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [start, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [int(first)], "tokens": [token]}},
    }

"""Text goes to ids and back unchanged, never becomes a control token, and never streams half a character."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.errors import ModelCorruptError
from assistant.prompt.tokenizer import StreamDecoder, Tokenizer

CONTROL = ["<|fim_middle|>", "<|im_end|>", "<|endoftext|>", "<|file_sep|>", "<tool_call>"]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([*CONTROL, "\n", "    ", "\r\n", "e\u0301", "Å", "😀", "你好", "<|", "|>", "\t"]),
        st.text(max_size=12),
    ),
    max_size=12,
).map("".join)


@given(text=TEXTS)
def test_text_round_trips_and_holds_no_control_token(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.spell(ids) == text.encode()
    assert not set(ids) & set(tokenizer.special.values())


@given(text=TEXTS, cuts=st.lists(st.integers(0, 60), max_size=6))
def test_a_stream_joins_to_the_whole_decoding(tokenizer: Tokenizer, text: str, cuts: list[int]) -> None:
    ids = tokenizer.encode(text)
    marks = sorted({min(cut, len(ids)) for cut in cuts} | {0, len(ids)})
    stream = StreamDecoder(tokenizer)
    shown = [stream.push(ids[a:b]) for a, b in itertools.pairwise(marks)]
    assert "".join(shown) + stream.flush() == tokenizer.decode(ids) == text


@given(text=TEXTS, length=st.integers(0, 60))
def test_a_cut_character_is_left_out(tokenizer: Tokenizer, text: str, length: int) -> None:
    ids = tokenizer.encode(text)[:length]
    decoded = tokenizer.decode(ids)
    assert text.startswith(decoded)
    assert len(tokenizer.spell(ids)) - len(decoded.encode()) < 4
    stream = StreamDecoder(tokenizer)
    assert "".join(stream.push([i]) for i in ids) + stream.flush() == decoded


def test_bytes_that_are_no_text_become_the_replacement_character(tokenizer: Tokenizer) -> None:
    by_byte = {tokenizer.piece(i): i for i in range(tokenizer.size)}
    assert tokenizer.decode([by_byte[b"\xff"], by_byte[b"a"]]) == "\ufffda"
    assert tokenizer.decode([by_byte[b"a"], by_byte[b"\xf0"]]) == "a"


def test_a_lone_surrogate_is_read_as_the_replacement_character(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("a\udc80b")) == "a\ufffdb"


def test_control_tokens_have_ids_but_no_text(tokenizer: Tokenizer) -> None:
    special = tokenizer.special
    assert {"<|fim_prefix|>", "<|im_start|>", "<tool_call>"} <= set(special)
    assert tokenizer.piece(special["<|im_end|>"]) == b""
    assert tokenizer.decode([*tokenizer.encode("a"), special["<|fim_pad|>"], *tokenizer.encode("b")]) == "ab"
    assert tokenizer.fim is not None
    assert tokenizer.fim.middle == special["<|fim_middle|>"]
    assert {special["<|endoftext|>"], special["<|file_sep|>"], special["<|im_end|>"]} <= tokenizer.end_ids
    assert special["<tool_call>"] not in tokenizer.end_ids
    assert tokenizer.size == max(special.values()) + 1
    assert not set(tokenizer.vocabulary().values()) & set(special.values())


def test_control_tokens_listed_in_the_vocabulary_too_stay_control_tokens(tokenizer_file: Path, tmp_path: Path) -> None:
    document = json.loads(tokenizer_file.read_text(encoding="utf-8"))
    for token in document["added_tokens"]:
        document["model"]["vocab"][token["content"]] = token["id"]
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    tokenizer = Tokenizer(tmp_path)
    middle = tokenizer.special["<|fim_middle|>"]
    assert middle not in tokenizer.encode("a <|fim_middle|> b")
    assert tokenizer.piece(middle) == b""
    assert middle not in tokenizer.vocabulary().values()


def test_a_tokenizer_without_hole_tokens_says_so(tokenizer_file: Path, tmp_path: Path) -> None:
    document = json.loads(tokenizer_file.read_text(encoding="utf-8"))
    document["added_tokens"] = [t for t in document["added_tokens"] if "fim" not in t["content"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    assert Tokenizer(tmp_path).fim is None


@pytest.mark.parametrize("content", [None, "", "<html>", "{}", '{"added_tokens": [1'])
def test_a_broken_file_is_one_clear_error(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(ModelCorruptError, match="models pull"):
        Tokenizer(file)


def test_the_real_tokenizer_keeps_text_and_control_tokens_apart(real_tokenizer: Tokenizer) -> None:
    names = [name for name in real_tokenizer.special if name.startswith("<")]
    assert {"<|fim_prefix|>", "<|im_end|>", "<|file_sep|>"} <= set(names)
    text = "x = [" + ", ".join(f'"{name}"' for name in names) + "]  # e\u0301 😀 你好\r\n\tdone"
    ids = real_tokenizer.encode(text)
    assert real_tokenizer.decode(ids) == text
    assert not set(ids) & set(real_tokenizer.special.values())
    assert real_tokenizer.special["<|endoftext|>"] == 151643
    assert real_tokenizer.fim is not None
    assert (real_tokenizer.fim.prefix, real_tokenizer.fim.middle, real_tokenizer.fim.suffix) == (
        151659,
        151660,
        151661,
    )
    assert real_tokenizer.encode("def add(a, b):") == [750, 912, 2877, 11, 293, 1648]

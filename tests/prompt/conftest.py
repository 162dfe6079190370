"""A byte-level tokenizer of about 900 tokens in Qwen's form: its word pattern, control tokens and NFC."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from assistant.prompt.tokenizer import Tokenizer as OurTokenizer

WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Qwen's own file calls these ordinary added tokens, which is what lets them slip into text.
NOT_SPECIAL = [
    "<tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
]
TEXT = '''
import os
def send(response_payload, response_pay, payload):
    """Returns the response, naïve café 你好 😀."""
    for index in range(10):
        if index == 0:
            return encode(response_payload)
        print("hello", index, payload)
    return response_payload
class Thing:
    def method(self, value):
        self.value = value
        return self.value + 1
'''


def write_tokenizer(path: Path) -> Path:
    """Trains the small tokenizer and writes its file."""
    library = Tokenizer(models.BPE())
    library.normalizer = normalizers.NFC()
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    library.train_from_iterator([TEXT] * 3, trainer)
    document = json.loads(library.to_str())
    first = library.get_vocab_size()
    document["added_tokens"] = [
        {
            "id": first + number,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": content in SPECIAL,
        }
        for number, content in enumerate(SPECIAL + NOT_SPECIAL)
    ]
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


@pytest.fixture(scope="session")
def tokenizer(tokenizer_file: Path) -> OurTokenizer:
    return OurTokenizer(tokenizer_file)


@pytest.fixture(scope="session")
def real_tokenizer(real_model: Path) -> OurTokenizer:
    return OurTokenizer(real_model)

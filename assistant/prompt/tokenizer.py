"""Text to ids and back, on the `tokenizers` library alone.

Text never becomes a control token: the added tokens are taken out before the library sees the file, so
`<|im_end|>` in a user's source is ordinary text. For byte-level vocabularies (Qwen, Llama 3, StarCoder)
every token's bytes are exact and `decode(encode(text)) == text` for any text, un-normalised text included.
Lone surrogates are read as U+FFFD.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from assistant.errors import ModelCorruptError

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(r"[<\[].*[>\]]", re.DOTALL)
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")

# (prefix, suffix, middle, pad, repository name, file separator), as the known families spell them.
_FIM_NAMES = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<repo_name>", "<file_sep>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", "", ""),  # the hole comes before the suffix
)


@dataclass(frozen=True)
class FimIds:
    """Ids of the fill-in-the-middle tokens; the last three are None where the model has none."""

    prefix: int
    suffix: int
    middle: int
    pad: int | None
    repo_name: int | None
    file_sep: int | None


@dataclass(frozen=True)
class Encoded:
    """One tokenised text: per token its id, the character offset where it ends, and the number of its word.

    A word is what the pre-tokenizer made; tokens never cross words. A token that ends inside a character
    carries the offset after that character.
    """

    ids: list[int]
    ends: list[int]
    words: list[int | None]


def _byte_alphabet() -> tuple[list[str], dict[str, int]]:
    """GPT-2's printable stand-in for each of the 256 bytes, and back."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = [""] * 256
    for byte in plain:
        letters[byte] = chr(byte)
    others = (byte for byte in range(256) if not letters[byte])
    for number, byte in enumerate(others):
        letters[byte] = chr(256 + number)
    return letters, {letter: byte for byte, letter in enumerate(letters)}


_LETTERS, _BYTES = _byte_alphabet()


class Tokenizer:
    """A model's tokenizer, read from its `tokenizer.json` (or the folder that holds it).

    `special` maps the text of each control token to its id, `end_ids` are those that end an answer, `fim`
    is None when the model has no fill-in-the-middle tokens, `size` is one more than the highest id. Raises
    ModelCorruptError.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        if path.is_dir():
            path = path / "tokenizer.json"
        try:
            source = path.read_text(encoding="utf-8")
            added, rest = _without_added(source)
            self._library = tokenizers.Tokenizer.from_str(rest)
        except OSError as error:
            raise ModelCorruptError(
                f"cannot read {path} ({error.strerror}): bring the model again with `tokenleap models pull`"
            ) from error
        except Exception as error:  # the library raises bare Exception for a bad file
            raise ModelCorruptError(
                f"{path} is not a tokenizer file: bring the model again with `tokenleap models pull`"
            ) from error
        self._library.no_truncation()
        self._library.no_padding()
        kinds = f"{self._library.decoder} {self._library.pre_tokenizer}"
        self.byte_level = "ByteLevel" in kinds
        if self.byte_level:
            # NFC would make the prompt differ from the file; every later step counts on equal bytes.
            self._library.normalizer = None
        self.special: dict[str, int] = {token["content"]: token["id"] for token in added}
        self._special_ids = frozenset(self.special.values())
        self.fim = _fim_ids(self.special)
        fim_ids = set() if self.fim is None else {i for i in vars(self.fim).values() if i is not None}
        self.end_ids = frozenset({token["id"] for token in added if token.get("special")} | fim_ids)
        self.size = max(self._library.get_vocab_size(with_added_tokens=True), 1 + max(self._special_ids, default=-1))
        self._pieces: dict[int, bytes] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; what spells a control token is ordinary text too."""
        return list(self._encoding(text).ids)

    def encode_parts(self, text: str) -> Encoded:
        """Ids of `text` with where each token ends and which word it belongs to."""
        encoding = self._encoding(text)
        return Encoded(list(encoding.ids), [end for _, end in encoding.offsets], list(encoding.word_ids))

    def decode(self, ids: Iterable[int]) -> str:
        """Text of all ids together; control tokens have none.

        Bytes that are no UTF-8 become U+FFFD; an unfinished character at the end is left out.
        """
        return codecs.getincrementaldecoder("utf-8")("replace").decode(self.spell(ids))

    def spell(self, ids: Iterable[int]) -> bytes:
        """Bytes of all ids, one after the other."""
        return b"".join([self.piece(i) for i in ids])

    def piece(self, token: int) -> bytes:
        """Bytes of one token; empty for control tokens and for ids without a token."""
        found = self._pieces.get(token)
        if found is None:
            text = None if token in self._special_ids or token < 0 else self._library.id_to_token(token)
            found = b"" if text is None else self._to_bytes(text)
            self._pieces[token] = found
        return found

    def vocabulary(self) -> dict[str, int]:
        """Every ordinary token in the vocabulary's own spelling, see `letters`. Costs about 0.1 s for
        150,000 tokens.
        """
        tokens: dict[str, int] = self._library.get_vocab(with_added_tokens=False)
        for text, token in self.special.items():
            if tokens.get(text) == token:
                del tokens[text]
        return tokens

    def letters(self, data: bytes) -> str:
        """`data` in the vocabulary's own spelling; only for byte-level vocabularies."""
        return "".join([_LETTERS[byte] for byte in data])

    def _encoding(self, text: str) -> tokenizers.Encoding:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            text = _SURROGATE.sub("\ufffd", text)
        return self._library.encode(text, add_special_tokens=False)

    def _to_bytes(self, text: str) -> bytes:
        if self.byte_level:
            try:
                return bytes([_BYTES[letter] for letter in text])
            except KeyError:  # an added token that is ordinary text, such as a run of spaces
                return text.encode("utf-8", "replace")
        byte = _BYTE.fullmatch(text)
        if byte is not None:
            return bytes([int(byte.group(1), 16)])
        return text.replace("▁", " ").encode("utf-8", "replace")


class StreamDecoder:
    """Text of ids that arrive in parts: never half a character; the parts joined equal `decode` of all ids.

    The first `skip` bytes are left out (the healed piece, which the file has already).
    """

    def __init__(self, tokenizer: Tokenizer, skip: int = 0) -> None:
        self._tokenizer = tokenizer
        self._skip = skip
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, ids: Sequence[int]) -> str:
        """The text that `ids` complete."""
        data = self._tokenizer.spell(ids)
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        return self._decoder.decode(data[skipped:])

    def flush(self) -> str:
        """The end: an unfinished character is dropped, so this is always empty."""
        self._decoder.reset()
        return ""


def _without_added(source: str) -> tuple[list[dict[str, Any]], str]:
    """The control tokens of a tokenizer file, and the file without them."""
    found = re.search(r'"added_tokens"\s*:\s*(?=\[)', source)
    if found is None:
        json.loads(source)  # raises when it is no JSON at all
        return [], source
    # Only this list is parsed: the vocabulary behind it is megabytes that the library reads itself.
    tokens, end = json.JSONDecoder().raw_decode(source, found.end())
    control: list[dict[str, Any]] = []
    ordinary: list[dict[str, Any]] = []
    for token in tokens:
        is_control = token.get("special") or _CONTROL.fullmatch(token["content"])
        (control if is_control else ordinary).append(token)
    return control, source[: found.end()] + json.dumps(ordinary) + source[end:]


def _fim_ids(special: dict[str, int]) -> FimIds | None:
    for prefix, suffix, middle, *extras in _FIM_NAMES:
        if prefix in special and suffix in special and middle in special:
            pad, repo_name, file_sep = (special.get(name) for name in extras)
            return FimIds(special[prefix], special[suffix], special[middle], pad, repo_name, file_sep)
    return None

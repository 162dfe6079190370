"""The piece before the cursor is spelt again, byte by byte, and every way to go on stays open."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.prompt.healing import MOST_BYTES, MOST_TOKENS, Healing, taken_back
from assistant.prompt.tokenizer import Tokenizer

TEXTS = st.lists(
    st.one_of(
        st.sampled_from(["response_payload", " return", "\n", "    ", "\n        ", '("', "):", "你好", "😀", "x"]),
        st.text(max_size=8),
    ),
    max_size=10,
).map("".join)


def heal(tokenizer: Tokenizer, prefix: str) -> tuple[list[int], bytes]:
    encoded = tokenizer.encode_parts(prefix)
    count = taken_back(tokenizer, encoded)
    kept = encoded.ids[: len(encoded.ids) - count]
    return kept, tokenizer.spell(encoded.ids[len(kept) :])


@given(prefix=TEXTS, seed=st.integers(0, 2**32))
def test_anything_allowed_spells_the_prefix_again(tokenizer: Tokenizer, prefix: str, seed: int) -> None:
    kept, healed = heal(tokenizer, prefix)
    assert tokenizer.spell(kept) + healed == prefix.encode()
    healing = Healing(tokenizer, healed)
    choose = random.Random(seed)
    ids: list[int] = []
    while (allowed := healing(ids)) is not None:
        assert allowed
        ids.append(choose.choice(list(allowed)))
    spelt = tokenizer.spell(kept) + tokenizer.spell(ids)
    assert spelt.startswith(prefix.encode())
    assert len(ids) <= max(1, len(healed))


@given(prefix=TEXTS, more=TEXTS)
def test_the_true_continuation_is_always_allowed(tokenizer: Tokenizer, prefix: str, more: str) -> None:
    _, healed = heal(tokenizer, prefix)
    tail = (healed + more.encode()).decode("utf-8", "ignore")
    ids = tokenizer.encode(tail) if tail.encode() == healed + more.encode() else tokenizer.encode(more)
    if not tokenizer.spell(ids).startswith(healed):
        return  # the healed piece begins inside a character, so no text alone spells it
    healing = Healing(tokenizer, healed)
    for length in range(len(ids)):
        allowed = healing(ids[:length])
        assert allowed is None or ids[length] in allowed
    assert healing.strip(ids) == more


@given(prefix=TEXTS, more=st.sampled_from(["oad)", "x", " y", "()", "_a b", ".", "1", "é"]))
def test_what_stays_is_a_beginning_of_the_whole_tokenisation(tokenizer: Tokenizer, prefix: str, more: str) -> None:
    kept, _ = heal(tokenizer, prefix)
    last_word = tokenizer.encode_parts(prefix)
    whole = sum(word == last_word.words[-1] for word in last_word.words) if last_word.words else 0
    if whole > len(last_word.ids) - len(kept):
        return  # nothing was taken back, or only the last of a long word
    assert tokenizer.encode(prefix + more)[: len(kept)] == kept


@given(prefix=TEXTS)
def test_little_is_taken_back(tokenizer: Tokenizer, prefix: str) -> None:
    encoded = tokenizer.encode_parts(prefix)
    count = taken_back(tokenizer, encoded)
    healed = tokenizer.spell(encoded.ids[len(encoded.ids) - count :])
    assert count <= MOST_TOKENS
    assert count <= 1 or len(healed) <= MOST_BYTES
    assert not prefix.endswith("\n") or count == 0


def test_tokens_outside_the_constraint_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="does not spell"):
        Healing(tokenizer, b"return")(tokenizer.encode("x"))


def test_the_constraint_ends_with_the_healed_piece(tokenizer: Tokenizer) -> None:
    healing = Healing(tokenizer, b"re")
    assert healing(tokenizer.encode("return")) is None
    assert Healing(tokenizer, b"")([]) is None
    assert not set(healing([]) or ()) & set(tokenizer.special.values())


@pytest.mark.parametrize(
    ("prefix", "healed"),
    [
        ("return encode(response_payl", "_payl"),
        ("    return ", " "),
        ("if x:\n        ", "        "),
        ('foo("', '("'),
        ("def f(x):", "):"),
        ("x = 1\n", ""),
        ("x = 12", ""),  # digits stand alone in this vocabulary: nothing can follow in the same token
        ("", ""),
        ("x" * 300, None),
    ],
)
def test_what_the_real_vocabulary_takes_back(real_tokenizer: Tokenizer, prefix: str, healed: str | None) -> None:
    _, piece = heal(real_tokenizer, prefix)
    if healed is None:
        assert 0 < len(piece) <= MOST_BYTES
    else:
        assert piece == healed.encode()


def test_a_half_typed_name_can_become_the_whole_one_in_the_real_vocabulary(real_tokenizer: Tokenizer) -> None:
    kept, healed = heal(real_tokenizer, "    return encode(response_payl")
    whole = real_tokenizer.encode("    return encode(response_payload)")
    assert whole[: len(kept)] == kept
    healing = Healing(real_tokenizer, healed)
    new = whole[len(kept) :]
    for length in range(len(new)):
        allowed = healing(new[:length])
        assert allowed is None or new[length] in allowed
    assert healing.strip(new) == "oad)"

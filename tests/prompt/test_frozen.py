"""The prompt layout is frozen: heads are trained in it, so these ids never change within a format.

If one of these fails, put the old layout back, or give the format a new name and train anew.
"""

from __future__ import annotations

import hashlib

from assistant.prompt.budget import DEFAULT_BUDGET, PromptBudget
from assistant.prompt.fim import DEFAULT_LAYOUT, Layout, build
from assistant.prompt.tokenizer import Tokenizer

SHORT = "def send(payload):\n    return enc"
SUFFIX = "\n\n\nprint(send(1))\n"
LINES = [f"def function_{number}(value):\n    return value + {number}\n\n" for number in range(40)]
LONG = "".join(LINES) + SHORT
BORDER = LONG.index("    return value + 25")  # the line at character 1200, the last 400 that is 400 before the cursor's


def test_every_choice() -> None:
    assert (
        Layout(
            order="psm",
            near=400,
            header="none",
            blank_suffix=False,
            without_suffix="left-to-right",
            heal_spaces=True,
        )
        == DEFAULT_LAYOUT
        == Layout()
    )
    assert PromptBudget(prefix_tokens=1536, suffix_tokens=256) == DEFAULT_BUDGET


def test_a_short_file_stands_behind_the_middle_token(tokenizer: Tokenizer) -> None:
    prompt = build(tokenizer, SHORT, SUFFIX)
    special = tokenizer.special
    assert prompt.healed == b" enc"
    assert prompt.ids == [
        special["<|fim_prefix|>"],
        special["<|fim_suffix|>"],
        *tokenizer.encode(SUFFIX),
        special["<|fim_middle|>"],
        *tokenizer.encode("def send(payload):\n    return"),
    ]


def test_a_long_file_has_its_far_part_in_front(tokenizer: Tokenizer) -> None:
    prompt = build(tokenizer, LONG, SUFFIX, budget=PromptBudget(4000, 256))
    special = tokenizer.special
    assert prompt.healed == b" enc"
    assert prompt.ids == [
        special["<|fim_prefix|>"],
        *tokenizer.encode(LONG[:BORDER]),
        special["<|fim_suffix|>"],
        *tokenizer.encode(SUFFIX),
        special["<|fim_middle|>"],
        *tokenizer.encode(LONG[BORDER : -len(" enc")]),
    ]


def test_without_a_suffix_the_prompt_is_the_text(tokenizer: Tokenizer) -> None:
    prompt = build(tokenizer, SHORT, "\n\n")
    assert (prompt.kind, prompt.healed) == ("left-to-right", b" enc")
    assert prompt.ids == tokenizer.encode("def send(payload):\n    return")


def test_the_ids_of_the_real_vocabulary(real_tokenizer: Tokenizer) -> None:
    short = build(real_tokenizer, SHORT, SUFFIX)
    assert short.healed == b" enc"
    assert short.ids == [
        *(151659, 151661),  # prefix, suffix
        *(1406, 1350, 47617, 7, 16, 1171),  # the two blank lines, print(send(1)), newline
        151660,  # middle
        *(750, 3624, 26772, 982, 262, 470),  # def send(payload):, newline, blanks, return
    ]
    long = build(real_tokenizer, LONG, SUFFIX)
    assert hashlib.sha256(repr(long.ids).encode()).hexdigest() == (
        "31ca6aa0e0656fdf42041bc825d93e966998ed2b784f9453a5b793a5944bc291"
    )

"""Every layout puts the control tokens once, in order, and the file's text between them as ordinary text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.prompt.budget import PromptBudget
from assistant.prompt.fim import Layout, Prompt, build
from assistant.prompt.tokenizer import FimIds, Tokenizer

SAYS_TOKENS = 'STOP = ["<|fim_middle|>", "<|endoftext|>", "<|im_end|>"]\n'


def fim_of(tokenizer: Tokenizer) -> FimIds:
    assert tokenizer.fim is not None
    return tokenizer.fim


def control_ids(tokenizer: Tokenizer, prompt: Prompt) -> list[int]:
    special = set(tokenizer.special.values())
    return [i for i in prompt.ids if i in special]


@given(prefix=st.text(max_size=80), suffix=st.text(max_size=80))
def test_prefix_suffix_middle(tokenizer: Tokenizer, prefix: str, suffix: str) -> None:
    fim = fim_of(tokenizer)
    prompt = build(tokenizer, prefix, suffix)
    if not suffix.strip():
        assert prompt.kind == "left-to-right"
        assert prompt.ids
        assert tokenizer.spell(prompt.ids) + prompt.healed == prefix.encode()
        return
    assert control_ids(tokenizer, prompt) == [fim.prefix, fim.suffix, fim.middle]
    assert prompt.ids[0] == fim.prefix
    assert prompt.ids[-1] == fim.middle
    hole = prompt.ids.index(fim.suffix)
    assert tokenizer.spell(prompt.ids[1:hole]) + prompt.healed == prefix.encode()
    assert tokenizer.decode(prompt.ids[hole + 1 : -1]) == suffix


def test_text_that_spells_control_tokens_is_ordinary_text(tokenizer: Tokenizer) -> None:
    fim = fim_of(tokenizer)
    prompt = build(tokenizer, SAYS_TOKENS + "for s in STOP:\n    ", "\nreturn 1\n" + SAYS_TOKENS)
    assert control_ids(tokenizer, prompt) == [fim.prefix, fim.suffix, fim.middle]
    assert tokenizer.decode(prompt.ids).count("<|fim_middle|>") == 2


def test_the_other_orders(tokenizer: Tokenizer) -> None:
    fim = fim_of(tokenizer)
    a, b = tokenizer.encode("a\n"), tokenizer.encode("\nb")
    spm = build(tokenizer, "a\n", "\nb", layout=Layout(order="spm"))
    assert spm.ids == [fim.suffix, *b, fim.prefix, *a, fim.middle]
    joint = build(tokenizer, "a\n", "\nb", layout=Layout(order="joint"))
    assert joint.ids == [fim.prefix, fim.suffix, *b, fim.middle, *a]


def test_the_header_names_repository_and_file(tokenizer: Tokenizer) -> None:
    fim = fim_of(tokenizer)
    layout = Layout(header="repository")
    prompt = build(tokenizer, "a\n", "\nb", layout=layout, path="src/<|fim_pad|>.py", repository="thing")
    assert control_ids(tokenizer, prompt) == [
        fim.repo_name,
        fim.file_sep,
        fim.prefix,
        fim.suffix,
        fim.middle,
    ]
    assert tokenizer.decode(prompt.ids).startswith("thing\nsrc/<|fim_pad|>.py\na\n")
    assert build(tokenizer, "a\n", "\nb", layout=layout) == build(tokenizer, "a\n", "\nb")


def test_a_blank_suffix_counts_only_when_asked(tokenizer: Tokenizer) -> None:
    assert build(tokenizer, "a = ", "\n\n").kind == "left-to-right"
    assert build(tokenizer, "a = ", "\n\n", layout=Layout(blank_suffix=True)).kind == "fim"
    assert build(tokenizer, "a = ", "", layout=Layout(without_suffix="fim")).kind == "fim"
    assert build(tokenizer, "a = ", "b", budget=PromptBudget(100, 0)).kind == "left-to-right"


def test_an_empty_file_still_has_a_prompt(tokenizer: Tokenizer) -> None:
    assert build(tokenizer, "", "").ids == [tokenizer.special["<|endoftext|>"]]


def test_healing_can_be_left_out(tokenizer: Tokenizer) -> None:
    prefix = "return encode(response_payl"
    assert build(tokenizer, prefix, "\nx").healed
    assert build(tokenizer, prefix, "\nx", healing=False).healed == b""
    assert build(tokenizer, "return ", "\nx", layout=Layout(heal_spaces=False)).healed == b""


def test_typing_inside_a_word_leaves_the_prompt_as_it_is(real_tokenizer: Tokenizer) -> None:
    text = "def send(response_payload):\n    return response_payload"
    whole = [
        build(real_tokenizer, text[:end], "\n\nsend(1)\n") for end in range(len(text) - 6, len(text) + 1)
    ]
    assert len({tuple(prompt.ids) for prompt in whole}) == 1


def test_a_model_without_hole_tokens_goes_left_to_right(tokenizer_file: Path, tmp_path: Path) -> None:
    text = tokenizer_file.read_text(encoding="utf-8").replace("<|fim_", "<|other_")
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    assert build(Tokenizer(tmp_path), "a = ", "\nb = 2\n").kind == "left-to-right"


@pytest.mark.parametrize("order", ["psm", "spm", "joint"])
def test_long_files_are_cut_to_the_budget(tokenizer: Tokenizer, order: str) -> None:
    layout = Layout(order=order)  # type: ignore[arg-type]
    text = "value = compute(value)\n" * 5000
    prompt = build(tokenizer, text, text, budget=PromptBudget(120, 40), layout=layout)
    assert 70 < len(prompt.ids) <= 120 + 40 + 3
    assert 0 < prompt.prefix_start < len(text)
    assert 0 < prompt.suffix_end < len(text)

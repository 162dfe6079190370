"""Every layout puts the control tokens once, in order, and the file's text between them as ordinary text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.prompt.budget import PromptBudget
from assistant.prompt.fim import Layout, Prompt, build
from assistant.prompt.tokenizer import FimIds, Tokenizer

LINES = "".join(f"def function_{n}(value):\n    return value + {n}\n\n" for n in range(400))
TEXTS = st.one_of(st.text(max_size=80), st.lists(st.text("ab \n", max_size=9), max_size=40).map("\n".join))
SAYS_TOKENS = 'STOP = ["<|fim_middle|>", "<|endoftext|>", "<|im_end|>"]\n'


def fim_of(tokenizer: Tokenizer) -> FimIds:
    assert tokenizer.fim is not None
    return tokenizer.fim


def control_ids(tokenizer: Tokenizer, prompt: Prompt) -> list[int]:
    special = set(tokenizer.special.values())
    return [i for i in prompt.ids if i in special]


@pytest.mark.parametrize("near", [0, 20, 400])
@given(prefix=TEXTS, suffix=st.text(max_size=80))
def test_prefix_suffix_middle(tokenizer: Tokenizer, near: int, prefix: str, suffix: str) -> None:
    fim = fim_of(tokenizer)
    prompt = build(tokenizer, prefix, suffix, layout=Layout(near=near))
    if not suffix.strip():
        assert prompt.kind == "left-to-right"
        assert prompt.ids
        assert tokenizer.spell(prompt.ids) + prompt.healed == prefix.encode()
        return
    assert control_ids(tokenizer, prompt) == [fim.prefix, fim.suffix, fim.middle]
    assert prompt.ids[0] == fim.prefix
    hole, middle = prompt.ids.index(fim.suffix), prompt.ids.index(fim.middle)
    far, behind = prompt.ids[1:hole], prompt.ids[middle + 1 :]
    assert tokenizer.spell([*far, *behind]) + prompt.healed == prefix.encode()
    assert tokenizer.decode(prompt.ids[hole + 1 : middle]) == suffix
    assert near or not behind


@given(end=st.integers(0, len(LINES)), near=st.sampled_from([40, 100, 400]))
def test_the_near_part_stands_behind_the_middle_token(tokenizer: Tokenizer, end: int, near: int) -> None:
    prompt = build(tokenizer, LINES[:end], "\nend\n", layout=Layout(near=near))
    behind = tokenizer.decode(prompt.ids[prompt.ids.index(fim_of(tokenizer).middle) + 1 :])
    assert (behind + prompt.healed.decode()) in LINES[:end]
    line = LINES.rfind("\n", 0, end) + 1
    before = len(behind) + len(prompt.healed) - (end - line)
    assert before == line if line < 2 * near else near <= before <= 2 * near + 40


def test_only_the_end_of_the_prompt_changes_while_somebody_types(tokenizer: Tokenizer) -> None:
    layout, budget = Layout(near=200), PromptBudget(400, 60)
    middle = fim_of(tokenizer).middle
    fronts, last = [], None
    for end in range(6000, 7500):
        prompt = build(tokenizer, LINES[:end], "\n\nend()\n", layout=layout, budget=budget)
        at = prompt.ids.index(middle) + 1
        if not fronts or fronts[-1] != prompt.ids[:at]:
            fronts.append(prompt.ids[:at])
        elif last is not None:
            kept = next(
                (n for n, pair in enumerate(zip(last, prompt.ids, strict=False)) if len({*pair}) == 2), len(last)
            )
            assert len(prompt.ids) - kept <= 8
        last = prompt.ids
    assert len(fronts) <= 2 + 1500 // 200 + 1500 // 100


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
    layout = Layout(near=0, header="repository")
    prompt = build(tokenizer, "a\n", "\nb", layout=layout, path="src/<|fim_pad|>.py", repository="thing")
    assert control_ids(tokenizer, prompt) == [
        fim.repo_name,
        fim.file_sep,
        fim.prefix,
        fim.suffix,
        fim.middle,
    ]
    assert tokenizer.decode(prompt.ids).startswith("thing\nsrc/<|fim_pad|>.py\na\n")
    plain = build(tokenizer, "a\n", "\nb", layout=Layout(near=0))
    assert build(tokenizer, "a\n", "\nb", layout=layout) == plain


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
    whole = [build(real_tokenizer, text[:end], "\n\nsend(1)\n") for end in range(len(text) - 6, len(text) + 1)]
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

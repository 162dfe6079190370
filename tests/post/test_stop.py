"""Stopping early loses nothing: the cleaned answer is the same as if generation had gone on."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.post.clean import REASONS, clean
from assistant.post.context import AnswerContext
from assistant.post.stop import StopRule

PLACES = [
    ("python", "def f(xs):\n    ▮\n"),
    ("python", "def f(xs):▮\n    return xs\n"),
    ("python", "def f(xs):\n    for x in xs:\n        ▮\n    return xs\n"),
    ("python", "class A:\n    x = 1\n    ▮\n\n    def g(self):\n        pass\n"),
    ("python", "import os\n\n▮"),
    ("python", "x = foo(▮)\nprint(x)\n"),
    ("python", "def f():\n▮    return 1\n"),
    ("python", "    # a comment▮\n"),
    ("javascript", "function f() {\n  ▮\n}\n"),
    ("javascript", "function f() {▮}\n"),
    ("go", "func f() {\n\tswitch x {\n\t▮\n\t}\n}\n"),
    ("lua", "function f()\n  ▮\nend\n"),
    ("markdown", "# Title\n\n▮\n"),
    (None, "some ▮ text\n"),
]
PIECES = st.sampled_from(
    [
        *(
            "\n",
            "\n",
            "\n",
            "\n\n",
            "    ",
            "        ",
            "  ",
            "\t",
            " ",
            "}",
            ")",
            "});",
            "} else {",
            "end",
            "fi",
        ),
        *(
            "return xs",
            "return 1",
            "x = 1",
            "def g(self):",
            "class B:",
            "else:",
            "elif x:",
            "case 1:",
            "pass",
        ),
        *(
            "```",
            "```python\n",
            "Here is the code:",
            "The missing code",
            "<|fim_pad|>",
            "<|im",
            "\ufffd",
            '"""',
        ),
        *(
            "for x in xs:\n        ",
            "print(x)",
            "def f(xs):\n",
            "x += 1\n    x += 1\n    x += 1\n",
            "ab" * 30,
        ),
        *("# note", "\r\n", ",", "0, " * 20, "a\n    b\n    a\n    b\n", "const a = () => {\n", "\n\n\n\n\n"),
    ]
)
ANSWERS = st.lists(st.one_of(PIECES, st.text("ab \n{}():#`", max_size=5)), max_size=14).map("".join)


@st.composite
def contexts(draw: st.DrawFn) -> AnswerContext:
    language, place = draw(st.sampled_from(PLACES))
    prefix, suffix = place.split("▮")
    return AnswerContext(prefix, suffix, language, draw(st.booleans()))


def stops_at(raw: str, context: AnswerContext) -> int | None:
    stop = StopRule(context)
    return next((length for length in range(len(raw) + 1) if stop(raw[:length])), None)


@settings(max_examples=400)
@given(context=contexts(), raw=ANSWERS, finish=st.sampled_from(["stop", "length"]))
def test_cleaning_what_was_stopped_equals_cleaning_all(context: AnswerContext, raw: str, finish: str) -> None:
    length = stops_at(raw, context)
    if length is not None:
        for cut in {length, (length + len(raw)) // 2}:
            assert clean(raw[:cut], context, finish) == clean(raw, context, finish)


@given(context=contexts(), raw=ANSWERS, cuts=st.lists(st.integers(0, 200), max_size=5))
def test_the_rule_depends_on_the_text_alone_and_stays_true(context: AnswerContext, raw: str, cuts: list[int]) -> None:
    told = StopRule(context)
    for cut in [*cuts, *sorted(cuts)]:
        assert told(raw[:cut]) == StopRule(context)(raw[:cut])
    stopped = [StopRule(context)(raw[:length]) for length in range(len(raw) + 1)]
    assert stopped == sorted(stopped)


@settings(max_examples=400)
@given(context=contexts(), raw=ANSWERS, finish=st.sampled_from(["stop", "length"]))
def test_what_is_settled_is_shown_in_the_end(context: AnswerContext, raw: str, finish: str) -> None:
    final = clean(raw, context, finish).text
    stop = StopRule(context)
    shown = ""
    for length in range(len(raw) + 1):
        if stop(raw[:length]):
            break
        settled = stop.settled()
        assert settled.startswith(shown)
        assert final.startswith(settled)
        shown = settled


@given(context=contexts(), raw=ANSWERS, finish=st.sampled_from(["stop", "length", "scope", "cancelled"]))
def test_an_empty_answer_has_a_reason_and_no_other_has(context: AnswerContext, raw: str, finish: str) -> None:
    cleaned = clean(raw, context, finish)
    if cleaned.text:
        assert cleaned.text.strip()
        assert cleaned.reason is None
    else:
        assert cleaned.reason in REASONS
    assert "\ufffd" not in cleaned.text
    assert "<|fim_pad|>" not in cleaned.text
    assert "\r" not in cleaned.text
    if not context.multiline:
        assert cleaned.text.strip().count("\n") == 0


def at(place: str, language: str | None = "python", *, multiline: bool = True) -> AnswerContext:
    prefix, suffix = place.split("▮")
    return AnswerContext(prefix, suffix, language, multiline)


def test_one_line_stops_at_its_end() -> None:
    context = at("foo▮\n", multiline=False)
    assert not StopRule(context)(" = 1")
    assert not StopRule(context)("\n")
    assert StopRule(context)(" = 1\n")
    assert StopRule(context)("\nfoo = 1\n")


def test_a_block_stops_at_the_first_letter_further_out() -> None:
    stop = StopRule(at("def f():\n    ▮\n"))
    assert not stop("x = 1\n    return x\n\n")
    assert stop("x = 1\n    return x\n\nd")


def test_blank_space_without_end_stops() -> None:
    for multiline in (False, True):
        assert StopRule(at("def f():\n    ▮\n", multiline=multiline))("\n" * 8)


def test_a_long_answer_costs_its_new_characters_alone() -> None:
    stop = StopRule(at("def f():\n    ▮\n"))
    text = "".join(f"value_{n} = compute({n}) + {n * n}; name_{'abcdefg'[n % 7] * (n % 5 + 1)}\n    " for n in range(3))
    assert not stop(text)
    read = stop._scan._read
    assert read == len(text)
    assert not stop(text + "x")
    assert stop._scan._read == read + 1

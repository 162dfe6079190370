"""What is shown of an answer, place by place, and the reason where nothing is."""

from __future__ import annotations

import pytest

from assistant.post.clean import Answer, Cleaned, answer, clean
from assistant.post.context import AnswerContext
from assistant.post.multiline import decide


def cleaned(place: str, raw: str, language: str | None, *, block: bool | None = None) -> str:
    prefix, suffix = place.split("▮")
    multiline = decide(prefix, suffix, language) if block is None else block
    return clean(raw, AnswerContext(prefix, suffix, language, multiline)).text


BODY = "def f():\n    ▮\n"
CASES = [
    # blanks at the start are the answer's own, those at the end are not
    ("foo▮\nprint(foo)\n", " = var  \n", " = var"),
    ("a = ▮b\n", "c + ", "c + "),
    ("a = ▮ + b\n", "c ", "c"),
    # one line
    ("x = 1\ny = ▮\n", "2\nz = 3\n", "2"),
    ("# the sum▮\n", "\ntotal = a + b\nmore", "\ntotal = a + b"),
    ("print(▮)\n", "\nx", ""),
    # a whole line above another keeps its line end
    ("def f():\n▮    return 1\n", "    x = 2\n    y = 3\n", "    x = 2\n"),
    ("d = {\n▮    }\n", "        1: 2,\n", "        1: 2,\n"),
    # the block ends where a line leaves it
    (BODY, "x = 1\n\n    return x\n\n\ndef g():\n    pass", "x = 1\n\n    return x"),
    ("def f():▮\n", "\n    return 1\n\nprint(f())", "\n    return 1"),
    ("if a:▮\n", "\n    b()\nelse:\n    c()\nd()", "\n    b()\nelse:\n    c()"),
    (BODY, '"""Text.\n\nfurther out\n"""\n    return 1\ny = 2', '"""Text.\n\nfurther out\n"""\n    return 1'),
    ("class A:\n    ▮\n", "x = 1\n\n    def g(self):\n        pass\n", "x = 1"),
    ("import os\n# adds\n▮", "def f():\n    return 1\n\n\ndef g():", "def f():\n    return 1"),
    (
        "def fib(n):\n    if n == 0:\n        return 0\n    ▮\n\nprint(fib(5))\n",
        "elif n == 1:\n        return 1\n    return 2\n\nprint(fib(5))",
        "elif n == 1:\n        return 1\n    return 2",
    ),
    ("for x in xs:\n    if x:\n        ▮\n    done(x)\n", "y()\n    done(x)\nz()", "y()"),
    # what the file has below is not said again
    (BODY + "    return 1\n    y()\n", "x = 1\n    return 1\n    y()\n    z()", "x = 1"),
    (BODY + "    return 1\n", "x = 1\n    return 1\n    z()", "x = 1"),
    (BODY + "    return 1\n", "x = 1\n    return 1", "x = 1"),
    (BODY + "    y()\n    return 1\n", "y()\n    z()\n    y()\n    return 1", "y()\n    z()"),
    ("def f():\n▮    return 1\n", "    return 1\n", ""),
    # nor what stands behind the cursor
    ("print(▮)\n", "format(total))", "format(total)"),
    ("print(▮)\n", "format(total)", "format(total)"),
    ('x = "▮"\n', 'hello"', "hello"),
    ('x = ["▮"]\n', 'a", "b"]', 'a", "b'),
    ('print("Hello ▮ World!")\n', '")', ""),
    ("foo(▮ + b)\n", "bar(a)", "bar(a)"),
    ("foo(\n    a,\n    b▮  # why\n", ")", ")"),
    ("if x▮:\n", " == 1:", " == 1"),
    ("y = a ▮ + b * c\n", "- d + b * c", "- d"),
    ("f(▮, key)\n", "value, key)", "value"),
    # repetition
    (BODY, "x = 1\n    x = 1\n    x = 1\n    x = 1", "x = 1"),
    (BODY, "a()\n    b()\n    a()\n    b()\n    a()", "a()\n    b()"),
    ("x = [▮\n", "1, 0, " * 40, "1, 0,"),
    (BODY, "# " + "-" * 70 + "\n    x = 1", "# " + "-" * 70 + "\n    x = 1"),
    (
        BODY,
        "\n".join(f"    x{n} = {n}" for n in range(9)).strip(),
        "\n".join(f"    x{n} = {n}" for n in range(5)).strip(),
    ),
    # control tokens and broken bytes
    (BODY, "return 1<|endoftext|>more", "return 1"),
    (BODY, "return '\ufffd", "return '"),
    # fences and prose
    (BODY, "```python\nreturn 1\n```\nThis", "return 1"),
    (BODY, "return 1\n```\nThis returns one.", "return 1"),
    (BODY, "```python\ndef f():\n    x = 1\n    return x\n```", "x = 1\n    return x"),
    (BODY, "```python\ndef g():\n    x = 1\n```", ""),
    (BODY, "Here is the code you asked for:\n\n```python\nreturn 1\n```", "return 1"),
    (BODY, "Here is the code you asked for, friend.", ""),
    (BODY, "```\nif x:\n    y()\n```", "if x:\n        y()"),
    ("x = ▮\n", "```python\nx = 5\n```", "5"),
    ("x = ▮\n", "```python\n5\n```", "5"),
    # too little
    ("foo(▮\n", ", ", ","),
    ("foo▮\n", ".", ""),
    (BODY, "\n\n\n\n\n\n", ""),
]


@pytest.mark.parametrize(("place", "raw", "shown"), CASES)
def test_python(place: str, raw: str, shown: str) -> None:
    assert cleaned(place, raw, "python") == shown


@pytest.mark.parametrize(
    ("place", "raw", "shown"),
    [
        (
            "function f() {\n  ▮\n",
            "a();\n  if (b) {\n    c();\n  } else {\n    d();\n  }\n}\n\nfunction g() {",
            "a();\n  if (b) {\n    c();\n  } else {\n    d();\n  }\n}",
        ),
        (
            "function f() {\n  ▮\n}\n",
            "a();\n  if (b) {\n    c();\n  }\n}\n\nf",
            "a();\n  if (b) {\n    c();\n  }",
        ),
        ("function f() {\n  ▮\n}\n", "a();\n}", "a();"),
        ("function f() {▮}\n", "\n  a();\n}\n", "\n  a();\n"),
        ("function f() {▮\n}\n", "\n  a();\n}\n", "\n  a();"),
        ("function f() {▮\n", "\n  a();\n}\n\n", "\n  a();\n}"),
        ("function f() {\n  a();\n  ▮\n  b();\n}\n", "c();\n}\nd();", "c();"),
        ("xs.forEach((x) => {\n  ▮\n});\n", "a(x);\n});\nb();", "a(x);"),
        ("if (a) {▮\n", "\n  b();\n} else {\n  c();\n}\nd();", "\n  b();\n} else {\n  c();\n}"),
        ("const s = `▮\n", "a`;\nb", "a`;"),
    ],
)
def test_braces(place: str, raw: str, shown: str) -> None:
    assert cleaned(place, raw, "javascript") == shown


@pytest.mark.parametrize(
    ("language", "place", "raw", "shown"),
    [
        (
            "go",
            "func f() {\n\tfor {\n\t\t▮\n\t}\n\treturn\n}\n",
            "x++\n\t\ty++\n\t}\n\treturn",
            "x++\n\t\ty++",
        ),
        (
            "go",
            "\tswitch x {▮\n\t}\n",
            "\n\tcase 1:\n\t\ta()\n\tdefault:\n\t\tb()\n\t}\n",
            "\n\tcase 1:\n\t\ta()\n\tdefault:\n\t\tb()",
        ),
        ("cpp", "class A {▮\n};\n", "\n public:\n  int x;\n};\n", "\n public:\n  int x;"),
        ("c", "int f() {\n  ▮\n}\n", "a();\n#ifdef B\n  b();\n#endif\n}\n", "a();\n#ifdef B\n  b();\n#endif"),
        (
            "lua",
            "function f()\n  ▮\n",
            "a()\n  if b then\n    c()\n  end\nend\nd()",
            "a()\n  if b then\n    c()\n  end\nend",
        ),
        ("lua", "function f()\n  ▮\nend\n", "a()\nend\nd()", "a()"),
        ("shellscript", "if a; then\n  ▮\nfi\n", "b\nfi\nc", "b"),
        ("proto", "message Tip {\n  bool eject = 1;\n  ▮\n}\n", "string a = 2;\n}\n", "string a = 2;"),
        ("sas", "  keep_anal=%str(&dsin_anal_keep▮\n.),    \n", ".),\n" * 40, ".),"),
        ("plaintext", "Hello world\nHello ▮\nHello world\n", "world\nHello world\n", "world"),
        ("markdown", "Run:\n\n▮\n", "```sh\nls\n```", "```sh"),
        (None, "a ▮\n", "The code is here\nx", "The code is here"),
    ],
)
def test_other_languages(language: str | None, place: str, raw: str, shown: str) -> None:
    assert cleaned(place, raw, language) == shown


def test_the_cut_line_of_a_block_is_dropped_when_the_length_was_used_up() -> None:
    context = AnswerContext("def f():\n    ", "\n", "python", True)
    assert clean("a = 1\n    retu", context, "length").text == "a = 1"
    assert clean("a = 1\n    retu", context, "stop").text == "a = 1\n    retu"
    assert clean("a = compu", context, "length").text == "a = compu"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", "end"),
        (" \n ", "blank"),
        ("<|fim_pad|>", "special"),
        ("Here is the code you asked for.", "prose"),
        ("```python\ndef g():\n    pass\n```", "fence"),
        ("\nprint(1)", "scope"),
        ("return 1\n", "overlap"),
        ("=", "short"),
    ],
)
def test_an_empty_answer_says_why(raw: str, reason: str) -> None:
    context = AnswerContext("def f():\n    ", "\n    return 1\n", "python", True)
    assert clean(raw, context) == Cleaned("", reason)
    assert answer(raw, context, "stop") == Answer("", "empty", reason)


def test_the_finish_of_an_answer() -> None:
    context = AnswerContext("x = ", "\n", "python")
    assert answer("1\n", context, "scope") == Answer("1", "scope", None)
    assert answer("", context, "cancelled") == Answer("", "cancelled", "cancelled")
    assert answer("1", context, "cancelled") == Answer("1", "cancelled", None)

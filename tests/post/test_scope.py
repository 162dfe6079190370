"""Where a block ends: true answers stay whole, and what is invented behind them goes.

The first table has the shapes of holes in real functions whose true text an earlier rule cut short.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.post.clean import clean
from assistant.post.context import AnswerContext
from assistant.post.multiline import decide

EXAMPLE = Path(__file__).parents[2] / "examples" / "account.py"


def shown(place: str, raw: str, *, auto: bool = False) -> str:
    prefix, suffix = place.split("▮")
    block = decide(prefix, suffix, "python") if auto else True
    return clean(raw, AnswerContext(prefix, suffix, "python", block)).text


@pytest.mark.parametrize(
    ("place", "true"),
    [
        # the line below goes on further out than the body that was opened: the answer may get there
        (
            "def f(words):\n    found = []\n    for word in words:\n        for letter in word:\n▮        if found:\n"
            "            return found\n    return []\n",
            "            found.append(letter)\n        found = found[1:]\n",
        ),
        (
            "def f(x):\n    if x:\n        if not y:\n▮    return x\n",
            "            y = 1\n        x += y\n    x = 2 * x\n",
        ),
        ("def f(x):\n    if x:▮\n    return x\n", "\n        y = 1\n    x += y"),
        # and where nothing was opened
        ("def f(x):\n    if x:\n        y = 1\n▮    return x\n", "        z = 2\n    x += z\n    x = 2 * x\n"),
        (
            "class A:\n    def f(self):\n        if a:\n            b()\n            ▮\n        d()\n",
            "c()\n        c()",
        ),
        ("if a:\n    for b in a:\n        ▮\n    done()\n", "c(b)\n    d()"),
        # the body goes on below at its own level
        ("def f():\n    with a:\n        x = 1\n        ▮\n        y = 3\n", "if x:\n            z()\n        x = 2"),
        # clauses of the statement that was opened
        ("def f(x):\n    if x:▮\n\n\nf(1)\n", "\n        a()\n    elif b:\n        c()\n    else:\n        d()"),
    ],
)
def test_a_true_answer_stays_whole(place: str, true: str) -> None:
    assert shown(place, true).rstrip() == true.rstrip()


@pytest.mark.parametrize(
    ("place", "raw", "kept"),
    [
        # a function that holds only its description, with a neighbour below
        (
            'class A:\n    def f(self):\n        """Text."""\n        ▮\n\n    def g(self):\n        pass\n',
            "return 1\n\n    def h(self):\n        return 2\n\n    def i(self):\n        pass",
            "return 1",
        ),
        (
            'class A:\n    def f(self):\n        """Text."""\n        ▮\n\n    @property\n    def g(self): ...\n',
            "return 1\n\n    @property\n    def h(self):\n        return 2",
            "return 1",
        ),
        (
            "class A:\n    def f(self, x):\n        if x:\n            y = 1\n            ▮\n\n    z = 1\n",
            "return y\n        return x\n\n    w = 2\n",
            "return y",
        ),
        (
            "def f():\n    def g():\n        x = 1\n        ▮\n    return g\n",
            "return x\n    def h():\n        return 2\n    return g",
            "return x",
        ),
        (
            "def f():\n    async def g():\n        if a:▮\n    return g\n",
            "\n            b()\n    c()\n",
            "\n            b()",
        ),
        # the statement that was opened, where its function ends with it
        ("def f(x):\n    if x:▮\n\n\nf(1)\n", "\n        return 1\n    return 2\n", "\n        return 1"),
        # below the file says it already
        ("def f(x):\n    if x:▮\n    return x\n", "\n        y = 1\n    return x\n    z()", "\n        y = 1"),
    ],
)
def test_what_comes_behind_the_block_goes(place: str, raw: str, kept: str) -> None:
    assert shown(place, raw) == kept
    assert shown(place, raw, auto=True) == kept


def test_the_example_gets_the_body_of_one_method() -> None:
    prefix, mark, suffix = EXAMPLE.read_text(encoding="utf-8").partition('if there is too little."""\n        ')
    assert suffix.startswith("\n\n    def statement"), "the example has another hole now"
    body = (
        'if amount <= 0:\n            raise ValueError("the amount must be positive")\n'
        "        if self.balance < amount:\n            raise NotEnoughMoney\n"
        '        self.balance -= amount\n        self.history.append(("withdraw", amount))'
    )
    invented = "\n\n    def transfer_statement(self, other):\n        return self.statement()\n\n    def more(self):\n"
    context = AnswerContext(prefix + mark, suffix, "python", decide(prefix + mark, suffix, "python"))
    assert clean(body + invented, context).text == body


def test_an_opened_brace_ends_with_its_partner() -> None:
    context = AnswerContext("function f() {\n  if (a) {", "\n  c();\n}\n", "javascript", True)
    assert clean("\n    b();\n  }\n  d();\n  c();\n}", context).text == "\n    b();\n  }"

"""One line or a block, by what stands around the cursor."""

from __future__ import annotations

import pytest

from assistant.post.multiline import decide


@pytest.mark.parametrize(
    ("language", "place", "block"),
    [
        ("python", "def f(x):▮\n", True),
        ("python", "def f(x):  # why▮\n", False),  # in a comment
        ("python", "def f(\n    x,\n) -> int:▮\n", True),
        ("python", "x = a[1:▮\n", False),
        ("python", 'd = {"a":▮\n', False),
        ("python", "x = {▮}\n", True),
        ("python", "def f():\n    ▮\n", True),
        ("python", "def f():\n    ▮x = 1\n", False),
        ("python", "def f():\n    x = ▮\n", False),
        ("python", "def f():\n▮\n", True),
        ("python", "x = 1\n▮\n", False),
        ("python", "# the sum of two\n▮\n", True),
        ("python", "@cached\n▮\n", True),
        ("python", "▮", False),
        ("python", "foo(▮)\n", False),
        ("python", "foo(▮, 1)\n", False),
        ("python", '    """Text.\n    ▮\n', False),
        ("python", '    """Text."""\n    ▮\n', True),
        ("python", "    x = '''a''' + \"b\"\n    ▮\n", True),
        ("python", "x = 'it: {▮\n", False),
        ("javascript", "function f() {▮}\n", True),
        ("javascript", "const f = () => {▮\n", True),
        ("javascript", "// if {▮\n", False),
        ("javascript", "/* a\n  ▮\n", False),
        ("javascript", "const s = `a {▮\n", False),
        ("javascript", "if (a) {  // why\n▮\n", True),
        ("rust", "fn f<'a>(x: &'a str) {▮\n", True),
        ("cpp", "int main(▮\n", False),
        ("cpp", "int main() {▮\n", True),
        ("lua", "if a then▮\n", True),
        ("ruby", "xs.each do |x|▮\n", True),
        ("ruby", "def f▮\n", True),
        ("shellscript", "for x in a; do▮\n", True),
        ("sql", "select -- all\n    ▮\n", True),
        ("plaintext", "Hello:▮\n", False),
        ("markdown", "    ▮\n", False),
        (None, "  ▮\n", True),
    ],
)
def test_auto(language: str | None, place: str, block: bool) -> None:
    prefix, suffix = place.split("▮")
    assert decide(prefix, suffix, language) is block


def test_the_other_policies() -> None:
    assert decide("x = ", "\n", "python", "always")
    assert not decide("def f():", "\n", "python", "never")


def test_a_large_file_is_read_near_the_cursor_only() -> None:
    text = '"""never closed\n' + "x = 1\n" * 200_000
    assert decide(text + "def f():\n    ", "\n" * 200_000, "python")

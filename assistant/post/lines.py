"""What one line of code says about blocks, by its text alone: indentation, whether it opens or closes one.

Languages go by the language server protocol's names; None is a language that is not known.
"""

from __future__ import annotations

import re

TEXT = frozenset({"markdown", "plaintext", "restructuredtext", "latex"})
DATA = frozenset({"yaml", "toml", "ini", "json", "jsonc", "html", "xml", "css", "scss", "less"})
BRACES = frozenset(
    {
        "c",
        "cpp",
        "cuda-cpp",
        "csharp",
        "java",
        "groovy",
        "kotlin",
        "scala",
        "go",
        "rust",
        "zig",
        "swift",
        "dart",
    }
    | {"javascript", "javascriptreact", "typescript", "typescriptreact", "vue", "php", "proto"}
    | {"css", "scss", "less"}
)
ENDS = {
    "ruby": ("end",),
    "lua": ("end",),
    "julia": ("end",),
    "elixir": ("end",),
    "shellscript": ("fi", "done", "esac"),
    "fish": ("end",),
}
_COMMENT = {
    "//": re.compile(r"(?:^|\s)//.*$"),
    "#": re.compile(r"(?:^|\s)#.*$"),
    "--": re.compile(r"(?:^|\s)--.*$"),
}
_COLON = re.compile(
    r"(?:async\s+)?(?:def|class|if|elif|else|for|while|try|except|finally|with|match|case|lambda)\b.*:"
    r"|[)\]}].*:"
)
_WORD = re.compile(r"\b(?:then|do|else|begin|in)$|\bdo\s*\|[^|]*\|$")
_RUBY = re.compile(r"(?:def|class|module|if|unless|while|until|case|begin|for|function|local function)\b")
DEFINES = re.compile(
    r"(?:^|\s)(?:class|interface|struct|enum|trait|impl|namespace|module|object|extension|protocol|record"
    r"|union|message|service)\b"
)


def indent(line: str) -> int:
    """Width of the leading blanks, tabs to every fourth column."""
    blanks = line[: len(line) - len(line.lstrip(" \t"))]
    return len(blanks.expandtabs(4))


def without_comment(line: str, language: str | None) -> str:
    """`line` up to a comment at its end, found roughly: by its mark behind a blank."""
    if language in BRACES:
        mark = "//"
    elif language in ("lua", "sql", "haskell"):
        mark = "--"
    elif language in TEXT:
        return line.rstrip()
    else:
        mark = "#"
    return _COMMENT[mark].sub("", line).rstrip()


def opens_block(line: str, language: str | None) -> bool:
    """Whether `line` opens a block for the lines behind it: it ends in a brace, a colon, `do` and so on."""
    if language in TEXT:
        return False
    code = without_comment(line, language).strip()
    if code.endswith("{"):
        return True
    if language == "python" or language not in BRACES:
        if code.endswith(":") and (_COLON.match(code) or language in ("yaml", None)):
            return True
        if language in ENDS:
            starts = language != "shellscript" and _RUBY.match(code) and not code.endswith("end")
            return bool(_WORD.search(code) or starts)
    return False


def opens_brackets(line: str, language: str | None) -> bool:
    """The same, or that it ends in an open bracket, so that the next line goes on inside."""
    return opens_block(line, language) or without_comment(line, language).endswith(("(", "["))


def closer(line: str, language: str | None) -> str | None:
    """The closing bracket, or `end` or its like, that a line starts with; None when it has neither."""
    stripped = line.strip()
    if stripped[:1] in (")", "]", "}"):
        return stripped[0]
    for word in ENDS.get(language or "", ()):
        if re.match(rf"{word}\b", stripped):
            return word
    return None

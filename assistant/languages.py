"""The language of a file by its name, in the language server protocol's words. Nothing is read."""

from __future__ import annotations

import os
from pathlib import PurePath

_BY_SUFFIX = {
    "python": "py pyi pyw",
    "javascript": "js mjs cjs",
    "javascriptreact": "jsx",
    "typescript": "ts mts cts",
    "typescriptreact": "tsx",
    "c": "c h",
    "cpp": "cc cpp cxx hh hpp hxx ipp",
    "csharp": "cs",
    "java": "java",
    "kotlin": "kt kts",
    "scala": "scala sc",
    "go": "go",
    "rust": "rs",
    "swift": "swift",
    "dart": "dart",
    "php": "php",
    "ruby": "rb rake gemspec",
    "perl": "pl pm",
    "lua": "lua",
    "r": "r",
    "julia": "jl",
    "haskell": "hs",
    "elixir": "ex exs",
    "erlang": "erl hrl",
    "clojure": "clj cljs cljc",
    "zig": "zig",
    "shellscript": "sh bash zsh ksh",
    "fish": "fish",
    "powershell": "ps1 psm1",
    "sql": "sql",
    "sas": "sas",
    "proto": "proto",
    "html": "html htm xhtml",
    "xml": "xml xsd svg",
    "css": "css",
    "scss": "scss",
    "less": "less",
    "vue": "vue",
    "json": "json jsonc",
    "yaml": "yaml yml",
    "toml": "toml",
    "ini": "ini cfg conf",
    "dockerfile": "dockerfile",
    "makefile": "mk mak",
    "cmake": "cmake",
    "terraform": "tf tfvars",
    "cuda-cpp": "cu cuh",
    "markdown": "md markdown",
    "restructuredtext": "rst",
    "latex": "tex",
    "plaintext": "txt text log",
}
_LANGUAGE = {suffix: language for language, suffixes in _BY_SUFFIX.items() for suffix in suffixes.split()}
_BY_NAME = {
    "makefile": "makefile",
    "gnumakefile": "makefile",
    "dockerfile": "dockerfile",
    "containerfile": "dockerfile",
    "cmakelists.txt": "cmake",
    "gemfile": "ruby",
    "rakefile": "ruby",
    "jenkinsfile": "groovy",
    ".bashrc": "shellscript",
    ".profile": "shellscript",
    ".zshrc": "shellscript",
}


def language_of(path: str | os.PathLike[str]) -> str | None:
    """The language that a file's name tells, by the language server protocol's names; None when it tells
    none.
    """
    file = PurePath(path)
    return _BY_NAME.get(file.name.lower()) or _LANGUAGE.get(file.suffix[1:].lower())

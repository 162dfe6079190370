"""Every setting, declared once: type, default, range, words for people, flag, variable and scope.

`Settings` is frozen and always valid. `SPECS` (name -> Spec, in declaration order) is what command line
flags, the `config` command, forms and the JSON schema for editors are rendered from; nothing else repeats a
name, a default or a range.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

Value = str | int | float | bool


@dataclass(frozen=True)
class Spec:
    """One setting: its name, its words for people and the values it may take."""

    name: str
    kind: type[Value]
    default: Value
    title: str
    help: str
    section: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    has_flag: bool = True
    needs_reload: bool = False  # a change takes effect when the model is loaded anew
    host_wide: bool = False  # read when the engine host starts: neither a project nor an editor can set it
    terminal: bool = False  # of the terminal interface alone: neither a project nor an editor can set it
    is_path: bool = False  # a value that looks like a path is made absolute where it is read

    @property
    def users_only(self) -> bool:
        """Only the user's own file and the environment set it."""
        return self.host_wide or self.terminal

    @property
    def flag(self) -> str:
        """The command line option, for example `--max-tokens`."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable, for example `TOKENLEAP_MAX_TOKENS`."""
        return "TOKENLEAP_" + self.name.upper()

    @property
    def allowed(self) -> str:
        """The values that may be given, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return "a text"
        number = "a whole number" if self.kind is int else "a number"
        if self.minimum is not None and self.maximum is not None:
            return f"{number} from {_plain(self.minimum)} to {_plain(self.maximum)}"
        return number


def _plain(number: float) -> str:
    """A bound in words, to its last digit when it is whole."""
    return str(int(number)) if number == int(number) else f"{number:g}"


def _setting(default: Value, title: str, help: str, section: str, **more: Any) -> Any:
    return dataclasses.field(
        default=default, metadata={"title": title, "help": help, "section": section, **more}
    )


@dataclass(frozen=True)
class Settings:
    """All settings' values. Made by `load.load`, or from keyword arguments in tests."""

    model: str = _setting(
        "qwen2.5-coder-0.5b",
        "Model",
        "name from 'tokenleap models list', or the path of a .gguf file or a transformers folder",
        "model",
        needs_reload=True,
        is_path=True,
    )
    precision: str = _setting(
        "int8",
        "Precision",
        "how the weights are held",
        "model",
        choices=("int8", "fp32", "bnb8", "nf4"),
        needs_reload=True,
    )
    device: str = _setting(
        "auto", "Device", "where the model runs", "model", choices=("auto", "cpu", "cuda"), needs_reload=True
    )
    threads: int = _setting(
        0,
        "Threads",
        "processor threads of the engine, 0 chooses",
        "model",
        minimum=0,
        maximum=1024,
        needs_reload=True,
    )
    decode: str = _setting(
        "auto",
        "Decoding",
        "how tokens are drafted before they are checked; the text stays the same",
        "decoding",
        choices=("plain", "lookup", "mtp", "tree", "auto", "draft-model"),
    )
    draft: int = _setting(
        0, "Draft length", "tokens drafted for one pass, 0 chooses", "decoding", minimum=0, maximum=16
    )
    max_tokens: int = _setting(
        128, "Longest completion", "most tokens of one completion", "completion", minimum=1, maximum=4096
    )
    temperature: float = _setting(
        0.0,
        "Temperature",
        "0 always takes the likeliest token, higher values vary more",
        "sampling",
        minimum=0.0,
        maximum=5.0,
    )
    top_k: int = _setting(
        0,
        "Top k",
        "choose among the k likeliest tokens, 0 is no limit",
        "sampling",
        minimum=0,
        maximum=1000000,
    )
    top_p: float = _setting(
        1.0,
        "Top p",
        "choose among the likeliest tokens that together have this probability",
        "sampling",
        minimum=0.01,
        maximum=1.0,
    )
    min_p: float = _setting(
        0.0,
        "Min p",
        "leave out tokens below this share of the likeliest one's probability",
        "sampling",
        minimum=0.0,
        maximum=1.0,
    )
    seed: int = _setting(
        0, "Seed", "the same seed gives the same text", "sampling", minimum=0, maximum=2**63 - 1
    )
    multiline: str = _setting(
        "auto",
        "Several lines",
        "whether a completion may have several lines",
        "completion",
        choices=("auto", "always", "never"),
    )
    prefix_tokens: int = _setting(
        0,
        "Tokens before the cursor",
        "most tokens of the file before the cursor that the model reads, 0 chooses",
        "prompt",
        minimum=0,
        maximum=131072,
    )
    suffix_tokens: int = _setting(
        0,
        "Tokens after the cursor",
        "most tokens of the file after the cursor that the model reads, 0 chooses",
        "prompt",
        minimum=0,
        maximum=131072,
    )
    enabled: bool = _setting(
        True,
        "Suggestions",
        "whether an editor gets suggestions at all",
        "editor",
        has_flag=False,
    )
    languages_off: str = _setting(
        "",
        "Languages without suggestions",
        "languages that get none, by the editor's names with commas between, such as markdown, plaintext",
        "editor",
        has_flag=False,
    )
    debounce_ms: int = _setting(
        0,
        "Pause before asking",
        "milliseconds without a key before the model is asked, 0 follows the speed of typing",
        "editor",
        minimum=0,
        maximum=5000,
        has_flag=False,
    )
    first_line_ms: int = _setting(
        250,
        "Time for the first line",
        "milliseconds after which the first line is shown and the rest follows, 0 waits for all",
        "editor",
        minimum=0,
        maximum=60000,
        has_flag=False,
    )
    fallback: str = _setting(
        "auto",
        "Way of suggesting",
        "inline as ghost text, completion as an entry of the list, auto is what the editor can show",
        "editor",
        choices=("auto", "inline", "completion"),
        has_flag=False,
    )
    statistics: bool = _setting(
        True,
        "Statistics",
        "count on this machine what was shown and accepted; no code is stored",
        "editor",
        has_flag=False,
    )
    log_level: str = _setting(
        "warning",
        "Log",
        "what the language server writes to the editor's log",
        "editor",
        choices=("error", "warning", "info", "debug"),
        has_flag=False,
    )
    idle_minutes: int = _setting(
        15,
        "Idle minutes",
        "the engine host leaves after so many minutes without a client, 0 keeps it",
        "host",
        minimum=0,
        maximum=10080,
        has_flag=False,
        host_wide=True,
    )
    prefix_cache_mb: int = _setting(
        256,
        "Prefix cache",
        "megabytes for keeping what the model has already read, 0 keeps only the latest",
        "host",
        minimum=0,
        maximum=1048576,
        has_flag=False,
        host_wide=True,
    )
    theme: str = _setting(
        "auto",
        "Colours",
        "of the terminal interface; auto follows what the terminal says of its background",
        "terminal",
        choices=("auto", "dark", "light", "contrast"),
        has_flag=False,
        terminal=True,
    )
    keys: str = _setting(
        "",
        "Keys",
        "of the terminal interface where they differ from its own, such as app.quit=ctrl+x, try.accept=right",
        "terminal",
        has_flag=False,
        terminal=True,
    )


def _specs() -> Mapping[str, Spec]:
    kinds: dict[str, type[Value]] = {"str": str, "int": int, "float": float, "bool": bool}
    return MappingProxyType(
        {
            field.name: Spec(
                field.name, kinds[str(field.type)], **{"default": field.default, **field.metadata}
            )
            for field in dataclasses.fields(Settings)
        }
    )


SPECS = _specs()


def json_schema() -> dict[str, Any]:
    """The settings an editor may set, as a JSON schema object."""
    kinds = {str: "string", int: "integer", float: "number", bool: "boolean"}
    properties: dict[str, Any] = {}
    for spec in SPECS.values():
        if spec.users_only:
            continue
        entry: dict[str, Any] = {
            "type": kinds[spec.kind],
            "default": spec.default,
            "title": spec.title,
            "description": spec.help,
        }
        if spec.choices:
            entry["enum"] = list(spec.choices)
        if spec.minimum is not None:
            entry["minimum"] = spec.minimum
        if spec.maximum is not None:
            entry["maximum"] = spec.maximum
        properties[spec.name] = entry
    return {"type": "object", "properties": properties, "additionalProperties": False}

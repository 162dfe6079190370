"""Dark, light and high contrast. NO_COLOR is Textual's own: the program then shows no colour at all."""

from __future__ import annotations

import os
from collections.abc import Mapping

from textual.theme import Theme

DARK = Theme(
    name="tokenleap-dark", primary="#7aa2f7", secondary="#7dcfff", accent="#ffb86c", success="#9ece6a",
    warning="#e0af68", error="#ff7a93", foreground="#d8dee9", background="#16181d", surface="#1c1f26",
    panel="#262a33", dark=True,
    variables={"drafted": "#9ece6a", "copied": "#7dcfff", "footer-key-foreground": "#ffb86c"},
)  # fmt: skip
LIGHT = Theme(
    name="tokenleap-light", primary="#1d4fbf", secondary="#00606f", accent="#8f4300", success="#2a6a1e",
    warning="#7a5200", error="#b3123a", foreground="#1b1f27", background="#fbfbf8", surface="#f2f2ee",
    panel="#e4e4de", dark=False,
    variables={"drafted": "#2a6a1e", "copied": "#00606f", "footer-key-foreground": "#8f4300"},
)  # fmt: skip
CONTRAST = Theme(
    name="tokenleap-contrast", primary="#ffff00", secondary="#00ffff", accent="#ffff00", success="#00ff00",
    warning="#ffff00", error="#ff9999", foreground="#ffffff", background="#000000", surface="#000000",
    panel="#000000", dark=True, text_alpha=1.0,
    variables={"drafted": "#00ff00", "copied": "#00ffff", "footer-key-foreground": "#ffff00",
               "block-cursor-background": "#ffff00", "block-cursor-foreground": "#000000"},
)  # fmt: skip
THEMES = {"dark": DARK, "light": LIGHT, "contrast": CONTRAST}


def chosen(setting: str, environment: Mapping[str, str] = os.environ) -> str:
    """The name of the theme that the setting `theme` stands for."""
    if setting == "auto":
        # "15;0" is white on black; many terminals say nothing, and most of those are dark.
        background = environment.get("COLORFGBG", "").rpartition(";")[2]
        setting = "light" if background in ("7", "15") else "dark"
    return THEMES[setting].name

"""Every reason that can be told has words."""

from __future__ import annotations

import re
from pathlib import Path

import lsp
from assistant.post.clean import REASONS
from assistant.service.reasons import SENTENCES, sentence


def test_the_engines_reasons_have_words():
    assert set(REASONS) | {"cancelled"} <= set(SENTENCES)


def test_the_servers_own_reasons_have_words():
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(lsp.__file__).parent.rglob("*.py"))
    codes = set(re.findall(r"reason=\"(\w+)\"|return \"(closed|off|selected|failed|loading|superseded)\"", sources))
    assert {code for pair in codes for code in pair if code} <= set(SENTENCES)
    assert sentence("scope") == "nothing to suggest: the block that the cursor is in is complete"

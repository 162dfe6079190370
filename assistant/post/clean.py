"""From the model's raw answer to the text that is shown, or to the reason why nothing is.

First the rules of `scan.RULES` end the answer, then FILTERS tidy what is left, in this order. The reason is
the code of whichever left nothing: "end" is the model's own choice. All are pure; the raw text is left as
it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from assistant.post import overlap, short, trim
from assistant.post.context import AnswerContext
from assistant.post.fence import hole, unwrap
from assistant.post.scan import RULES, Scan
from assistant.post.tidy import Draft, Filter
from assistant.post.unfinished import whole_lines

FILTERS: tuple[tuple[str, Filter], ...] = (
    ("overlap", overlap.rest_of_line),
    ("trim", trim.trim),
    ("short", short.short),
)
# Trimming takes blanks alone, so it is never the reason.
_CODES = ["end", "prose", *(rule.code for rule in RULES), *(code for code, _ in FILTERS if code != "trim")]
REASONS = tuple(dict.fromkeys(_CODES))


@dataclass(frozen=True)
class Cleaned:
    """What is shown; `reason` is a code of REASONS exactly when `text` is empty."""

    text: str
    reason: str | None


@dataclass(frozen=True)
class Answer:
    """A cleaned answer with why it ended: the engine's reason, or "empty" when nothing is left."""

    text: str
    finish: str
    reason: str | None


def clean(raw: str, context: AnswerContext, finish: str = "stop") -> Cleaned:
    """`raw` is the new text alone (a healed piece already off); `finish` is the engine's word for why it
    ended.
    """
    if not raw:
        return Cleaned("", "end")
    found = unwrap(raw, context, whole=True)
    text = found.text
    if found.kind in ("fence", "prose"):
        text = hole(text, context)
        if not text.strip():
            return Cleaned("", found.kind)
    scan = Scan(context)
    end = scan.feed(text)
    if end is None:
        if finish == "length":
            text = whole_lines(text, context)
        end = Scan(context).finish(text)
    kept = text if end is None else text[: end.keep]
    broke = end is not None and text[end.keep : end.keep + 1] == "\n"
    if not kept.strip():
        return Cleaned("", "blank" if end is None else end.code)
    draft = Draft(kept, context, broke)
    for code, tidy in FILTERS:
        draft = replace(draft, text=tidy(draft))
        if not draft.text.strip():
            return Cleaned("", code)
    return Cleaned(draft.text, None)


def answer(raw: str, context: AnswerContext, finish: str) -> Answer:
    """`clean` with the finish that is reported; a cancelled answer stays one, whatever is left of it."""
    cleaned = clean(raw, context, finish)
    if cleaned.text or finish == "cancelled":
        return Answer(cleaned.text, finish, cleaned.reason and finish)
    return Answer("", "empty", cleaned.reason)

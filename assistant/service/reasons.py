"""Why nothing was suggested, as a sentence: the answer's own reasons and the language server's.

The engine's codes are those of `assistant.post.clean.REASONS` and of a cancelled request; a test holds them
together. Light: standard library only.
"""

from __future__ import annotations

SENTENCES = {
    # The engine's, by the codes of its filters.
    "end": "the model ended at once",
    "prose": "the model answered with prose instead of code",
    "special": "the model wrote only control tokens",
    "fence": "the model wrote a code fence with nothing in it",
    "line": "the model had nothing for this line",
    "scope": "the block that the cursor is in is complete",
    "overlap": "the model only repeated what follows the cursor",
    "repeat": "the model only repeated itself",
    "blank": "the model wrote only blank space",
    "length": "no whole line fitted in max_tokens",
    "closing": "the model only closed what the file closes already",
    "short": "what the model wrote is too short to be of use",
    "cancelled": "the request was cancelled",
    # The language server's.
    "off": "suggestions are off here: see the settings enabled and languages_off, or run tokenleap.enable",
    "loading": "the model is being loaded",
    "failed": "the engine cannot be reached: see the status",
    "superseded": "a newer request took its place",
    "changed": "the text changed meanwhile",
    "closed": "the document is not open and there is no file to read",
    "selected": "the entry chosen in the list does not stand at the cursor",
    "error": "the language server failed: see its log",
}


def sentence(code: str | None) -> str:
    """One line that gives the reason; a code without words is shown as it is."""
    return f"nothing to suggest: {SENTENCES.get(code, code)}" if code else "nothing to suggest"

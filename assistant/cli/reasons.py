"""What to say when there is nothing to suggest: the answer's reason code as a sentence.

The codes are those of `assistant.post.clean.REASONS` and of a cancelled request; a test holds them together.
"""

from __future__ import annotations

SENTENCES = {
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
}


def sentence(code: str | None) -> str:
    """One line that gives the reason; a code without words is shown as it is."""
    return f"nothing to suggest: {SENTENCES.get(code, code)}" if code else "nothing to suggest"

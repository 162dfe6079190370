"""How near an answer is to the text that stood there: exact, first line, edit similarity, characters right.

Pure functions on strings. Line ends are LF. Nothing here runs or parses the text.
"""

from __future__ import annotations


def exact_match(answer: str, truth: str) -> bool:
    """Equal, white space at the very end aside (an editor keeps its own line end there)."""
    return answer.rstrip() == truth.rstrip()


def first_line(text: str) -> str:
    """The first line that is not blank, stripped; "" when there is none."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def first_line_match(answer: str, truth: str) -> bool:
    """The first non-blank lines are equal after stripping."""
    return first_line(answer) == first_line(truth)


def levenshtein(a: str, b: str) -> int:
    """Fewest insertions, deletions and replacements that turn `a` into `b`; O(len(a) * len(b)) time, one row
    of memory.
    """
    if len(a) < len(b):
        a, b = b, a
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(b, start=1):
            cost = diagonal if left == right else 1 + min(diagonal, row[j], row[j - 1])
            diagonal, row[j] = row[j], cost
    return row[-1]


def edit_similarity(answer: str, truth: str) -> float:
    """1 - Levenshtein / length of the longer; two empty texts are alike (1.0)."""
    longer = max(len(answer), len(truth))
    return 1.0 - levenshtein(answer, truth) / longer if longer else 1.0


def characters_right(answer: str, truth: str) -> int:
    """Length of the common beginning: what a user could keep without correcting anything."""
    count = 0
    for left, right in zip(answer, truth, strict=False):
        if left != right:
            break
        count += 1
    return count

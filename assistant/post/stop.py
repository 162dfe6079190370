"""Tells, while an answer is generated, that nothing after this can change it.

`clean` reads the same rules, so the cleaned answer is the same whether generation stopped here or went on.
"""

from __future__ import annotations

from assistant.post.context import AnswerContext
from assistant.post.fence import unwrap
from assistant.post.scan import Scan


class StopRule:
    """text so far -> whether generation may end. It stays True once it is; any text may be asked at any time.

    A text that goes on from the last one costs its new characters alone.
    """

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self._text = ""
        self._scan = Scan(context)

    def __call__(self, text_so_far: str) -> bool:
        found = unwrap(text_so_far, self._context, whole=False)
        if found.kind != "plain":
            self._text, self._scan = "", Scan(self._context)
            return found.ended
        if not found.text.startswith(self._text):
            self._scan = Scan(self._context)
        self._text = found.text
        return self._scan.feed(found.text) is not None

    def settled(self) -> str:
        """The part of the last text that `clean` is sure to keep, whole lines only: what may be shown
        already.
        """
        text = self._text[: self._scan.sure()].rstrip()
        return text if len(text.strip()) > 1 else ""  # one mark alone may be too short to be shown

"""Which token came from where: what a pass drafted and what it added itself, as the pipeline tells it."""

from __future__ import annotations

from assistant.engine.draft import Draft
from assistant.post.context import AnswerContext
from assistant.service.engine_api import Hooks, SoFar
from assistant.service.pipeline import Watch


class Spelled:
    """A tokenizer whose ids are bytes."""

    def spell(self, ids: tuple[int, ...]) -> bytes:
        return bytes(ids)


def watch() -> tuple[Watch, list[SoFar]]:
    told: list[SoFar] = []
    hooks = Hooks(lambda: False, lambda: None, lambda text: None, told.append)
    made = Watch(Spelled(), 0, AnswerContext("x", "", None, True), hooks, True)  # type: ignore[arg-type]
    return made, told


def test_tokens_of_a_draft_that_stood_bear_its_name_and_the_rest_is_the_models() -> None:
    made, told = watch()
    made.read(b"a")
    made.committed(b"a")
    made.passed(Draft((98, 99, 120), by="mtp"), [0, 1])
    made.read(b"abcd")
    made.committed(b"bcd")
    first, second = (state.block for state in told)
    assert first is not None and second is not None
    assert [(token.text, token.origin) for token in first.tokens] == [("a", "prompt")]
    assert [(token.text, token.origin) for token in second.tokens] == [("b", "mtp"), ("c", "mtp"), ("d", "model")]
    assert (first.drafted, second.drafted) == (0, 3)
    made.passed(Draft((101,), by="lookup"), [0])
    made.read(b"abcdef")
    made.committed(b"ef")
    assert [(state.drafted, state.accepted) for state in told] == [(0, 0), (3, 2), (4, 3)]


def test_half_a_character_is_never_told_and_the_end_token_has_no_text() -> None:
    made, told = watch()
    made.committed(made.read("é".encode()[:1]).encode() or b"\xc3")
    made.passed(Draft(()), [])
    made.read("é".encode())
    made.committed(b"\xa9")
    made.passed(Draft(()), [])
    made.committed(b"\x00")  # an end id, which is not read as text
    texts = [token.text for state in told if state.block for token in state.block.tokens]
    assert texts == ["", "é", ""]

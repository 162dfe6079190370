"""`tokenleap bench infill`: holes in files, filled by the product and compared with what stood there.

Text measures are defined in similarity.py; pass@1 comes from the tasks' own tests (judge.py) and is None
where no case has any. Shares come with 95% intervals. Two precisions are compared case by case; the second
one is given the first one's answer as its draft, which costs little where they agree and never changes what
it answers.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from assistant.bench import intervals, judge, similarity
from assistant.bench.rows import Case
from assistant.engine.draft import Draft, DraftState

Report = Callable[[str], None]
Row = dict[str, Any]


class Answer(Protocol):
    """What the product gave for one case; `text` is what an editor would insert, "" for nothing."""

    @property
    def text(self) -> str: ...

    @property
    def ids(self) -> Sequence[int]: ...

    @property
    def total_ms(self) -> float: ...

    @property
    def finish(self) -> str: ...

    @property
    def empty_reason(self) -> str | None: ...


Run = Callable[[Case, "Sequence[int] | None"], Answer]
"""case, ids to draft from (another precision's answer) -> answer"""


class Scripted:
    """A drafter that proposes what it was told, for as long as the output agrees with it."""

    name = "scripted"
    taps: tuple[int, ...] = ()
    draft_length = 48

    def __init__(self, script: Sequence[int]) -> None:
        self._script = tuple(script)
        self._start = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """As Drafter.begin."""
        self._start = len(prompt)

    def propose(self, state: DraftState, limit: int) -> Draft:
        """The rest of the script; after a difference, what follows the latest place of the last two tokens in
        it.
        """
        new = tuple(state.ids[self._start :])
        if new == self._script[: len(new)]:
            return Draft(self._script[len(new) : len(new) + limit])
        for at in range(len(self._script) - 2, 0, -1):
            if self._script[at - 1 : at + 1] == new[-2:]:
                return Draft(self._script[at + 1 : at + 1 + limit])
        return Draft(())

    def observe(self, draft: Draft, accepted: Sequence[int]) -> None:
        """As Drafter.observe: nothing to learn."""


@dataclass(frozen=True)
class Result:
    """One case answered. Shares are kept as True and False; None where a measure does not apply."""

    id: str
    group: str
    language: str
    kind: str
    shown: bool
    exact_match: bool
    first_line_match: bool
    edit_similarity: float
    characters_right: int
    valid: bool | None
    pass_at_1: bool | None
    ms: float
    finish: str
    empty_reason: str | None
    answer: str


def valid_python(text: str) -> bool:
    """Whether Python can parse the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _result(case: Case, answer: Answer) -> Result:
    text = answer.text
    return Result(
        id=case.id,
        group=case.group,
        language=case.language,
        kind=case.kind,
        shown=bool(text.strip()),
        exact_match=similarity.exact_match(text, case.middle),
        first_line_match=similarity.first_line_match(text, case.middle),
        edit_similarity=similarity.edit_similarity(text, case.middle),
        characters_right=similarity.characters_right(text, case.middle),
        valid=valid_python(case.program(text)) if case.language == "python" else None,
        pass_at_1=None,
        ms=answer.total_ms,
        finish=answer.finish,
        empty_reason=answer.empty_reason,
        answer=text,
    )


def answer_all(
    cases: Sequence[Case],
    run: Run,
    scripts: Sequence[Sequence[int]] | None = None,
    report: Report | None = None,
    title: str = "infill",
) -> tuple[list[Result], list[list[int]]]:
    """Results without pass@1 (judging would disturb the times), and the ids of every answer."""
    results, ids = [], []
    for number, case in enumerate(cases):
        answer = run(case, None if scripts is None else scripts[number])
        results.append(_result(case, answer))
        ids.append(list(answer.ids))
        if report is not None:
            report(f"{title}: {number + 1} of {len(cases)}")
    return results, ids


def judged(cases: Sequence[Case], results: Sequence[Result], report: Report | None = None) -> list[Result]:
    """The results with pass@1 for each case that has tests."""
    with_tests = [n for n, case in enumerate(cases) if case.test is not None and case.entry_point is not None]
    programs = [
        judge.program(cases[n].program(results[n].answer), cases[n].test or "", cases[n].entry_point or "")
        for n in with_tests
    ]

    def done(count: int) -> None:
        if report is not None:
            report(f"tests: {count} programs of at most {len(programs)}")

    verdicts = dict(zip(with_tests, judge.judge_all(programs, done=done), strict=True))
    return [Result(**{**asdict(result), "pass_at_1": verdicts.get(n)}) for n, result in enumerate(results)]


_SHARES = ("shown", "exact_match", "first_line_match", "valid", "pass_at_1")


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """The measures over `results`: shares from 0 to 1, with "intervals" beside them."""
    made: dict[str, Any] = {"cases": len(results)}
    bounds: dict[str, Any] = {}
    for name in _SHARES:
        outcomes = [value for result in results if (value := getattr(result, name)) is not None]
        made[name] = sum(outcomes) / len(outcomes) if outcomes else None
        bounds[name] = list(intervals.wilson(sum(outcomes), len(outcomes))) if outcomes else None
    for name in ("edit_similarity", "characters_right"):
        values = [float(getattr(result, name)) for result in results]
        made[name] = sum(values) / len(values) if values else None
        bounds[name] = list(intervals.bootstrap_mean(values)) if values else None
    made["valid_other_parser"] = None
    made["median_ms"] = intervals.median([result.ms for result in results])
    return made | {"intervals": bounds}


def tables(results: Sequence[Result]) -> dict[str, Any]:
    """{"overall", "by_kind", "by_language"} of the results, and why nothing was shown where nothing was."""
    reasons: dict[str, int] = {}
    for result in results:
        if not result.shown:
            reason = result.empty_reason or result.finish
            reasons[reason] = reasons.get(reason, 0) + 1
    return {
        "overall": summary(results),
        "by_kind": _by("kind", results),
        "by_language": _by("language", results),
        "empty_reasons": reasons,
    }


def _by(name: str, results: Sequence[Result]) -> dict[str, Any]:
    values = sorted({getattr(result, name) for result in results})
    return {value: summary([result for result in results if getattr(result, name) == value]) for value in values}


def paired(first: Sequence[Result], second: Sequence[Result]) -> dict[str, Any]:
    """Differences first - second, measure by measure, over the cases where both have it."""
    found: dict[str, Any] = {}
    for name in (*_SHARES, "edit_similarity", "characters_right"):
        pairs = [
            (float(a), float(b), left.group)
            for left, right in zip(first, second, strict=True)
            if (a := getattr(left, name)) is not None and (b := getattr(right, name)) is not None
        ]
        if pairs:
            ours, theirs, groups = zip(*pairs, strict=True)
            found[name] = intervals.paired(ours, theirs, groups)
    found["same_answer"] = sum(a.answer == b.answer for a, b in zip(first, second, strict=True))
    return found


def measure(
    cases: Sequence[Case],
    runs: dict[str, Run],
    report: Report | None = None,
    each: Callable[[Row], None] | None = None,
    tests: bool = True,
) -> dict[str, Any]:
    """The object of `bench infill --json` for the first of `runs` (by precision); others beside it under
    "precisions".

    `each` gets one row for every case and precision.
    """
    found: dict[str, list[Result]] = {}
    scripts: list[list[int]] | None = None
    for precision, run in runs.items():
        results, ids = answer_all(cases, run, scripts, report, f"infill {precision}")
        scripts = ids if scripts is None else scripts
        found[precision] = judged(cases, results, report) if tests else results
        if each is not None:
            for result in found[precision]:
                each({"precision": precision, **asdict(result)})
    names = list(found)
    made = tables(found[names[0]]) | {"precision": names[0]}
    if len(names) > 1:
        made["precisions"] = {name: tables(results) for name, results in found.items()}
        made["paired"] = {f"{names[0]} - {other}": paired(found[names[0]], found[other]) for other in names[1:]}
    return made

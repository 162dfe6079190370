"""Values that a setting allows, and values that it does not."""

from __future__ import annotations

from hypothesis import strategies as st

from assistant.settings.schema import Spec, Value

_NAMES = st.text(
    alphabet=st.characters(
        codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), exclude_characters="~./\\"
    ),
    min_size=1,
    max_size=12,
).filter(lambda text: text.lower() not in {"none", "null", "undefined"})


def good_value(spec: Spec) -> st.SearchStrategy[Value]:
    """Any value that `spec` allows."""
    if spec.choices:
        return st.sampled_from(spec.choices)
    if spec.kind is bool:
        return st.booleans()
    if spec.kind is int:
        return st.integers(int(spec.minimum or 0), int(spec.maximum or 0))
    if spec.kind is float:
        return st.floats(spec.minimum, spec.maximum)
    return _NAMES


def bad_value(spec: Spec) -> st.SearchStrategy[object]:
    """Values as TOML or JSON can carry them, of a wrong kind or out of range."""
    wrong: list[st.SearchStrategy[object]] = [st.just([1]), st.just({"a": 1})]
    if spec.kind is str:
        wrong += [st.integers(), st.booleans()]
    if spec.choices or spec.kind is not str:
        wrong.append(st.sampled_from(["int9", "many", "1.5.2", "0x"]))
    if spec.kind is int:
        wrong.append(st.just(1.5))
    if spec.minimum is not None:
        wrong.append(st.just(spec.minimum - 1))
    if spec.maximum is not None:
        wrong += [st.just(spec.maximum * 2 + 1), st.just(float("inf")), st.just(float("nan"))]
    return st.one_of(wrong)

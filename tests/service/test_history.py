"""Local statistics: true counts, no text of the user's, alive after any end of any process."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assistant.service.history import History
from assistant.service.protocol import CompletionResult

RESULT = CompletionResult(
    *("x = 1\ny", "stop", None, "m", "int8", "auto"),
    prompt_tokens=20,
    reused_tokens=15,
    new_tokens=6,
    passes=3,
    drafted=4,
    accepted=2,
    total_ms=30.0,
)
EMPTY = CompletionResult("", "empty", "scope", "m", "int8", "auto", total_ms=10.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "history.sqlite"


def answered(history, result=RESULT, **more):
    return history.answered(result, **{"trigger": "automatic", "language": "python", **more})


def test_what_became_of_each_suggestion_is_counted_once(path):
    history = History.open(path)
    taken, partly, gone, unseen = (answered(history) for _ in range(4))
    answered(history, EMPTY)
    history.nothing("disabled", trigger="automatic", language="python")
    for _ in range(2):  # clients repeat themselves
        history.shown(taken)
        history.accepted(taken)
        history.partly(partly, 3)
        history.partly(partly, 2)  # cumulative: never less
        history.dismissed(partly)
        history.dismissed(taken)  # too late
        history.dismissed(gone)
        history.kept(taken, 7)
        history.kept(partly, 1)
    found = history.summary()
    names = ("answers", "suggestions", "shown", "accepted", "partly_accepted", "dismissed", "kept")
    assert [found[name] for name in names] == [6, 4, 3, 1, 1, 2, 1]
    assert found["characters"] == {"shown": 21, "accepted": 10, "looked_at": 10, "kept": 8}
    assert (found["accepted_share"], found["kept_share"]) == (round(2 / 3, 4), 0.8)
    assert found["empty"] == {"disabled": 1, "scope": 1}
    assert found["tokens"] == {
        "prompt_tokens": 80, "reused_tokens": 60, "new_tokens": 24,
        "passes": 12, "drafted": 16, "accepted": 8,
    }
    assert (found["tokens_accepted_share"], found["tokens_reused_share"]) == (0.5, 0.75)
    assert found["by_language"]["python"] == {"answers": 6, "shown": 3, "accepted": 1}
    assert unseen not in (taken, partly, gone)


def test_times_are_medians_and_percentiles_by_source_and_stage(path):
    history = History.open(path)
    for number in range(1, 101):
        answered(history, CompletionResult("x", "stop", None, "m", "int8", "auto", total_ms=float(number)))
    answered(history, CompletionResult("x", "stop", None, "m", "int8", "auto", source="cache", total_ms=1.5))
    found = history.summary()
    assert found["by_source"]["model"] == {"n": 100, "median_ms": 50.0, "p95_ms": 95.0}
    assert found["by_source"]["cache"] == {"n": 1, "median_ms": 1.5, "p95_ms": 1.5}
    assert found["stages_ms"]["prefill"] == {"n": 0, "median_ms": None, "p95_ms": None}


def test_a_span_holds_the_answers_given_in_it(path):
    now = [1000.0]
    history = History.open(path, clock=lambda: now[0])
    first = answered(history)
    now[0] = 2000.0
    answered(history)
    history.accepted(first)
    assert [history.summary(since)["answers"] for since in (None, 1000.0, 1001.0, 2001.0)] == [2, 2, 1, 0]
    assert history.summary(1500.0)["accepted"] == 0


def test_switched_off_it_touches_no_file_and_still_answers(path):
    history = History.open(path, enabled=False)
    number = answered(history)
    history.accepted(number)
    assert number == 0 and not history.enabled and not path.parent.exists()
    assert history.summary()["answers"] == 0


SECRET = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=9, max_size=40)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SECRET, SECRET, SECRET)
def test_no_text_of_the_users_reaches_the_file(tmp_path, text, word, reason):
    path = tmp_path / "history.sqlite"
    history = History.open(path)
    marked = [f"sesame {part}" for part in (text, word, reason)]
    result = CompletionResult(
        *(marked[0], "stop", marked[2], f"/home/{marked[1]}/m.gguf", "int8", "auto"), candidates=tuple(marked)
    )
    history.accepted(answered(history, result, language=marked[1]))
    history.nothing(marked[2], trigger=marked[1], language=marked[0])
    for file in tmp_path.iterdir():
        stored = file.read_bytes()
        assert b"sesame" not in stored and "sesame".encode("utf-16-le") not in stored
    history.close()


def test_the_file_is_the_users_alone(path):
    history = History.open(path)
    answered(history)
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


WRITER = """
import sys
from pathlib import Path
from assistant.service.history import History
from assistant.service.protocol import CompletionResult
history = History.open(Path(sys.argv[1]))
while True:
    number = history.answered(CompletionResult("x", "stop", None, "m", "int8", "auto"), trigger="automatic")
    history.accepted(number)
    print(number, flush=True)
"""


def test_after_a_kill_in_the_middle_of_writes_nothing_told_is_lost(path):
    last = 0
    for kills, count in enumerate((1, 40, 173)):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(count):
            told = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.wait()
        last = max([last, told, *(int(number) for number in rest if number.isdigit())])
        history = History.open(path)
        found = history.summary()
        assert found["answers"] >= found["accepted"] >= told - kills  # a kill may come between the two
        assert last <= found["answers"] <= last + 2  # one a kill may have been written and not told
        last = found["answers"]
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        history.close()


def test_several_processes_and_threads_write_at_once(path):
    here = History.open(path)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    numbers: list[int] = []

    def write() -> None:
        numbers.extend(answered(here) for _ in range(100))

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for writer in writers:
        for _ in range(30):
            assert int(writer.stdout.readline()) >= 0
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.kill()
        writer.stdout.close()
        writer.wait()
    given = [number for number in numbers if number]
    assert len(given) == len(set(given)) >= 290  # what meets a lock for too long is left out
    assert here.summary()["answers"] >= 350 - 20


def test_it_never_grows_beyond_its_limit(path):
    history = History.open(path, limit=700)
    for _ in range(2600):
        answered(history)
    assert history.summary()["answers"] <= 700 + 500
    history.close()
    assert History.open(path, limit=700).summary()["answers"] == 700
    assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_no_database_is_set_aside(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    history = History.open(path)
    assert answered(history) == 1
    assert path.with_suffix(".damaged").read_bytes() == content


def test_a_file_of_another_version_is_set_aside(path):
    History.open(path).close()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 999")
    assert History.open(path).summary()["answers"] == 0
    assert path.with_suffix(".damaged").exists()


def test_where_nothing_can_be_written_it_is_done_without(tmp_path, caplog):
    (tmp_path / "file").touch()
    history = History.open(tmp_path / "file" / "history.sqlite")
    assert answered(history) == 0 and history.summary()["answers"] == 0
    assert "no statistics are kept" in caplog.text


def test_a_database_that_fails_later_harms_nobody_and_is_told_once(path, caplog):
    history = History.open(path)
    answered(history)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE answers")
    for _ in range(3):
        assert answered(history) == 0
    assert history.summary()["answers"] == 0
    assert caplog.text.count("statistics are incomplete") == 1
    history.close()
    history.shown(1)


def test_it_is_light():
    code = (
        "import sys, assistant.service.history\n"
        "print([name for name in ('torch', 'numpy', 'tokenizers', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

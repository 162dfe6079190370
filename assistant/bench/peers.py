"""`tokenleap bench peers`: our engine and llama.cpp on the same model, tokens and machine, taking turns.

llama.cpp is built from its PyPI source package into an environment of its own (`set_up`), so it is no
dependency and has this machine's instructions. Both run every thread count up to the machine's cores and are
judged by their best.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from assistant import locations
from assistant.bench import model, passes, prompts
from assistant.bench.intervals import median
from assistant.engine import device
from assistant.errors import UnsupportedError, UsageError
from assistant.models import catalog, fetch

REQUIREMENT = "llama-cpp-python==0.3.36"
CONTEXT = 512
ROWS = (1, 4, 5, 8, 16)
DECODED = 12  # single tokens timed together in one round
GENERATED = 32  # tokens of each whole prompt
_QUIET_S = 0.05  # between the engines' turns, so that one's spinning threads are asleep when the other starts

Report = Callable[[str], None]


class Engine(Protocol):
    """One contestant; every call gives milliseconds."""

    build: str

    def prefill(self, ids: Sequence[int], threads: int) -> float: ...

    def decode(self, ids: Sequence[int], threads: int) -> float: ...

    def rows(self, ids: Sequence[int], threads: int) -> float: ...

    def generate(self, ids: Sequence[int], count: int, threads: int) -> float: ...


class Ours:
    """The native engine in this process."""

    def __init__(self, loaded: model.Model) -> None:
        self._backbone = loaded.backbone
        self._cache = self._backbone.new_cache(CONTEXT + max(max(ROWS), DECODED))
        self.build = f"tokenleap {loaded.plan.path}, {loaded.stored.precision}"

    def prefill(self, ids: Sequence[int], threads: int) -> float:
        model.set_threads(threads)
        self._cache.truncate(0)
        return passes.prefill(self._backbone, self._cache, ids)

    def decode(self, ids: Sequence[int], threads: int) -> float:
        model.set_threads(threads)
        length = self._cache.length
        start = time.perf_counter()
        for token in ids:
            self._backbone.logits(self._backbone.forward([token], self._cache)["final"]).argmax().item()
        milliseconds = (time.perf_counter() - start) * 1e3
        self._cache.truncate(length)
        return milliseconds

    def rows(self, ids: Sequence[int], threads: int) -> float:
        model.set_threads(threads)
        return passes.one_pass(self._backbone, self._cache, ids)

    def generate(self, ids: Sequence[int], count: int, threads: int) -> float:
        model.set_threads(threads)
        cache = self._backbone.new_cache(len(ids) + count)
        start = time.perf_counter()
        hidden = None
        for at in range(0, len(ids), passes.CHUNK):
            hidden = self._backbone.forward(ids[at : at + passes.CHUNK], cache)["final"]
        for number in range(count):
            assert hidden is not None
            token = int(self._backbone.logits(hidden[-1:]).argmax())
            if number + 1 < count:
                hidden = self._backbone.forward([token], cache)["final"]
        return (time.perf_counter() - start) * 1e3


class LlamaCpp:
    """llama.cpp in a process of its own, spoken to in lines of JSON. Close it, or use it as a context
    manager.
    """

    def __init__(self, python: Path, gguf: Path, capacity: int) -> None:
        worker = Path(__file__).with_name("llama_worker.py")
        self._process = subprocess.Popen(
            [str(python), "-I", str(worker)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            opened = self._ask(do="open", path=str(gguf), context=capacity)
        except BaseException:
            self.close()
            raise
        self.build = f"llama-cpp-python {opened['version']}, {gguf.name}; {opened['flags']}"

    def _ask(self, **command: object) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise UnsupportedError("llama.cpp ended without an answer; run `tokenleap bench peers --setup` again.")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise UnsupportedError(f"llama.cpp failed ({reply['error']}); run `tokenleap bench peers --setup` again.")
        return reply

    def prefill(self, ids: Sequence[int], threads: int) -> float:
        return float(self._ask(do="prefill", ids=list(ids), threads=threads)["ms"])

    def decode(self, ids: Sequence[int], threads: int) -> float:
        return float(self._ask(do="decode", ids=list(ids), threads=threads)["ms"])

    def rows(self, ids: Sequence[int], threads: int) -> float:
        return float(self._ask(do="rows", ids=list(ids), threads=threads)["ms"])

    def generate(self, ids: Sequence[int], count: int, threads: int) -> float:
        return float(self._ask(do="generate", ids=list(ids), count=count, threads=threads)["ms"])

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> LlamaCpp:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def environment_python() -> Path:
    """The Python of the environment that `set_up` makes."""
    folder = locations.data_folder() / "peers" / "llama.cpp"
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def set_up(report: Report | None = None) -> Path:
    """Make the environment and build llama.cpp in it (12 minutes on two cores); nothing if it is there."""
    python = environment_python()
    check = [str(python), "-I", "-c", "import llama_cpp"]
    if python.exists() and subprocess.run(check, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0:
        return python
    steps = (
        [sys.executable, "-m", "venv", "--clear", str(python.parent.parent)],
        [str(python), "-m", "pip", "install", "--no-binary", "llama-cpp-python", REQUIREMENT],
    )
    for command in steps:
        if report is not None:
            report(" ".join(command))
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise UnsupportedError(f"llama.cpp could not be built ({reason}); check the compiler and the network.")
    return python


@contextlib.contextmanager
def joined(name: str) -> Iterator[Path]:
    """The model's GGUF as one file, which rivals need; a joined copy is removed again."""
    entry = catalog.find(name)
    parts, _ = fetch.fetch(entry)
    with parts:
        if len(parts.paths) == 1:
            yield parts.paths[0]
            return
        locations.cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="peers-", dir=locations.cache_folder()) as folder:
            path = Path(folder) / f"{entry.id}.gguf"
            with path.open("wb") as file:
                step = 8 << 20
                for offset in range(0, parts.size, step):
                    file.write(parts.read(offset, min(step, parts.size - offset)))
            yield path


def compete(
    engines: dict[str, Engine],
    ids: Sequence[int],
    texts: dict[str, list[int]],
    threads: Sequence[int],
    rounds: int,
    report: Report | None = None,
) -> dict[str, Any]:
    """All engines in turn: `ids` are CONTEXT of context and what follows, `texts` whole prompts by name."""
    context, following = ids[:CONTEXT], ids[CONTEXT:]
    times: dict[str, dict[tuple[str, int], list[float]]] = {name: {} for name in engines}
    for number in range(rounds + 1):  # round 0 is not counted: first touch of weights and caches
        if report is not None:
            report(f"peers: round {number} of {rounds}")
        names = list(engines) if number % 2 else list(reversed(engines))
        for count in threads:
            for name in names:
                time.sleep(_QUIET_S)
                engine, found = engines[name], times[name]
                taken = {"prefill": engine.prefill(context, count)}
                taken["decode"] = engine.decode(following[:DECODED], count) / DECODED
                taken |= {f"rows {rows}": engine.rows(following[:rows], count) for rows in ROWS}
                if number:
                    for what, milliseconds in taken.items():
                        found.setdefault((what, count), []).append(milliseconds)
    results = {name: _summary(engine.build, times[name], threads) for name, engine in engines.items()}
    whole: dict[str, dict[str, float]] = {name: {} for name in engines}
    for place, (prompt, tokens) in enumerate(texts.items()):
        names = list(engines) if place % 2 else list(reversed(engines))
        for name in names:
            time.sleep(_QUIET_S)
            taken_ms = engines[name].generate(tokens, GENERATED, results[name]["threads"])
            whole[name][prompt] = round(taken_ms, 1)
    for name, by_prompt in whole.items():
        results[name]["ms_by_prompt"] = by_prompt
    return results


def _summary(build: str, times: dict[tuple[str, int], list[float]], threads: Sequence[int]) -> dict[str, Any]:
    by_threads = {
        count: {what: median(values) for (what, used), values in times.items() if used == count} for count in threads
    }
    best = {what: min(by_threads[count][what] for count in threads) for what in by_threads[threads[0]]}
    return {
        "build": build,
        "threads": min(threads, key=lambda count: by_threads[count]["decode"]),
        "prefill_tokens_per_second": round(CONTEXT / best["prefill"] * 1e3, 1),
        "decode_tokens_per_second": round(1e3 / best["decode"], 2),
        "rows_ms": {str(rows): round(best[f"rows {rows}"], 2) for rows in ROWS},
        "by_threads": {
            str(count): {what: round(value, 2) for what, value in found.items()} for count, found in by_threads.items()
        },
    }


def ratios(results: dict[str, Any]) -> dict[str, Any]:
    """How many times faster we are than each rival, by the same figures."""
    ours, found = results["ours"], {}
    for name, theirs in results.items():
        if name == "ours":
            continue
        whole = [theirs["ms_by_prompt"][prompt] / ms for prompt, ms in ours["ms_by_prompt"].items()]
        found[name] = {
            "prefill": round(ours["prefill_tokens_per_second"] / theirs["prefill_tokens_per_second"], 3),
            "decode": round(ours["decode_tokens_per_second"] / theirs["decode_tokens_per_second"], 3),
            "rows": {rows: round(theirs["rows_ms"][rows] / ms, 3) for rows, ms in ours["rows_ms"].items()},
            "by_prompt": round(median(whole), 3),
        }
    return found


def measure(
    name: str,
    precision: str = "int8",
    python: Path | None = None,
    rounds: int = 7,
    prompt_count: int = 6,
    seed: int = 0,
    report: Report | None = None,
) -> dict[str, Any]:
    """The object of `bench peers --json`. `python`: an environment with llama_cpp, ours without one."""
    python = python or environment_python()
    if not python.exists():
        raise UsageError("llama.cpp is not built here; run `tokenleap bench peers --setup` first, or give --python.")
    loaded = model.load(name, precision)
    encode = loaded.tokenizer.encode
    ids = passes.code_ids(encode, CONTEXT + max(ROWS), seed)
    texts = {row["id"]: encode(row["prefix"]) for row in prompts.build(prompt_count, seed, headers=False)}
    threads = range(1, device.default_threads() + 1)
    capacity = CONTEXT + max(max(ROWS), DECODED) + 16
    capacity = max([capacity, *(len(tokens) + GENERATED for tokens in texts.values())])
    with joined(name) as gguf, LlamaCpp(python, gguf, capacity) as llama:
        engines: dict[str, Engine] = {"ours": Ours(loaded), "llama.cpp": llama}
        results = compete(engines, ids, texts, threads, rounds, report)
    return results | {
        "ratios": ratios(results),
        "context": CONTEXT,
        "rounds": rounds,
        "model": loaded.backbone.name,
    }

"""llama.cpp behind a line of JSON: run by the Python of an environment that has llama_cpp, never imported by
us.

Reads one command a line on stdin and answers one object a line on stdout: {"do": "open", "path", "context"},
{"do": "prefill", "ids", "threads"}, {"do": "decode", "ids", "threads"}, {"do": "rows", "ids", "threads"},
{"do": "generate", "ids", "count", "threads"}. Times are milliseconds of the named step alone. Standard
library and llama_cpp only.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import Any

import llama_cpp
from llama_cpp import llama_cpp as api


class Llama:
    """One model and one context; every step states its number of threads."""

    def __init__(self, path: str, capacity: int) -> None:
        # Kept alive: the library calls it for as long as it is loaded. Its messages would drown the answers.
        self.log = api.llama_log_callback(lambda level, text, data: None)
        api.llama_log_set(self.log, ctypes.c_void_p(0))
        api.llama_backend_init()
        self.model = api.llama_model_load_from_file(path.encode(), api.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        settings = api.llama_context_default_params()
        settings.n_ctx = capacity
        settings.n_batch = settings.n_ubatch = 512
        settings.no_perf = True
        self.context = api.llama_init_from_model(self.model, settings)
        self.memory = api.llama_get_memory(self.context)
        self.vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        self.batch = api.llama_batch_init(512, 0, 1)
        self.length = 0

    def step(self, ids: list[int], every_row: bool) -> int:
        """Append `ids`, score every row or the last; the last row's greedy choice."""
        for i, token in enumerate(ids):
            self.batch.token[i] = token
            self.batch.pos[i] = self.length + i
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = 0
            self.batch.logits[i] = 1 if every_row or i == len(ids) - 1 else 0
        self.batch.n_tokens = len(ids)
        if api.llama_decode(self.context, self.batch):
            raise RuntimeError("llama_decode failed")
        self.length += len(ids)
        row = api.llama_get_logits_ith(self.context, len(ids) - 1)
        scores = (ctypes.c_float * self.vocabulary).from_address(ctypes.addressof(row.contents))
        return _largest(scores)

    def cut(self, length: int) -> None:
        api.llama_memory_seq_rm(self.memory, 0, length, -1)
        self.length = length

    def threads(self, count: int) -> None:
        api.llama_set_n_threads(self.context, count, count)

    def prefill(self, ids: list[int]) -> int:
        """Start over with `ids` as the context."""
        api.llama_memory_clear(self.memory, True)
        self.length = 0
        token = 0
        for start in range(0, len(ids), 512):
            token = self.step(ids[start : start + 512], every_row=False)
        return token


def _largest(scores: Any) -> int:
    import numpy

    return int(numpy.frombuffer(scores, dtype=numpy.float32).argmax())


def _since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3


def answer(state: dict[str, Any], command: dict[str, Any]) -> dict[str, Any]:
    """Do one command."""
    do = command["do"]
    if do == "open":
        state["llama"] = Llama(command["path"], command["context"])
        info = api.llama_print_system_info().decode()
        return {"version": llama_cpp.__version__, "flags": " ".join(info.split()), "pid": os.getpid()}
    llama: Llama = state["llama"]
    llama.threads(command["threads"])
    start = time.perf_counter()
    if do == "prefill":
        token = llama.prefill(command["ids"])
        return {"ms": _since(start), "token": token}
    if do == "generate":
        tokens = [llama.prefill(command["ids"])]
        while len(tokens) < command["count"]:
            tokens.append(llama.step(tokens[-1:], every_row=False))
        return {"ms": _since(start), "tokens": tokens}
    length, ids = llama.length, command["ids"]
    if do == "decode":
        for token in ids:
            llama.step([token], every_row=False)
    elif do == "rows":
        llama.step(ids, every_row=True)
    else:
        raise ValueError(f"unknown command {do}")
    milliseconds = _since(start)
    llama.cut(length)
    return {"ms": milliseconds}


def main() -> None:
    """Answer until stdin ends."""
    # The library writes to the process's stdout as it likes; answers go to a copy of it, the rest to stderr.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    state: dict[str, Any] = {}
    for line in sys.stdin:
        try:
            reply = answer(state, json.loads(line))
        except Exception as error:  # the other side must hear of any failure, or it waits for ever
            reply = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()

"""How fast this machine reads memory: a C loop over a buffer far larger than the caches, compiled when it is
needed.

It is the yardstick for the engine's passes, so it only reads (wide sums, no writes) and is timed in the same
run. Raises UnsupportedError where there is no C compiler.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from pathlib import Path

from assistant.errors import UnsupportedError
from cuda_ops.compile import CompileError, compiler

_SOURCE = r"""
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct { const uint64_t *data; size_t words; uint64_t sum; } part_t;

/* Eight sums of eight words keep several loads in flight; the compiler makes vector loads of them. */
static void *read_part(void *argument) {
    part_t *part = argument;
    uint64_t sums[64] = {0};
    const uint64_t *data = part->data;
    for (size_t i = 0; i + 64 <= part->words; i += 64)
        for (int j = 0; j < 64; j++) sums[j] += data[i + j];
    uint64_t sum = 0;
    for (int j = 0; j < 64; j++) sum += sums[j];
    part->sum = sum;
    return 0;
}

/* Reads all words once with `threads` threads; gives the seconds taken, threads' start included, or -1. */
double stream_read(const uint64_t *data, size_t words, int threads, uint64_t *sum) {
    pthread_t handles[256];
    part_t parts[256];
    struct timespec start, end;
    if (threads < 1 || threads > 256) return -1.0;
    size_t share = words / threads / 64 * 64;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int t = 0; t < threads; t++) {
        parts[t].data = data + share * t;
        parts[t].words = t == threads - 1 ? words - share * t : share;
        if (t > 0 && pthread_create(&handles[t], 0, read_part, &parts[t])) return -1.0;
    }
    read_part(&parts[0]);
    *sum = parts[0].sum;
    for (int t = 1; t < threads; t++) {
        pthread_join(handles[t], 0);
        *sum += parts[t].sum;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}
"""

_LEAST_BYTES = 256 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_cache_bytes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """Size of the last-level cache; 0 when the system does not say."""
    sizes = [0]
    for file in folder.glob("index*/size"):
        found = re.fullmatch(r"(\d+)([KMG]?)", file.read_text().strip())
        if found:
            sizes.append(int(found[1]) * _UNITS.get(found[2], 1))
    return max(sizes)


class Stream:
    """The compiled loop and its buffer of `bytes` bytes (at least four times the last-level cache)."""

    def __init__(self, size: int | None = None) -> None:
        """Compile the loop and fill the buffer; `size` in bytes overrides the chosen one (tests)."""
        self._read = _compile()
        self.bytes = (size or max(_LEAST_BYTES, 4 * last_cache_bytes())) // 512 * 512
        self._buffer = ctypes.create_string_buffer(self.bytes + 64)
        base = ctypes.addressof(self._buffer)
        self._address = base + (-base % 64)
        # Every page is written, or all of them would be the one page of zeros; 1 in each byte makes the sum
        # known.
        ctypes.memset(self._address, 1, self.bytes)

    def seconds(self, threads: int) -> float:
        """One pass over the buffer. Raises UnsupportedError when the threads cannot be started."""
        words = self.bytes // 8
        total = ctypes.c_uint64()
        seconds = float(self._read(self._address, words, threads, ctypes.byref(total)))
        expected = (words * 0x0101010101010101) & (2**64 - 1)
        if seconds <= 0 or total.value != expected:
            raise UnsupportedError(f"Reading memory with {threads} threads failed; try fewer threads.")
        return seconds

    def gb_s(self, threads: int) -> float:
        """Read speed of one pass, 10**9 bytes a second."""
        return self.bytes / self.seconds(threads) / 1e9


def _compile() -> ctypes._NamedFuncPointer:
    try:
        command = compiler()
    except CompileError as error:
        raise UnsupportedError(f"Measuring memory needs a C compiler ({error}); install gcc or clang.") from error
    with tempfile.TemporaryDirectory(prefix="tokenleap-stream-") as name:
        source, library = Path(name) / "stream.c", Path(name) / "stream.so"
        source.write_text(_SOURCE)
        flags = ["-O3", "-march=native", "-shared", "-fPIC", "-pthread"]
        made = subprocess.run(
            [*command, *flags, "-o", str(library), str(source)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if made.returncode:
            reason = (made.stderr.strip().splitlines() or ["no message"])[-1]
            raise UnsupportedError(f"The C compiler {command[0]} failed ({reason}); set CC to another one.")
        read = ctypes.CDLL(str(library)).stream_read  # stays mapped when the file goes
    read.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64)]
    read.restype = ctypes.c_double
    return read

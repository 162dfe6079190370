"""Compiles the C kernels with the machine's own compiler at first use and keeps the library.

A library's name holds a hash of sources, flags, compiler and processor, so nothing stale is ever loaded. It is written
under a temporary name and renamed, so two processes may compile at once, and it ends in a digest of itself: loading a
file that a full disk or a crash has cut short would kill the process, so it is checked first.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

KERNELS = Path(__file__).parent / "kernels"

DIGEST = 32  # bytes of SHA-256 at a library's end
COMMON_FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-pthread", "-ffp-contract=off", "-fno-math-errno")

# "native" lets lanes.h take the best version; the others exist so that tests can hold them against it.
VERSIONS: dict[str, tuple[str, ...]] = {
    "native": ("-march=native",),
    "avx2-vnni": ("-mavx2", "-mfma", "-mavxvnni"),
    "avx2": ("-mavx2", "-mfma"),
    "portable": ("-march=native", "-DTOKENLEAP_PORTABLE"),
}


class CompileError(RuntimeError):
    """No compiler, or one that failed; the text says which."""


@functools.cache
def processor() -> str:
    """The processor's kind and feature list, as one string."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return f"{platform.machine()} {' '.join(sorted(line.split(':', 1)[1].split()))}"
    except OSError:
        pass
    return f"{platform.machine()} {platform.processor()}"


def compiler() -> list[str]:
    """The C compiler's command: $CC, else cc, gcc or clang. CompileError when there is none."""
    named = os.environ.get("CC")
    if named:
        command = shlex.split(named)
        if shutil.which(command[0]):
            return command
        raise CompileError(f"the compiler that CC names ({command[0]}) is not on this machine")
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return [found]
    raise CompileError("no C compiler (cc, gcc or clang) on this machine")


def _key(command: list[str], flags: tuple[str, ...], sources: list[Path]) -> str:
    digest = hashlib.sha256()
    real = os.path.realpath(shutil.which(command[0]) or command[0])
    stamp = os.stat(real)
    for part in (*command, real, str(stamp.st_size), str(stamp.st_mtime_ns), *flags, processor()):
        digest.update(part.encode() + b"\0")
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _sound(path: Path) -> bool:
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return len(content) > DIGEST and hashlib.sha256(content[:-DIGEST]).digest() == content[-DIGEST:]


def shared_library(folder: Path, version: str = "native") -> Path:
    """The compiled kernels of `version` in `folder`, compiled now if they are not there yet.

    CompileError when there is no compiler, it fails, or the folder cannot be written.
    """
    sources = sorted(KERNELS.glob("*.[ch]"))
    flags = (*COMMON_FLAGS, *VERSIONS[version])
    command = compiler()
    target = folder / f"kernels-{version}-{_key(command, flags, sources)}.so"
    if _sound(target):
        return target
    temporary = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=target.name, suffix=".tmp", dir=folder)
        os.close(handle)
        units = [str(source) for source in sources if source.suffix == ".c"]
        done = subprocess.run(
            [*command, *flags, *units, "-o", temporary, "-lm"],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[0]
            raise CompileError(f"{command[0]} failed: {last}")
        with open(temporary, "r+b") as file:
            digest = hashlib.sha256(file.read()).digest()
            file.write(digest)  # bytes after the last section mean nothing to the loader
        os.replace(temporary, target)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"the kernels could not be compiled into {folder}: {error}") from error
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    return target

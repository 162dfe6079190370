"""Compiles the CUDA sources with NVRTC, the compiler that comes as a wheel; no toolkit and no GPU are needed.

`cubin` keeps what it makes under a name that hashes sources, options, architecture and compiler, written aside and
renamed, and ended by a digest, so that two processes may compile at once and half a file is made again. Where the
folder cannot be written the program is compiled each time. CompileError says why there is none.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import hashlib
import importlib.util
import os
import tempfile
from pathlib import Path

from cuda_ops.compile import DIGEST, KERNELS, CompileError

# Products and sums are fused where the source says fmaf and nowhere else, so that results do not hang on the compiler.
OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")


def programs() -> list[str]:
    """Names of the CUDA sources, without their ending."""
    return sorted(path.stem for path in KERNELS.glob("*.cu"))


def _candidates() -> list[str]:
    found: list[str] = []
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for pattern in ("*/lib/libnvrtc.so.[0-9]*", "*/bin/**/nvrtc64_*_0.dll"):
            found += sorted(map(str, Path(place).glob(pattern)), reverse=True)
    system = ctypes.util.find_library("nvrtc")
    return found + ([system] if system else [])


@functools.cache
def _library() -> ctypes.CDLL:
    reason = "no NVRTC on this machine (it comes with torch's CUDA build, or as nvidia-cuda-nvrtc)"
    for name in _candidates():
        try:
            # NVRTC asks for its built-ins by name alone, and finds them when they are loaded already.
            for builtins in sorted(Path(name).parent.glob("libnvrtc-builtins.so.[0-9]*")):
                ctypes.CDLL(str(builtins))
            return ctypes.CDLL(name)
        except OSError as error:
            reason = f"NVRTC cannot be loaded: {error}"
    raise CompileError(reason)


def version() -> str:
    """NVRTC's version, e.g. "13.0"; CompileError when there is none."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def compiled(name: str, architecture: int) -> bytes:
    """The program `name` as a cubin for e.g. architecture 80; CompileError with the compiler's first words."""
    library, program = _library(), ctypes.c_void_p()
    headers = sorted(KERNELS.glob("*.cuh"))
    texts = (ctypes.c_char_p * len(headers))(*(path.read_bytes() for path in headers))
    names = (ctypes.c_char_p * len(headers))(*(path.name.encode() for path in headers))
    source = (KERNELS / f"{name}.cu").read_bytes()
    _need(library.nvrtcCreateProgram(
        ctypes.byref(program), source, f"{name}.cu".encode(), len(headers), texts, names
    ), name)  # fmt: skip
    try:
        options = [option.encode() for option in (*OPTIONS, f"--gpu-architecture=sm_{architecture}")]
        status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if status:
            log = _read(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program).decode(errors="replace")
            words = [line for line in log.splitlines() if line.strip("\0 ")] or ["no message"]
            raise CompileError(f"NVRTC refused {name}.cu for sm_{architecture}: {words[0]}")
        return _read(library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN, program)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _need(status: int, name: str) -> None:
    if status:
        raise CompileError(f"NVRTC failed on {name}.cu with code {status}")


def _read(size_of: ctypes._NamedFuncPointer, read: ctypes._NamedFuncPointer, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _need(size_of(program, ctypes.byref(size)), "the program")
    buffer = ctypes.create_string_buffer(size.value)
    _need(read(program, buffer), "the program")
    return buffer.raw


def cubin(folder: Path, name: str, architecture: int) -> bytes:
    """As `compiled`, kept in `folder`."""
    digest = hashlib.sha256()
    for part in (version(), *OPTIONS, str(architecture)):
        digest.update(part.encode() + b"\0")
    for source in (KERNELS / f"{name}.cu", *sorted(KERNELS.glob("*.cuh"))):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    target = folder / f"{name}-sm_{architecture}-{digest.hexdigest()[:16]}.cubin"
    with contextlib.suppress(OSError):
        content = target.read_bytes()
        if len(content) > DIGEST and hashlib.sha256(content[:-DIGEST]).digest() == content[-DIGEST:]:
            return content[:-DIGEST]
    made = compiled(name, architecture)
    with contextlib.suppress(OSError):
        _keep(target, made + hashlib.sha256(made).digest())
    return made


def _keep(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=target.name, suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, target)
    except OSError:
        os.unlink(temporary)
        raise

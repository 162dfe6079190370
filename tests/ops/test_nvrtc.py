"""The CUDA sources compile for every architecture without a GPU; what is kept is sound, what cannot be had is said.

Nothing here runs on a GPU.
"""

from __future__ import annotations

import multiprocessing
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_ops import nvrtc
from cuda_ops.compile import CompileError

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)


def tool(name: str) -> Path:
    import importlib.util

    spec = importlib.util.find_spec("nvidia")
    assert spec is not None and spec.submodule_search_locations
    return next(path for place in spec.submodule_search_locations for path in Path(place).glob(f"*/bin/{name}"))


@pytest.mark.parametrize("name", nvrtc.programs())
def test_every_source_compiles_for_every_architecture_without_spilling(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for architecture in ARCHITECTURES:
        file = tmp_path / "program.cubin"
        file.write_bytes(nvrtc.compiled(name, architecture))
        said = subprocess.run([tool("cuobjdump"), "-res-usage", file], capture_output=True, text=True, check=True)
        usage = re.findall(r"Function (\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", said.stdout)
        assert usage, said.stdout
        for function, registers, stack, shared, local in usage:
            used = f"{registers:>4} registers{shared:>7} B shared, {stack} spilt"
            lines.append(f"sm_{architecture:<4}{function:<20}{used}\n")
            assert int(stack) == int(local) == 0
    with capsys.disabled():
        sys.stdout.writelines(["\n", *lines])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_product_uses_the_tensor_cores(architecture: int, tmp_path: Path) -> None:
    file = tmp_path / "linear.cubin"
    file.write_bytes(nvrtc.compiled("linear", architecture))
    path = {"PATH": str(tool("nvdisasm").parent)}
    said = subprocess.run([tool("cuobjdump"), "-sass", file], capture_output=True, text=True, check=True, env=path)
    assert "IMMA" in said.stdout, said.stdout[:300]


def test_what_is_kept_is_used_and_half_of_it_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = nvrtc.cubin(tmp_path, "rows", 80)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[: len(made) // 2])
    assert nvrtc.cubin(tmp_path, "rows", 80) == made
    monkeypatch.setattr(nvrtc, "compiled", lambda *_: pytest.fail("compiled again"))
    assert nvrtc.cubin(tmp_path, "rows", 80) == made
    assert list(tmp_path.iterdir()) == [kept]


def test_two_processes_at_once_keep_one_sound_file(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.starmap(nvrtc.cubin, [(tmp_path, "rows", 80)] * 2)
    assert first == second and len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_written_costs_time_alone(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert nvrtc.cubin(blocked, "rows", 80)


def test_no_nvrtc_and_an_unknown_architecture_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError, match=r"refused|failed"):
        nvrtc.compiled("rows", 1)
    monkeypatch.setattr(nvrtc, "_candidates", list)
    nvrtc._library.cache_clear()
    try:
        with pytest.raises(CompileError, match="no NVRTC"):
            nvrtc.version()
    finally:
        nvrtc._library.cache_clear()

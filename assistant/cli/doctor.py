"""`tokenleap doctor`: one understandable line for each thing that Tokenleap needs on this machine.

A check answers with a Finding: "ok", "warning" (works, but worse) or "problem" (something is missing;
the text says what to do). A check that fails is itself a problem, never the end of the others. Exit 0 without
problems, else 3.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assistant import locations
from assistant.cli import failures, output
from assistant.cli.flags import Parser, add_settings
from assistant.errors import TokenleapError
from assistant.settings.load import DEFAULT, Loaded

_FEATURES = (
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_int8",
    "asimddp",
    "i8mm",
    "sve",
)
_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "gguf", "numpy")
_GIGABYTE = 1e9
_PATIENCE = 5.0  # seconds for a busy host to answer


@dataclass(frozen=True)
class Finding:
    """state: "ok", "warning" or "problem"; text: one line for people; data: the same for programs."""

    state: str
    text: str
    data: dict[str, Any] = field(default_factory=dict)


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Adds `doctor`."""
    parser = subparsers.add_parser(
        "doctor",
        help="say what this machine can do and what is missing",
        description="Says what Tokenleap finds on this machine, what it will use, and what is missing.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_settings(parser, ("model", "precision", "device", "threads"))
    parser.set_defaults(run=run, tolerant=True)


def run(args: argparse.Namespace, settings: object) -> int:
    """Runs every check. Returns 0 or 3."""
    findings = {name: _guarded(check, args.loaded) for name, check in CHECKS.items()}
    healthy = all(finding.state != "problem" for finding in findings.values())
    if args.json:
        report = {name: {"state": f.state, "text": f.text, **f.data} for name, f in findings.items()}
        output.json({"healthy": healthy, **report})
    else:
        marks = {"ok": " ", "warning": "!", "problem": "x"}
        output.result("\n".join(f"{marks[f.state]} {name:<10} {f.text}" for name, f in findings.items()))
    if not healthy:
        bad = ", ".join(name for name, finding in findings.items() if finding.state == "problem")
        output.note(f"tokenleap: something essential is missing, see the lines marked x: {bad}")
    return 0 if healthy else failures.ENVIRONMENT


def _guarded(check: Callable[[Loaded], Finding], loaded: Loaded) -> Finding:
    try:
        return check(loaded)
    except Exception as error:  # the next check still counts
        return Finding("problem", failures.describe(error).message)


def _processor(loaded: Loaded) -> Finding:
    name, flags = platform.processor() or platform.machine(), set[str]()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            elif key.strip() in ("flags", "Features"):
                flags = set(value.split())
    except OSError:
        pass  # not Linux: the name is all there is
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = [feature for feature in _FEATURES if feature in flags]
    text = f"{name} ({platform.machine()}), {usable} usable cores, {' '.join(found) or 'features unknown'}"
    return Finding("ok", text, {"name": name, "cores": usable, "features": found})


def _memory(loaded: Loaded) -> Finding:
    import psutil

    memory = psutil.virtual_memory()
    data = {"total_bytes": memory.total, "available_bytes": memory.available}
    text = f"{memory.total / _GIGABYTE:.1f} GB, {memory.available / _GIGABYTE:.1f} GB available"
    if memory.available < 1.5 * _GIGABYTE:
        return Finding(
            "warning", f"{text}: the default model wants about 1.2 GB, close something first", data
        )
    return Finding("ok", text, data)


def _compiler(loaded: Loaded) -> Finding:
    import shlex
    import subprocess

    named = os.environ.get("CC")
    wanted = shlex.split(named)[:1] if named else ["cc", "gcc", "clang"]
    path = next((found for found in map(shutil.which, wanted) if found), None)
    if path is None:
        return Finding(
            "warning",
            f"none found ({', '.join(wanted)}): install gcc or clang, without it decoding is slow",
            {"path": None},
        )
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    version = (done.stdout.strip().splitlines() or ["version unknown"])[0]
    return Finding("ok", f"{path}: {version}", {"path": path, "version": version})


def _gpu(loaded: Loaded) -> Finding:
    import torch

    if not torch.cuda.is_available():
        return Finding("ok", "none that torch can use: the processor does the work", {"name": None})
    name = torch.cuda.get_device_name()
    return Finding("ok", name, {"name": name})


def _engine(loaded: Loaded) -> Finding:
    from assistant.engine import device

    settings = loaded.settings
    plan = device.plan(settings.precision, settings.device, settings.threads)
    data = {
        "precision": settings.precision,
        "path": plan.path,
        "reason": plan.reason,
        "threads": plan.threads,
    }
    slow = settings.precision == "int8" and plan.path.endswith("torch")
    text = f"{settings.precision} on {plan.path}, {plan.threads} threads: {plan.reason}"
    return Finding("warning" if slow else "ok", text, data)


def _model(loaded: Loaded) -> Finding:
    from assistant.models import catalog, fetch, store

    settings = loaded.settings
    entry = catalog.find(settings.model)
    folder = store.folder_of(entry.id, settings.precision)
    data: dict[str, Any] = {"id": entry.id, "precision": settings.precision, "folder": str(folder)}
    if folder.is_dir():
        store.open_model(folder)  # says what is wrong with a damaged one
        size = _size(folder)
        text = f"{entry.id} {settings.precision} is ready: {size / 1e6:,.0f} MB in {folder}"
        return Finding("ok", text, {**data, "ready": True, "bytes": size})
    if fetch.locate(entry) is not None:
        text = f"{entry.id} is installed and will be converted to {settings.precision} at its first use"
        return Finding("ok", text, {**data, "ready": False})
    return Finding("problem", str(fetch.missing(entry)), {**data, "ready": False})


def _settings(loaded: Loaded) -> Finding:
    file = locations.settings_file()
    changed = {n: getattr(loaded.settings, n) for n, o in loaded.origins.items() if o.source != DEFAULT}
    data = {"file": str(file), "exists": file.exists(), "changed": changed, "warnings": list(loaded.warnings)}
    text = f"{file}" if file.exists() else f"{file} (not there, defaults are used)"
    if changed:
        text += "; changed: " + ", ".join(f"{name}={value}" for name, value in changed.items())
    if loaded.warnings:
        return Finding("warning", f"{text}; " + "; ".join(loaded.warnings), data)
    return Finding("ok", text, data)


def _folders(loaded: Loaded) -> Finding:
    places = {"data": locations.data_folder(), "cache": locations.cache_folder()}
    data: dict[str, Any] = {}
    words, locked = [], []
    for name, folder in places.items():
        size = _size(folder)
        data[name] = {"path": str(folder), "bytes": size}
        words.append(f"{name} {folder} ({size / 1e6:,.0f} MB)")
        if not os.access(_existing(folder), os.W_OK):
            locked.append(str(folder))
    data["runtime"] = {"path": str(locations.runtime_folder())}
    data["free_bytes"] = free = shutil.disk_usage(_existing(places["data"])).free
    text = ", ".join(words) + f", {free / _GIGABYTE:.1f} GB free"
    if locked:
        return Finding("problem", f"{' and '.join(locked)} cannot be written: correct the rights", data)
    if free < 1.5 * _GIGABYTE:
        return Finding("warning", f"{text}: a model takes about 0.7 GB, free some space", data)
    return Finding("ok", text, data)


def _versions(loaded: Loaded) -> Finding:
    from importlib import metadata

    data: dict[str, str | None] = {"python": platform.python_version(), "system": platform.platform()}
    for package in ("tokenleap", *_PACKAGES):
        try:
            data[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            data[package] = None
    missing = [package for package in _PACKAGES if data[package] is None]
    text = ", ".join(f"{name} {version or 'missing'}" for name, version in data.items())
    if missing:
        return Finding("problem", f"{text}: install tokenleap again", dict(data))
    return Finding("ok", text, dict(data))


def _host(loaded: Loaded) -> Finding:
    from assistant.service.client import Client
    from assistant.service.endpoint import Endpoint, HostLock

    endpoint = Endpoint.here()
    if HostLock(endpoint.lock).holder() is None:
        return Finding("ok", "not running: the first completion starts it", {"running": False})
    try:
        with Client.connect(start=False, wait=_PATIENCE, endpoint=endpoint) as client:
            status = client.status()
    except TokenleapError as error:
        return Finding("warning", str(error), {"running": True})
    text = f"running (process {status.pid}, {status.state}), {status.rss_bytes / 1e6:,.0f} MB"
    return Finding("ok", text, {"running": True, **status.to_json()})


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue  # gone meanwhile
    return total


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))


CHECKS: dict[str, Callable[[Loaded], Finding]] = {
    "processor": _processor,
    "memory": _memory,
    "compiler": _compiler,
    "gpu": _gpu,
    "engine": _engine,
    "model": _model,
    "host": _host,
    "settings": _settings,
    "folders": _folders,
    "versions": _versions,
}

"""Captures on the CPU, at sizes that take no time; each runs a real child process."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tracetui.capture import process
from tracetui.capture.catalog import WORKLOADS
from tracetui.capture.options import CaptureOptions

from . import warm

MODEL = {"layers": 1, "dim": 32, "heads": 4, "seq": 8, "hidden": 32, "vocab": 64, "batch": 2}
SMALL: dict[str, dict[str, Any]] = {
    name: {p.name: min(p.default, 8) for p in workload.params if type(p.default) is int}
    for name, workload in WORKLOADS.items()
} | {"llm": MODEL, "train": MODEL}
"""Sizes that take no time, of each workload: nothing above 8, where it can be."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("torch") is None:
        for item in items:
            if item.get_closest_marker("torch"):
                item.add_marker(pytest.mark.skip(reason="PyTorch is not installed"))


@pytest.fixture
def warm_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures that begin with PyTorch loaded; those with a Python of their own begin as always."""

    def start(command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        warmed = sys.platform == "linux" and command[0] == sys.executable
        return (warm.Popen if warmed else subprocess.Popen)(command, **how)

    monkeypatch.setattr(process, "subprocess", SimpleNamespace(Popen=start, PIPE=subprocess.PIPE))


@pytest.fixture
def options(tmp_path: Path) -> Callable[..., CaptureOptions]:
    """Options of a small capture on the CPU into a directory of the test's own, `tmp_path / "out"`."""

    def make(
        target: str = "matmul_add", params: dict[str, Any] | None = None, **others: Any
    ) -> CaptureOptions:
        given = {"device": "cpu", "output": str(tmp_path / "out"), **others}
        return CaptureOptions(target, {**SMALL.get(target, {}), **(params or {})}, **given)

    return make


@pytest.fixture
def wrapped_python(tmp_path: Path) -> Callable[[str], str]:
    """A program that runs this Python after some lines of shell, for `--python`."""

    def make(shell: str) -> str:
        path = tmp_path / "python"
        path.write_text(f'#!/bin/sh\n{shell}\nexec "{sys.executable}" "$@"\n')
        path.chmod(0o755)
        return str(path)

    return make


def events_of(path: Path) -> list[dict[str, Any]]:
    """The slices of an uncompressed trace."""
    return [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]


def alive(pid: int) -> bool:
    """Whether a process runs. One that has ended and that nobody has waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False

"""Which Python runs a capture: the one that was named, else the first one with PyTorch. Never imports it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tracetui.capture.process import StartError

PROBE = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]  # not what lies in the working directory
from importlib.util import find_spec
found = find_spec("torch")
sys.exit(0 if found and found.origin else 3)
"""
PROBE_SECONDS = 15.0
"""For all candidates together. Python may lie on a slow network disk."""


def find_python(wanted: str | None) -> tuple[str, str]:
    """The Python for the child, and a line about where it was found ("" if nothing needs to be said).

    Without `wanted` that is this environment's, if it has torch, else the first in `active_pythons` that has
    it. Raises `StartError` if there is none.
    """
    if wanted is not None:
        return _named(wanted), ""
    if find_spec("torch") is not None:  # finds the module without importing it
        return sys.executable, ""
    tried = []
    end = time.monotonic() + PROBE_SECONDS
    for python, why in active_pythons():
        if _has_torch(python, end - time.monotonic()):
            return python, f"using PyTorch from {python} ({why})"
        tried.append(python)
    nor = f", nor in {', '.join(tried)}" if tried else ""
    raise StartError(
        "no_torch",
        f"PyTorch is not installed in tracetui's own environment{nor}. Activate an environment that has it, "
        f"name its Python (--python PATH), or install it: {sys.executable} -m pip install torch",
    )


def active_pythons() -> Iterator[tuple[str, str]]:
    """The Pythons of the active environments and on the PATH, one per folder, and where each was named."""
    seen = {os.path.realpath(os.path.dirname(sys.executable))}
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if folder := os.environ.get(name):
            yield from _new(_inside(folder), name, seen)
    for name in ("python3", "python"):
        yield from _new(name, f"{name} on the PATH", seen)


def _new(python: str, why: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    found = shutil.which(python)
    if found is None or not os.path.isabs(found):  # never a program in the working directory
        return
    # The folder, as a virtual environment's Python is a link to another one's.
    folder = os.path.realpath(os.path.dirname(found))
    if folder not in seen:
        seen.add(folder)
        yield found, why


def _has_torch(python: str, seconds: float) -> bool:
    try:
        ended = subprocess.run(
            [python, "-c", PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=max(0.1, seconds),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


def _named(wanted: str) -> str:
    path = os.path.expanduser(wanted)
    if os.path.isdir(path):  # an environment's folder stands for the Python in it
        path = _inside(path)
    found = shutil.which(path)
    if found is None:
        raise StartError("no_python", f"--python: no such program: {wanted}")
    return found


def _inside(environment: str) -> str:
    names = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
    return str(Path(environment, *names))

"""Whether a job uses Cuspy, the second profiler of PyTorch 2.15.

A process has room for one: where Kineto has recorded a GPU, Cuspy records none until the process ends, writes
no trace, and says so in a warning alone. So its user comes first. That Kineto listens for whoever wants a
recording (`run`) takes nothing from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise

from tracetui.capture.live import procfs
from tracetui.capture.sources import CUSPY, source

_IMPORT = re.compile(rb"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)
MOST = 200
"""Sources that are read."""


def named_in(command: Sequence[str], folder: str = ".") -> str | None:
    """The Python source of a command, as seen from `folder`, that names Cuspy: its scripts and modules, and
    those beside them that they import."""
    modules = [after for word, after in pairwise(command) if word == "-m"]
    left = [os.path.join(folder, word) for word in command if word.endswith(".py")]
    for module in modules:
        left += _sources(folder, module)
    seen = set[str]()
    while left and len(seen) < MOST:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        text = source(path)
        if CUSPY.search(text):
            return path
        for found in _IMPORT.findall(text):
            left += _sources(os.path.dirname(path), found.decode().lstrip("."))
    return None


def _sources(folder: str, module: str) -> list[str]:
    """Where the source of a module would be."""
    path = os.path.join(folder, *module.split("."))
    return [f"{path}.py", os.path.join(path, "__init__.py"), os.path.join(path, "__main__.py")]


def used_by(pid: int) -> bool:
    """Whether a process has begun to use it: CUPTI's interface for Python is loaded then."""
    try:
        return procfs.maps(pid, r"/cupti/cupti\.[\w.-]+\.so")
    except OSError:
        return False


def refusal(pid: int) -> str:
    """Why it is not recorded then."""
    return (
        f"process {pid} uses Cuspy, PyTorch's other profiler, which could record no GPU any more if it were "
        "asked: have it write the trace itself (tracetui opens that)"
    )

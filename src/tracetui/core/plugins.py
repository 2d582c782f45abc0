"""What other installed packages add: rules, formats, families of kernels and views, by entry points.

They are looked for when they are first asked for, and loaded then. One that cannot be loaded, or fails, is
left out and costs one line: see `problems`. `TRACETUI_NO_PLUGINS=1` leaves all of them out.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from tracetui.core.safe_text import plain

KINDS = {"rules": "rule", "formats": "format", "kernels": "kernel family", "views": "view"}
"""An entry point's group is `tracetui.` and one of these; what one of it is called."""
_LONGEST = 200
"""Characters of what a plugin says about a failure."""
_INFO = (".dist-info", ".egg-info")

T = TypeVar("T")


class Plugin(NamedTuple):
    """An entry point of a package. Its texts are safe to show."""

    kind: str
    name: str
    package: str
    """With its version."""
    load: Callable[[], Any]

    @property
    def what(self) -> str:
        """What it is called in a sentence."""
        return f"{self.sort} {self.name} of {self.package}"

    @property
    def sort(self) -> str:
        return KINDS[self.kind]


_problems: dict[tuple[str, str], str] = {}
"""By kind and name: the first of each."""
_lock = threading.RLock()


def problems() -> list[str]:
    """What went wrong with plugins so far: a line for each, safe to show."""
    return list(_problems.values())


def failed(plugin: Plugin, error: BaseException | str) -> None:
    """Note that a plugin is left out (and why), or failed and is left out this time."""
    what, why = "left out", error
    if isinstance(error, BaseException):
        what, why = "failed", f"{type(error).__name__}: {error}"
    text = plain(" ".join(str(why).split()), _LONGEST)
    with _lock:
        _problems.setdefault((plugin.kind, plugin.name), f"plugin {what}: {plugin.what}: {text}")


def attempt(plugin: Plugin, make: Callable[[], T]) -> T | None:
    """What this call of a plugin returns; None if it fails, which is noted."""
    try:
        return make()
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        failed(plugin, error)
        return None


@lru_cache(maxsize=1)
def installed() -> tuple[Plugin, ...]:
    """All plugins, by kind and name; nothing of them is loaded."""
    if os.environ.get("TRACETUI_NO_PLUGINS") or not any(map(_names_plugins, sys.path)):
        return ()
    from importlib.metadata import distributions  # takes 70 ms to import

    found: dict[tuple[str, str], Plugin] = {}
    for package in distributions():
        try:
            points = [one for one in package.entry_points if one.group.startswith("tracetui.")]
            for point in points:
                kind, name = point.group.removeprefix("tracetui."), plain(point.name, 60)
                about = plain(f"{package.metadata['Name']} {package.version}", 60)
                found.setdefault((kind, name), Plugin(kind, name, about, point.load))
        except Exception:  # a damaged folder of metadata
            continue
    return tuple(found[key] for key in sorted(found) if key[0] in KINDS)


def _names_plugins(folder: str) -> bool:
    """Whether a folder of `sys.path` has metadata of a package with plugins."""
    try:
        names = [name for name in os.listdir(folder or ".") if name.endswith(_INFO)]
    except OSError:
        return False
    return any(_has_plugins(os.path.join(folder, name, "entry_points.txt")) for name in names)


def _has_plugins(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"[tracetui." in file.read()
    except OSError:
        return False


def loaded(kind: str) -> tuple[tuple[Plugin, Any], ...]:
    """The plugins of a kind that can be loaded, each with its object."""
    with _lock:  # loaded once, whoever asks first
        return _loaded(kind)


@lru_cache(maxsize=len(KINDS))
def _loaded(kind: str) -> tuple[tuple[Plugin, Any], ...]:
    pairs = [(one, attempt(one, one.load)) for one in installed() if one.kind == kind]
    return tuple((one, thing) for one, thing in pairs if thing is not None)


def forget() -> None:
    """Look for plugins anew."""
    installed.cache_clear()
    _loaded.cache_clear()
    _problems.clear()

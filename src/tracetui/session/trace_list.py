"""What can be opened: recent traces, the bundled samples, and the files of a folder whose path is typed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tracetui.core.safe_text import plain
from tracetui.core.units import plural, size
from tracetui.session.folder import SCANNED, Found
from tracetui.session.paths import may_be_trace, typed_path
from tracetui.session.recent import Recent, ago
from tracetui.session.samples import ABOUT


class Choice(NamedTuple):
    """A line of the list, in plain, safe text."""

    kind: str
    """trace, capture, folder, file, recent, sample, or more: the rest of the recent traces."""
    name: str
    about: str
    path: Path | None = None


def folder_choices(typed: str, now: float) -> list[Choice]:
    """The folders and traces whose path begins with what was typed, folders first, then by name."""
    whole = str(typed_path(typed)) + ("/" if typed.endswith("/") else "")
    folder, start = os.path.split(whole)
    folders, files = [], []
    try:
        with os.scandir(folder or ".") as entries:
            for entry in islice(entries, SCANNED):
                if not entry.name.casefold().startswith(start.casefold()):
                    continue
                if entry.name.startswith(".") and not start:
                    continue
                if entry.is_dir():
                    if plain(entry.name) == entry.name:  # else its name cannot be typed
                        folders.append(Choice("folder", f"{entry.name}/", "", Path(folder, entry.name)))
                elif may_be_trace(entry.name) and entry.is_file():
                    stat = entry.stat()
                    about = f"{size(stat.st_size)}, {ago(now - stat.st_mtime)}"
                    files.append(Choice("file", plain(entry.name, 200), about, Path(folder, entry.name)))
    except (OSError, ValueError):
        return []
    return sorted(folders, key=lambda c: c.name) + sorted(files, key=lambda c: c.name)


def completed(typed: str, found: Sequence[Choice]) -> str:
    """The typed text, completed as far as all the folders and files found agree."""
    names = [choice.name for choice in found if choice.kind in ("folder", "file")]
    head, start = typed[: typed.rfind("/") + 1], typed[typed.rfind("/") + 1 :]
    common = ""
    for letters in zip(*names, strict=False):
        if len(set(letters)) > 1:
            break
        common += letters[0]
    return head + common if len(common) > len(start) else typed


def choices(
    typed: str,
    recent: Sequence[Recent],
    bundled: Mapping[str, Path],
    few: int = 5,
    capture: bool = False,
    now: float | None = None,
    traces: Sequence[Found] = (),
    few_traces: int | None = None,
) -> list[Choice]:
    """What can be opened, by group: with a path typed, what is there; with words, the entries that contain
    all of them.

    `few`: how many of the recent traces to list while nothing is typed; `capture`: capturing is one of the
    choices; `traces`: those of a folder, which come first; `few_traces`: how many of them to list while
    nothing is typed.
    """
    now = time.time() if now is None else now
    if "/" in typed or typed.startswith("~"):
        return folder_choices(typed, now)
    words = typed.casefold().split()

    def fits(choice: Choice) -> bool:
        text = f"{choice.kind} {choice.name} {choice.about}".casefold()
        return all(word in text for word in words)

    lately = []
    for r in recent:
        about = f"{ago(now - r.opened)}  {plain(str(r.path.parent), 200)}"
        lately.append(Choice("recent", plain(r.path.name, 100), about, r.path))
    if not words and len(lately) > few + 1:
        rest = plural(len(lately) - few, "more recent trace")
        lately = [*lately[:few], Choice("more", rest, "")]
    found = []
    folder = os.path.commonpath([trace.path.parent for trace in traces]) if traces else ""
    some = len(traces) if words or few_traces is None or len(traces) <= few_traces + 1 else few_traces
    for trace in traces[:some]:
        about = f"{size(trace.bytes)}, {ago(now - trace.changed)}"
        name = plain(str(trace.path.relative_to(folder)), 200)
        found.append(Choice("trace", name, about, trace.path))
    if some < len(traces):
        found.append(Choice("more", plural(len(traces) - some, "more trace"), ""))
    found += [Choice("capture", "a workload or your code", "under torch.profiler")] if capture else []
    found += lately
    for name, path in bundled.items():
        about = ABOUT.get(name) or size(path.stat().st_size)
        found.append(Choice("sample", plain(name, 100), about, path))
    here = folder_choices(typed, now) if words else []
    return here + [choice for choice in found if fits(choice)]
